//! Properties of a pool by name, as people and programs see and set them: those that the pool keeps, and those of its mount.

use crate::failure::Failure;
use crate::options::{MountOptions, access_times_name};
use crate::size::Size;
use keepfs_format::{PAGE, mmp};
use keepfs_store::{Pool, Protection, Settings};
use serde::{Deserialize, Serialize};

/// The codes that a pool can have.
pub const PROTECTIONS: [&str; 6] = ["pcrc", "pq", "evenodd64", "evenodd256", "crc", "off"];

/// A code that a pool can have. Errors: which there are.
pub fn protection(name: &str) -> Result<Protection, String> {
    match name.parse() {
        Ok(code) if PROTECTIONS.contains(&name) => Ok(code),
        _ => Err(format!("one of {}", PROTECTIONS.join(", "))),
    }
}

/// A property with its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Property {
    /// Its name.
    pub name: String,
    /// Its value; of a size the number of bytes.
    pub value: String,
    /// Whether the value is a number of bytes.
    pub is_size: bool,
    /// Where it comes from: `local` (`keepfs set`), `temporary` (an option of the mount), `default`, `-` (it never changes).
    pub source: String,
}

/// Those that `keepfs set` takes.
pub const SETTABLE: [&str; 4] = ["protect", "label", "mmp", "scrub-limit"];
/// When the pool was made, seconds since 1970.
pub const CREATED: &str = "created";
/// Those that were decided when the pool was made.
const DECIDED: [&str; 7] = ["id", "size", "meta-copies", "log-size", CREATED, "preallocated", "test"];
/// Options of the mount.
const OF_MOUNT: [&str; 14] = [
    "readonly",
    "atime",
    "guard",
    "audit",
    "arena",
    "cache",
    "io",
    "commit",
    "transport",
    "keeper",
    "restarts",
    "scrub",
    "log-free",
    "discard",
];

/// What is to change.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Wanted {
    /// `protect=`.
    pub protect: Option<String>,
    /// `label=`.
    pub label: Option<String>,
    /// `scrub-limit=`, bytes a second, 0 = none.
    pub scrub_limit: Option<u64>,
    /// `mmp=`, seconds of the interval, 0 = off.
    #[serde(default)]
    pub mmp: Option<u32>,
}

impl Wanted {
    /// Takes one `NAME=VALUE`. Errors: a sentence that says what is wrong with it.
    pub fn take(&mut self, name: &str, value: &str) -> Result<(), Failure> {
        let wrong = |why: &str| Failure::Usage(format!("'{value}' is no {name}: {why}"));
        match name {
            "protect" => {
                let code = protection(value).map_err(|why| wrong(&format!("it is {why}")))?;
                self.protect = Some(code.name().into());
            }
            "label" if value.len() > 64 => return Err(wrong("a label has at most 64 bytes")),
            "label" => self.label = Some(value.into()),
            "mmp" => self.mmp = Some(interval(value).map_err(wrong)?),
            "scrub-limit" => {
                let bytes = match value {
                    "none" => Ok(0),
                    _ => rate(value),
                };
                self.scrub_limit = Some(bytes.map_err(|why| wrong(&why))?);
            }
            _ => return Err(Failure::Usage(refusal(name))),
        }
        Ok(())
    }

    /// What of it the pool's superblock keeps (S-2.9). `None`: no pool can have that protection.
    pub fn settings(&self) -> Option<Settings> {
        let protect = self.protect.as_deref().map(protection).transpose().ok()?;
        Some(Settings {
            protect,
            label: self.label.clone(),
            ..Settings::default()
        })
    }

    /// `name=value` of all.
    pub fn words(&self) -> Vec<String> {
        let limit = self.scrub_limit.map(limit_text);
        let mmp = self.mmp.map(mmp_text);
        let named = [
            ("protect", &self.protect),
            ("label", &self.label),
            ("mmp", &mmp),
            ("scrub-limit", &limit),
        ];
        let given = named
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given.map(|(name, value)| format!("{name}={value}")).collect()
    }
}

/// Bytes a second, as people write them. Errors: a sentence that says what is wrong with it.
pub fn rate(text: &str) -> Result<u64, String> {
    match text.parse()? {
        Size(0) => {
            Err("nothing would be read; `none` takes the limit away, and `keepfs scrub pause` stops a scrub".into())
        }
        Size(bytes) => Ok(bytes),
    }
}

/// Seconds between two signs that this machine has the pool, 0 = none. Errors: what it may be.
pub fn interval(value: &str) -> Result<u32, &'static str> {
    let seconds = match value {
        "off" => Some(0),
        "on" => Some(mmp::INTERVAL_S_DEFAULT),
        _ => value.parse().ok().filter(|seconds| mmp::INTERVAL_S.contains(seconds)),
    };
    seconds.ok_or("it is on, off, or 1 to 20 seconds")
}

fn mmp_text(interval_s: u32) -> String {
    match interval_s {
        0 => "off".into(),
        mmp::INTERVAL_S_DEFAULT => "on".into(),
        seconds => seconds.to_string(),
    }
}

