//! Installs what the tests, the demo and the benchmark need and the machine lacks: packages of Debian by apt-get (as
//! root only), test suites of the crate registry by `cargo install` into `target/tools`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::paths;

/// A program and the Debian package that brings it.
struct Need {
    package: &'static str,
    /// A program in `PATH`, or an absolute path.
    proof: &'static str,
}

const fn need(proof: &'static str, package: &'static str) -> Need {
    Need { package, proof }
}

/// What mounting and looking at a mount needs.
const MOUNT: &[Need] = &[
    need("fusermount3", "fuse3"),
    need("setfacl", "acl"),
    need("setfattr", "attr"),
    need("losetup", "mount"),
];

/// What pjdfstest needs beside itself: its run-time library of ACLs and a compiler's view of it.
const SUITES: &[Need] = &[
    need("/usr/include/sys/acl.h", "libacl1-dev"),
    need("pkg-config", "pkg-config"),
];

/// The real programs.
const PROGRAMS: &[Need] = &[
    need("git", "git"),
    need("rsync", "rsync"),
    need("sqlite3", "sqlite3"),
    need("tar", "tar"),
    need("/usr/lib/postgresql", "postgresql"),
];

/// The programs of the demo.
const DEMO: &[Need] = &[need("git", "git"), need("sqlite3", "sqlite3")];

/// File systems that stand beside Keepfs in the benchmark, and what profiles it.
const PEERS: &[Need] = &[
    need("mkfs.ext4", "e2fsprogs"),
    need("mkfs.xfs", "xfsprogs"),
    need("mkfs.btrfs", "btrfs-progs"),
    need("fuse2fs", "fuse2fs"),
    need("zfs-fuse", "zfs-fuse"),
    need("bindfs", "bindfs"),
    need("cc", "gcc"),
    need("pkg-config", "pkg-config"),
    need("perf", "linux-perf"),
    need("/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c", "libfuse3-dev"),
];

/// A guest with another processor.
const GUEST: &[Need] = &[
    need("qemu-system-x86_64", "qemu-system-x86"),
    need("/bin/busybox", "busybox-static"),
];
/// The package that depends on the kernel of the day.
const KERNEL: &str = "linux-image-amd64";

/// What makes a package, and a root of Debian to try it in.
const DEB: &[Need] = &[
    need("dpkg-shlibdeps", "dpkg-dev"),
    need("strip", "binutils"),
    need("debootstrap", "debootstrap"),
];

/// What boots such a root.
const SYSTEMD: &[Need] = &[need("systemd-nspawn", "systemd-container")];

/// Suites of the crate registry: name, version.
const CRATES: &[(&str, &str)] = &[("pjdfstest", "0.2.2"), ("fsx", "0.3.2")];

/// `cargo xtask install [mount|suites|programs|peers|all]`.
pub fn command(args: &[&str]) -> Result<ExitCode, String> {
    match args {
        ["mount"] => mount()?,
        ["suites"] => suites()?,
        ["programs"] => programs()?,
        ["peers"] => peers()?,
        [] | ["all"] => {
            packages(&[MOUNT, SUITES, PROGRAMS, PEERS])?;
            suites()?;
        }
        _ => return Err("what to install: mount, suites, programs, peers or all".into()),
    }
    println!("everything is installed");
    Ok(ExitCode::SUCCESS)
}

/// What a mount needs.
pub fn mount() -> Result<(), String> {
    packages(&[MOUNT])
}

/// pjdfstest and fsx.
pub fn suites() -> Result<(), String> {
    packages(&[MOUNT, SUITES])?;
    CRATES
        .iter()
        .try_for_each(|(name, version)| crate_binary(name, version))
}

/// The real programs.
pub fn programs() -> Result<(), String> {
    packages(&[MOUNT, PROGRAMS])
}

/// What the demo needs.
pub fn demo() -> Result<(), String> {
    packages(&[MOUNT, DEMO])
}

/// What a guest needs beside a kernel.
pub fn guest() -> Result<(), String> {
    packages(&[MOUNT, GUEST])
}

/// What makes and tries a package.
pub fn deb() -> Result<(), String> {
    packages(&[DEB])
}

