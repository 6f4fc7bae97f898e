//! The file systems of the benchmark: how each is made, mounted and ended.

use std::path::Path;

use super::mounted::Mounted;
use super::programs::Programs;
use xtask::install;
use xtask::suites::process::{command, run};

mod fuse;
mod ours;

/// A file system on a device.
pub struct Peer {
    /// As the tables say it, and as `--only` takes it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Programs that it needs, with the package of each.
    needs: &'static [&'static str],
}

/// Kinds of peers.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Keepfs with these mount options.
    Keepfs(&'static [&'static str]),
    /// Keepfs made with these arguments of `create`, with these mount options: a setting to compare with.
    Setting(&'static [&'static str], &'static [&'static str]),
    /// A file system of the kernel: how it is made, and its type.
    Kernel(&'static [&'static str], &'static str),
    /// fuse2fs on an ext4.
    Fuse2fs,
    /// zfs-fuse.
    Zfs,
    /// bindfs over a kernel's ext4.
    Bindfs,
    /// libfuse's passthrough_ll over a kernel's ext4.
    Passthrough,
    /// The empty file system in memory on this transport, without a device.
    Memory(&'static str),
}

// Everything is initialised at once, so that nothing is written in the background later.
const EXT2: &[&str] = &["mkfs.ext2", "-q", "-F", "-E", "lazy_itable_init=0"];
const EXT3: &[&str] = &["mkfs.ext3", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
const EXT4: &[&str] = &["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
const EXT4_FC: &[&str] = &[
    "mkfs.ext4",
    "-q",
    "-F",
    "-O",
    "fast_commit",
    "-E",
    "lazy_itable_init=0,lazy_journal_init=0",
];
const XFS: &[&str] = &["mkfs.xfs", "-q", "-f"];
const BTRFS: &[&str] = &["mkfs.btrfs", "-q", "-f"];

const fn peer(name: &'static str, kind: Kind, needs: &'static [&'static str]) -> Peer {
    Peer { name, kind, needs }
}

/// What the settings of Greenan & Miller have in common: the transport of `keepfs`, and no audits, which they do not have.
const BARE: [&str; 2] = ["transport=dev", "audit=off"];

const fn setting(name: &'static str, create: &'static [&'static str], mount: &'static [&'static str]) -> Peer {
    peer(name, Kind::Setting(create, mount), &[])
}

/// Mount options that only the program for comparison has (decision 0421).
const FOR_COMPARISON: [&str; 2] = ["nocompact", "nooplog"];

/// All of them; the first is what the others stand beside.
pub const PEERS: &[Peer] = &[
    peer("keepfs", Kind::Keepfs(&["transport=dev"]), &[]),
    peer("keepfs-uring", Kind::Keepfs(&["transport=uring"]), &[]),
    peer(
        "keepfs-writeback",
        Kind::Keepfs(&["transport=dev", "cache=writeback"]),
        &[],
    ),
    peer("keepfs-ec", Kind::Keepfs(&["transport=dev", "nocompact"]), &[]),
    peer("keepfs-noaudit", Kind::Keepfs(&["transport=dev", "audit=off"]), &[]),
    setting(
        "none",
        &["--protect", "off"],
        &[BARE[0], BARE[1], "guard=off", "nooplog"],
    ),
    setting("log-only", &["--protect", "off"], &[BARE[0], BARE[1], "guard=off"]),
    setting(
        "no-mprot-64",
        &["--protect", "evenodd64"],
        &[BARE[0], BARE[1], "guard=off"],
    ),
    setting(
        "no-mprot-256",
        &["--protect", "evenodd256"],
        &[BARE[0], BARE[1], "guard=off"],
    ),
    setting(
        "all-prot-64",
        &["--protect", "evenodd64"],
        &[BARE[0], BARE[1], "guard=mprotect"],
    ),
    setting(
        "all-prot-256",
        &["--protect", "evenodd256"],
        &[BARE[0], BARE[1], "guard=mprotect"],
    ),
    peer("ext2", Kind::Kernel(EXT2, "ext2"), &["mkfs.ext2"]),
    peer("ext3", Kind::Kernel(EXT3, "ext3"), &["mkfs.ext3"]),
    peer("ext4", Kind::Kernel(EXT4, "ext4"), &["mkfs.ext4"]),
    peer("ext4-fc", Kind::Kernel(EXT4_FC, "ext4"), &["mkfs.ext4"]),
    peer("xfs", Kind::Kernel(XFS, "xfs"), &["mkfs.xfs"]),
    peer("btrfs", Kind::Kernel(BTRFS, "btrfs"), &["mkfs.btrfs"]),
    peer("fuse2fs", Kind::Fuse2fs, &["mkfs.ext4", "fuse2fs"]),
    peer("zfs-fuse", Kind::Zfs, &["zfs-fuse", "zpool"]),
    peer("bindfs", Kind::Bindfs, &["mkfs.ext4", "bindfs"]),
    peer(
        "passthrough_ll",
        Kind::Passthrough,
        &["mkfs.ext4", "cc", "pkg-config", super::programs::PASSTHROUGH],
    ),
    peer("memory-dev", Kind::Memory("dev"), &[]),
    peer("memory-uring", Kind::Memory("uring"), &[]),
];

/// The peer of this name.
pub fn named(name: &str) -> Option<&'static Peer> {
    PEERS.iter().find(|peer| peer.name == name)
}

impl Peer {
    /// Why it cannot be measured on this machine, if it cannot.
    pub fn missing(&self) -> Option<String> {
        let needs = self.needs.iter().filter(|need| !install::present(need));
        let missing: Vec<&str> = needs.copied().collect();
        (!missing.is_empty()).then(|| format!("{} not found: cargo xtask install peers", missing.join(", ")))
    }

    /// Whether it lies on a device.
    pub fn has_device(&self) -> bool {
        !matches!(self.kind, Kind::Memory(_))
    }

    /// Whether it can be mounted again as it was left.
    pub fn remounts(&self) -> bool {
        !matches!(self.kind, Kind::Memory(_) | Kind::Zfs)
    }

    /// Whether it is measured in the first round only: a server that comes and goes slowly, or settings with two system
    /// calls and more for each write of metadata.
    pub fn is_slow(&self) -> bool {
        let mprotect = |options: &[&str]| options.contains(&"guard=mprotect");
        matches!(self.kind, Kind::Zfs) || matches!(self.kind, Kind::Setting(_, options) if mprotect(options))
    }

    /// Whether it is Keepfs, so that its own counters can be asked.
    pub fn is_keepfs(&self) -> bool {
        matches!(self.kind, Kind::Keepfs(_) | Kind::Setting(..))
    }

    /// Whether it is Keepfs with mount options that what is shipped does not have.
    pub fn is_for_comparison(&self) -> bool {
        let has = |options: &[&str]| options.iter().any(|option| FOR_COMPARISON.contains(option));
        matches!(self.kind, Kind::Keepfs(options) | Kind::Setting(_, options) if has(options))
    }

    /// Makes it on the device.
    pub fn make(&self, programs: &Programs, node: &Path) -> Result<(), String> {
        match self.kind {
            Kind::Keepfs(_) => ours::create(programs, node, &[]),
            Kind::Setting(create, _) => ours::create(programs, node, create),
            Kind::Kernel(words, _) => format(words, node),
            Kind::Fuse2fs | Kind::Bindfs | Kind::Passthrough => format(EXT4, node),
            // Its pool is made by the server, which a mount starts.
            Kind::Zfs | Kind::Memory(_) => Ok(()),
        }
    }

    /// Mounts it at `dir`. `more`: mount options for Keepfs besides.
    pub fn mount(&self, programs: &Programs, node: &Path, dir: &Path, more: &[&str]) -> Result<Mounted, String> {
        match self.kind {
            Kind::Keepfs(options) | Kind::Setting(_, options) => {
                let all: Vec<&str> = options.iter().chain(more).copied().collect();
                let keepfs = match self.is_for_comparison() {
                    true => programs.comparison.as_ref().ok_or("keepfs-comparison was not built")?,
                    false => &programs.keepfs,
                };
                ours::mount(keepfs, programs, node, dir, &all)
            }
            Kind::Kernel(_, kind) => kernel(kind, node, dir),
            Kind::Fuse2fs => fuse::fuse2fs(programs, node, dir),
            Kind::Zfs => fuse::zfs(programs, node, dir),
            Kind::Bindfs => fuse::bindfs(programs, node, dir),
            Kind::Passthrough => fuse::passthrough(programs, node, dir),
            Kind::Memory(transport) => ours::memory(programs, dir, transport),
        }
    }
}

fn format(words: &[&str], node: &Path) -> Result<(), String> {
    run(command(words[0], Path::new("/")).args(&words[1..]).arg(node)).map(drop)
}

/// Mounts a file system of the kernel.
fn kernel(kind: &str, node: &Path, dir: &Path) -> Result<Mounted, String> {
    run(command("mount", Path::new("/")).args(["-t", kind]).arg(node).arg(dir))?;
    Ok(Mounted::plain(dir))
}
