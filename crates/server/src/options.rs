//! Mount options (`-o`): those of every file system, and those of Keepfs. An unknown one is an error, not a guess.

use crate::comparison::Comparison;
use crate::failure::Failure;
use crate::open::OpenOptions;
use crate::size::Size;
use crate::told_path;
use keepfs_fs::{AccessTimes, ScrubOptions};
use keepfs_fuse::{CacheMode, MountConfig, TransportKind};
use keepfs_store::{Equations, Guard};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

mod lists;

/// The options, for `--help`.
pub const HELP: &str = "\
Options of -o, separated by commas (defaults in brackets):
  ro, [rw]                           refuse all changes; a pool mounted ro is not written at all
  noatime, [relatime], strictatime   when access times move
  nodiratime, [diratime]             those of directories stay
  nosuid, nodev, noexec, [suid, dev, exec]
  nosymfollow, [symfollow]           whether symbolic links lead on
  user, users, owner, group          nosuid and nodev, the first two noexec, too; mount(8) and fstab(5) have more to them
  cache=[writethrough]|writeback|direct   how the kernel caches file data
  guard=[alias]|sealed|pkey|mprotect|off  protection of metadata in memory; mprotect and off are for comparison only
  audit=[on]|off|without:NAME:NAME   equations that every change must satisfy (SPEC section 17), or all but those named
  cut-log                            go on with a pool whose log is damaged before changes that were synced: these are lost
  discard, [nodiscard]               tell the device after each checkpoint what became free (fstrim(8) does it once)
  scrub=[30d]|PERIOD|off             look at the whole device so often (12h, 7d), and at memory every 5 minutes
  nouuid                             beside a mounted pool with the same UUID: a look at a copy, of which no events are kept
  remount                            change ro, rw, the access times, nosuid, nodev, noexec, nosymfollow of a mounted pool
  commit=SECONDS                     everything is made durable at least so often [5]
  arena=SIZE                         memory for metadata, 16M to 1T [64M, or what fits]
  io=[buffered]|direct               how the server reads and writes the pool's device; direct is O_DIRECT
  log-free=PERCENT                   a checkpoint empties the log when so much of it is left, 1 to 50 [5]
  anchor=[auto]|loop|none            with a loop device (without data) sync(2) and umount(2) wait for the server; auto does without if need be
  threads=N                          reader threads [one per CPU]
  transport=[auto]|dev|uring         how requests come from the kernel; auto is dev; uring (FUSE over io_uring) needs Linux 6.14
  keeper=[on]|off                    a process that outlives the server and starts another when it dies; with uring always off
  restarts=N                         servers that may die within a minute before changes are refused [5]
  [allow_other], noallow_other       whether other users may enter; permissions are checked in any case
  log=FILE                           where the server writes its log [nowhere; `keepfs events` has the last]

Exit codes: 0 mounted and usable, 1 failed, 2 wrong usage.";

/// `arena=`, and what it was called.
const ARENA: [&str; 2] = ["arena", "meta-cache"];

/// `log=`, by hexadecimal digits (S-18.16).
const LOG_BYTES: &str = "log-bytes";

/// Options that mount(8) and fstab(5) use for themselves; they say nothing to a file system.
const NOT_OURS: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "nofail",
    "nouser",
    "nousers",
    "noowner",
    "nogroup",
    "_netdev",
    "async",
    "silent",
    "loud",
    "nolazytime",
    "noiversion",
    "nomand",
    "acl",
    "user_xattr",
    "default_permissions",
];

/// What the kernel shows of a mount by FUSE beside its options. mount(8) takes it from there for `-o remount,... DIR` without
/// a line in fstab(5).
const TABLE: &[&str] = &["user_id", "group_id", "max_read", "blksize"];

/// Whether a mount has a keeper if nobody says anything.
const KEPT_BY_DEFAULT: bool = true;

/// What makes sync(2) and umount(2) wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Anchor {
    /// A loop device; if there is none it is done without.
    Auto,
    /// A loop device, or the mount fails.
    Loop,
    /// Nothing.
    None,
}

