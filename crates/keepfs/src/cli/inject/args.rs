//! The words of `keepfs inject`.

use super::pattern::Pattern;
use crate::cli::args::protections;
use clap::{Args as Fields, Subcommand, ValueEnum};
use keepfs::Protection;
use std::path::PathBuf;

/// `keepfs inject`.
#[derive(Fields, Debug)]
pub struct Inject {
    /// The mount point, or the pool; one that was made with `create --test`
    pub of: PathBuf,
    /// What to do to it
    #[command(subcommand)]
    pub what: What,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum What {
    /// Overwrite bytes of one structure, in memory or on the device
    Scribble(Scribble),
    /// Stray writes of 1 to 64 bytes all over metadata in memory
    Wild(Wild),
    /// Change a field of an inode as a bug of the file system would: wrong, with every checksum right
    Logic(Logic),
    /// Let the next operations of the device fail or take long
    Device(Device),
    /// Show the faults of the device that wait to happen
    List,
    /// Take back the fault with this number, or all
    Cancel {
        /// Its number
        number: Option<u64>,
    },
}

/// Which file or directory is meant.
#[derive(Fields, Debug)]
pub struct Whose {
    /// Of which inode (`ls -i` tells it; the root directory is 1)
    #[arg(long, required_unless_present = "path", conflicts_with = "path")]
    pub ino: Option<u64>,
    /// Of which file or directory, a path in the pool
    #[arg(long)]
    pub path: Option<PathBuf>,
}

/// `keepfs inject scribble`.
#[derive(Fields, Debug)]
pub struct Scribble {
    /// Which structure
    #[arg(long, value_enum)]
    pub kind: Kind,
    #[command(flatten)]
    pub whose: Whose,
    /// Where in it, bytes; of data, where in the file
    #[arg(long, default_value_t = 0)]
    pub offset: u64,
    /// How many bytes
    #[arg(long, default_value_t = 1)]
    pub length: usize,
    /// `flip` (one bit of each byte), `random`, `zero`, or hexadecimal digits, repeated
    #[arg(long, default_value = "flip")]
    pub pattern: Pattern,
    /// In the server's memory, or in the pool's file
    #[arg(long, value_enum, default_value = "memory")]
    pub at: Place,
    /// Of metadata on the device, which of its two copies
    #[arg(long, default_value_t = 0, value_parser = copy)]
    pub copy: usize,
}

fn copy(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|copy| *copy < 2)
        .ok_or_else(|| "0 or 1".into())
}

/// A structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Kind {
    /// The inode itself
    Inode,
    /// The root node of a directory
    Dir,
    /// The root node of a block map, of a file of more than four pages
    #[value(alias = "blockmap")]
    Map,
    /// The bitmap of inode numbers
    Bitmap,
    /// Extended attributes too large for the inode
    Xattr,
    /// File data, always on the device
    Data,
}

impl Kind {
    /// As the server knows it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Inode => "inode",
            Kind::Dir => "dir",
            Kind::Map => "map",
            Kind::Bitmap => "bitmap",
            Kind::Xattr => "xattr",
            Kind::Data => "data",
        }
    }
}

/// Where to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Place {
    /// The server's memory
    Memory,
    /// The pool's file or device
    Device,
}

/// `keepfs inject wild`.
#[derive(Fields, Debug)]
pub struct Wild {
    /// What shall guard metadata then, and guard it from there on: `keepfs set protect=` before the writes. The guard is the
    /// mount's, and stray writes from outside pass all of them alike
    #[arg(long, value_parser = protections())]
    pub level: Option<Protection>,
    /// How many threads write
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=64))]
    pub threads: u64,
    /// How many writes in all
    #[arg(long, default_value_t = 1)]
    pub count: u64,
    /// The same number makes the same writes again
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `keepfs inject logic`.
#[derive(Fields, Debug)]
pub struct Logic {
    /// Which field gets one more than is right
    #[arg(long, value_enum)]
    pub field: Field,
    #[command(flatten)]
    pub whose: Whose,
}

/// A field of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Field {
    /// How many names it has
    Links,
    /// How many pages of data it has
    Pages,
    /// How many entries a directory has
    Entries,
    /// Which directory a directory lies in
    Parent,
}

impl Field {
    /// As the server knows it.
    pub fn word(self) -> &'static str {
        match self {
            Field::Links => "links",
            Field::Pages => "pages",
            Field::Entries => "entries",
            Field::Parent => "parent",
        }
    }
}

/// `keepfs inject device`.
#[derive(Fields, Debug)]
pub struct Device {
    /// What happens
    #[arg(long, value_enum)]
    pub error: Fault,
    /// To which operations
    #[arg(long, value_enum)]
    pub op: Op,
    /// To how many
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub count: u64,
    /// How long a latency is, milliseconds
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub ms: u64,
}

/// A fault of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Fault {
    /// It fails
    Eio,
    /// It takes long
    Latency,
}

/// An operation of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Op {
    /// Reading
    Read,
    /// Writing
    Write,
    /// Making durable
    Flush,
}

impl Op {
    /// As the server knows it.
    pub fn word(self) -> &'static str {
        match self {
            Op::Read => "read",
            Op::Write => "write",
            Op::Flush => "flush",
        }
    }
}
