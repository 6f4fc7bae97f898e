//! tar: a round trip with xattrs, ACLs, links, device nodes, FIFOs and sparse files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::install;
use crate::suites::process::{command, run as call};
use crate::suites::sample::{Size, make};
use crate::suites::{Bench, compare};

const SIZE: Size = Size {
    files: 2_000,
    bytes: 30_000_000,
};

/// Beside → archive → mount → archive on the mount → beside again; every stop has the same tree.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::programs()?;
    let source = bench.beside("source")?;
    make(&source, SIZE, 3)?;
    decorate(&source)?;
    let place = bench.place("mnt", 1024, &[])?;
    let (here, back) = (place.dir().join("here"), bench.beside("back")?);
    fs::create_dir(&here).map_err(|e| format!("{}: {e}", here.display()))?;
    let archive = bench.scratch.path().join("source.tar");
    pack(&source, &archive)?;
    unpack(&archive, &here)?;
    let entries = compare::same(&source, &here)?;
    let archive = place.dir().join("here.tar");
    pack(&here, &archive)?;
    unpack(&archive, &back)?;
    compare::same(&source, &back)?;
    place.close()?;
    Ok(format!(
        "tar: there and back with xattrs and ACLs, {entries} entries equal"
    ))
}

fn pack(dir: &Path, archive: &Path) -> Result<(), String> {
    let mut tar = command("tar", dir);
    tar.args([
        "--create",
        "--sparse",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "--numeric-owner",
        "--sort=name",
    ]);
    call(tar.arg("--file").arg(archive).arg(".")).map(drop)
}

fn unpack(archive: &Path, dir: &Path) -> Result<(), String> {
    let mut tar = command("tar", dir);
    tar.args([
        "--extract",
        "--xattrs",
        "--xattrs-include=*",
        "--acls",
        "--numeric-owner",
        "--preserve-permissions",
    ]);
    call(tar.arg("--file").arg(archive)).map(drop)
}

/// Puts what a tree can have beside plain files into the new directory `odd` of `root`.
pub fn decorate(root: &Path) -> Result<(), String> {
    let odd = root.join("odd");
    fs::create_dir(&odd).map_err(|e| format!("{}: {e}", odd.display()))?;
    for name in ["plain", "attributed", "listed", "owned", "setuid", "space and \u{fc}"] {
        fs::write(odd.join(name), format!("this is {name}\n")).map_err(|e| format!("{name}: {e}"))?;
    }
    let sparse = fs::File::create(odd.join("sparse")).map_err(|e| e.to_string())?;
    sparse.set_len(3 << 20).map_err(|e| e.to_string())?;
    symlink("nowhere/at/all", odd.join("dangling")).map_err(|e| e.to_string())?;
    fs::hard_link(odd.join("plain"), odd.join("second name")).map_err(|e| e.to_string())?;
    let long = "v".repeat(1500);
    for args in [
        &["setfattr", "-n", "user.colour", "-v", "blue", "attributed"][..],
        &["setfattr", "-n", "user.long", "-v", &long, "attributed"],
        &["setfattr", "-n", "trusted.keep", "-v", "yes", "attributed"],
        &["setfacl", "-m", "u:1234:rw,g:5678:r", "listed"],
        &["mkdir", "inherits"],
        &["setfacl", "-d", "-m", "u:1234:rwx,g::rx,o::-", "inherits"],
        &["chown", "--no-dereference", "1234:5678", "owned", "dangling"],
        &["chmod", "4751", "setuid"],
        &["chmod", "3777", "inherits"],
        &["mkfifo", "fifo"],
        &["mknod", "null", "c", "1", "3"],
        &["mknod", "block", "b", "7", "200"],
    ] {
        call(command(args[0], &odd).args(&args[1..]))?;
    }
    Ok(())
}
