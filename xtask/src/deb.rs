//! `cargo xtask deb`: a package for Debian and its children, of the program built for release and what it brings by itself
//! (decision 0818).

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::suites::build;
use crate::suites::process::{command as program, run};
use crate::{install, paths};

/// What dpkg runs, and on which occasion.
const SCRIPTS: [(&str, &str); 3] = [
    ("postinst", include_str!("../../crates/keepfs/kit/deb/postinst")),
    ("prerm", include_str!("../../crates/keepfs/kit/deb/prerm")),
    ("postrm", include_str!("../../crates/keepfs/kit/deb/postrm")),
];
/// Texts of the project that an administrator reads.
const TEXTS: [&str; 4] = [
    "README.md",
    "docs/FAULTS.md",
    "docs/SPEC.md",
    "docs/schema/keepfs-1.schema.json",
];
/// Where the program will be.
const PROGRAM: &str = "usr/bin/keepfs";
const DOC: &str = "usr/share/doc/keepfs";

const USAGE: &str = "usage: cargo xtask deb [--revision N] [--output DIR]";

/// `cargo xtask deb [--revision N] [--output DIR]`; the last line says where the package is.
pub fn command(args: &[&str]) -> Result<ExitCode, String> {
    let (mut revision, mut folder) = (1, paths::target().join("debian"));
    let mut args = args.iter();
    while let Some(name) = args.next() {
        let value = args.next().ok_or(USAGE)?;
        match *name {
            "--revision" => revision = value.parse::<u32>().map_err(|_| USAGE)?,
            "--output" => folder = PathBuf::from(value),
            _ => return Err(USAGE.into()),
        }
    }
    println!("{}", package(&folder, revision)?.display());
    Ok(ExitCode::SUCCESS)
}

/// Makes the package in `folder`; where it is.
pub fn package(folder: &Path, revision: u32) -> Result<PathBuf, String> {
    install::deb()?;
    let keepfs = build::keepfs()?;
    let metadata = metadata()?;
    let version = format!("{}-{revision}", version(&metadata)?);
    let machine = run(program("dpkg", folder_of(folder)?).arg("--print-architecture"))?;
    let machine = machine.trim();
    let root = folder.join("root");
    empty(&root)?;
    furnish(&root, &keepfs, &metadata, &version)?;
    let control = control(&version, machine, &dependencies(folder, &root)?, size_kib(&root)?);
    write(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    for (name, text) in SCRIPTS {
        write(&root.join("DEBIAN").join(name), text.as_bytes(), 0o755)?;
    }
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
    run(program("sh", &root).args(["-c", sums]))?;
    let package = folder.join(format!("keepfs_{version}_{machine}.deb"));
    run(program("dpkg-deb", folder)
        .args(["--root-owner-group", "--build"])
        .arg(&root)
        .arg(&package))?;
    remove(&root)?;
    Ok(package)
}

/// All that will lie on the machine.
fn furnish(root: &Path, keepfs: &Path, metadata: &Value, version: &str) -> Result<(), String> {
    let target = root.join(PROGRAM);
    write(&target, b"", 0o755)?;
    // Names of functions stay: what a server wrote at its end is of use.
    run(program("strip", root)
        .arg("--strip-debug")
        .arg("-o")
        .arg(&target)
        .arg(keepfs))?;
    let links = ["install-links", "--prefix", "/usr", "--program"];
    run(program(keepfs, root)
        .args(links)
        .arg(Path::new("/").join(PROGRAM))
        .arg("--root")
        .arg(root))?;
    let doc = root.join(DOC);
    for text in TEXTS {
        let name = Path::new(text).file_name().ok_or("a text without a name")?;
        write(&doc.join(name), &read(text)?, 0o644)?;
    }
    write(&doc.join("changelog"), &read("CHANGELOG.md")?, 0o644)?;
    write(&doc.join("changelog.Debian"), changes(version).as_bytes(), 0o644)?;
    write(&doc.join("copyright"), copyright(metadata)?.as_bytes(), 0o644)?;
    let gzip = "find usr/share/man usr/share/doc -type f \\( -path '*/man/*' -o -name 'changelog*' -o -name '*.md' \\) \
                ! -name README.md -print0 | xargs -0 gzip -9 -n; chmod -R u=rwX,go=rX usr";
    run(program("sh", root).args(["-c", gzip])).map(drop)
}

/// What deb-control(5) wants.
fn control(version: &str, machine: &str, depends: &str, kib: u64) -> String {
    format!(
        "Package: keepfs\nVersion: {version}\nArchitecture: {machine}\nMaintainer: {}\nInstalled-Size: {kib}\n\
         Depends: {depends}, mount\nSection: admin\nPriority: optional\nHomepage: {}\n\
         Description: file system that watches its own metadata, in memory too\n \
         Every byte of metadata is changed through one single door that keeps an undo\n \
         record and a rolling checksum of each block, so that a stray write, a bit flip\n \
         or a bug of its own is seen before it reaches the device. After a crash it\n \
         comes back to a prefix of what was done that has everything synced.\n .\n \
         Pools lie in files or on block devices and are mounted through FUSE by mount(8)\n \
         or keepfs(8).\n",
        maintainer(),
        env!("CARGO_PKG_REPOSITORY"),
    )
}

/// Whoever makes the package, as Debian's tools ask for it.
fn maintainer() -> String {
    let asked = |name: &str, unless: &str| std::env::var(name).unwrap_or_else(|_| unless.to_owned());
    let (name, mail) = (
        asked("DEBFULLNAME", "The Keepfs authors"),
        asked("DEBEMAIL", "authors@keepfs.invalid"),
    );
    format!("{name} <{mail}>")
}

/// The libraries that the program is linked with, in the versions that have what it calls.
fn dependencies(folder: &Path, root: &Path) -> Result<String, String> {
    // dpkg-shlibdeps(1) reads a source package's control file, whatever stands in it.
    write(
        &folder.join("debian/control"),
        b"Source: keepfs\n\nPackage: keepfs\nArchitecture: any\n",
        0o644,
    )?;
    let told = run(program("dpkg-shlibdeps", folder).arg("-O").arg(root.join(PROGRAM)));
    remove(&folder.join("debian"))?;
    let told = told?;
    let depends = told.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends
        .map(str::to_owned)
        .ok_or_else(|| format!("dpkg-shlibdeps: {told}"))
}

fn size_kib(root: &Path) -> Result<u64, String> {
    let told = run(program("du", root).args(["-sk", "--apparent-size", "."]))?;
    let first = told.split_whitespace().next().and_then(|kib| kib.parse().ok());
    first.ok_or_else(|| format!("du: {told}"))
}

/// The packager's own changes, which deb-changelog(5) wants.
fn changes(version: &str) -> String {
    let seconds = std::env::var("SOURCE_DATE_EPOCH")
        .ok()
        .and_then(|text| text.parse().ok());
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let seconds: u64 = seconds.unwrap_or_else(|| since.map_or(0, |since| since.as_secs()));
    let date = Command::new("date")
        .args(["--utc", "--rfc-email", "--date", &format!("@{seconds}")])
        .output();
    let date = date.map(|date| String::from_utf8_lossy(&date.stdout).trim().to_owned());
    format!(
        "keepfs ({version}) unstable; urgency=medium\n\n  * Made by `cargo xtask deb`; what changed stands in changelog.gz.\n\n -- {}  {}\n",
        maintainer(),
        date.unwrap_or_default()
    )
}

/// The licences: of the project, and of each crate that is linked in.
fn copyright(metadata: &Value) -> Result<String, String> {
    let mit = String::from_utf8_lossy(&read("LICENSE-MIT")?).into_owned();
    let (_, mit) = mit.split_once("\n\n").ok_or("LICENSE-MIT has no paragraphs")?;
    let owner = mit.lines().next().unwrap_or_default();
    let terms = mit.split_once("\n\n").map_or(mit, |(_, terms)| terms);
    let terms: String = terms
        .lines()
        .map(|line| {
            if line.is_empty() {
                " .\n".to_owned()
            } else {
                format!(" {line}\n")
            }
        })
        .collect();
    let crates: String = linked(metadata)
        .iter()
        .map(|(name, licence)| format!(" {name}: {licence}\n"))
        .collect();
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: keepfs\nSource: {}\n\
         Comment:\n The program has code of these packages of crates.io, each under its licence:\n{crates}\n\
         Files: *\nCopyright: {}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{terms}\nLicense: Apache-2.0\n \
         On Debian systems its text is in /usr/share/common-licenses/Apache-2.0.\n",
        env!("CARGO_PKG_REPOSITORY"),
        owner.trim_start_matches("Copyright ").trim_start_matches("(c) "),
    ))
}

