//! Keepfs where systemd(1) is the first process: fstab(5), a mount unit, the scrub timer, and a shutdown with pools in use.
//!
//! The package for Debian is installed in a fresh root, which systemd-nspawn(1) boots once. What it says it says on its console.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::Bench;
use super::deb::{bootstrap, judge, put};
use super::pool::Pool;
use super::process::{command, output, run as must};
use crate::{deb, install};

/// What the first process runs when all is up; then the machine goes down.
const SCRIPT: &str = include_str!("systemd/trial.sh");
const TRIAL: &str = include_str!("systemd/trial.service");
/// A container has no nodes of loop devices.
const NODES: &str = include_str!("systemd/nodes.service");
/// The mount unit of the manual page.
const MOUNT: &str = include_str!("systemd/mnt-music.mount");
const FSTAB: &str = "/var/lib/photos.pool  /mnt/photos  keepfs  noatime  0  2\n";
/// Seconds that it may take from the boot to the end.
const PATIENCE: &str = "240";
/// Units that an administrator enables.
const ENABLED: [&str; 4] = [
    "trial.service",
    "nodes.service",
    "mnt-music.mount",
    "keepfs-scrub@mnt-photos.timer",
];

/// Boots the root once, and looks at both pools when it is down.
pub fn run(bench: &Bench) -> Result<String, String> {
    if bench.dir.is_some() {
        return Err("runs in a root of its own only".into());
    }
    install::systemd()?;
    let made = bench.beside("packages")?;
    let package = deb::package(&made, 1)?;
    let root = bench.beside("root")?;
    bootstrap(&root, &["systemd-sysv", "dbus"])?;
    let package = fs::read(&package).map_err(|e| format!("{}: {e}", package.display()))?;
    put(&package, &root.join("keepfs.deb"))?;
    put(SCRIPT.as_bytes(), &root.join("trial.sh"))?;
    put(FSTAB.as_bytes(), &root.join("etc/fstab"))?;
    let units = root.join("etc/systemd/system");
    for (name, text) in [
        ("trial.service", TRIAL),
        ("nodes.service", NODES),
        ("mnt-music.mount", MOUNT),
    ] {
        put(text.as_bytes(), &units.join(name))?;
    }
    inside(&root, &["dpkg", "-i", "/keepfs.deb"])?;
    inside(&root, &[&["systemctl", "enable"][..], &ENABLED].concat())?;
    let pools = ["photos", "music"].map(|name| Pool::create(&root.join("var/lib"), name, 64));
    let told = output(&mut boot(&root))?;
    let told = format!(
        "{}{}",
        String::from_utf8_lossy(&told.stdout),
        String::from_utf8_lossy(&told.stderr)
    );
    let passed = judge(&told)?;
    for pool in pools {
        pool?.check_with(&["--data"])?;
    }
    Ok(format!(
        "systemd: {passed} checks passed under systemd as the first process; both pools were closed by its shutdown"
    ))
}

fn inside(root: &Path, words: &[&str]) -> Result<(), String> {
    must(command("chroot", Path::new("/")).arg(root).args(words)).map(drop)
}

/// The container: processes, mounts and a /run of its own, the kernel's FUSE and loop devices of this machine.
fn boot(root: &Path) -> Command {
    let mut boot = command("timeout", Path::new("/"));
    boot.args([
        "-k",
        "10",
        PATIENCE,
        "unshare",
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-c",
    ]);
    boot.args([
        "mount -t tmpfs tmpfs /run && exec systemd-nspawn --quiet --directory \"$1\" --register=no --keep-unit \
         --console=read-only --bind=/dev/fuse --bind=/dev/loop-control --capability=all --boot",
        "sh",
    ]);
    boot.arg(root);
    boot
}
