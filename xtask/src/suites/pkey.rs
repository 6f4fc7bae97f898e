//! Guard `pkey` for real: the tests of the guard and a mount, in a guest whose processor has memory protection keys.
//!
//! The guest is QEMU's own processor (TCG, so that it runs everywhere and its times mean little), Debian's kernel, and an
//! initial file system that holds the programs under test, their libraries, and `guest.sh` as init.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Bench;
use super::build;
use super::process::{command, output, run as must};
use crate::install;

/// What the guest does.
const INIT: &str = include_str!("pkey/guest.sh");
/// How its answers begin.
const ANSWER: &str = "KEEPFS ";
/// Seconds that the guest may take.
const PATIENCE: &str = "600";
/// Modules of the kernel that it loads.
const MODULE: &str = "kernel/fs/fuse/fuse.ko";

/// Runs the guest once; every line of its answers that is not `ok` or a figure is a failure.
pub fn run(bench: &Bench) -> Result<String, String> {
    if bench.dir.is_some() {
        return Err("runs in a guest of its own only".into());
    }
    install::guest()?;
    let root = bench.beside("guest")?;
    let kernel = furnish(&root)?;
    let archive = bench.scratch.path().join("guest.cpio");
    let pack = "cd \"$1\" && find . | busybox cpio -o -H newc > \"$2\"";
    must(Command::new("sh").args(["-c", pack, "sh"]).arg(&root).arg(&archive))?;
    let told = output(&mut guest(&kernel, &archive))?;
    judge(&String::from_utf8_lossy(&told.stdout))
}

/// Lays out the guest's files; where the kernel is.
fn furnish(root: &Path) -> Result<PathBuf, String> {
    let (kernel, modules) = install::guest_kernel()?;
    let programs = [
        ("keepfs", build::keepfs()?),
        ("door", build::release("keepfs-lab", "door")?),
        ("store", build::test("keepfs-store", "store")?),
        ("busybox", "/bin/busybox".into()),
    ];
    for (name, program) in &programs {
        put(program, &root.join("bin").join(name))?;
        for library in libraries(program)? {
            put(&library, &root.join(library.strip_prefix("/").unwrap_or(&library)))?;
        }
    }
    put(&modules.join(MODULE), &root.join("fuse.ko"))?;
    let init = root.join("init");
    fs::write(&init, INIT).map_err(|e| format!("{}: {e}", init.display()))?;
    let runnable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&init, runnable).map_err(|e| format!("{}: {e}", init.display()))?;
    Ok(kernel)
}

/// Copies a file, links followed.
fn put(from: &Path, to: &Path) -> Result<(), String> {
    let failed = |e| format!("{} to {}: {e}", from.display(), to.display());
    to.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::copy(from, to).map(drop).map_err(failed)
}

/// The shared libraries that a program is loaded with, by ldd(1); none of a static one.
fn libraries(program: &Path) -> Result<Vec<PathBuf>, String> {
    let told = output(Command::new("ldd").arg(program))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let paths = text.split_whitespace().filter(|word| word.starts_with('/'));
    Ok(paths
        .map(|path| PathBuf::from(path.trim_end_matches(':')))
        .filter(|path| path != program)
        .collect())
}

fn guest(kernel: &Path, archive: &Path) -> Command {
    let mut guest = command("timeout", Path::new("/"));
    guest.args(["-k", "10", PATIENCE, "qemu-system-x86_64"]);
    guest.args([
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        "2",
        "-m",
        "1024",
        "-machine",
        "q35",
    ]);
    guest.args(["-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot"]);
    guest.arg("-kernel").arg(kernel).arg("-initrd").arg(archive);
    guest.args(["-append", "console=ttyS0 panic=-1 quiet"]);
    guest
}

/// What the guest's answers come to.
fn judge(told: &str) -> Result<String, String> {
    let answers = told.lines().filter_map(|line| line.trim_end().strip_prefix(ANSWER));
    let answers: Vec<&str> = answers.collect();
    let failed: Vec<&&str> = answers.iter().filter(|answer| answer.starts_with("FAILED")).collect();
    if !failed.is_empty() || answers.last() != Some(&"end") {
        return Err(format!("in the guest: {failed:?}\n{told}"));
    }
    let passed = answers.iter().filter(|answer| answer.starts_with("ok ")).count();
    let figures: Vec<&str> = answers
        .iter()
        .filter_map(|answer| answer.strip_prefix("figure "))
        .collect();
    Ok(format!(
        "pkey: {passed} checks passed in a guest with protection keys; a put of 8 bytes under crc, emulated, so only beside one another: {}",
        figures.join(", ")
    ))
}

#[cfg(test)]
mod tests;
