//! Whether there is memory for what a server is about to need more of, before its mount relies on it.

use std::fs;
use std::path::Path;

/// Memory that process `pid` may still have, bytes: what the machine has, and what the groups that it is in leave (cgroup v2).
/// `None`: nobody says.
pub fn of_process(pid: u32) -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(of_machine);
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let left = group.and_then(|group| of_groups(Path::new("/sys/fs/cgroup"), Path::new(group)));
    [machine, left].into_iter().flatten().min()
}

/// `MemAvailable` of /proc/meminfo, bytes.
fn of_machine(table: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kib << 10)
}

/// What the group, and each that it is in, leaves of its limit; page cache counts as free.
fn of_groups(root: &Path, group: &Path) -> Option<u64> {
    let folders = group.ancestors().map(|group| root.join(group));
    folders.filter_map(|folder| of_group(&folder)).min()
}

fn of_group(folder: &Path) -> Option<u64> {
    let read = |name| fs::read_to_string(folder.join(name)).ok();
    // The root has no limit, and "max" is none.
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    let stat = read("memory.stat").unwrap_or_default();
    let cache = ["inactive_file ", "active_file "].map(|name| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.parse::<u64>().ok()).unwrap_or(0)
    });
    Some(limit.saturating_sub(used.saturating_sub(cache.iter().sum())))
}

#[cfg(test)]
mod tests;