/// All options of a mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountOptions {
    /// `ro`.
    pub read_only: bool,
    /// `nosuid`.
    pub nosuid: bool,
    /// `nodev`.
    pub nodev: bool,
    /// `noexec`.
    pub noexec: bool,
    /// `nosymfollow`.
    pub nosymfollow: bool,
    /// `noatime`, `relatime`, `strictatime`.
    pub access_times: AccessTimes,
    /// `nodiratime`.
    pub nodiratime: bool,
    /// `allow_other`.
    pub allow_other: bool,
    /// `cache=`.
    pub cache: CacheMode,
    /// `guard=`.
    pub guard: Guard,
    /// `audit=`.
    pub audit: Equations,
    /// `commit=`.
    pub commit: Duration,
    /// `arena=`, bytes.
    pub arena: u64,
    /// `io=direct`.
    pub direct: bool,
    /// `log-free=`, percent.
    pub log_free: u32,
    /// `anchor=`.
    pub anchor: Anchor,
    /// `transport=`.
    pub transport: TransportKind,
    /// `keeper=`; `None`: if the transport can have one.
    pub keeper: Option<bool>,
    /// `restarts=`, a minute.
    pub restarts: usize,
    /// `threads=`.
    pub threads: Option<usize>,
    /// `log=`.
    pub log: Option<PathBuf>,
    /// `cut-log`.
    pub cut_log: bool,
    /// `discard`.
    pub discard: bool,
    /// Those for comparison.
    pub comparison: Comparison,
    /// `scrub=`.
    pub scrub: ScrubOptions,
    /// `nouuid`: nothing that goes by the pool's id is about this mount (S-2.18).
    pub nouuid: bool,
    /// `remount`.
    pub remount: bool,
}

impl Default for MountOptions {
    fn default() -> MountOptions {
        let open = OpenOptions::default();
        MountOptions {
            read_only: false,
            nosuid: false,
            nodev: false,
            noexec: false,
            nosymfollow: false,
            access_times: AccessTimes::Relative,
            nodiratime: false,
            allow_other: true,
            cache: CacheMode::default(),
            guard: open.guard,
            audit: open.audit,
            commit: open.commit_interval,
            arena: open.arena_bytes as u64,
            direct: open.direct,
            log_free: open.log_free_percent,
            anchor: Anchor::Auto,
            transport: TransportKind::default(),
            keeper: None,
            restarts: 5,
            threads: None,
            log: None,
            cut_log: false,
            discard: false,
            comparison: open.comparison,
            scrub: open.scrub,
            nouuid: false,
            remount: false,
        }
    }
}

impl MountOptions {
    /// Reads the words of all `-o`, the last one wins. `sloppy`: unknown options are ignored (`mount -s`).
    pub fn parse(lists: &[String], sloppy: bool) -> Result<MountOptions, Failure> {
        let mut options = MountOptions::default();
        let words: Vec<&str> = lists.iter().flat_map(|list| list.split(',')).collect();
        let remount = words.contains(&"remount");
        for &word in words.iter().filter(|word| !word.is_empty()) {
            match options.take(word) {
                Ok(true) => {}
                Ok(false) if sloppy || remount && is_of_the_table(word) => {}
                Ok(false) => {
                    return Err(Failure::Usage(format!(
                        "unknown mount option '{word}'; `keepfs mount --help` lists those there are"
                    )));
                }
                Err(why) => return Err(Failure::Usage(format!("mount option '{word}': {why}"))),
            }
        }
        Ok(options)
    }

    /// Takes one option; `false` if it is unknown.
    fn take(&mut self, word: &str) -> Result<bool, String> {
        match word.split_once('=') {
            Some((name, value)) => self.take_value(name, value),
            None => Ok(self.take_flag(word)? || is_not_ours(word)),
        }
    }

