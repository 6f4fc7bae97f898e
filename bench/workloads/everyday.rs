//! What a person does with files (BARS P-10): programs of every day on one tree, each a job that is timed as a whole.
//!
//! The tree and its archive lie in the working directory, beside the file system that is measured, and are made once.

use crate::figures::Done;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::suites::process::{command, run};
use xtask::suites::programs::postgres::cluster::Cluster;
use xtask::suites::sample::{Size, make};

/// The tree at its full size.
const SIZE: Size = Size {
    files: 8_000,
    bytes: 100_000_000,
};
/// The archive's name.
const ARCHIVE: &str = "everyday.tar";
/// pgbench's scale: 100,000 accounts each.
const SCALE: usize = 5;
/// Transactions of each of the four clients.
const TRANSACTIONS: usize = 500;

/// A program as it is called in the directory that is measured.
struct Program {
    name: &'static str,
    /// For sh(1); `$1` is the archive.
    words: &'static str,
}

const PROGRAMS: [Program; 10] = [
    Program {
        name: "untar",
        words: "mkdir tree && tar -xf \"$1\" -C tree",
    },
    Program {
        name: "cp",
        words: "cp -a tree copy",
    },
    Program {
        name: "ls",
        words: "ls -lR copy >/dev/null",
    },
    Program {
        name: "find",
        words: "find copy -type f -size +1k >/dev/null",
    },
    Program {
        name: "grep",
        words: "grep -r 'no such words' copy; test $? = 1",
    },
    // Nothing goes on behind a job.
    Program {
        name: "git-commit",
        words: "cd tree && git init -q && git config gc.auto 0 && git config maintenance.auto false && git add -A && git commit -qm all",
    },
    Program {
        name: "git-status",
        words: "cd tree && git status --porcelain",
    },
    Program {
        name: "rsync",
        words: "rsync -a copy/ synced/",
    },
    Program {
        name: "rsync-again",
        words: "rsync -a copy/ synced/",
    },
    Program {
        name: "rm",
        words: "rm -rf copy",
    },
];

/// Whether this is one of the jobs here; what they are made of is [`prepare`]d before.
pub fn is_one(workload: &str) -> bool {
    matches!(workload, "cargo" | "pgbench" | "ls-cold" | "git-status-cold")
        || PROGRAMS.iter().any(|program| program.name == workload)
}

/// Makes the archive, unless it is there.
pub fn prepare(percent: Option<usize>) -> io::Result<Done> {
    prepare_in(&std::env::current_dir()?, percent)?;
    Ok(Done::default())
}

/// The archive in `dir`, made unless it is there.
pub fn prepare_in(dir: &Path, percent: Option<usize>) -> io::Result<PathBuf> {
    let archive = dir.join(ARCHIVE);
    if archive.exists() {
        return Ok(archive);
    }
    let beside = archive.with_extension("");
    let part = |all: u64| (all * percent.unwrap_or(100) as u64 / 100).max(64);
    let size = Size {
        files: part(SIZE.files),
        bytes: part(SIZE.bytes),
    };
    if beside.exists() {
        fs::remove_dir_all(&beside)?;
    }
    make(&beside, size, 1).map_err(io::Error::other)?;
    let unfinished = archive.with_extension("part");
    let mut tar = command("tar", &beside);
    finish(tar.arg("-cf").arg(&unfinished).arg("."))?;
    fs::rename(&unfinished, &archive)?;
    Ok(archive)
}

/// Makes the cluster of `pgbench`, with its tables.
pub fn prepare_pgbench(dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    let cluster = Cluster::create(&beside_pgbench()?, dir).map_err(io::Error::other)?;
    let scale = (SCALE * percent.unwrap_or(100) / 100).max(1).to_string();
    let made = cluster
        .start()
        .and_then(|()| cluster.pgbench(&["--initialize", "--quiet", "--scale", &scale]));
    made.and(cluster.stop()).map_err(io::Error::other)?;
    Ok(Done::default())
}

/// Does a job in `dir` and times it; whoever called it syncs.
pub fn job(workload: &str, dir: &Path, percent: Option<usize>) -> io::Result<Done> {
    match workload {
        "cargo" => timed(|| cargo(&dir.join("project"))),
        "pgbench" => timed(|| pgbench(dir, percent)),
        _ => program(workload, dir, &std::env::current_dir()?.join(ARCHIVE)),
    }
}

/// One of [`PROGRAMS`]; what is named `…-cold` is the same on a file system that was just mounted.
pub fn program(workload: &str, dir: &Path, archive: &Path) -> io::Result<Done> {
    let name = workload.strip_suffix("-cold").unwrap_or(workload);
    let program = PROGRAMS.iter().find(|program| program.name == name);
    let program = program.ok_or_else(|| io::Error::other(format!("no program {workload}")))?;
    let words = match workload {
        // What was copied is gone by then.
        "ls-cold" => "ls -lR tree >/dev/null",
        _ => program.words,
    };
    let mut sh = command("sh", dir);
    sh.args(["-c", words, "sh"]).arg(archive);
    timed(|| finish(as_nobody_in_particular(&mut sh)))
}

/// A job that is timed as a whole.
fn timed(job: impl FnOnce() -> io::Result<()>) -> io::Result<Done> {
    let mut done = Done {
        whole: true,
        ..Done::default()
    };
    let start = std::time::Instant::now();
    done.timed(job)?;
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}

/// Builds a small program that depends on nothing.
fn cargo(project: &Path) -> io::Result<()> {
    fs::create_dir_all(project.join("src"))?;
    let manifest = "[package]\nname = \"small\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(project.join("Cargo.toml"), manifest)?;
    fs::write(project.join("src/main.rs"), "fn main() { println!(\"small\"); }\n")?;
    let mut cargo = command("cargo", project);
    cargo.args(["build", "--offline", "--quiet"]);
    finish(
        cargo
            .env("CARGO_TARGET_DIR", project.join("target"))
            .env_remove("RUSTFLAGS"),
    )
}

/// Four clients that do a number of transactions; the cluster is started before and stopped behind, which is timed, too.
fn pgbench(dir: &Path, percent: Option<usize>) -> io::Result<()> {
    let each = (TRANSACTIONS * percent.unwrap_or(100) / 100).max(10).to_string();
    let cluster = Cluster::of(&beside_pgbench()?, dir).map_err(io::Error::other)?;
    let worked = cluster
        .start()
        .and_then(|()| cluster.pgbench(&["--no-vacuum", "--client=4", "--jobs=2", "--transactions", &each]));
    worked.and(cluster.stop()).map_err(io::Error::other)
}

/// Without anybody's settings of git.
fn as_nobody_in_particular(command: &mut Command) -> &mut Command {
    let who = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"];
    let mail = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"];
    command
        .envs(who.map(|name| (name, "Keepfs")))
        .envs(mail.map(|name| (name, "keepfs@localhost")))
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
}

/// Where log and socket of the cluster lie.
fn beside_pgbench() -> io::Result<PathBuf> {
    let dir = std::env::current_dir()?.join("everyday-pgbench");
    fs::create_dir_all(&dir)?;
    Ok(dir)
}

fn finish(command: &mut Command) -> io::Result<()> {
    run(command).map(drop).map_err(io::Error::other)
}
