//! The bars that a figure is held against, and whether they are met.

use super::sample::Rounds;
use super::table::{compaction, number};

/// What is asked.
enum Ask {
    /// The first peer's median is at least so many times the second's.
    Least(&'static str, &'static str, f64),
    /// The first peer's median is at most so many times the second's.
    Most(&'static str, &'static str, f64),
    /// Bytes an operation of the first are at most so many times the second's.
    Bytes(&'static str, &'static str, f64),
    /// Keepfs's median is at most this.
    Below(f64),
    /// KiB an operation of Keepfs are at most this.
    Kib(f64),
    /// Flushes an operation of Keepfs are at most this.
    Flushes(f64),
    /// KiB an fsync of Keepfs are at most this.
    KibFsync(f64),
    /// Flushes an fsync of Keepfs are at most this.
    FlushesFsync(f64),
    /// Compacted bytes by whole pages are at most this part.
    Compaction(f64),
    /// All rows of the workload lie within this part of the greatest.
    Flat(f64),
}

/// A bar: its id, the figure and the workload that it is about (with `*` at its end: all that begin so).
struct Bar {
    id: &'static str,
    figure: &'static str,
    workload: &'static str,
    ask: Ask,
}

const fn bar(id: &'static str, figure: &'static str, workload: &'static str, ask: Ask) -> Bar {
    Bar {
        id,
        figure,
        workload,
        ask,
    }
}

use Ask::{Below, Bytes, Compaction, Flat, Flushes, FlushesFsync, Kib, KibFsync, Least, Most};

const BARS: &[Bar] = &[
    bar("P-2", "varmail", "varmail", Least("keepfs", "passthrough_ll", 1.5)),
    bar(
        "P-2",
        "varmail",
        "varmail",
        Least("keepfs-uring", "passthrough_ll", 1.8),
    ),
    bar("P-2", "varmail", "varmail", Least("keepfs", "fuse2fs", 5.0)),
    bar("P-2", "varmail", "varmail", KibFsync(12.0)),
    bar("P-2", "varmail", "varmail", FlushesFsync(0.25)),
    bar("M-16", "varmail-ssd", "varmail", Least("keepfs", "ext2", 1.5)),
    bar("M-16", "varmail-ssd", "varmail", Least("keepfs", "ext4", 1.5)),
    bar("M-16", "varmail-ssd", "varmail", Bytes("keepfs", "ext2", 0.70)),
    bar("M-16", "fileserver-ssd", "fileserver", Bytes("keepfs", "ext2", 0.80)),
    bar("M-16", "webproxy-ssd", "webproxy", Bytes("keepfs", "ext2", 0.90)),
    bar(
        "M-16",
        "fileserver-ssd",
        "fileserver",
        Bytes("keepfs-writeback", "ext2", 0.80),
    ),
    bar(
        "M-16",
        "webproxy-ssd",
        "webproxy",
        Bytes("keepfs-writeback", "ext2", 0.90),
    ),
    bar("P-1", "sync", "create", Kib(4.0)),
    bar("P-1", "sync", "create", Flushes(1.0)),
    bar("M-17", "sync-ssd", "create", Least("keepfs", "ext2", 3.0)),
    bar("M-17", "sync-ssd", "append10", Least("keepfs", "ext2", 5.0)),
    bar("M-17", "sync-ssd", "append1000", Least("keepfs", "ext2", 1.0)),
    bar("M-17", "sync-ssd", "delete", Least("keepfs", "ext2", 1.0)),
    bar("P-3", "ops", "*", Least("keepfs", "memory-dev", 0.9)),
    bar("P-3", "ops", "*", Least("keepfs-uring", "memory-uring", 0.9)),
    bar("P-3", "ops", "*", Least("keepfs", "fuse2fs", 2.0)),
    bar("P-3", "ops", "*", Least("keepfs", "zfs-fuse", 2.0)),
    bar("P-4", "sequential", "write", Least("keepfs", "memory-dev", 0.8)),
    bar("P-4", "sequential", "reread", Least("keepfs", "memory-dev", 0.8)),
    bar("P-4", "sequential", "write", Least("keepfs-uring", "memory-uring", 0.8)),
    bar("P-4", "sequential", "reread", Least("keepfs", "ext4", 0.9)),
    bar("M-20", "arenas", "varmail", Flat(0.10)),
    bar("M-18", "compaction", "varmail", Compaction(0.035)),
    bar("M-18", "compaction", "fileserver", Compaction(0.40)),
    bar("M-18", "compaction", "webproxy", Compaction(0.42)),
    bar("M-18", "compaction", "webserver", Compaction(0.35)),
    bar("M-21", "unmount", "varmail, at once", Most("keepfs", "ext2", 1.1)),
    bar("M-21", "unmount", "fileserver, at once", Most("keepfs", "ext2", 1.1)),
    bar("M-21", "unmount", "varmail, after*", Below(1.0)),
    bar("M-21", "unmount", "fileserver, after*", Below(1.0)),
    bar("M-19", "recovery", "mount*", Below(1.0)),
    bar("P-7", "growth", "mount after a power cut", Below(1.0)),
    bar("P-7", "growth", "mount after unmount", Below(0.05)),
    bar("P-7", "growth", "unmount", Below(2.0)),
    bar("P-9", "growth", "peak beside the arena", Below(64.0)),
];

