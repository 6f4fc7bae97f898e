//! The file systems of the benchmark: how each is made, mounted and ended.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use crate::suites::build;
use crate::suites::process::{command, run};

/// A file system on a device.
pub struct Peer {
    /// As the table says it.
    pub name: &'static str,
    /// Makes it on the device.
    pub make: fn(&Path) -> Result<(), String>,
    /// Mounts it.
    pub mount: fn(&Path, &Path) -> Result<Mounted, String>,
}

/// All of them; the first is what the others stand beside.
pub const PEERS: &[Peer] = &[
    Peer {
        name: "keepfs",
        make: keepfs_create,
        mount: keepfs_mount,
    },
    Peer {
        name: "ext4",
        make: mkfs,
        mount: ext4_mount,
    },
    Peer {
        name: "fuse2fs",
        make: mkfs,
        mount: fuse2fs_mount,
    },
    Peer {
        name: "bindfs on ext4",
        make: mkfs,
        mount: bindfs_mount,
    },
];

/// A mount, ended by [`Mounted::end`] or when dropped.
pub struct Mounted {
    /// Unmounted in this order.
    dirs: Vec<PathBuf>,
    /// `keepfs unmount` instead of umount(8).
    keepfs: Option<PathBuf>,
    /// A server in the foreground, which ends after its unmount.
    server: Option<Child>,
}

impl Mounted {
    /// Unmounts; returns when the server has ended and everything is on the device.
    pub fn end(&mut self) -> Result<(), String> {
        for dir in std::mem::take(&mut self.dirs) {
            match &self.keepfs {
                Some(keepfs) => run(command(keepfs, Path::new("/")).arg("unmount").arg(&dir))?,
                None => run(command("umount", Path::new("/")).arg(&dir))?,
            };
        }
        if let Some(mut server) = self.server.take() {
            server.wait().map_err(|e| format!("server: {e}"))?;
        }
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // An error here follows one that was reported.
        let _reported = self.end();
    }
}

fn keepfs_create(device: &Path) -> Result<(), String> {
    let keepfs = build::keepfs()?;
    run(command(keepfs, Path::new("/")).arg("create").arg(device).arg("--force")).map(drop)
}

fn keepfs_mount(device: &Path, dir: &Path) -> Result<Mounted, String> {
    let keepfs = build::keepfs()?;
    let status = command(&keepfs, Path::new("/"))
        .arg("mount")
        .arg(device)
        .arg(dir)
        .status();
    match status {
        Ok(status) if status.success() => Ok(Mounted {
            dirs: vec![dir.to_owned()],
            keepfs: Some(keepfs),
            server: None,
        }),
        other => Err(format!("keepfs mount: {other:?}")),
    }
}

fn mkfs(device: &Path) -> Result<(), String> {
    // Everything is initialised at once, so that nothing is written in the background later.
    let lazy = ["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
    run(command("mkfs.ext4", Path::new("/")).args(lazy).arg(device)).map(drop)
}

fn ext4_mount(device: &Path, dir: &Path) -> Result<Mounted, String> {
    run(command("mount", Path::new("/"))
        .args(["-t", "ext4"])
        .arg(device)
        .arg(dir))?;
    Ok(Mounted {
        dirs: vec![dir.to_owned()],
        keepfs: None,
        server: None,
    })
}

fn fuse2fs_mount(device: &Path, dir: &Path) -> Result<Mounted, String> {
    let mut fuse2fs = command("fuse2fs", Path::new("/"));
    fuse2fs.arg(device).arg(dir).args(["-f", "-o", "fakeroot"]);
    serve(fuse2fs, dir)
}

fn bindfs_mount(device: &Path, dir: &Path) -> Result<Mounted, String> {
    let below = dir.with_extension("below");
    std::fs::create_dir_all(&below).map_err(|e| format!("{}: {e}", below.display()))?;
    let mut lower = ext4_mount(device, &below)?;
    let mut bindfs = command("bindfs", Path::new("/"));
    bindfs.arg("-f").arg(&below).arg(dir);
    let mut upper = serve(bindfs, dir)?;
    upper.dirs.append(&mut lower.dirs);
    Ok(upper)
}

/// Starts a server in the foreground and returns when its mount is there.
fn serve(mut server: std::process::Command, dir: &Path) -> Result<Mounted, String> {
    let mut child = server
        .stdout(Stdio::null())
        .spawn()
        .map_err(|e| format!("{}: {e}", dir.display()))?;
    let mounted = || {
        std::fs::read_to_string("/proc/self/mountinfo").is_ok_and(|text| text.contains(&format!(" {} ", dir.display())))
    };
    while !mounted() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(format!("the server of {} ended: {status}", dir.display()));
        }
        std::thread::yield_now();
    }
    Ok(Mounted {
        dirs: vec![dir.to_owned()],
        keepfs: None,
        server: Some(child),
    })
}