    fn take_flag(&mut self, word: &str) -> Result<bool, String> {
        match word {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "nosuid" => self.nosuid = true,
            "suid" => self.nosuid = false,
            "nodev" => self.nodev = true,
            "dev" => self.nodev = false,
            "noexec" => self.noexec = true,
            "exec" => self.noexec = false,
            "nosymfollow" => self.nosymfollow = true,
            "symfollow" => self.nosymfollow = false,
            // As mount(8): what stands behind it counts (S-20.17).
            "user" | "users" => (self.nosuid, self.nodev, self.noexec) = (true, true, true),
            "owner" | "group" => (self.nosuid, self.nodev) = (true, true),
            "nodiratime" => self.nodiratime = true,
            "diratime" => self.nodiratime = false,
            "noatime" => self.access_times = AccessTimes::Never,
            "atime" | "relatime" | "nostrictatime" => self.access_times = AccessTimes::Relative,
            "strictatime" | "norelatime" => self.access_times = AccessTimes::Strict,
            "cut-log" => self.cut_log = true,
            "discard" => self.discard = true,
            "nodiscard" => self.discard = false,
            "nouuid" => self.nouuid = true,
            "remount" => self.remount = true,
            "allow_other" => self.allow_other = true,
            "noallow_other" => self.allow_other = false,
            "lazytime" => return Err("times are written with the next commit anyway; leave it out".into()),
            "sync" => return Err("not every write can be made to wait; use fsync(2) or commit=1".into()),
            "dirsync" => {
                return Err(
                    "no change of a name can be made to wait; use fsync(2) of the directory or commit=1".into(),
                );
            }
            "iversion" => return Err("the kernel counts no changes of a file system of FUSE; leave it out".into()),
            "mand" => return Err("the kernel has no mandatory locks any more; leave it out".into()),
            _ => return Ok(self.comparison.take(word)),
        }
        Ok(true)
    }

    fn take_value(&mut self, name: &str, value: &str) -> Result<bool, String> {
        match name {
            "cache" => self.cache = one_of(value, &CACHES)?,
            "guard" => self.guard = one_of(value, &GUARDS)?,
            "audit" => self.audit = value.parse()?,
            "anchor" => self.anchor = one_of(value, &ANCHORS)?,
            "transport" => self.transport = one_of(value, &TRANSPORTS)?,
            "keeper" => self.keeper = Some(one_of(value, &KEEPERS)?),
            "restarts" => self.restarts = number(value, 0, 1_000_000, "restarts")? as usize,
            "commit" => self.commit = Duration::from_secs(number(value, 1, 3600, "seconds")?),
            "threads" => self.threads = Some(number(value, 1, 256, "threads")? as usize),
            name if ARENA.contains(&name) => self.arena = arena(value)?,
            "scrub" => self.scrub = scrub(value)?,
            "io" => self.direct = one_of(value, &WAYS)?,
            "log-free" => self.log_free = number(value, 1, 50, "percent")? as u32,
            "log" if value.is_empty() => return Err("a file name is missing".into()),
            "log" => self.log = Some(value.into()),
            LOG_BYTES => {
                let bytes = told_path::of_digits(value).filter(|bytes| !bytes.is_empty());
                let bytes = bytes.ok_or("it is no bytes in hexadecimal digits")?;
                self.log = Some(OsString::from_vec(bytes).into());
            }
            "comment" | "user" => {}
            "context" | "fscontext" | "defcontext" | "rootcontext" => {
                return Err("a mount has no security label of its own; leave it out".into());
            }
            "X-mount.subdir" | "X-mount.owner" | "X-mount.group" | "X-mount.mode" | "X-mount.idmap" => {
                return Err("mount(8) does that by itself; call `mount -t keepfs` instead".into());
            }
            _ => return Ok(name.starts_with("x-") || name.starts_with("X-")),
        }
        Ok(true)
    }

    /// Whether a keeper shall outlive the server. Errors: one is wanted where none can be.
    pub fn is_kept(&self) -> Result<bool, Failure> {
        match (self.keeper, self.transport) {
            (Some(true), TransportKind::Uring) => Err(Failure::Usage(
                "keeper=on needs transport=dev: requests that came by io_uring die with their server".into(),
            )),
            (Some(wanted), _) => Ok(wanted),
            (None, transport) => Ok(KEPT_BY_DEFAULT && transport != TransportKind::Uring),
        }
    }

    /// How the pool is opened.
    pub fn open(&self) -> OpenOptions {
        OpenOptions {
            read_only: self.read_only,
            cut_log: self.cut_log,
            arena_bytes: self.arena as usize,
            guard: self.guard,
            audit: self.audit,
            commit_interval: self.commit,
            access_times: match self.read_only {
                true => AccessTimes::Never,
                false => self.access_times,
            },
            nodiratime: self.nodiratime,
            discard: self.discard,
            direct: self.direct,
            log_free_percent: self.log_free,
            comparison: self.comparison,
            lasting: self.is_kept().unwrap_or_default(),
            scrub: self.scrub,
            seal: true,
        }
    }

