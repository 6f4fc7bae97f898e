//! git: clone of a repository of 20,000 files and 200 MB, fsck, checkout; the work tree equals the source's.

use std::path::Path;

use crate::install;
use crate::suites::process::{command, run as call};
use crate::suites::sample::{Size, make};
use crate::suites::{Bench, compare};

const SIZE: Size = Size {
    files: 20_000,
    bytes: 210_000_000,
};

/// A repository made beside, cloned onto the file system under test and, from there, once more within it.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::programs()?;
    let origin = bench.beside("origin")?;
    make(&origin, SIZE, 1)?;
    commit_all(&origin)?;
    let beside = bench.scratch.path().join("clone");
    clone(&origin, &beside)?;
    let place = bench.place("mnt", 2048, &[])?;
    let (first, second) = (place.dir().join("first"), place.dir().join("second"));
    clone(&origin, &first)?;
    clone(&first, &second)?;
    let mut entries = 0;
    for clone in [&first, &second] {
        git(clone, &["fsck", "--full", "--strict"])?;
        unchanged(clone)?;
        entries = same_work_tree(&beside, clone)?;
        if objects(clone)? != objects(&origin)? {
            return Err(format!("{} has other objects than its origin", clone.display()));
        }
    }
    rewrite(&first, &beside)?;
    same_work_tree(&beside, &first)?;
    place.close()?;
    Ok(format!(
        "git: 2 clones of {} files, fsck clean, {entries} entries equal",
        SIZE.files
    ))
}

fn git(dir: &Path, args: &[&str]) -> Result<String, String> {
    let mut git = command("git", dir);
    git.args([
        "-c",
        "user.name=Keepfs",
        "-c",
        "user.email=keepfs@localhost",
        "-c",
        "gc.auto=0",
    ]);
    git.args(["-c", "safe.directory=*", "-c", "core.fsync=all"]).args(args);
    git.env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0");
    git.env("GIT_AUTHOR_DATE", "2026-01-01T00:00:00Z")
        .env("GIT_COMMITTER_DATE", "2026-01-01T00:00:00Z");
    call(&mut git)
}

fn commit_all(dir: &Path) -> Result<(), String> {
    git(dir, &["init", "--quiet", "--initial-branch=main"])?;
    git(dir, &["add", "--all"])?;
    git(dir, &["commit", "--quiet", "--message=All of it"]).map(drop)
}

fn clone(from: &Path, to: &Path) -> Result<(), String> {
    let from = format!("file://{}", from.display());
    git(Path::new("/"), &["clone", "--quiet", &from, &to.to_string_lossy()]).map(drop)
}

/// Every object by name, so that nothing of the history is missing.
fn objects(dir: &Path) -> Result<String, String> {
    git(dir, &["rev-list", "--objects", "--all"])
}

fn unchanged(dir: &Path) -> Result<(), String> {
    let changes = git(dir, &["status", "--porcelain"])?;
    if changes.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: git status says\n{changes}", dir.display()))
    }
}

/// The same rewriting of many files on both sides: a branch without half of the tree, and back.
fn rewrite(here: &Path, beside: &Path) -> Result<(), String> {
    for dir in [here, beside] {
        git(dir, &["checkout", "--quiet", "-b", "half"])?;
        git(
            dir,
            &[
                "rm", "-r", "--quiet", "part000", "part002", "part004", "part006", "part008",
            ],
        )?;
        git(dir, &["commit", "--quiet", "--message=Half of it"])?;
        git(dir, &["checkout", "--quiet", "main"])?;
        git(dir, &["checkout", "--quiet", "half"])?;
        git(dir, &["gc", "--quiet", "--prune=now"])?;
        git(dir, &["fsck", "--full"])?;
        unchanged(dir)?;
    }
    Ok(())
}

/// Compares all but `.git`, whose index holds inode numbers and times.
fn same_work_tree(beside: &Path, clone: &Path) -> Result<usize, String> {
    let work = |dir: &Path| {
        let mut all = compare::manifest(dir)?;
        all.retain(|name, _| !name.starts_with("/.git"));
        all.remove("");
        Ok::<_, String>(all)
    };
    let (a, b) = (work(beside)?, work(clone)?);
    match compare::difference(&a, &b) {
        None => Ok(a.len()),
        Some(words) => Err(format!("the work trees differ: {words}")),
    }
}
