//! What must be so before a mount can use io_uring: the kernel's parameter, the CPUs, and how the memory is divided.

use std::fs;
use std::io;
use std::ops::RangeInclusive;

/// The kernel offers FUSE over io_uring only while this says `Y`; it is read when a mount begins.
const ENABLE: &str = "/sys/module/fuse/parameters/enable_uring";
/// CPUs that can ever be there. The kernel wants a queue for each before it uses any.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// CPUs that are there now.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Bytes that the slots of all queues take together, if the CPUs are not very many (BARS P-9: 64 MiB for everything
/// beside the arena).
const BUDGET: usize = 17 << 20;
/// Most slots of a queue: more callers of one CPU seldom wait in fsync at the same time.
const DEPTH_MAX: usize = 64;
/// Fewest slots of a queue, however many CPUs there are.
const DEPTH_MIN: usize = 4;

/// Lets new mounts use io_uring, if we may. It stays on: other mounts may have begun to rely on it.
/// Errors: those of reading and writing the parameter (`ENOENT`: a kernel older than 6.14; `EACCES`: not root).
pub(super) fn enable() -> io::Result<()> {
    if fs::read_to_string(ENABLE)?.starts_with('Y') {
        return Ok(());
    }
    fs::write(ENABLE, "Y")?;
    tracing::info!(parameter = ENABLE, "switched on");
    Ok(())
}

/// The CPUs with queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Cpus {
    /// There now, in order.
    pub(super) online: Vec<u16>,
    /// Not there now.
    pub(super) offline: Vec<u16>,
}

impl Cpus {
    /// As the kernel says. Errors: those of reading; `InvalidData`.
    pub(super) fn of_this_machine() -> io::Result<Cpus> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, "a list of CPUs makes no sense");
        let list = |file| fs::read_to_string(file).and_then(|text| parse(&text).ok_or_else(wrong));
        let (possible, online) = (list(POSSIBLE)?, list(ONLINE)?);
        let offline = possible.into_iter().filter(|cpu| !online.contains(cpu)).collect();
        Ok(Cpus { online, offline })
    }

    /// Slots that each queue of a CPU that is there gets, if each takes `slot` bytes.
    pub(super) fn depth(&self, slot: usize) -> usize {
        (BUDGET / slot / self.online.len()).clamp(DEPTH_MIN, DEPTH_MAX)
    }
}

/// Reads `0-3,8`; `None` if it is not such a list, or empty.
fn parse(text: &str) -> Option<Vec<u16>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        cpus.extend(range(part)?);
    }
    (!cpus.is_empty()).then_some(cpus)
}

fn range(part: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests;
