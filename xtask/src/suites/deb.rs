//! The package for Debian in a fresh root of it: installed, mounted, upgraded under a mount, removed, purged.
//!
//! The root is made by debootstrap(8) from this machine's own archive. What runs in it has mounts and processes of its own,
//! which end with it.

use std::fs;
use std::path::Path;

use super::Bench;
use super::process::{command, output, run as must};
use crate::deb;

/// What is done in the root; it answers as the guest of the suite `pkey` does.
const SCRIPT: &str = include_str!("deb/root.sh");
const ANSWER: &str = "KEEPFS ";
/// Seconds that it may take.
const PATIENCE: &str = "300";

/// Makes two versions and the root, and runs the script once.
pub fn run(bench: &Bench) -> Result<String, String> {
    if bench.dir.is_some() {
        return Err("runs in a root of its own only".into());
    }
    let made = bench.beside("packages")?;
    let packages = [deb::package(&made, 1)?, deb::package(&made, 2)?];
    let root = bench.beside("root")?;
    bootstrap(&root, &[])?;
    for (name, package) in ["first.deb", "second.deb"].iter().zip(&packages) {
        put(
            &fs::read(package).map_err(|e| format!("{}: {e}", package.display()))?,
            &root.join(name),
        )?;
    }
    put(SCRIPT.as_bytes(), &root.join("root.sh"))?;
    let mut inside = command("timeout", Path::new("/"));
    inside.args(["-k", "10", PATIENCE, "unshare", "--mount", "--propagation", "private"]);
    inside.args(["--pid", "--fork", "--kill-child", "sh", "-c"]);
    let enter = "mount --rbind /dev \"$1/dev\" && mount -t sysfs sysfs \"$1/sys\" && mount -t proc proc \"$1/proc\" && \
                 mount -t tmpfs tmpfs \"$1/run\" && exec chroot \"$1\" /bin/sh /root.sh";
    inside.args([enter, "sh"]).arg(&root);
    inside
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    let told = output(&mut inside)?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&told.stdout),
        String::from_utf8_lossy(&told.stderr)
    );
    let passed = judge(&said)?;
    Ok(format!(
        "deb: {passed} checks passed in a fresh root: installed, mounted, upgraded under a mount, removed, purged"
    ))
}

/// A root of this machine's release with these packages besides, from the archive that its apt uses.
pub fn bootstrap(root: &Path, packages: &[&str]) -> Result<(), String> {
    let format = [
        "indextargets",
        "--format",
        "$(REPO_URI) $(CODENAME) $(COMPONENT)",
        "Created-By: Packages",
    ];
    let archives = must(command("apt-get", Path::new("/")).args(format))?;
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let (archive, codename) =
        archive(&archives, &release).ok_or_else(|| format!("apt has no archive of this release:\n{archives}"))?;
    let mut debootstrap = command("debootstrap", Path::new("/"));
    debootstrap.arg("--variant=minbase");
    if !packages.is_empty() {
        debootstrap.arg(format!("--include={}", packages.join(",")));
    }
    must(debootstrap.arg(codename).arg(root).arg(archive)).map(drop)
}

/// The archive of `main` of the release that os-release(5) names, and its codename.
fn archive<'a>(archives: &'a str, release: &'a str) -> Option<(&'a str, &'a str)> {
    let codename = release
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))?;
    archives
        .lines()
        .find_map(|line| match line.split(' ').collect::<Vec<_>>()[..] {
            [archive, name, "main"] if name == codename => Some((archive, codename)),
            _ => None,
        })
}

/// Writes a file.
pub fn put(bytes: &[u8], to: &Path) -> Result<(), String> {
    fs::write(to, bytes).map_err(|e| format!("{}: {e}", to.display()))
}

/// How many of the answers are `ok`. Errors: another is not, or there is no end.
pub fn judge(told: &str) -> Result<usize, String> {
    // A console has words of others before and returns behind.
    let answers = told
        .lines()
        .filter_map(|line| Some(line.split_once(ANSWER)?.1.trim_end()));
    let answers: Vec<&str> = answers.collect();
    let failed: Vec<&&str> = answers.iter().filter(|answer| answer.starts_with("FAILED")).collect();
    if !failed.is_empty() || answers.last() != Some(&"end") {
        return Err(format!("in the root: {failed:?}\n{told}"));
    }
    Ok(answers.iter().filter(|answer| answer.starts_with("ok ")).count())
}

#[cfg(test)]
mod tests;
