//! Other people's FUSE servers.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::mounted::{Mounted, is_mounted};
use super::super::programs::Programs;
use super::super::work::server;
use super::kernel;
use xtask::suites::process::{command, run};

/// How long a server may take to mount.
const COMING: Duration = Duration::from_secs(30);

/// The pool of zfs-fuse.
const ZPOOL: &str = "xtaskbench";

/// fuse2fs on an ext4.
pub fn fuse2fs(programs: &Programs, node: &Path, dir: &Path) -> Result<Mounted, String> {
    let mut fuse2fs = server("fuse2fs", programs.scratch());
    fuse2fs.arg(node).arg(dir).args(["-f", "-o", "fakeroot"]);
    serve(fuse2fs, dir)
}

/// bindfs over an ext4 of the kernel.
pub fn bindfs(programs: &Programs, node: &Path, dir: &Path) -> Result<Mounted, String> {
    over_ext4(node, dir, |below| {
        let mut bindfs = server("bindfs", programs.scratch());
        bindfs.arg("-f").arg(below).arg(dir);
        bindfs
    })
}

/// passthrough_ll of libfuse's examples over an ext4 of the kernel.
pub fn passthrough(programs: &Programs, node: &Path, dir: &Path) -> Result<Mounted, String> {
    let program = programs.passthrough()?;
    over_ext4(node, dir, |below| {
        let mut passthrough = server(program, programs.scratch());
        let options = format!("source={},allow_other,default_permissions,xattr", below.display());
        passthrough.args(["-f", "-o", &options]).arg(dir);
        passthrough
    })
}

fn over_ext4(node: &Path, dir: &Path, upper: impl FnOnce(&Path) -> Command) -> Result<Mounted, String> {
    let below = dir.with_extension("below");
    std::fs::create_dir_all(&below).map_err(|e| format!("{}: {e}", below.display()))?;
    let lower = kernel("ext4", node, &below)?;
    Ok(serve(upper(&below), dir)?.over(lower))
}

/// A pool of zfs-fuse, with a server of its own.
pub fn zfs(programs: &Programs, node: &Path, dir: &Path) -> Result<Mounted, String> {
    if run(command("zpool", Path::new("/")).arg("list")).is_ok() {
        return Err("a zfs-fuse runs on this machine already".into());
    }
    let pid = programs.scratch().join("zfs.pid");
    let mut daemon = server("zfs-fuse", programs.scratch());
    daemon.args(["--no-daemon", "--no-kstat-mount", "-p"]).arg(pid);
    let child = daemon
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| format!("zfs-fuse: {e}"))?;
    let mounted = Mounted::zpool(dir, ZPOOL).served_by(child);
    let end = Instant::now() + COMING;
    while run(command("zpool", Path::new("/")).arg("list")).is_err() {
        if Instant::now() > end {
            return Err("zfs-fuse did not come up".into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut create = command("zpool", Path::new("/"));
    create.args(["create", "-f", "-o", "cachefile=none", "-m"]).arg(dir);
    run(create.arg(ZPOOL).arg(node))?;
    match is_mounted(dir) {
        true => Ok(mounted),
        false => Err("zfs-fuse made a pool and did not mount it".into()),
    }
}

/// Starts a server in the foreground and returns when its mount is there.
fn serve(mut server: Command, dir: &Path) -> Result<Mounted, String> {
    let shown = format!("{server:?}");
    let child = server.stdout(Stdio::null()).spawn();
    let mut child = child.map_err(|e| format!("{shown}: {e}"))?;
    let end = Instant::now() + COMING;
    while !is_mounted(dir) {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("{shown} ended: {status}"));
        }
        if Instant::now() > end {
            super::super::work::end_within(&mut child, Duration::ZERO);
            return Err(format!("{shown} did not mount"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(Mounted::plain(dir).served_by(child))
}