/// What boots a root with systemd as its first process.
pub fn systemd() -> Result<(), String> {
    packages(&[DEB, SYSTEMD])
}

/// Debian's kernel, unpacked and not installed: the kernel, and where its modules lie. It is kept between runs.
pub fn guest_kernel() -> Result<(PathBuf, PathBuf), String> {
    let dir = paths::tools().join("guest");
    if let Some(found) = unpacked(&dir) {
        return Ok(found);
    }
    std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    println!("fetching {KERNEL}");
    let fetch = "set -e; cd \"$1\"; name=$(apt-cache depends \"$2\" | sed -n 's/ *Depends: \\(linux-image-.*\\)/\\1/p' | head -1); \
                 apt-get -q download \"$name\"; dpkg-deb -x \"$name\"_*.deb .; rm \"$name\"_*.deb";
    let mut command = Command::new("sh");
    command.args(["-c", fetch, "sh"]).arg(&dir).arg(KERNEL);
    finish("fetching a kernel for the guest", command)?;
    unpacked(&dir).ok_or_else(|| format!("{}: the package has no kernel", dir.display()))
}

fn unpacked(dir: &Path) -> Option<(PathBuf, PathBuf)> {
    let named = |part: &str, start: &str| {
        let mut entries = std::fs::read_dir(dir.join(part)).ok()?.flatten();
        let found = entries.find(|entry| entry.file_name().to_string_lossy().starts_with(start))?;
        Some(found.path())
    };
    Some((named("boot", "vmlinuz-")?, named("lib/modules", "")?))
}

/// The peers of the benchmark.
pub fn peers() -> Result<(), String> {
    packages(&[MOUNT, PEERS])
}

/// Whoever installs beside this one waits, and then finds it done.
fn alone() -> Result<File, String> {
    let path = paths::tools().join("installing");
    std::fs::create_dir_all(paths::tools())
        .and_then(|()| File::create(&path))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Installs the packages whose proof is missing. Errors name them when this is not root or there is no apt-get.
fn packages(needs: &[&[Need]]) -> Result<(), String> {
    let _alone = alone()?;
    let missing: Vec<&str> = needs
        .iter()
        .copied()
        .flatten()
        .filter(|need| !present(need.proof))
        .map(|need| need.package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !rustix::process::geteuid().is_root() {
        return Err(format!("missing: {list}. Install them as root: apt-get install {list}"));
    }
    if !present("apt-get") {
        return Err(format!(
            "missing: {list} (names of Debian's packages), and there is no apt-get to install them"
        ));
    }
    println!("installing {list}");
    apt(&["update"])?;
    let mut install = vec!["install", "--yes", "--no-install-recommends"];
    install.extend(&missing);
    apt(&install)
}

fn apt(args: &[&str]) -> Result<(), String> {
    let mut command = Command::new("apt-get");
    command
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive");
    finish("apt-get", command)
}

/// Builds a suite once; a version that is there already is kept.
fn crate_binary(name: &str, version: &str) -> Result<(), String> {
    let _alone = alone()?;
    let stamp = paths::tools().join(format!("{name}-{version}.installed"));
    if stamp.exists() && paths::tools().join("bin").join(name).exists() {
        return Ok(());
    }
    println!("installing {name} {version}");
    let mut command = Command::new("cargo");
    command
        // They wait for the file system; an optimized build only takes longer.
        .args(["install", "--quiet", "--locked", "--debug", "--root"])
        .arg(paths::tools());
    command
        .arg(format!("{name}@{version}"))
        .env("CARGO_TARGET_DIR", paths::tools().join("build"));
    finish("cargo install", command)?;
    std::fs::write(&stamp, "").map_err(|e| format!("{}: {e}", stamp.display()))
}

fn finish(what: &str, mut command: Command) -> Result<(), String> {
    let status = command.status().map_err(|e| format!("{what}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{what} failed: {status}"))
    }
}

/// Whether a program is in `PATH` (or where root's programs lie), or an absolute path exists.
pub fn present(proof: &str) -> bool {
    if proof.starts_with('/') {
        return Path::new(proof).exists();
    }
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .any(|dir| Path::new(dir).join(proof).exists())
}

#[cfg(test)]
mod tests;
