//! The words of `keepfs scrub`.

use super::super::completion::values;
use clap::{Args as Fields, Subcommand, ValueEnum};
use clap_complete::ArgValueCompleter;
use keepfs_server::properties;
use keepfs_server::size::Size;
use std::path::PathBuf;

const CODES: &str = "\
Exit codes: 0 done and nothing is left damaged, 1 failed, 2 nothing to resume (or wrong usage), 3 something is damaged and
cannot be mended (`keepfs events` names it).";

/// `keepfs scrub`.
#[derive(Fields, Debug)]
#[command(after_help = CODES)]
pub struct Scrub {
    /// What to do
    #[command(subcommand)]
    pub verb: Verb,
}

/// Which mount.
#[derive(Fields, Debug)]
pub struct Of {
    /// The mount point, or the pool of a mount
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub dir: PathBuf,
}

/// What to do.
#[derive(Subcommand, Debug)]
pub enum Verb {
    /// Look at everything in memory and on the device; returns at once
    Start(Start),
    /// Tell how far it is, or what the last one found
    Status {
        #[command(flatten)]
        of: Of,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop it until it is resumed, also over an unmount
    Pause {
        #[command(flatten)]
        of: Of,
    },
    /// Go on where it was paused
    Resume {
        #[command(flatten)]
        of: Of,
        /// Return when it is over, and tell what it found
        #[arg(long, short = 'B')]
        wait: bool,
    },
    /// End it
    Cancel {
        #[command(flatten)]
        of: Of,
    },
    /// Read at most so much a second from now on, such as 50M; with `none` or without a number: as fast as the pool's users allow
    Limit {
        #[command(flatten)]
        of: Of,
        /// Bytes a second, or none
        #[arg(value_parser = rate)]
        rate: Option<Size>,
    },
}

/// `keepfs scrub start`.
#[derive(Fields, Debug)]
pub struct Start {
    #[command(flatten)]
    pub of: Of,
    /// Metadata in memory only
    #[arg(long, conflicts_with = "rest")]
    pub arena: bool,
    /// The device only
    #[arg(long)]
    pub rest: bool,
    /// Of file data, only files changed since: `last` (the last whole scrub), a day such as 2026-11-20, or @SECONDS
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Only files known to be damaged
    #[arg(long)]
    pub damaged: bool,
    /// Only this file, or what is below this directory
    #[arg(long, value_name = "P", conflicts_with = "damaged")]
    pub path: Option<PathBuf>,
    /// In which order metadata in memory is looked at
    #[arg(long, value_enum)]
    pub order: Option<Order>,
    /// Only metadata in memory with bytes of these addresses of the server, such as 0x7f0000001000-0x7f0000002000
    #[arg(long, value_name = "FROM-TO", value_parser = addresses, conflicts_with_all = ["rest", "path", "order"])]
    pub addresses: Option<(u64, u64)>,
    /// Return when it is over, and tell what it found
    #[arg(long, short = 'B')]
    pub wait: bool,
    /// Answer in JSON (with --wait)
    #[arg(long)]
    pub json: bool,
}

/// An order of frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Order {
    /// One behind the other
    All,
    /// Those first that were verified longest ago
    Oldest,
    /// An order that nobody knows before
    Random,
}

impl Order {
    /// As the server knows it.
    pub fn word(self) -> &'static str {
        match self {
            Order::All => "all",
            Order::Oldest => "oldest",
            Order::Random => "random",
        }
    }
}

/// 0: as fast as can be.
fn rate(text: &str) -> Result<Size, String> {
    match text {
        "none" => Ok(Size(0)),
        _ => properties::rate(text).map(Size),
    }
}

fn addresses(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let pair = text
        .split_once('-')
        .and_then(|(from, to)| Some((number(from)?, number(to)?)));
    pair.filter(|(from, to)| from < to)
        .ok_or_else(|| format!("'{text}' is no interval such as 0x1000-0x2000"))
}
