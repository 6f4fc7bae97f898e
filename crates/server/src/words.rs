//! The words that a mount's processes are started with ([`crate::role`]): the first is the role, the second tells it from words of the
//! program that they are started from. A keeper of another release starts servers with them, so they stay what they are.

use clap::Args as Fields;
use std::ffi::OsString;
use std::path::PathBuf;

/// `keepfs serve`.
#[derive(Fields, Debug)]
pub struct Serve {
    /// The pool, an absolute path
    pub pool: PathBuf,
    /// The mount point, an absolute path
    pub dir: PathBuf,
    /// As of `mount`
    #[arg(short = 'o')]
    pub options: Vec<String>,
    /// Unknown options are passed over
    #[arg(long)]
    pub sloppy: bool,
    /// A keeper is at the other end of the standard input
    #[arg(long)]
    pub kept: bool,
    /// There is no keeper
    #[arg(long, conflicts_with = "kept")]
    pub alone: bool,
    /// Stay with the terminal
    #[arg(long)]
    pub foreground: bool,
}

/// `keepfs keep`.
#[derive(Fields, Debug)]
pub struct Keep {
    /// The pool, an absolute path
    pub pool: PathBuf,
    /// The mount point, an absolute path
    pub dir: PathBuf,
    /// As of `mount`
    #[arg(short = 'o')]
    pub options: Vec<String>,
    /// Unknown options are passed over
    #[arg(long)]
    pub sloppy: bool,
    /// Stay with the terminal
    #[arg(long)]
    pub foreground: bool,
    /// There is no server yet: the first one is started
    #[arg(long, conflicts_with = "adopt")]
    pub first: bool,
    /// A server is at the other end of the standard input, whose keeper, this process, has died
    #[arg(long, value_name = "PID")]
    pub adopt: Option<u32>,
}

/// `keepfs attach`.
#[derive(Fields, Debug)]
pub struct Attach {
    /// The keeper of the mount, by its process
    #[arg(long)]
    pub keeper: u32,
    /// The pool, an absolute path
    pub pool: PathBuf,
    /// The mount point, an absolute path
    pub dir: PathBuf,
    /// As of `mount`
    #[arg(short = 'o')]
    pub options: Vec<String>,
    /// Unknown options are passed over
    #[arg(long)]
    pub sloppy: bool,
}

/// `keepfs detach`.
#[derive(Fields, Debug)]
pub struct Detach {
    /// Whose keeper's
    #[arg(long)]
    pub keeper: u32,
    /// Which mount, as a server describes it to its keeper
    pub description: OsString,
}

/// `keepfs watch`.
#[derive(Fields, Debug)]
pub struct Watch {
    /// The server's process
    #[arg(long)]
    pub server: u32,
}