    /// How it is mounted at `dir`.
    pub fn mount(&self, pool: &Path, dir: &Path) -> MountConfig {
        MountConfig {
            mountpoint: dir.to_owned(),
            fsname: pool.as_os_str().to_owned(),
            subtype: "keepfs".into(),
            read_only: self.read_only,
            nosuid: self.nosuid,
            nodev: self.nodev,
            noexec: self.noexec,
            nosymfollow: self.nosymfollow,
            nodiratime: self.nodiratime,
            noatime: self.access_times == AccessTimes::Never,
            strictatime: self.access_times == AccessTimes::Strict,
            allow_other: self.allow_other,
            cache: self.cache,
            transport: self.transport,
            threads: self.threads,
            ..MountConfig::default()
        }
    }

    /// An option that differs from `other`'s although it cannot change while the pool is mounted.
    pub fn fixed_that_differs(&self, other: &MountOptions) -> Option<&'static str> {
        let fixed = [
            ("allow_other", self.allow_other == other.allow_other),
            ("cache", self.cache == other.cache),
            ("guard", self.guard == other.guard),
            ("audit", self.audit == other.audit),
            ("commit", self.commit == other.commit),
            ("arena", self.arena == other.arena),
            ("io", self.direct == other.direct),
            ("log-free", self.log_free == other.log_free),
            ("anchor", self.anchor == other.anchor),
            ("keeper", self.keeper == other.keeper),
            ("restarts", self.restarts == other.restarts),
            ("threads", self.threads == other.threads),
            ("transport", self.transport == other.transport),
            ("log", self.log == other.log),
            ("discard", self.discard == other.discard),
            ("what is for comparison", self.comparison == other.comparison),
            ("scrub", self.scrub == other.scrub),
            ("nouuid", self.nouuid == other.nouuid),
        ];
        fixed.into_iter().find(|(_, same)| !same).map(|(name, _)| name)
    }

    /// The names of what `status` shows.
    pub fn cache_name(&self) -> &'static str {
        name_of(self.cache, &CACHES)
    }

    /// As [`MountOptions::cache_name`].
    pub fn io_name(&self) -> &'static str {
        name_of(self.direct, &WAYS)
    }

    /// As [`MountOptions::cache_name`].
    pub fn scrub_name(&self) -> String {
        period_name(self.scrub)
    }

    /// As [`MountOptions::cache_name`].
    pub fn guard_name(&self) -> &'static str {
        name_of(self.guard, &GUARDS)
    }
}

/// The period of scrubs, as `scrub=` takes it.
fn period_name(scrub: ScrubOptions) -> String {
    let hours = scrub.rest_every.map(|every| every.as_secs() / 3600);
    match hours {
        None => "off".into(),
        Some(hours) if hours.is_multiple_of(24) => format!("{}d", hours / 24),
        Some(hours) => format!("{hours}h"),
    }
}

const CACHES: [(&str, CacheMode); 3] = [
    ("writethrough", CacheMode::Writethrough),
    ("writeback", CacheMode::Writeback),
    ("direct", CacheMode::Direct),
];
const ACCESS_TIMES: [(&str, AccessTimes); 3] = [
    ("relatime", AccessTimes::Relative),
    ("noatime", AccessTimes::Never),
    ("strictatime", AccessTimes::Strict),
];
const GUARDS: [(&str, Guard); 5] = [
    ("alias", Guard::Alias),
    ("sealed", Guard::Sealed),
    ("pkey", Guard::Pkey),
    ("mprotect", Guard::Mprotect),
    ("off", Guard::Off),
];
const WAYS: [(&str, bool); 2] = [("buffered", false), ("direct", true)];
const TRANSPORTS: [(&str, TransportKind); 3] = [
    ("auto", TransportKind::Auto),
    ("dev", TransportKind::Dev),
    ("uring", TransportKind::Uring),
];
const KEEPERS: [(&str, bool); 2] = [("on", true), ("off", false)];
const ANCHORS: [(&str, Anchor); 3] = [("auto", Anchor::Auto), ("loop", Anchor::Loop), ("none", Anchor::None)];

