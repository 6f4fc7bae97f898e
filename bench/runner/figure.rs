//! The figures: what is done on which file systems, on which device.

use super::device::Profile;
use super::papers;
use super::run::Teller;

mod works;

pub use works::Work;
use works::{COMPACTION, DAY, FILESERVER, METADATA, OPS, SEQUENTIAL, SYNC, VARMAIL, WEBPROXY, WEBSERVER, WHERE};

/// A figure of the benchmark: one table, one plot, one command.
pub struct Figure {
    /// `cargo xtask bench NAME`.
    pub name: &'static str,
    /// One line for the list and for the head of the table.
    pub about: &'static str,
    /// The device.
    pub profile: Profile,
    /// File systems, by name.
    pub peers: &'static [&'static str],
    /// At most so many rounds.
    pub rounds_max: u32,
    /// What is done.
    pub kind: Kind,
    /// Seconds of one peer's round beside those of the workloads, as guessed.
    pub overhead_s: u32,
}

/// The figure whose workloads are programs of the system, which are installed for it.
pub const EVERYDAY: &str = "everyday";

/// Kinds of figures.
pub enum Kind {
    /// Workloads one after the other on a new file system.
    Works(&'static [Work]),
    /// These workloads on Keepfs with five sizes of the arena, each on a new pool (ReconFS Fig. 10).
    Arenas(&'static [&'static str]),
    /// Unmounting at once and after 90 seconds (ReconFS Fig. 11, 12).
    Unmount,
    /// Mounting after the server was killed behind so much data (ReconFS Fig. 13).
    Recovery,
    /// Many files, in process.
    Growth,
    /// Single operations and varmail in process, beside the kernel's file systems.
    InProcess,
    /// Samples of the processor's clock during each of these: where the time of an operation goes.
    Where(&'static [Work]),
    /// 10^7 files and a directory of 10^6, in process; not part of `all`.
    Huge,
    /// What programs of the lab tell; not part of `all`.
    Told(&'static [Teller]),
}

const ALL: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "memory-dev",
    "memory-uring",
    "ext2",
    "ext3",
    "ext4",
    "ext4-fc",
    "xfs",
    "btrfs",
    "fuse2fs",
    "zfs-fuse",
    "bindfs",
    "passthrough_ll",
];
const SERVERS: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "keepfs-writeback",
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "fuse2fs",
    "passthrough_ll",
];
const ON_SSD: &[&str] = &["keepfs", "ext2", "ext3", "ext4", "ext4-fc", "xfs", "btrfs"];
/// With what the transport alone gives: it has no device.
const SYNCED_SSD: &[&str] = &[
    "keepfs",
    "keepfs-writeback",
    "memory-dev",
    "ext2",
    "ext3",
    "ext4",
    "ext4-fc",
    "xfs",
    "btrfs",
];
const SYNCED: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "keepfs-writeback",
    "memory-dev",
    "ext2",
    "ext4",
    "ext4-fc",
    "xfs",
    "btrfs",
    "fuse2fs",
    "zfs-fuse",
    "passthrough_ll",
];
/// Those that ReconFS was compared with, and what is common today.
const LARGE: &[&str] = &["keepfs", "keepfs-writeback", "ext2", "ext3", "ext4", "btrfs"];
const FRONT: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "keepfs-writeback",
    "memory-dev",
    "memory-uring",
    "ext4",
    "fuse2fs",
    "zfs-fuse",
    "passthrough_ll",
];
const BULK: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "memory-dev",
    "memory-uring",
    "ext2",
    "ext4",
    "xfs",
    "btrfs",
    "fuse2fs",
    "passthrough_ll",
];
/// What somebody could mount instead.
const INSTEAD: &[&str] = &[
    "keepfs",
    "keepfs-uring",
    "keepfs-writeback",
    "ext4",
    "passthrough_ll",
    "bindfs",
    "fuse2fs",
];
const PAIR: &[&str] = &["keepfs", "keepfs-uring"];
const COMPACTED: &[&str] = &["keepfs", "keepfs-ec", "ext2"];
const UNMOUNTED: &[&str] = &["keepfs", "ext2", "ext4"];
const INPROC: &[&str] = &["keepfs", "ext4", "ext2"];
const ALONE: &[&str] = &["keepfs"];
/// The settings of Greenan & Miller's figure 7, and ours.
const PROTECTED: &[&str] = &[
    "keepfs",
    "keepfs-noaudit",
    "none",
    "log-only",
    "no-mprot-64",
    "no-mprot-256",
    "all-prot-64",
    "all-prot-256",
];

