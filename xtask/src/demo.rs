//! `cargo xtask demo`: a pool is made, worked on with real input, its server killed under the work, its memory damaged
//! and mended, crashed for good, and recovered.

use std::io::{IsTerminal, Write};
use std::os::unix::fs::MetadataExt;
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

/// Seconds between two lines about a build where they cannot replace one another.
const SECONDS_BETWEEN: u64 = 15;

/// Deaths of the server under one tar(1): as many as a keeper bears within a minute.
const KILLS: usize = 5;

/// Files written and fsynced before the server is killed for good.
const WRITTEN: usize = 500;

/// Installs what is missing, tells the story, and fails if any of it does not hold.
pub fn command() -> Result<ExitCode, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("the demo needs root: it mounts a file system and may install packages".into());
    }
    head(
        "Preparing",
        "Packages that the demo needs are looked for, then keepfs is built for release, which takes minutes the first time.",
    );
    install::demo()?;
    building()?;
    let scratch = Scratch::new()?;
    head(
        "A pool",
        "A pool is a file, or a block device, that holds one file system. A server of its own serves it to the kernel. The\n\
         times below are those of this machine, each for the whole of what stands beside it.",
    );
    let mut pool = timed(&format!("create one in a file that may grow to {POOL_MIB} MiB"), || {
        create(scratch.path())
    })?;
    timed("mount it: from here on any program can use it", || pool.mount(&[]))?;
    head(
        "Work",
        "Real files and programs: two trees are copied in and compared at the end, git and a database do what they do.",
    );
    let copies = copy_in(pool.point())?;
    git(pool.point())?;
    sqlite(pool.point())?;
    timed("sync: all of it is on the device, a power cut takes nothing", || {
        sync(pool.point())
    })?;
    figures(&pool.status()?);
    outlive(&mut pool)?;
    damage(&pool)?;
    crash(&mut pool)?;
    head(
        "What is there",
        "Each copy is compared with its original: names, modes, owners, links, attributes and every byte. An entry is a file, a\n\
         directory or a link.",
    );
    for (source, copy) in &copies {
        let same = || compare::same(source, copy);
        timed_with(same, |entries| {
            format!("{entries} entries, equal to {}", source.display())
        })?;
    }
    git_fsck(pool.point())?;
    timed("unmount: it returns when everything is durable", || pool.unmount())?;
    timed(
        "keepfs check, which walks all metadata of the pool: no findings",
        || pool.check(),
    )?;
    println!("\nIt held. The pool is gone again; for one of your own see README.md, \"Five minutes of real use\".");
    Ok(ExitCode::SUCCESS)
}

/// Builds keepfs under a line that tells how far that is: of a terminal one that changes, else one now and then.
fn building() -> Result<(), String> {
    let is_terminal = std::io::stdout().is_terminal();
    let mut told = 0;
    build::keepfs_told(&mut |at| {
        let line = format!(
            "{:4} s  {} of about {} packages: {}",
            at.seconds,
            at.done,
            at.all.max(at.done),
            at.last
        );
        if is_terminal {
            print!("\r  {line:<76}");
            // Nothing else can be done about it.
            drop(std::io::stdout().flush());
        } else if at.seconds >= told {
            told = at.seconds + SECONDS_BETWEEN;
            println!("  {line}");
        }
    })?;
    println!(
        "{}",
        if is_terminal {
            "\r  keepfs is built"
        } else {
            "  keepfs is built"
        }
    );
    Ok(())
}

/// A part of the story: what it is about, and in sentences what happens.
fn head(title: &str, sentences: &str) {
    println!("\n{title}");
    sentences.lines().for_each(|line| println!("  {line}"));
}

/// A number with its unit, and what it means.
fn number(number: impl std::fmt::Display, meaning: &str) {
    println!("  {number:>11}  {meaning}");
}

/// Does `action`, then says how long it took and what it was.
fn timed<T>(meaning: &str, action: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    timed_with(action, |_| meaning.to_owned())
}