/// What a shell offers behind `-o`; what ends in `=` or `:` wants a value that is free.
pub fn offered() -> Vec<String> {
    let flags = FLAGS.iter().map(|flag| (*flag).to_owned());
    let free = FREE.iter().map(|name| (*name).to_owned());
    let named = [
        ("cache", names(&CACHES)),
        ("guard", names(&GUARDS)),
        ("io", names(&WAYS)),
        ("transport", names(&TRANSPORTS)),
        ("keeper", names(&KEEPERS)),
        ("anchor", names(&ANCHORS)),
        ("audit", vec!["on", "off", "without:"]),
        ("scrub", vec!["off", "7d", "30d"]),
    ];
    let values = |(name, values): (&str, Vec<&str>)| {
        let one = |value: &&str| format!("{name}={value}");
        values.iter().map(one).collect::<Vec<_>>()
    };
    flags.chain(free).chain(named.into_iter().flat_map(values)).collect()
}

/// Flags that say something to us.
const FLAGS: &[&str] = &[
    "ro",
    "rw",
    "noatime",
    "relatime",
    "strictatime",
    "nodiratime",
    "diratime",
    "nosuid",
    "nodev",
    "noexec",
    "suid",
    "dev",
    "exec",
    "nosymfollow",
    "symfollow",
    "cut-log",
    "discard",
    "nodiscard",
    "nouuid",
    "remount",
    "allow_other",
    "noallow_other",
];
/// Options of a number, a size or a path.
const FREE: &[&str] = &[
    "arena=",
    "commit=",
    "log-free=",
    "threads=",
    "restarts=",
    "log=",
    "scrub=",
];

fn names<T>(table: &[(&'static str, T)]) -> Vec<&'static str> {
    table.iter().map(|(name, _)| *name).collect()
}

/// The option that says so.
pub fn access_times_name(times: AccessTimes) -> &'static str {
    name_of(times, &ACCESS_TIMES)
}

fn is_not_ours(word: &str) -> bool {
    NOT_OURS.contains(&word) || word.starts_with("x-") || word.starts_with("X-")
}

fn is_of_the_table(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| TABLE.contains(&name))
}

fn one_of<T: Copy>(value: &str, table: &[(&str, T)]) -> Result<T, String> {
    let found = table.iter().find(|(name, _)| *name == value);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
        format!("'{value}' is not one of {}", names.join(", "))
    })
}

fn name_of<T: PartialEq>(value: T, table: &[(&'static str, T)]) -> &'static str {
    table
        .iter()
        .find(|(_, meaning)| *meaning == value)
        .map_or("?", |(name, _)| name)
}

fn number(value: &str, least: u64, most: u64, what: &str) -> Result<u64, String> {
    let number = value.parse().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("'{value}' is not a number of {what} from {least} to {most}"))
}

/// How often the device is scrubbed; `off` also ends the looks at memory.
fn scrub(value: &str) -> Result<ScrubOptions, String> {
    if value == "off" {
        return Ok(ScrubOptions {
            arena_every: None,
            rest_every: None,
        });
    }
    let hours = match (value.strip_suffix('d'), value.strip_suffix('h')) {
        (Some(days), _) => number(days, 1, 3650, "days")? * 24,
        (_, Some(hours)) => number(hours, 1, 87_600, "hours")?,
        _ => return Err(format!("'{value}' is neither off nor a period such as 12h or 30d")),
    };
    Ok(ScrubOptions {
        rest_every: Some(Duration::from_secs(hours * 3600)),
        ..ScrubOptions::default()
    })
}

/// The largest arena: what is kept beside each frame is had at once, and a machine that has not so much ends the server.
const ARENA_MAX: u64 = 1 << 40;

fn arena(value: &str) -> Result<u64, String> {
    let size: Size = value.parse()?;
    let least = keepfs_store::ARENA_MIN as u64;
    match (least..=ARENA_MAX).contains(&size.0) {
        true => Ok(size.0),
        false => Err(format!(
            "the arena must have {} to {}, and not {value}",
            Size(least),
            Size(ARENA_MAX)
        )),
    }
}

#[cfg(test)]
mod tests;
