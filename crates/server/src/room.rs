//! How much memory there is for a server: what it may still have, and what it can have at most.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::path::Path;

/// How a version of control groups tells of memory.
struct Version {
    /// What a line of /proc/PID/cgroup has before the group's path.
    is_of: fn(&str) -> Option<&str>,
    /// Where the groups are.
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Lines of `memory.stat` that tell the page cache of a group and of those in it.
    cache: [&'static str; 2],
}

const VERSIONS: [Version; 2] = [
    Version {
        is_of: |line| line.strip_prefix("0::/"),
        root: "/sys/fs/cgroup",
        limit: "memory.max",
        used: "memory.current",
        cache: ["inactive_file ", "active_file "],
    },
    Version {
        is_of: |line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(":/")?;
            controllers.split(',').any(|one| one == "memory").then_some(group)
        },
        root: "/sys/fs/cgroup/memory",
        limit: "memory.limit_in_bytes",
        used: "memory.usage_in_bytes",
        cache: ["total_inactive_file ", "total_active_file "],
    },
];

/// Memory that process `pid` may still have, bytes: what the machine has, and what the groups that it is in leave (cgroup v2,
/// or v1 where it is mounted at its usual place). `None`: nobody says.
pub fn of_process(pid: u32) -> Option<u64> {
    narrowest(&pid.to_string(), "MemAvailable:", of_group)
}

/// What a mount wants beside its arena of memory, and of address space, bytes (S-16.32).
const BESIDE: u64 = 48 << 20;
const MAPPED_BESIDE: u64 = 256 << 20;
const MAPPED_OF_THREAD: u64 = 16 << 20;
/// How often an arena's bytes are mapped by a server that takes them over from another, rounded up.
const MAPPED: u64 = 5;

/// The largest arena that a mount by this process can have, bytes (S-16.32). `None`: nobody says.
pub fn arena_most(threads: u64) -> Option<u64> {
    let memory = narrowest("self", "MemTotal:", limit_of);
    fits(memory, getrlimit(Resource::As).current, threads)
}

/// The largest arena in so much memory and address space.
fn fits(memory: Option<u64>, addresses: Option<u64>, threads: u64) -> Option<u64> {
    let memory = memory.map(|memory| memory.saturating_sub(BESIDE));
    let beside = MAPPED_BESIDE + threads * MAPPED_OF_THREAD;
    let addresses = addresses.map(|addresses| addresses.saturating_sub(beside) / MAPPED);
    memory.into_iter().chain(addresses).min()
}

/// What a folder of a group tells.
type OfGroup = fn(&Version, &Path) -> Option<u64>;

fn narrowest(process: &str, line: &str, of_group: OfGroup) -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok();
    let machine = machine.as_deref().and_then(|table| of_machine(table, line));
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
    let said = VERSIONS.iter().filter_map(|version| {
        let group = groups.lines().find_map(version.is_of)?;
        of_groups(version, Path::new(version.root), Path::new(group), of_group)
    });
    said.chain(machine).min()
}

/// A line of /proc/meminfo, bytes.
fn of_machine(table: &str, line: &str) -> Option<u64> {
    let line = table.lines().find_map(|found| found.strip_prefix(line))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

/// The least that the group, and those that it is in, tell.
fn of_groups(version: &Version, root: &Path, group: &Path, of_group: OfGroup) -> Option<u64> {
    let folders = group.ancestors().map(|group| root.join(group));
    folders.filter_map(|folder| of_group(version, &folder)).min()
}

/// The root has no limit, and "max" is none; in v1 none is more than any machine has.
fn limit_of(version: &Version, folder: &Path) -> Option<u64> {
    let limit = fs::read_to_string(folder.join(version.limit)).ok()?;
    limit.trim().parse().ok()
}

/// What the group leaves of its limit; page cache counts as free.
fn of_group(version: &Version, folder: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    let limit = limit_of(version, folder)?;
    let used: u64 = read(version.used)?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache = version.cache.map(|name| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0)
    });
    Some(limit.saturating_sub(used.saturating_sub(cache.iter().sum())))
}

#[cfg(test)]
mod tests;
