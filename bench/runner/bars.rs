//! The bars that a figure is held against, whether they are met, and what a miss would need.

use super::floor;
use super::sample::Rounds;
use super::table::{compaction, number};

/// What of a row is held against a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The figure itself, in its unit.
    Value,
    /// All threads together, operations a second.
    PerSecond,
    /// KiB written for an operation.
    Kib,
    /// Flushes for an operation.
    Flushes,
    /// KiB written for an fsync.
    KibFsync,
    /// Flushes for an fsync.
    FlushesFsync,
    /// Compacted records by whole pages, percent.
    Compaction,
    /// Frames read for an operation: in a full arena each takes the place of another.
    Frames,
}

/// How much it may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    /// At most this.
    Most(f64),
    /// Less than this.
    Less(f64),
    /// At least this.
    Least(f64),
    /// At most so many times what the other file system has.
    MostOf(f64, &'static str),
    /// At least so many times what the other file system has.
    LeastOf(f64, &'static str),
    /// At least so many times what one thread has, or so many times what two programs have that share nothing.
    Threads(f64, f64),
    /// All rows of the workload that begin with the bar's file system lie within so many percent of the greatest.
    Flat(f64),
    /// Of the rows from 10^4 files on that are all in the arena the greatest is at most so many times the least.
    InArena(f64),
}

/// A bar: its id, the figure, the workload that it is about (with `*` at its end: all that begin so; several with `|`),
/// the file system.
struct Bar {
    id: &'static str,
    figure: &'static str,
    workload: &'static str,
    peer: &'static str,
    what: What,
    bound: Bound,
}

/// A line for each bar.
macro_rules! bars {
    ($($id:literal $figure:literal $workload:tt $peer:literal $what:ident $bound:expr;)*) => {
        const BARS: &[Bar] = &[$(Bar {
            id: $id,
            figure: $figure,
            workload: $workload,
            peer: $peer,
            what: What::$what,
            bound: $bound,
        }),*];
    };
}

use Bound::{Flat, InArena, Least, LeastOf, Less, Most, MostOf, Threads};

/// What may be so many times as slow is at least so many times as fast.
const fn slower(times: f64, other: &'static str) -> Bound {
    LeastOf(1.0 / times, other)
}

/// The calls of P-3.
const CALLS: &str = "bare-create|stat|open|unlink|read4k|write4k";
/// What is asked of two threads (P-8).
const TWO: Bound = Threads(1.7, 0.95);

bars! {
    "P-1"  "sync" "create" "keepfs" Kib Most(4.0);
    "P-1"  "sync" "create" "keepfs" Flushes Most(1.0);
    "P-2"  "varmail" "varmail" "keepfs" Value LeastOf(1.5, "passthrough_ll");
    "P-2"  "varmail" "varmail" "keepfs-uring" Value LeastOf(1.8, "passthrough_ll");
    "P-2"  "varmail" "varmail" "keepfs" Value LeastOf(5.0, "fuse2fs");
    "P-2"  "varmail" "varmail" "keepfs" KibFsync Most(12.0);
    "P-2"  "varmail" "varmail" "keepfs" FlushesFsync Less(0.25);
    "P-2"  "inproc" "varmail" "keepfs" PerSecond LeastOf(1.0, "ext4");
    "P-3"  "ops" CALLS "keepfs" Value LeastOf(0.9, "memory-dev");
    "P-3"  "ops" CALLS "keepfs-uring" Value LeastOf(0.9, "memory-uring");
    "P-3"  "ops" CALLS "keepfs" Value LeastOf(2.0, "fuse2fs");
    "P-3"  "ops" CALLS "keepfs" Value LeastOf(2.0, "zfs-fuse");
    "P-4"  "sequential" "write" "keepfs" Value LeastOf(0.8, "memory-dev");
    "P-4"  "sequential" "reread" "keepfs" Value LeastOf(0.8, "memory-dev");
    "P-4"  "sequential" "write" "keepfs-uring" Value LeastOf(0.8, "memory-uring");
    "P-4"  "sequential" "reread" "keepfs-uring" Value LeastOf(0.8, "memory-uring");
    // Page-cache speed, with what two runs differ by.
    "P-4"  "sequential" "reread" "keepfs" Value LeastOf(0.9, "ext4");
    "P-5"  "inproc" "create" "keepfs" Value Most(2.0);
    "P-5"  "inproc" "append 1 KiB" "keepfs" Value Most(2.0);
    "P-5"  "inproc" "rename" "keepfs" Value Most(2.0);
    "P-5"  "inproc" "unlink" "keepfs" Value Most(2.0);
    "P-5"  "inproc" "lookup" "keepfs" Value Most(2.0);
    "P-7"  "growth" "mount after a power cut" "keepfs" Value Most(1.0);
    "P-7"  "growth" "mount after unmount" "keepfs" Value Most(0.05);
    "P-7"  "growth" "unmount" "keepfs" Value Most(2.0);
    "P-8"  "inproc" "create" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "append 1 KiB" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "rename" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "unlink" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "lookup" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "read 4 KiB" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "inproc" "write 4 KiB" "keepfs, 2 threads" PerSecond TWO;
    "P-8"  "huge" "create*|lookup*|unlink*" "10^" Value InArena(2.0);
    "P-8"  "huge" "create*|lookup*|unlink*" "10^6 files" Frames Most(2.0);
    "P-8"  "huge" "create*|lookup*|unlink*" "10^7 files" Frames Most(2.0);
    "P-9"  "growth" "peak beside the arena" "keepfs" Value Most(64.0);
    "P-9"  "huge" "peak beside the arena*" "keepfs" Value Most(64.0);
    "P-10" "everyday" "*" "keepfs" Value MostOf(1.0, "passthrough_ll");
    "P-10" "everyday" "*" "keepfs" Value MostOf(0.5, "fuse2fs");
    "P-10" "everyday" "sum" "keepfs" Value MostOf(4.0, "ext4");
    "P-10" "everyday" "sum" "keepfs-uring" Value MostOf(3.0, "ext4");
    "M-1"  "greenan-inject" "reached: the whole region*|reached: over- and underruns*" "keepfs" Value Most(0.0);
    // The door's memory is reached as often as chance has it; then all must be right again.
    "M-1"  "greenan-inject" "reached: all addresses, sealed|reached and not right again*" "keepfs" Value Most(0.0);
    "M-2"  "greenan-inject" "passed*" "keepfs" Value Most(0.0);
    "M-2"  "greenan-inject" "told or covered by a legal write, behind the door" "keepfs" Value Least(100.0);
    "M-2"  "greenan-inject" "right again, behind the door" "keepfs" Value Least(99.9);
    "M-2"  "greenan-inject" "silent or wrongly repaired*" "keepfs" Value Most(0.0);
    "M-11" "wafl-inject" "wrong verdicts*" "keepfs" Value Most(0.0);
    "M-11" "wafl-inject" "silent or wrongly repaired*" "keepfs" Value Most(0.0);
    "M-23" "wafl-inject" "a superblock has it*" "keepfs" Value Most(0.0);
    "M-3"  "greenan-metadata" "metadata*" "keepfs" Value slower(1.05, "none");
    "M-3"  "greenan-metadata" "look*" "keepfs" Value slower(1.01, "none");
    "M-3"  "greenan-fuse" "metadata*" "keepfs" Value slower(1.05, "none");
    "M-4"  "greenan-writes" "16 bytes*" "keepfs pcrc" Value MostOf(2.0, "NOTHING");
    "M-4"  "greenan-writes" "16 bytes*" "keepfs crc" Value MostOf(2.0, "NOTHING");
    // In process, both.
    "M-9"  "wafl-cost" "oltp*" "keepfs" Value MostOf(1.05, "off");
    "M-9"  "wafl-curve" "OLTP, saturated, beside off" "keepfs" Value slower(1.05, "off");
    "M-9"  "wafl-curve" "OLTP at*" "keepfs" PerSecond slower(1.05, "off");
    "M-10" "wafl-cost" "delete*" "sums" Value MostOf(1.02, "off");
    "M-10" "wafl-cost" "delete*" "sums + audits" Value MostOf(1.05, "off");
    "M-12" "wafl-audits" "planted*" "keepfs" Value Least(30.0);
    "M-12" "wafl-audits" "equations*" "keepfs" Value Least(20.0);
    "P-6"  "wafl-cost" "delete*|small files*" "keepfs" Value MostOf(1.05, "off");
    "P-6"  "greenan-fuse" "metadata*" "keepfs" Value slower(1.01, "none");
    "M-16" "varmail-ssd" "varmail" "keepfs" Value LeastOf(1.5, "ext2");
    "M-16" "varmail-ssd" "varmail" "keepfs" Value LeastOf(1.5, "ext4");
    "M-16" "varmail-ssd" "varmail" "keepfs" Kib MostOf(0.70, "ext2");
    "M-16" "fileserver-ssd" "fileserver" "keepfs" Kib MostOf(0.80, "ext2");
    "M-16" "webproxy-ssd" "webproxy" "keepfs" Kib MostOf(0.90, "ext2");
    "M-16" "fileserver-ssd" "fileserver" "keepfs-writeback" Kib MostOf(0.80, "ext2");
    "M-16" "webproxy-ssd" "webproxy" "keepfs-writeback" Kib MostOf(0.90, "ext2");
    "M-17" "sync-ssd" "create" "keepfs" Value LeastOf(3.0, "ext2");
    "M-17" "sync-ssd" "append10" "keepfs" Value LeastOf(5.0, "ext2");
    "M-17" "sync-ssd" "append1000" "keepfs" Value LeastOf(1.0, "ext2");
    "M-17" "sync-ssd" "append1000" "keepfs-writeback" Value LeastOf(1.0, "ext2");
    "M-17" "sync-ssd" "delete" "keepfs" Value LeastOf(1.0, "ext2");
    "M-18" "compaction" "varmail" "keepfs" Compaction Most(3.5);
    "M-18" "compaction" "fileserver" "keepfs" Compaction Most(40.0);
    "M-18" "compaction" "webproxy" "keepfs" Compaction Most(42.0);
    "M-18" "compaction" "webserver" "keepfs" Compaction Most(35.0);
    "M-19" "recovery" "mount*" "keepfs" Value Most(1.0);
    "M-20" "arenas" "varmail" "arena" Value Flat(10.0);
    "M-21" "unmount" "varmail, at once" "keepfs" Value MostOf(1.1, "ext2");
    "M-21" "unmount" "fileserver, at once" "keepfs" Value MostOf(1.1, "ext2");
    "M-21" "unmount" "varmail, after*" "keepfs" Value Most(1.0);
    "M-21" "unmount" "fileserver, after*" "keepfs" Value Most(1.0);
}

/// A bar held against a figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Of the bar.
    pub id: &'static str,
    /// The figure.
    pub figure: &'static str,
    /// The workload, as the figure calls it.
    pub workload: String,
    /// What is asked.
    pub asked: String,
    /// What was measured.
    pub measured: String,
    /// Whether it is met.
    pub met: bool,
    /// What the bare transport and the device of the same run would give if the file system cost nothing.
    pub floor: Option<Floor>,
}

