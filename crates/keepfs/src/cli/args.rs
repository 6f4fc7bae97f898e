//! The words of the command line.

use super::completion::values;
use clap::builder::{OsStringValueParser, PossibleValuesParser, TypedValueParser};
use clap::{Args as Fields, Parser, Subcommand};
use clap_complete::ArgValueCompleter;
use keepfs::Protection;
use keepfs_server::options::MountOptions;
use keepfs_server::properties::{PROTECTIONS, protection};
use keepfs_server::size::Size;
use std::path::PathBuf;

const CODES: &str = "\
Exit codes: 0 done, 1 failed (the reason stands on standard error), 2 wrong usage.
`keepfs check` answers as fsck(8): 0 clean (a log to replay is no error), 4 errors left uncorrected,
8 could not be checked, 16 wrong usage; with --repair 1 if errors were corrected, 5 if also files may be missing or older. mount.keepfs answers as mount(8): 0, 1 wrong usage, 32 failed.

What is logged is chosen by the environment variable KEEPFS_LOG (for example `debug` or `keepfs_store=trace`).";

/// Keepfs: a file system that watches its own metadata.
#[derive(Parser, Debug)]
#[command(name = "keepfs", version, after_help = CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a pool in a file or on a block device
    Create(Create),
    /// Mount a pool; returns when it can be used
    Mount(Mount),
    /// Unmount; returns when everything is durable
    #[command(alias = "umount")]
    Unmount(Unmount),
    /// Let another program take the place of a mount's server, while the mount is in use
    Upgrade(Upgrade),
    /// Say how pools are
    Status(Status),
    /// Change properties of a pool, while it is mounted too
    Set(super::set::Set),
    /// Show properties of a pool and of its mount
    Get(super::get::Get),
    /// Make a pool that is not mounted larger, with its file or device
    Grow(Grow),
    /// Check a pool that is not mounted; changes nothing unless told to repair
    Check(Check),
    /// Copy out of a pool what can be read, however damaged it is; changes nothing in it
    Salvage(Salvage),
    /// Show what stands in a pool, for people who debug
    Dump(Dump),
    /// Show what the servers of a pool noticed, mounted or not
    Events(Events),
    /// Tell how mounted pools are as metrics for Prometheus
    Metrics(Metrics),
    /// Run programs of the administrator when something happens to a mounted pool
    Hooks(Hooks),
    /// Look at everything, in memory and on the device, while the pool is in use
    Scrub(super::scrub::Scrub),
    /// Put faults into a pool that was made for tests
    Inject(super::inject::Inject),
    /// Show what of a pool was damaged, or forget it
    Damage(Damage),
    /// Say which block devices hold pools, with label and UUID
    Probe(Probe),
    /// Print the completion script of a shell
    Completion(Completion),
    /// Make the links by which mount(8), mkfs(8) and fsck(8) find this program, manual pages and completion scripts
    InstallLinks(InstallLinks),
    /// Say the version
    Version,
}

/// `keepfs probe`.
#[derive(Fields, Debug)]
#[command(after_help = "Exit codes: 0 a pool was found, 1 failed, 2 none was.")]
pub struct Probe {
    /// Block devices or files; all block devices without
    pub devices: Vec<PathBuf>,
    /// As properties for udev(7), which makes /dev/disk/by-label and by-uuid of them
    #[arg(long)]
    pub udev: bool,
}

/// `keepfs completion`.
#[derive(Fields, Debug)]
#[command(after_help = super::completion::HELP)]
pub struct Completion {
    /// Which shell
    pub shell: clap_complete::Shell,
}