/// Each package of a registry that the program is linked with: name and version, licence.
fn linked(metadata: &Value) -> BTreeSet<(String, String)> {
    let of = |value: &Value, field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let nodes = metadata["resolve"]["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let ours = packages.iter().find(|package| package["name"] == "keepfs");
    let mut waiting: Vec<String> = ours.iter().map(|package| of(package, "id")).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        let node = nodes.iter().find(|node| node["id"] == id.as_str());
        let dependencies = node.and_then(|node| node["deps"].as_array());
        for dependency in dependencies.into_iter().flatten() {
            let kinds = dependency["dep_kinds"].as_array().map_or(&[][..], Vec::as_slice);
            if kinds.iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(of(dependency, "pkg"));
            }
        }
    }
    let foreign = packages
        .iter()
        .filter(|package| seen.contains(&of(package, "id")) && !package["source"].is_null());
    foreign
        .map(|package| {
            (
                format!("{} {}", of(package, "name"), of(package, "version")),
                of(package, "license"),
            )
        })
        .collect()
}

fn metadata() -> Result<Value, String> {
    let told = run(program("cargo", &paths::root()).args(["metadata", "--format-version", "1", "--locked"]))?;
    serde_json::from_str(&told).map_err(|e| format!("cargo metadata: {e}"))
}

fn version(metadata: &Value) -> Result<String, String> {
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    let ours = packages.iter().find(|package| package["name"] == "keepfs");
    let version = ours.and_then(|package| package["version"].as_str());
    version
        .map(str::to_owned)
        .ok_or_else(|| "cargo metadata does not name keepfs".into())
}

fn read(text: &str) -> Result<Vec<u8>, String> {
    fs::read(paths::root().join(text)).map_err(|e| format!("{text}: {e}"))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> Result<(), String> {
    let failed = |e| format!("{}: {e}", path.display());
    path.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)
}

/// The folder, made if it is not there.
fn folder_of(folder: &Path) -> Result<&Path, String> {
    fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    Ok(folder)
}

fn empty(folder: &Path) -> Result<(), String> {
    remove(folder)?;
    folder_of(folder).map(drop)
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {error}", folder.display())),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
