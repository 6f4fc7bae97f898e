//! The figures: what is done on which file systems, on which device.

use super::device::Profile;

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
}

/// A workload.
pub struct Work {
    /// As the program calls it.
    pub name: &'static str,
    /// What prepares it.
    pub prepare: Option<&'static str>,
    /// Whether the file system is mounted anew before, with empty caches. Not done with one that cannot be.
    pub anew: bool,
    /// Its part of the seconds that were asked for; 0 for a job that ends by itself.
    pub share: f64,
}

const fn work(name: &'static str, prepare: Option<&'static str>, share: f64) -> Work {
    Work {
        name,
        prepare,
        anew: false,
        share,
    }
}

const VARMAIL: &[Work] = &[work("varmail", Some("varmail-prepare"), 1.0)];
const FILESERVER: &[Work] = &[work("fileserver", Some("fileserver-prepare"), 1.0)];
const WEBSERVER: &[Work] = &[work("webserver", Some("webserver-prepare"), 1.0)];
const WEBPROXY: &[Work] = &[work("webproxy", Some("webproxy-prepare"), 1.0)];
const SYNC: &[Work] = &[
    work("create", Some("single-prepare"), 0.4),
    work("append10", None, 0.4),
    work("append1000", None, 0.4),
    work("delete", Some("delete-prepare"), 0.0),
];
const OPS: &[Work] = &[
    work("bare-create", Some("single-prepare"), 0.2),
    work("stat", None, 0.2),
    work("open", None, 0.2),
    work("rename", None, 0.2),
    work("unlink", None, 0.2),
    work("read4k", Some("random-prepare"), 0.2),
    work("write4k", None, 0.2),
];
const SEQUENTIAL: &[Work] = &[
    work("write", None, 0.0),
    Work {
        name: "read",
        prepare: None,
        anew: true,
        share: 0.0,
    },
    work("reread", None, 0.0),
];
const COMPACTION: &[Work] = &[
    work("varmail", Some("varmail-prepare"), 1.0),
    work("fileserver", Some("fileserver-prepare"), 1.0),
    work("webproxy", Some("webproxy-prepare"), 1.0),
    work("webserver", Some("webserver-prepare"), 1.0),
];

const ALL: &[&str] = &[
    "keepfs",
    "keepfs-uring",
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
const SYNCED: &[&str] = &[
    "keepfs",
    "keepfs-uring",
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

const fn figure(
    name: &'static str,
    about: &'static str,
    peers: &'static [&'static str],
    rounds_max: u32,
    kind: Kind,
    overhead_s: u32,
) -> Figure {
    Figure {
        name,
        about,
        profile: Profile::None,
        peers,
        rounds_max,
        kind,
        overhead_s,
    }
}

impl Figure {
    const fn ssd(self) -> Figure {
        Figure {
            profile: Profile::Ssd,
            ..self
        }
    }
}

/// All figures, in the order of `bench all`.
pub const FIGURES: &[Figure] = &[
    figure(
        "varmail",
        "filebench's varmail, 16 threads (P-2)",
        ALL,
        3,
        Kind::Works(VARMAIL),
        1,
    ),
    figure(
        "varmail-ssd",
        "the same on the modelled SSD (M-16; ReconFS Fig. 5, 6)",
        ON_SSD,
        2,
        Kind::Works(VARMAIL),
        1,
    )
    .ssd(),
    figure(
        "fileserver",
        "filebench's fileserver, 50 threads",
        SERVERS,
        2,
        Kind::Works(FILESERVER),
        4,
    ),
    figure(
        "fileserver-ssd",
        "the same on the modelled SSD (M-16)",
        LARGE,
        2,
        Kind::Works(FILESERVER),
        6,
    )
    .ssd(),
    figure(
        "webserver",
        "filebench's webserver, 100 threads",
        SERVERS,
        1,
        Kind::Works(WEBSERVER),
        1,
    ),
    figure(
        "webproxy",
        "filebench's webproxy, 100 threads",
        SERVERS,
        2,
        Kind::Works(WEBPROXY),
        2,
    ),
    figure(
        "webproxy-ssd",
        "the same on the modelled SSD (M-16)",
        LARGE,
        2,
        Kind::Works(WEBPROXY),
        2,
    )
    .ssd(),
    figure(
        "sync",
        "one thread: create + 1 KiB + fsync (P-1), appends of 4 KiB with an fsync each 10 and each 1000, delete and sync",
        SYNCED,
        2,
        Kind::Works(SYNC),
        3,
    ),
    figure(
        "sync-ssd",
        "the same on the modelled SSD (M-17; ReconFS Fig. 7)",
        ON_SSD,
        2,
        Kind::Works(SYNC),
        3,
    )
    .ssd(),
    figure(
        "ops",
        "one thread, one call at a time, beside the transports alone (P-3)",
        FRONT,
        2,
        Kind::Works(OPS),
        3,
    ),
    figure(
        "sequential",
        "256 MiB in calls of 1 MiB: written and fsynced, read from the device, read again; beside the transports alone (P-4)",
        BULK,
        2,
        Kind::Works(SEQUENTIAL),
        4,
    ),
    figure(
        "arenas",
        "varmail and fileserver with five sizes of the arena (M-20; ReconFS Fig. 10)",
        &["keepfs"],
        2,
        Kind::Arenas(&["varmail", "fileserver"]),
        3,
    ),
    figure(
        "compaction",
        "bytes with compaction, without it (keepfs-ec) and of ext2; what groups changed of each page (M-18; ReconFS \
         Table 3, Fig. 8, 9)",
        &["keepfs", "keepfs-ec", "ext2"],
        1,
        Kind::Works(COMPACTION),
        6,
    ),
    figure(
        "unmount",
        "time of the unmount at once after varmail and fileserver, and after 90 seconds (M-21; ReconFS Fig. 11, 12)",
        &["keepfs", "ext2", "ext4"],
        1,
        Kind::Unmount,
        6,
    ),
    figure(
        "recovery",
        "mount after the server was killed, behind much data and many files (M-19; ReconFS Fig. 13)",
        &["keepfs"],
        1,
        Kind::Recovery,
        60,
    ),
    figure(
        "growth",
        "up to 10^6 files in process on an arena of 64 MiB; mounts and unmount (P-7, P-8, P-9)",
        &["keepfs"],
        1,
        Kind::Growth,
        90,
    ),
];

/// The figure of this name.
pub fn named(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

impl Figure {
    /// How long it takes about, seconds, with so many seconds and rounds.
    pub fn estimate_s(&self, seconds: f64, rounds: u32) -> f64 {
        let rounds = f64::from(rounds.min(self.rounds_max));
        let peers = self.peers.len() as f64;
        // The server of zfs-fuse takes long to come and go.
        let slow = if self.peers.contains(&"zfs-fuse") { 20.0 } else { 0.0 };
        let overhead = f64::from(self.overhead_s);
        match &self.kind {
            Kind::Works(works) => {
                let share: f64 = works.iter().map(|work| work.share).sum();
                rounds * peers * (share * seconds + overhead) + slow
            }
            Kind::Arenas(names) => rounds * 5.0 * names.len() as f64 * (seconds + overhead),
            Kind::Unmount => 4.0 * peers * (seconds + overhead) + 90.0,
            Kind::Recovery | Kind::Growth => overhead,
        }
    }
}

#[cfg(test)]
mod tests;