/// `keepfs install-links`.
#[derive(Fields, Debug)]
pub struct InstallLinks {
    /// Where the links go instead of /sbin, in which mount(8) looks; then they are all that is made
    pub folder: Option<PathBuf>,
    /// Where all else goes: manual pages and completion scripts
    #[arg(long, value_name = "DIR", default_value = "/usr/local", conflicts_with = "folder")]
    pub prefix: PathBuf,
    /// Take all of it away again
    #[arg(long)]
    pub remove: bool,
    /// For who makes a package: everything goes below this directory, which the system will not have
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// For who makes a package: where the program will be
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// `keepfs create`.
#[derive(Fields, Debug)]
pub struct Create {
    /// A regular file (made if it does not exist) or a block device
    pub pool: PathBuf,
    /// Size of the pool, such as 10G or 1.5T, rounded down to pages of 4K; of a block device, all of it unless less is asked for
    #[arg(long, value_name = "N")]
    pub size: Option<Size>,
    /// Size of the log, such as 64M; from 128K to a quarter of the pool and 4G, unless told 1/32 of the pool up to 256M
    #[arg(long, value_name = "N")]
    pub log_size: Option<Size>,
    /// A name for people, at most 64 bytes
    #[arg(long, value_name = "L", default_value = "")]
    pub label: String,
    /// Copies of metadata on the device
    #[arg(long, value_name = "COPIES", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=2))]
    pub meta_copies: u32,
    /// What guards metadata in memory: pcrc (checksums, and repairs stray writes of up to 64 bytes), pq (two such),
    /// crc (checksums alone), evenodd64, evenodd256 (codes of the literature, for comparison), off (nothing, for comparison)
    #[arg(long, value_name = "CODE", default_value_t = keepfs_store::PROTECT_DEFAULT, value_parser = protections())]
    pub protect: Protection,
    /// Overwrite whatever is there; a mounted device is refused all the same
    #[arg(long, short)]
    pub force: bool,
    /// Do not tell a block device first that nothing on it is needed any more
    #[arg(long)]
    pub no_discard: bool,
    /// Allocate all of a file that holds the pool, and never give any of it back (fstrim does nothing): a full file system under it cannot harm it
    #[arg(long)]
    pub preallocate: bool,
    /// Multi-mount protection: on, off, or seconds between two signs that a machine has the pool; on for block devices but loop devices, which
    /// costs a small write each 5 s, and 16 s of waiting at the first mount after a crash
    #[arg(long, value_name = "HOW", value_parser = keepfs_server::properties::interval)]
    pub mmp: Option<u32>,
    /// A pool for tests, for ever: `keepfs inject` may put faults into it, and every mount of it says so
    #[arg(long)]
    pub test: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// [`protection`], with the names for `--help` and for shells.
pub fn protections() -> impl TypedValueParser<Value = Protection> {
    PossibleValuesParser::new(PROTECTIONS).try_map(|name| protection(&name))
}

/// `keepfs mount`.
#[derive(Fields, Debug)]
#[command(after_help = keepfs_server::options::HELP)]
pub struct Mount {
    /// The pool, or LABEL= or UUID= of one on a block device
    pub pool: PathBuf,
    /// Where
    pub dir: PathBuf,
    /// Options, separated by commas
    #[arg(short = 'o', value_name = "OPTIONS", value_parser = OsStringValueParser::new().try_map(MountOptions::list), add = ArgValueCompleter::new(values::mount_options))]
    pub options: Vec<String>,
    /// Stay in the foreground until it is unmounted
    #[arg(long)]
    pub foreground: bool,
}

/// `keepfs unmount`.
#[derive(Fields, Debug)]
pub struct Unmount {
    /// The mount point, or the pool
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub dir: PathBuf,
    /// Take the name away now and do not wait; the server ends when its last user is gone
    #[arg(short, long)]
    pub lazy: bool,
    /// Abort what is under way (programs get errors), then unmount
    #[arg(short, long, conflicts_with = "lazy")]
    pub force: bool,
}

/// `keepfs upgrade`.
#[derive(Fields, Debug)]
pub struct Upgrade {
    /// The mount point
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub dir: PathBuf,
    /// The program; this one without
    pub program: Option<PathBuf>,
}

/// `keepfs status`.
#[derive(Fields, Debug)]
pub struct Status {
    /// A pool or a mount point; all mounted pools without
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub of: Option<PathBuf>,
    /// Only pools of which there is something to report; the exit code tells the worst: 3 degraded, 4 faulted
    #[arg(long, short = 'x')]
    pub unhealthy: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// `keepfs grow`.
#[derive(Fields, Debug)]
pub struct Grow {
    /// The pool
    pub pool: PathBuf,
    /// Its size then, such as 20G or 1.5T, rounded down to pages of 4K, for which a file gets longer; without, all that the file or the device has
    #[arg(long, value_name = "N")]
    pub size: Option<Size>,
    /// Say what would be done, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// `keepfs check`.
#[derive(Fields, Clone, Debug)]
#[command(
    after_help = "Findings are told with the file that they are about, as PATH (inode N), or as inode N (no path known) where no names lead to it."
)]
pub struct Check {
    /// The pool, or where it is mounted
    pub pool: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
    /// Read all file data too and compare it with its checksums
    #[arg(long)]
    pub data: bool,
    /// Look at a pool although it is mounted; what changes meanwhile may show as findings
    #[arg(long)]
    pub live: bool,
    /// Repair it: what can be computed is computed, what is lost is cut off, what lost its name goes to lost+found
    #[arg(long, conflicts_with_all = ["data", "live"])]
    pub repair: bool,
    /// Say what --repair would do, and change nothing
    #[arg(long, requires = "repair")]
    pub dry_run: bool,
    /// Where --repair keeps what it writes over; without, a file in the current directory, which is told
    #[arg(long, value_name = "FILE", requires = "repair", conflicts_with = "dry_run")]
    pub undo_file: Option<PathBuf>,
    /// Take a repair back, with the file that it kept
    #[arg(long, value_name = "FILE", conflicts_with_all = ["data", "live", "repair"])]
    pub undo: Option<PathBuf>,
}

/// `keepfs salvage`.
#[derive(Fields, Debug)]
#[command(
    after_help = "Exit codes: 0 everything was copied, 1 failed, 2 wrong usage, 3 what can be read was copied, and not all can be, or some may be older than it was (a superblock, the map or a part of the log is lost)."
)]
pub struct Salvage {
    /// The pool
    pub pool: PathBuf,
    /// Where the files go: a directory that is empty, or does not exist yet
    pub dir: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// `keepfs dump`.
#[derive(Fields, Debug)]
pub struct Dump {
    /// The pool
    pub pool: PathBuf,
    /// What of it
    #[command(subcommand)]
    pub what: What,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub json: bool,
}

/// What `dump` shows.
#[derive(Subcommand, Debug)]
pub enum What {
    /// The newest superblock
    Superblock,
    /// An inode, by its number
    Inode {
        /// Its number
        number: u64,
    },
    /// The entries of a directory, by its path from the root
    Dir {
        /// Its path, such as /a/b
        path: PathBuf,
    },
    /// Where metablocks are: one (such as Inodes:3), those of a space (Inodes), or all
    Map {
        /// The metablock or the space
        id: Option<String>,
    },
    /// The groups of the log
    Plog,
}

/// What a path means where damage is told.
const PATHS: &str = "Files are told as PATH (inode N), the path that they have now; as inode N, which was PATH, if none leads there \
any more: what is at PATH then is another file; as inode N (no path known) if none was found.";

/// `keepfs events`.
#[derive(Fields, Debug)]
#[command(after_help = PATHS)]
pub struct Events {
    /// The mount point or the pool
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub of: PathBuf,
    /// Go on with what is noticed from now on, until the server ends
    #[arg(short, long)]
    pub follow: bool,
    /// Answer in JSON; with --follow a line for each event
    #[arg(long)]
    pub json: bool,
}

/// `keepfs metrics`.
#[derive(Fields, Debug)]
#[command(
    after_help = "Figures are those of `keepfs status --json`, in bytes and seconds. keepfs_up is 0 of a mount that is named and not there, \
                        or whose server has not answered within 2 s."
)]
pub struct Metrics {
    /// Mount points; all mounted pools without
    #[arg(add = ArgValueCompleter::new(values::mounted))]
    pub dirs: Vec<PathBuf>,
    /// Replace this file instead, for the textfile collector of node_exporter
    #[arg(long, value_name = "PATH")]
    pub textfile: Option<PathBuf>,
    /// Serve them at /metrics instead; without an address to this machine only
    #[arg(long, value_name = "[ADDR:]PORT", conflicts_with = "textfile")]
    pub listen: Option<String>,
}

