//! `cargo xtask demo`: a pool is made, worked on with real input, its server killed under the work, its memory damaged
//! and mended, crashed for good, and recovered.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::Value;

use crate::suites::pool::Pool;
use crate::suites::process::{command as program, run};
use crate::suites::{build, compare, writer};
use crate::sweep::Scratch;
use crate::{install, paths};

/// Size of the pool, in MiB; its file is sparse.
const POOL_MIB: u64 = 4096;

/// Deaths of the server under one tar(1): as many as a keeper bears within a minute.
const KILLS: usize = 5;

/// Files written and fsynced before the server is killed for good.
const WRITTEN: usize = 500;

/// Installs what is missing, tells the story, and fails if any of it does not hold.
pub fn command() -> Result<ExitCode, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the demo needs root: it mounts a file system and may install packages".into());
    }
    println!("Preparing: packages, and keepfs built for release (the first time takes minutes)");
    install::demo()?;
    build::keepfs()?;
    let scratch = Scratch::new()?;
    println!("\nA pool");
    let mut pool = timed("create", &format!("{POOL_MIB} MiB in a file"), || {
        create(scratch.path())
    })?;
    timed("mount", "", || pool.mount(&[]))?;
    println!("\nWork");
    let copies = copy_in(pool.point())?;
    git(pool.point())?;
    sqlite(pool.point())?;
    timed("sync", "all of it is on the device", || sync(pool.point()))?;
    figures(&pool.status()?);
    println!("\nA server that dies");
    outlive(&mut pool)?;
    println!("\nDamage in memory");
    damage(&pool)?;
    println!("\nA crash");
    crash(&mut pool)?;
    println!("\nWhat is there");
    for (source, copy) in &copies {
        let entries = timed("compare", &format!("equal to {}", source.display()), || {
            compare::same(source, copy)
        })?;
        say(
            "",
            &format!("{entries} entries: names, modes, owners, links, xattrs, bytes"),
        );
    }
    git_fsck(pool.point())?;
    timed("unmount", "returns when all is durable", || pool.unmount())?;
    timed("check", "no findings", || pool.check())?;
    println!("\nIt held. The pool is gone again; for one of your own see README.md, \"Five minutes of real use\".");
    Ok(ExitCode::SUCCESS)
}

fn say(what: &str, words: &str) {
    println!("  {what:<9} {words}");
}

/// Does `action`, then says what was done and how long it took.
fn timed<T>(what: &str, words: &str, action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    let start = Instant::now();
    let value = action()?;
    say(what, &format!("{:7.2} s  {words}", start.elapsed().as_secs_f64()));
    Ok(value)
}

fn create(dir: &Path) -> Result<Pool, String> {
    // Faults may be injected into it, and its code repairs.
    Pool::create_with(dir, "demo", POOL_MIB, &["--test"])
}

fn sync(dir: &Path) -> Result<(), String> {
    run(program("sync", dir).args(["--file-system", "."])).map(drop)
}

/// Copies this project and the toolchain's files; returns the pairs to compare later.
fn copy_in(mount: &Path) -> Result<Vec<(PathBuf, PathBuf)>, String> {
    let project = (paths::root(), mount.join("project"));
    std::fs::create_dir(&project.1).map_err(|e| format!("{}: {e}", project.1.display()))?;
    let export = format!(
        "git ls-files -z | xargs -0 cp -a --parents -t '{}'",
        project.1.display()
    );
    timed("copy", "this project", || {
        run(program("sh", &project.0).args(["-c", &export]))
    })?;
    let mut copies = Vec::new();
    for (name, source) in [("toolchain", toolchain()?), ("sources", sources())] {
        if source.is_dir() {
            let copy = mount.join(name);
            let (files, mib) = size(&source)?;
            let words = format!("{files} files, {mib} MiB: {}", source.display());
            timed("copy", &words, || {
                run(program("cp", mount).arg("-a").arg(&source).arg(&copy))
            })?;
            copies.push((source, copy));
        }
    }
    Ok(copies)
}

/// The libraries of the Rust toolchain: large files.
fn toolchain() -> Result<PathBuf, String> {
    let sysroot = run(program("rustc", &paths::root()).args(["--print", "sysroot"]))?;
    Ok(Path::new(sysroot.trim()).join("lib"))
}

/// The sources of all crates that this machine has built: small files.
fn sources() -> PathBuf {
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    cargo.unwrap_or_default().join("registry/src")
}

/// Regular files and MiB below `dir`.
fn size(dir: &Path) -> Result<(usize, u64), String> {
    let sizes = run(program("find", dir).args([".", "-type", "f", "-printf", "%s\n"]))?;
    let bytes: u64 = sizes.lines().filter_map(|line| line.parse::<u64>().ok()).sum();
    Ok((sizes.lines().count(), bytes >> 20))
}