/// The same, where the words depend on what came of it.
fn timed_with<T>(action: impl FnOnce() -> Result<T, String>, meaning: impl FnOnce(&T) -> String) -> Result<T, String> {
    let start = Instant::now();
    let value = action()?;
    number(format!("{:.2} s", start.elapsed().as_secs_f64()), &meaning(&value));
    Ok(value)
}

fn create(dir: &Path) -> Result<Pool, String> {
    // Faults may be injected into it, and its code repairs.
    Pool::create_with(dir, "demo", POOL_MIB << 20, &["--test"])
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
    timed("copy this project in", || {
        run(program("sh", &project.0).args(["-c", &export]))
    })?;
    let mut copies = Vec::new();
    for (name, source) in [("toolchain", toolchain()?), ("sources", sources())] {
        if source.is_dir() {
            let copy = mount.join(name);
            let (entries, mib) = size(&source)?;
            let words = format!("copy {entries} entries in, {mib} MiB: {}", source.display());
            timed(&words, || run(program("cp", mount).arg("-a").arg(&source).arg(&copy)))?;
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

/// Entries, `dir` itself among them, and MiB of files.
fn size(dir: &Path) -> Result<(usize, u64), String> {
    let sizes = run(program("find", dir).args([".", "-printf", "%y %s\n"]))?;
    let files = sizes
        .lines()
        .filter_map(|line| line.strip_prefix("f ")?.parse::<u64>().ok());
    Ok((sizes.lines().count(), files.sum::<u64>() >> 20))
}

fn git(mount: &Path) -> Result<(), String> {
    let project = mount.join("project");
    let script = "git init -q . && git add -A && git -c user.name=demo -c user.email=demo@localhost commit -q -m all";
    timed("git init, add and commit of it", || {
        run(program("sh", &project).args(["-c", script]))
    })
    .map(drop)
}

fn git_fsck(mount: &Path) -> Result<(), String> {
    let project = mount.join("project");
    timed("git fsck: the repository is whole", || {
        run(program("git", &project).args(["-c", "safe.directory=*", "fsck", "--full"]))
    })
    .map(drop)
}

fn sqlite(mount: &Path) -> Result<(), String> {
    let statements = "CREATE TABLE t (id INTEGER PRIMARY KEY, body TEXT);
        WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
        INSERT INTO t SELECT i, 'row ' || i FROM n; PRAGMA integrity_check;";
    let answer = timed("SQLite writes 200,000 rows and finds its database sound", || {
        run(program("sqlite3", mount).args(["-bail", "rows.db", statements]))
    })?;
    if answer.trim() == "ok" {
        Ok(())
    } else {
        Err(format!("sqlite integrity_check: {answer}"))
    }
}

/// What the work took, from `keepfs status --json`, and what each number means.
fn figures(status: &Value) {
    println!("  What that took, as `keepfs status` tells it:");
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let (space, written) = (&status["space"], &status["written"]);
    let of = |value: &Value| value.as_u64().unwrap_or_default();
    let class = |name: &str| of(&written["class_bytes"][name]);
    number(mib(of(&space["used_bytes"])), "of the pool are in use");
    number(mib(class("data")), "were written for what stands in files");
    number(
        mib(class("plog")),
        "to the log: what makes a sync durable with one flush, and is replayed after a crash",
    );
    number(
        mib(class("metadata") + class("map") + class("superblock")),
        "where metadata lives in the end, all of it twice, so that one bad sector costs nothing",
    );
    number(
        of(&written["flushes"]),
        "times the device was asked to make durable what it had",
    );
    number(
        of(&written["transactions"]),
        "changes of metadata: each was logged, summed and held against 37 equations before it counted",
    );
}

/// Kills the server again and again under tar(1), which must not notice.
fn outlive(pool: &mut Pool) -> Result<(), String> {
    head(
        "A server that dies",
        "tar copies this project inside the pool, and meanwhile the server is killed (SIGKILL) again and again. Each time its\n\
         keeper starts the next one, which takes up the memory that the dead one left; tar waits a moment and notices nothing.",
    );
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
    let took = format!("{:.2} s", start.elapsed().as_secs_f64());
    number(took, "tar, from its start to its end, with no error");
    number(kills, "times the server was killed under it");
    let pause = &pool.status()?["keeper"]["last_death"]["pause_ms"];
    number(
        format!("{pause} ms"),
        "that programs waited for the last of the new servers",
    );
    let same = || compare::same(&pool.point().join("project"), &again);
    timed_with(same, |entries| {
        format!("tar's copy is compared with what it copied: {entries} entries, all equal")
    })?;
    Ok(())
}

/// Scribbles on the inode of a directory in the server's memory from another process; the server tells and mends it.
fn damage(pool: &Pool) -> Result<(), String> {
    head(
        "Damage in memory",
        "16 bytes of a directory's inode (its owner, its link count) are overwritten in the server's memory, from outside and\n\
         behind the file system's back, as a bug or a bad chip would. Then all metadata in memory is looked at.",
    );
    let project = pool.point().join("project");
    let owner = || {
        let found = std::fs::metadata(&project).map_err(|e| format!("project: {e}"))?;
        Ok::<_, String>((found.ino(), found.uid(), found.gid(), found.nlink()))
    };
    let before = owner()?;
    let ino = before.0.to_string();
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
    pool.ask(&["inject"], &[&["scribble"][..], &place].concat())?;
    timed(
        "keepfs scrub: every block of metadata in memory was held against its sum",
        || pool.ask(&["scrub", "start"], &["--arena", "--wait"]),
    )?;
    let told = pool.ask(&["events"], &["--json"])?;
    let told: Value = serde_json::from_str(&told).map_err(|e| format!("keepfs events --json: {e}"))?;
    let found = told["history"].as_array().into_iter().flatten();
    let found = found.rev().find(|event| event["verdict"] == "stray write");
    let found = found.ok_or("the stray write was not told")?;
    number(
        format!("{} bytes", found["length"]),
        "were found changed: a stray write, says `keepfs events`",
    );
    number(
        format!("{} ms", found["window_ms"]),
        "before that they had still been right, so it happened since",
    );
    let done = found["done"].as_str().unwrap_or("not said to be mended");
    println!(
        "  It was {done}: each block has a line of parity in memory, of which what was overwritten is computed anew."
    );
    // The kernel believes what it has cached.
    std::fs::write("/proc/sys/vm/drop_caches", "2").map_err(|e| format!("drop_caches: {e}"))?;
    match owner()? == before {
        true => println!("  The directory is asked for once more: owner and links are what they were."),
        false => return Err("the directory is not what it was".into()),
    }
    Ok(())
}

/// Kills the server while files are written and fsynced, remounts, and looks for each that was acknowledged.
fn crash(pool: &mut Pool) -> Result<(), String> {
    head(
        "A crash",
        "The pool is mounted without a keeper, a program writes files and calls fsync after each, and the server is killed for\n\
         good in the middle. Then the pool is mounted again: each file whose fsync had returned must be there.",
    );
    timed("unmount, and mount again without a keeper", || {
        pool.unmount()?;
        pool.mount(&["keeper=off"])
    })?;
    let writer = writer::Writer::start(pool.point().join("written"));
    writer.wait_for(WRITTEN)?;
    pool.kill_server()?;
    let (acknowledged, error) = writer.join()?;
    println!("  The server is dead, and its mount gives errors. The program was told: {error}.");
    let empty = std::fs::read_dir(pool.point()).is_ok();
    if empty {
        return Err("the dead mount looks like an empty directory".into());
    }
    timed(
        "mount again: the log is replayed, no check of the whole pool is needed",
        || pool.remount(&["keeper=off"]),
    )?;
    writer::verify(&pool.point().join("written"), acknowledged)?;
    number(
        acknowledged,
        "files whose fsync had returned; all of them are there, byte for byte",
    );
    Ok(())
}