/// Whether other machines that reach the pool are told that it is in use. `None`: it has no place for that (S-2.12).
pub fn of_mmp(interval_s: Option<u32>) -> Property {
    let source = if interval_s.is_some() { "local" } else { "default" };
    Property::new("mmp", &mmp_text(interval_s.unwrap_or(0)), source)
}

/// Why a property cannot be set.
fn refusal(name: &str) -> String {
    if name == "id" {
        return "id cannot be chosen; `keepfs set --new-id POOL` makes another one".into();
    }
    if DECIDED.contains(&name) {
        return format!("{name} cannot change: it was decided when the pool was made (keepfs create)");
    }
    let settable = SETTABLE.join(", ");
    match name {
        "readonly" | "atime" => format!(
            "{name} is an option of the mount: keepfs mount -o remount,... changes it (ro, rw, noatime, relatime, strictatime)"
        ),
        _ if OF_MOUNT.contains(&name) => {
            format!("{name} is an option of the mount: unmount the pool and mount it again with -o {name}=...")
        }
        _ => format!("there is no property '{name}'; those that can be set are {settable}"),
    }
}

/// What a shell offers to set; what ends in `=` wants a value that is free.
pub fn offered() -> Vec<String> {
    let codes = PROTECTIONS.iter().map(|code| format!("protect={code}"));
    codes
        .chain(["label=", "mmp=on", "mmp=off", "scrub-limit=", "scrub-limit=none"].map(str::to_owned))
        .collect()
}

/// All names.
pub fn names() -> impl Iterator<Item = &'static str> {
    let known = [&SETTABLE[..], &DECIDED, &OF_MOUNT];
    ["all"].into_iter().chain(known.into_iter().flatten().copied())
}

/// Whether there is a property of this name, of this pool or another one.
pub fn is_known(name: &str) -> bool {
    [&SETTABLE[..], &DECIDED, &OF_MOUNT]
        .iter()
        .any(|names| names.contains(&name))
}

/// What the pool keeps.
pub fn of_pool(pool: &Pool) -> Vec<Property> {
    let yes = |is: bool| if is { "yes" } else { "no" };
    vec![
        Property::new("protect", pool.protect.name(), "local"),
        Property::new("label", &pool.label, "local"),
        Property::new("id", &pool.id.to_string(), "-"),
        Property::size("size", pool.pages * PAGE as u64, "-"),
        Property::new("meta-copies", &pool.meta_copies.to_string(), "-"),
        Property::size("log-size", pool.log.pages * PAGE as u64, "-"),
        Property::new(CREATED, &pool.created_s.to_string(), "-"),
        Property::new("preallocated", yes(pool.is_preallocated), "-"),
        Property::new("test", yes(pool.is_test), "-"),
    ]
}

/// The limit of scrubs, bytes a second.
pub fn of_scrub(limit: u64) -> Property {
    let source = if limit == 0 { "default" } else { "local" };
    match limit {
        0 => Property::new("scrub-limit", &limit_text(limit), source),
        bytes => Property::size("scrub-limit", bytes, source),
    }
}

fn limit_text(limit: u64) -> String {
    match limit {
        0 => "none".into(),
        bytes => bytes.to_string(),
    }
}

/// Options of a mount; the transport in use and whether it has a keeper.
pub fn of_mount(options: &MountOptions, transport: &str, is_kept: bool) -> Vec<Property> {
    let now = mounted(options, transport, is_kept);
    let usual = mounted(&MountOptions::default(), "dev", true);
    let source = |same: bool| if same { "default" } else { "temporary" };
    now.into_iter()
        .zip(usual)
        .map(|(now, usual)| Property {
            source: source(now.value == usual.value).into(),
            ..now
        })
        .collect()
}

fn mounted(o: &MountOptions, transport: &str, is_kept: bool) -> Vec<Property> {
    let on = |is: bool| if is { "on" } else { "off" };
    let text = |name, value: &str| Property::new(name, value, "");
    vec![
        text("readonly", on(o.read_only)),
        text("atime", access_times_name(o.access_times)),
        text("guard", o.guard_name()),
        text("audit", &o.audit.to_string()),
        Property::size("arena", o.arena, ""),
        text("cache", o.cache_name()),
        text("io", o.io_name()),
        text("commit", &o.commit.as_secs().to_string()),
        text("transport", transport),
        text("keeper", on(is_kept)),
        text("restarts", &o.restarts.to_string()),
        text("scrub", &o.scrub_name()),
        text("log-free", &o.log_free.to_string()),
        text("discard", on(o.discard)),
    ]
}

impl Property {
    fn new(name: &str, value: &str, source: &str) -> Property {
        Property {
            name: name.into(),
            value: value.into(),
            is_size: false,
            source: source.into(),
        }
    }

    fn size(name: &str, bytes: u64, source: &str) -> Property {
        Property {
            is_size: true,
            ..Property::new(name, &bytes.to_string(), source)
        }
    }
}

#[cfg(test)]
mod tests;