impl Bar {
    fn is_about(&self, workload: &str) -> bool {
        match self.workload.strip_suffix('*') {
            Some(beginning) => workload.starts_with(beginning),
            None => workload == self.workload,
        }
    }
}

/// One line for each bar of the figure that there are rows for.
pub fn verdicts(figure: &str, rows: &[Rounds<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for bar in BARS.iter().filter(|bar| bar.figure == figure) {
        let mut workloads: Vec<&str> = Vec::new();
        for row in rows {
            let workload = row.median.workload.as_str();
            if bar.is_about(workload) && !workloads.contains(&workload) {
                workloads.push(workload);
            }
        }
        for workload in workloads {
            let same: Vec<&Rounds<'_>> = rows.iter().filter(|row| row.median.workload == workload).collect();
            if let Some((asked, value, met)) = bar.ask.judge(&same) {
                let met = if met { "met" } else { "**not met**" };
                lines.push(format!("{}: {workload}, {asked}: {value}, {met}.", bar.id));
            }
        }
    }
    lines
}

impl Ask {
    /// What is asked in words, the value, and whether it is met; nothing if a row is missing.
    fn judge(&self, rows: &[&Rounds<'_>]) -> Option<(String, String, bool)> {
        let of = |peer: &str| rows.iter().find(|row| row.median.peer == peer);
        let ours = || of("keepfs").map(|row| row.median);
        let value = |peer| of(peer).map(|row| row.median.value).filter(|value| *value > 0.0);
        let kib = |bytes: f64| bytes / 1024.0;
        let most = |asked: String, value: f64, bound: f64| Some((asked, number(value), value <= bound));
        match self {
            Least(first, second, bound) => {
                let ratio = value(first)? / value(second)?;
                let asked = format!("{first} ≥ {bound}x {second}");
                Some((asked, format!("{ratio:.2}x"), ratio >= *bound))
            }
            Most(first, second, bound) => {
                let ratio = value(first)? / value(second)?;
                let asked = format!("{first} ≤ {bound}x {second}");
                Some((asked, format!("{ratio:.2}x"), ratio <= *bound))
            }
            Bytes(first, second, bound) => {
                let bytes = |peer| of(peer)?.median.each("written").filter(|bytes| *bytes > 0.0);
                let ratio = bytes(first)? / bytes(second)?;
                let asked = format!("bytes an operation of {first} ≤ {bound}x {second}");
                Some((asked, format!("{ratio:.2}x"), ratio <= *bound))
            }
            Below(bound) => {
                let ours = ours()?;
                most(format!("≤ {bound} {}", ours.unit), ours.value, *bound)
            }
            Kib(bound) => most(
                format!("≤ {bound} KiB an operation"),
                kib(ours()?.each("written")?),
                *bound,
            ),
            Flushes(bound) => most(
                format!("≤ {bound} flushes an operation"),
                ours()?.each("flushes")?,
                *bound,
            ),
            KibFsync(bound) => most(
                format!("≤ {bound} KiB an fsync"),
                kib(ours()?.each_fsync("written")?),
                *bound,
            ),
            FlushesFsync(bound) => most(
                format!("≤ {bound} flushes an fsync"),
                ours()?.each_fsync("flushes")?,
                *bound,
            ),
            Compaction(bound) => {
                let ratio = compaction(of("keepfs")?)?;
                let asked = format!("≤ {:.1} % of whole pages", 100.0 * bound);
                Some((asked, format!("{:.2} %", 100.0 * ratio), ratio <= *bound))
            }
            Flat(bound) => {
                let values = rows.iter().map(|row| row.median.value);
                let (min, max) = (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max));
                let apart = 1.0 - min / max;
                let asked = format!("within {:.0} % over {} sizes", 100.0 * bound, rows.len());
                (rows.len() > 1).then(|| (asked, format!("{:.1} %", 100.0 * apart), apart <= *bound))
            }
        }
    }
}

#[cfg(test)]
mod tests;