/// A line for each figure: name, device, file systems, most rounds, seconds beside the workloads, kind, about.
macro_rules! figures {
    ($($name:literal $profile:ident $peers:ident $rounds:literal $overhead:literal $kind:expr, $about:literal;)*) => {
        /// All figures, in the order of `bench all`.
        pub const FIGURES: &[Figure] = &[$(Figure {
            name: $name,
            about: $about,
            profile: Profile::$profile,
            peers: $peers,
            rounds_max: $rounds,
            kind: $kind,
            overhead_s: $overhead,
        }),*];
    };
}

use Kind::{Told, Works};

figures! {
    "varmail" None ALL 3 1 Works(VARMAIL), "filebench's varmail, 16 threads (P-2)";
    "varmail-ssd" Ssd ON_SSD 2 1 Works(VARMAIL), "the same on the modelled SSD (M-16; ReconFS Fig. 5, 6)";
    "fileserver" None SERVERS 1 4 Works(FILESERVER), "filebench's fileserver, 50 threads";
    "fileserver-ssd" Ssd LARGE 2 6 Works(FILESERVER), "the same on the modelled SSD (M-16)";
    "webserver" None SERVERS 1 1 Works(WEBSERVER), "filebench's webserver, 100 threads";
    "webproxy" None SERVERS 1 2 Works(WEBPROXY), "filebench's webproxy, 100 threads";
    "webproxy-ssd" Ssd LARGE 2 2 Works(WEBPROXY), "the same on the modelled SSD (M-16)";
    "sync" None SYNCED 2 3 Works(SYNC), "one thread: create + 1 KiB + fsync (P-1), appends of 4 KiB with an fsync \
        each 10 and each 1000, delete and sync";
    "sync-ssd" Ssd SYNCED_SSD 2 3 Works(SYNC), "the same on the modelled SSD (M-17; ReconFS Fig. 7)";
    "ops" None FRONT 2 3 Works(OPS), "one thread, one call at a time, beside the transports alone (P-3)";
    "everyday" None INSTEAD 5 40 Works(DAY), "programs of every day on a tree of 8,000 files and 100 MB, each as a whole, \
        without a sync: seconds, and what the kernel asked the server for (P-10)";
    "where" None PAIR 1 4 Kind::Where(WHERE), "where the time of an operation goes: samples of the processors' clocks \
        by call stack, us an operation";
    "sequential" None BULK 2 4 Works(SEQUENTIAL), "256 MiB in calls of 1 MiB: written and fsynced, read from the \
        device, read again; beside the transports alone (P-4)";
    "inproc" None INPROC 3 4 Kind::InProcess, "the library in process beside the kernel's file systems, which the same \
        calls reach through system calls: single operations and varmail (P-2, P-5, P-8)";
    "arenas" None ALONE 2 3 Kind::Arenas(&["varmail", "fileserver"]), "varmail and fileserver with five sizes of the \
        arena (M-20; ReconFS Fig. 10)";
    "compaction" None COMPACTED 1 6 Works(COMPACTION), "bytes with compaction, without it (keepfs-ec) and of ext2; what \
        groups changed of each page (M-18; ReconFS Table 3, Fig. 8, 9)";
    "unmount" None UNMOUNTED 1 6 Kind::Unmount, "time of the unmount at once after varmail and fileserver, and after \
        90 seconds (M-21; ReconFS Fig. 11, 12)";
    "recovery" None ALONE 1 60 Kind::Recovery, "mount after the server was killed, behind much data and many files \
        (M-19; ReconFS Fig. 13)";
    "growth" None ALONE 1 40 Kind::Growth, "up to 10^6 files in process on an arena of 64 MiB; mounts and unmount \
        (P-7, P-8, P-9)";
    "huge" None ALONE 1 900 Kind::Huge, "10^7 files in 100 directories on an arena of 256 MiB, and 10^6 in one \
        directory, in process: operations on files drawn at random at each size (P-8, P-9)";
    "greenan-metadata" None ALONE 9 60 Told(&[Teller::Papers(&["metadata"])]), "the metadata workload of Greenan & Miller's \
        section 5.3 in process, in the paper's settings (`none` to `ALL_PROT`) and ours: operations a second of \
        processor time (M-3; figure 7)";
    "greenan-fuse" None PROTECTED 9 3 Works(METADATA), "the same through FUSE with 10 directories (M-3, P-6; figure 7)";
    "greenan-writes" None ALONE 9 10 Told(&[Teller::Papers(&["writes"])]), "writes of 16 bytes to a protected region: bare \
        (`NOTHING`), encoded (`NPND`), and checked (`NO_PROT`), with mprotect (`ALL`), as figure 3 of Greenan & Miller has \
        it, and by sums and parity that follow each change behind `alias` (M-4; figure 8)";
    "greenan-parts" None ALONE 9 10 Told(&[Teller::Papers(&["breakdown"])]), "the parts of an update of 8 bytes behind \
        `alias` (M-4; figure 9)";
    "wafl-cost" None ALONE 1 40 Told(&[Teller::Papers(&["cost"])]), "what protection costs in process, level by level, in \
        turns: processor time (M-9, M-10, P-6; WAFL sections 7.1 and 7.2)";
    "wafl-curve" None ALONE 1 60 Told(&[Teller::Papers(&["curve"])]), "the OLTP mix of SPC-1, which arrives at a percentage \
        of what `off` can do: mean latency; five runs in turns (M-9; WAFL figures 1 and 2)";
    "greenan-inject" None ALONE 1 90 Told(&[Teller::Injected("M-1"), Teller::Injected("M-2")]), "wild writes over a region, over \
        all addresses and from pointers held, and writes aimed at 160,000 bytes, at the guard and behind the door (M-1, M-2; \
        section 5.2, figure 6)";
    "wafl-inject" None ALONE 1 60 Told(&[Teller::Injected("M-11"), Teller::Injected("M-23")]), "faults of all kinds judged \
        blind, and changes that leave each checksum right (M-11, M-23; WAFL section 7.4)";
    "wafl-audits" None ALONE 1 60 Told(&[Teller::Planted]), "planted logic bugs and audit equations (M-12; WAFL section 7.5)";
}