fn git(mount: &Path) -> Result<(), String> {
    let project = mount.join("project");
    let script = "git init -q . && git add -A && git -c user.name=demo -c user.email=demo@localhost commit -q -m all";
    timed("git", "init, add, commit", || {
        run(program("sh", &project).args(["-c", script]))
    })
    .map(drop)
}

fn git_fsck(mount: &Path) -> Result<(), String> {
    let project = mount.join("project");
    timed("git", "fsck", || {
        run(program("git", &project).args(["-c", "safe.directory=*", "fsck", "--full"]))
    })
    .map(drop)
}

fn sqlite(mount: &Path) -> Result<(), String> {
    let statements = "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO t SELECT i, 'row ' || i FROM n; PRAGMA integrity_check;";
    let answer = timed("sqlite", "200,000 rows", || {
        run(program("sqlite3", mount).args(["-bail", "rows.db", statements]))
    })?;
    if answer.trim() == "ok" {
        Ok(())
    } else {
        Err(format!("sqlite integrity_check: {answer}"))
    }
}

/// What `keepfs status --json` says of space and of what was written, as it stands there.
fn figures(status: &Value) {
    let mut lines = Vec::new();
    numbers("", status, &mut lines);
    say("status", "");
    for line in lines
        .iter()
        .filter(|line| line.starts_with("space.") || line.starts_with("written."))
    {
        say("", line);
    }
}

fn numbers(name: &str, value: &Value, lines: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (field, value) in fields {
                let name = if name.is_empty() {
                    field.clone()
                } else {
                    format!("{name}.{field}")
                };
                numbers(&name, value, lines);
            }
        }
        Value::Number(number) => lines.push(format!("{name} {number}")),
        _ => {}
    }
}

/// Kills the server again and again under tar(1), which must not notice.
fn outlive(pool: &mut Pool) -> Result<(), String> {
    let again = pool.point().join("again");
    std::fs::create_dir(&again).map_err(|e| format!("{}: {e}", again.display()))?;
    let script = format!(
        "tar -C '{}' -cf - . | tar -xf -",
        pool.point().join("project").display()
    );
    let start = Instant::now();
    let mut tar = program("sh", &again)
        .args(["-c", &script])
        .spawn()
        .map_err(|e| format!("tar: {e}"))?;
    let mut kills = 0;
    while kills < KILLS && tar.try_wait().map_err(|e| format!("tar: {e}"))?.is_none() {
        pool.kill_server()?;
        kills += 1;
    }
    let status = tar.wait().map_err(|e| format!("tar: {e}"))?;
    if !status.success() {
        return Err(format!("tar noticed that its file system's server died: {status}"));
    }
    let words = format!("tar copied this project while the server was killed {kills} times");
    say("tar", &format!("{:7.2} s  {words}", start.elapsed().as_secs_f64()));
    timed("compare", "equal, and nobody was told of an error", || {
        compare::same(&pool.point().join("project"), &again)
    })?;
    let last = &pool.status()?["keeper"]["last_death"];
    say("status", &format!("the last death: {last}"));
    Ok(())
}

/// Scribbles on the inode of a directory in the server's memory from another process; the server tells and mends it.
fn damage(pool: &Pool) -> Result<(), String> {
    let victim = std::fs::metadata(pool.point().join("project")).map_err(|e| format!("project: {e}"))?;
    let ino = std::os::unix::fs::MetadataExt::ino(&victim).to_string();
    let place = [
        "--kind",
        "inode",
        "--ino",
        &ino,
        "--offset",
        "8",
        "--length",
        "16",
        "--pattern",
        "random",
    ];
    let done = pool.ask(&["inject"], &[&["scribble"][..], &place].concat())?;
    say("inject", done.lines().next().unwrap_or_default());
    timed("scrub", "every block of metadata in memory was looked at", || {
        pool.ask(&["scrub", "start"], &["--arena", "--wait"])
    })?;
    let events = pool.ask(&["events"], &[])?;
    let told = events.lines().find(|line| line.contains("stray write"));
    say("events", told.ok_or("the stray write was not told")?);
    Ok(())
}

/// Kills the server while files are written and fsynced, remounts, and looks for each that was acknowledged.
fn crash(pool: &mut Pool) -> Result<(), String> {
    timed("mount", "again, without a keeper that starts another server", || {
        pool.unmount()?;
        pool.mount(&["keeper=off"])
    })?;
    let writer = writer::Writer::start(pool.point().join("written"));
    writer.wait_for(WRITTEN)?;
    pool.kill_server()?;
    let (acknowledged, error) = writer.join()?;
    say("kill -9", &format!("the server is dead; the writer was told: {error}"));
    let empty = std::fs::read_dir(pool.point()).is_ok();
    if empty {
        return Err("the dead mount looks like an empty directory".into());
    }
    timed("remount", "recovery", || pool.remount(&["keeper=off"]))?;
    writer::verify(&pool.point().join("written"), acknowledged)?;
    say(
        "fsynced",
        &format!("{acknowledged} files were acknowledged, {acknowledged} are there, byte for byte"),
    );
    Ok(())
}
