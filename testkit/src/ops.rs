//! The language of tests: operations as values, which can be generated, run on any [`keepfs_vfs::Vfs`], compared,
//! shrunk, printed and read again (one a line; the seeds in `lab/bugs/` are such files).
//!
//! A path is names joined by `/`; `/` alone is the root; `@0`…`@3` is the inode that a slot of the
//! [`Session`] holds open. No symbolic link is followed (`ELOOP`), and operations on contents of anything but a
//! regular file are not tried ([`Outcome::WrongKind`]): those are the kernel's to refuse.

pub mod ace;
mod compare;
mod generate;
mod outcome;
mod profile;
mod session;
mod shrink;
mod text;

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use compare::{Disagreement, first_disagreement};
pub use generate::Generator;
pub use outcome::{Outcome, View};
pub use profile::{Profile, Rng};
pub use session::{SLOTS, Session, Slots, pattern, xattr_value};
pub use shrink::shrink;
pub use text::{Mode, ParseError, Who, parse_all, print_all};
use text::{Word, Words};

use keepfs_vfs::{FallocMode, InodeFlags, RenameFlags, SeekWhence, SetTime, Vfs, XattrHow};

macro_rules! operations {
    ($( $(#[$doc:meta])* $name:ident = $word:literal { $($field:ident: $ty:ty),* } )*) => {
        /// One operation. Fields: `path`, `from`, `to`, `dir` are paths; `offset`, `len`, `size` are bytes; `seed`
        /// says which bytes ([`pattern`]); `mode` are permission bits; `kill` says that an ordinary user does it,
        /// so that set-id bits are lost; `slot` is a place of the session that holds an inode open.
        #[derive(Clone, PartialEq, Eq, Debug)]
        pub enum Op { $(
            $(#[$doc])*
            $name { $( #[doc = concat!("`", stringify!($field), "`: see the head of [`Op`].")] $field: $ty ),* },
        )* }

        /// What an operation does, without its arguments.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum Verb { $( $(#[$doc])* $name, )* }

        impl Verb {
            /// All of them.
            pub const ALL: &[Verb] = &[$( Verb::$name ),*];

            /// Its word in the text form.
            pub fn word(self) -> &'static str {
                match self { $( Verb::$name => $word, )* }
            }
        }

        impl Op {
            /// What it does.
            pub fn verb(&self) -> Verb {
                match self { $( Op::$name { .. } => Verb::$name, )* }
            }
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(
                    Op::$name { $($field),* } => {
                        f.write_str($word)?;
                        $( write!(f, " {}={}", stringify!($field), $field.print())?; )*
                        Ok(())
                    }
                )* }
            }
        }

        impl FromStr for Op {
            type Err = ParseError;

            fn from_str(line: &str) -> Result<Op, ParseError> {
                let mut words = Words::split(line)?;
                let op = match words.verb() {
                    $( $word => Op::$name { $( $field: words.take(stringify!($field))? ),* }, )*
                    other => return Err(ParseError::verb(other)),
                };
                words.finish()?;
                Ok(op)
            }
        }
    };
}

operations! {
    /// Creates a regular file.
    Create = "create" { path: String, mode: Mode, who: Who }
    /// Creates a directory.
    Mkdir = "mkdir" { path: String, mode: Mode, who: Who }
    /// Creates a FIFO, socket or device; `mode` has its type.
    Mknod = "mknod" { path: String, mode: Mode, rdev: u32, who: Who }
    /// Creates a symbolic link.
    Symlink = "symlink" { path: String, target: String, who: Who }
    /// Creates a file without a name, held open in a slot; link it from `@slot`.
    Tmpfile = "tmpfile" { slot: usize, dir: String, mode: Mode, who: Who }
    /// Adds a name.
    Link = "link" { from: String, to: String }
    /// Removes a name.
    Unlink = "unlink" { path: String }
    /// Removes a directory.
    Rmdir = "rmdir" { path: String }
    /// Renames.
    Rename = "rename" { from: String, to: String, flags: RenameFlags }
    /// Opens a file or directory and holds it in a slot, whatever becomes of its name.
    Hold = "hold" { slot: usize, path: String }
    /// Closes what a slot holds.
    Release = "release" { slot: usize }
    /// Writes.
    Write = "write" { path: String, offset: u64, len: usize, seed: u64, kill: bool }
    /// Writes at the end.
    Append = "append" { path: String, len: usize, seed: u64, kill: bool }
    /// Truncates or extends.
    Truncate = "truncate" { path: String, size: u64, kill: bool }
    /// Opens with `O_TRUNC`.
    OpenTruncate = "open_truncate" { path: String }
    /// fallocate(2).
    Fallocate = "fallocate" { path: String, mode: FallocMode, offset: u64, len: u64 }
    /// copy_file_range(2).
    CopyRange = "copy_range" { from: String, from_offset: u64, to: String, to_offset: u64, len: u64 }
    /// Reads.
    Read = "read" { path: String, offset: u64, len: usize }
    /// lseek(2), to be answered exactly as the model does (its rules M-1, M-2).
    Seek = "seek" { path: String, offset: u64, whence: SeekWhence }
    /// Whether the map of data and holes is true: no byte but zero in a hole, and no end before the file's.
    SeekMap = "seek_map" { path: String }
    /// Lists a directory.
    ReadDir = "read_dir" { path: String }
    /// Reads a symbolic link.
    ReadLink = "read_link" { path: String }
    /// stat(2).
    Stat = "stat" { path: String }
    /// chmod(2).
    SetMode = "set_mode" { path: String, mode: Mode }
    /// chown(2).
    Chown = "chown" { path: String, uid: Option<u32>, gid: Option<u32> }
    /// utimensat(2).
    Utimes = "utimes" { path: String, atime: Option<SetTime>, mtime: Option<SetTime> }
    /// Sets an extended attribute.
    SetXattr = "set_xattr" { path: String, name: String, len: usize, seed: u64, how: XattrHow }
    /// Reads one.
    GetXattr = "get_xattr" { path: String, name: String }
    /// Lists them.
    ListXattr = "list_xattr" { path: String }
    /// Removes one.
    RemoveXattr = "remove_xattr" { path: String, name: String }
    /// Sets an ACL, in the text form of [`crate::model::acl_xattr`].
    SetAcl = "set_acl" { path: String, default: bool, acl: String }
    /// chattr(1).
    SetFlags = "set_flags" { path: String, flags: InodeFlags }
    /// fsync(2) or fdatasync(2).
    Fsync = "fsync" { path: String, data_only: bool }
    /// syncfs(2).
    SyncFs = "syncfs" {}
}

impl Op {
    /// Runs this one operation in a session of its own (all slots are empty).
    pub fn apply(&self, vfs: &dyn Vfs) -> Outcome {
        Session::new(vfs).run(self)
    }

    /// Whether it only makes things durable.
    pub fn is_sync(&self) -> bool {
        matches!(self.verb(), Verb::Fsync | Verb::SyncFs)
    }
}