/// The figure of this name.
pub fn named(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

impl Figure {
    /// Whether it is part of `bench all`: it takes minutes, not a quarter of an hour.
    pub fn in_all(&self) -> bool {
        !matches!(self.kind, Kind::Huge) && self.name != EVERYDAY && papers::of(self.name).is_none()
    }

    /// How long it takes about, seconds, with so many seconds and rounds.
    pub fn estimate_s(&self, seconds: f64, rounds: u32) -> f64 {
        let rounds = f64::from(rounds.min(self.rounds_max));
        let peers = self.peers.len() as f64;
        // The server of zfs-fuse takes long to come and go.
        let slow = if self.peers.contains(&"zfs-fuse") { 20.0 } else { 0.0 };
        let overhead = f64::from(self.overhead_s);
        match &self.kind {
            Works(works) | Kind::Where(works) => {
                let share: f64 = works.iter().map(|work| work.share).sum();
                let profiled = if matches!(self.kind, Works(_)) {
                    0.0
                } else {
                    2.0 * works.len() as f64
                };
                rounds * peers * (share * seconds + overhead + profiled) + slow
            }
            Kind::Arenas(names) => rounds * 5.0 * names.len() as f64 * (seconds + overhead),
            Kind::Unmount => 4.0 * peers * (seconds + overhead) + 90.0,
            // Keepfs in memory besides.
            Kind::InProcess => rounds * (peers + 1.0) * (seconds + overhead),
            Kind::Told(_) => rounds * overhead,
            Kind::Recovery | Kind::Growth | Kind::Huge => overhead,
        }
    }
}

#[cfg(test)]
mod tests;