/// A floor in the terms of a bar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    /// What would be measured.
    pub ratio: String,
    /// Whether that would meet the bar.
    pub reaches: bool,
}

impl Verdict {
    /// One line for the section of the figure.
    pub fn line(&self) -> String {
        let met = if self.met { "met" } else { "**not met**" };
        let floor = match &self.floor {
            None => String::new(),
            Some(floor) if floor.reaches => format!("; its floor gives {}", floor.ratio),
            Some(floor) => format!("; its floor gives {}: out of reach here", floor.ratio),
        };
        format!(
            "{}: {}, {}: {}, {met}{floor}.",
            self.id, self.workload, self.asked, self.measured
        )
    }
}

impl Bar {
    fn is_about(&self, workload: &str) -> bool {
        self.workload.split('|').any(|word| match word.strip_suffix('*') {
            Some(beginning) => workload.starts_with(beginning),
            None => workload == word,
        })
    }

    /// Judges rows of one workload; nothing if one that it needs is missing.
    fn judge(&self, workload: &str, rows: &[&Rounds<'_>]) -> Option<Verdict> {
        let (asked, measured, met) = match self.bound {
            Flat(percent) => self.flat(rows, percent)?,
            InArena(times) => self.in_arena(rows, times)?,
            Threads(bound, of_two) => self.threads(rows, bound, of_two)?,
            Most(bound) => self.alone(rows, &format!("≤ {bound}"), |value| value <= bound)?,
            Less(bound) => self.alone(rows, &format!("< {bound}"), |value| value < bound)?,
            Least(bound) => self.alone(rows, &format!("≥ {bound}"), |value| value >= bound)?,
            MostOf(bound, other) => {
                let ratio = self.ratio(rows, other)?;
                let asked = format!("{}{} ≤ {bound}x {other}", self.what.owned(), self.peer);
                (asked, format!("{ratio:.2}x"), ratio <= bound)
            }
            LeastOf(bound, other) => {
                let ratio = self.ratio(rows, other)?;
                let asked = format!("{} ≥ {}x {other}", self.peer, (bound * 1e3).round() / 1e3);
                (asked, format!("{ratio:.2}x"), ratio >= bound)
            }
        };
        Some(Verdict {
            id: self.id,
            figure: self.figure,
            workload: workload.to_owned(),
            asked,
            measured,
            met,
            floor: if met { None } else { self.floor(rows) },
        })
    }

    fn alone(&self, rows: &[&Rounds<'_>], asked: &str, is_met: impl Fn(f64) -> bool) -> Option<(String, String, bool)> {
        let row = row(rows, self.peer)?;
        let value = self.what.of(row)?;
        let asked = format!("{asked} {}{}", self.what.words(row), self.whose());
        let measured = format!("{}{}", number(value), self.what.sign());
        Some((asked, measured, is_met(value)))
    }

    fn threads(&self, rows: &[&Rounds<'_>], bound: f64, of_two: f64) -> Option<(String, String, bool)> {
        let one = self.one_thread()?;
        let ratio = self.ratio(rows, one)?;
        let asked = format!("{} ≥ {bound}x {one}, or {of_two}x of two programs", self.peer);
        let two = floor::two_programs(rows, self.peer, one);
        let is_met = ratio >= bound || two.is_some_and(|two| ratio >= of_two * two);
        Some((asked, format!("{ratio:.2}x"), is_met))
    }

    /// The row of one thread, beside a row of two.
    fn one_thread(&self) -> Option<&'static str> {
        self.peer.strip_suffix(", 2 threads")
    }

    fn in_arena(&self, rows: &[&Rounds<'_>], times: f64) -> Option<(String, String, bool)> {
        let files = |row: &Rounds<'_>| row.median.peer.strip_prefix("10^")?.split(' ').next()?.parse().ok();
        let is_in = |row: &&&Rounds<'_>| files(row) >= Some(4) && row.median.get("evictions") == Some(0.0);
        let values: Vec<f64> = rows.iter().filter(is_in).filter_map(|row| self.what.of(row)).collect();
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        let most = values.iter().copied().max_by(f64::total_cmp)?;
        let asked = format!("within {times}x over {} sizes in the arena", values.len());
        (values.len() > 1).then(|| (asked, format!("{:.2}x", most / least), most <= times * least))
    }

    fn ratio(&self, rows: &[&Rounds<'_>], other: &str) -> Option<f64> {
        let of = |peer| self.what.of(row(rows, peer)?).filter(|value| *value > 0.0);
        Some(of(self.peer)? / of(other)?)
    }

    fn flat(&self, rows: &[&Rounds<'_>], percent: f64) -> Option<(String, String, bool)> {
        let rows = rows.iter().filter(|row| row.median.peer.starts_with(self.peer));
        let values: Vec<f64> = rows.filter_map(|row| self.what.of(row)).collect();
        let (min, max) = (
            values.iter().copied().fold(f64::MAX, f64::min),
            values.iter().copied().fold(0.0, f64::max),
        );
        let apart = 100.0 * (1.0 - min / max);
        let asked = format!("within {percent:.0} % over {} sizes", values.len());
        (values.len() > 1).then(|| (asked, format!("{apart:.1} %"), apart <= percent))
    }

    /// What would be measured against the other if only transport and device cost anything, or nothing were shared.
    fn floor(&self, rows: &[&Rounds<'_>]) -> Option<Floor> {
        let (bound, other) = match self.bound {
            LeastOf(bound, other) => (bound, other),
            Threads(bound, _) => (bound, self.one_thread()?),
            _ => return None,
        };
        let behind = || {
            let best = floor::best(rows, self.peer, other)?;
            Some(best / self.what.of(row(rows, other)?).filter(|value| *value > 0.0)?)
        };
        let ratio = floor::two_programs(rows, self.peer, other).or_else(behind)?;
        Some(Floor {
            ratio: format!("{ratio:.2}x"),
            reaches: ratio >= bound,
        })
    }

    /// Whose figure it is, where that is not plain.
    fn whose(&self) -> String {
        match self.peer {
            "keepfs" => String::new(),
            peer => format!(" by {peer}"),
        }
    }
}

fn row<'r, 's>(rows: &[&'r Rounds<'s>], peer: &str) -> Option<&'r Rounds<'s>> {
    rows.iter().find(|row| row.median.peer == peer).copied()
}

impl What {
    fn of(self, row: &Rounds<'_>) -> Option<f64> {
        let kib = |bytes: f64| bytes / 1024.0;
        match self {
            Self::Value => Some(row.median.value),
            Self::PerSecond => row.median.get("per_second"),
            Self::Kib => row.median.each("written").map(kib),
            Self::Flushes => row.median.each("flushes"),
            Self::KibFsync => row.median.each_fsync("written").map(kib),
            Self::FlushesFsync => row.median.each_fsync("flushes"),
            Self::Compaction => compaction(row).map(|part| 100.0 * part),
            Self::Frames => row.median.each("evictions"),
        }
    }

    fn words<'r>(self, row: &'r Rounds<'_>) -> &'r str {
        match self {
            Self::Value => &row.median.unit,
            Self::PerSecond => "op/s",
            Self::Kib => "KiB an operation",
            Self::Flushes => "flushes an operation",
            Self::KibFsync => "KiB an fsync",
            Self::FlushesFsync => "flushes an fsync",
            Self::Compaction => "% of whole pages",
            Self::Frames => "frames read an operation",
        }
    }

    /// Before the name of a file system.
    fn owned(self) -> &'static str {
        match self {
            Self::Kib => "bytes an operation of ",
            Self::Flushes => "flushes an operation of ",
            _ => "",
        }
    }

    fn sign(self) -> &'static str {
        if self == Self::Compaction { " %" } else { "" }
    }
}

/// The figure and the id of each bar.
#[cfg(test)]
pub fn ids() -> impl Iterator<Item = (&'static str, &'static str)> {
    BARS.iter().map(|bar| (bar.figure, bar.id))
}

/// Each bar of the figure that there are rows for.
pub fn verdicts(figure: &str, rows: &[Rounds<'_>]) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
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
            verdicts.extend(bar.judge(workload, &same));
        }
    }
    verdicts
}

#[cfg(test)]
mod tests;