/// `keepfs hooks`.
#[derive(Fields, Debug)]
pub struct Hooks {
    /// What to do
    #[command(subcommand)]
    pub what: HooksWhat,
    /// Use hooks.d and hooks.conf of this directory, and no others, instead of those of /etc/keepfs and those that Keepfs brings
    #[arg(long, value_name = "DIR", global = true)]
    pub config: Option<PathBuf>,
}

/// What `hooks` does.
#[derive(Subcommand, Debug)]
pub enum HooksWhat {
    /// Follow all mounts of this machine until it is ended, and run the hooks for what happens
    Follow {
        /// Where it is kept what was told of each pool
        #[arg(long, value_name = "DIR", default_value = "/var/lib/keepfs")]
        state: PathBuf,
        /// End a hook that runs longer
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
        timeout: u32,
    },
    /// Run the hooks for an event that says it is a test; exit code 1 if one of them failed
    Test {
        /// The mount point that it is of
        #[arg(add = ArgValueCompleter::new(values::mounted))]
        dir: Option<PathBuf>,
        /// End a hook that runs longer
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=3600))]
        timeout: u32,
    },
    /// Say which hooks there are; exit code 1 if one of them would not be run
    List,
}

/// `keepfs damage`.
#[derive(Fields, Debug)]
pub struct Damage {
    /// What to do
    #[command(subcommand)]
    pub what: DamageWhat,
}

/// What `damage` does.
#[derive(Subcommand, Debug)]
pub enum DamageWhat {
    /// Show what was damaged and what was done; exit code 1 if something is lost
    #[command(after_help = PATHS)]
    List {
        /// The mount point or the pool
        of: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget the list; nothing is repaired by it
    Clear {
        /// The mount point or the pool
        of: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}
