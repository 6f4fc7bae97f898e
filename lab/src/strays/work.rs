//! What runs on the mount meanwhile: real programs, and what each of them was promised.

use super::product::{Ran, call};
use super::tree::Look;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Rows of a batch of SQLite, a transaction each batch.
const ROWS: usize = 40;
const BATCHES: usize = 3;

/// A tree on the mount and what it must be.
pub struct Made {
    /// Where.
    pub dir: PathBuf,
    /// How it is looked at.
    pub look: Look,
}

/// What was done and what came of it.
#[derive(Default)]
pub struct Done {
    /// Trees to compare with the source.
    pub trees: Vec<Made>,
    /// Databases, with the batches that were committed and those that were begun.
    pub databases: Vec<(PathBuf, usize, usize)>,
    /// Repositories whose every command went well.
    pub repositories: Vec<PathBuf>,
    /// Programs that failed without naming an error that damage gives, and the second since 1970 in which they had ended.
    pub unclear: Vec<(i64, String)>,
    /// Programs that did not end.
    pub hung: Vec<String>,
    /// Programs that were told of damage.
    pub told: usize,
    /// Programs that ran.
    pub ran: usize,
}

/// Where all this happens.
pub struct Place<'a> {
    /// The mount.
    pub mount: &'a Path,
    /// What is copied.
    pub source: &'a Path,
    /// The same in an archive.
    pub archive: &'a Path,
}

impl Done {
    /// One round of all programs; `n` tells its files from those of others.
    pub fn round(&mut self, place: &Place<'_>, n: usize) {
        let steps: [fn(&mut Done, &Place<'_>, usize); 4] = [Done::copies, Done::git, Done::sqlite, Done::rsync];
        for at in 0..steps.len() {
            if self.hung.is_empty() {
                steps[(at + n) % steps.len()](self, place, n);
            }
        }
    }

    /// Counts a program; `after`: whether what it builds on was whole.
    pub fn step(&mut self, ran: &Ran, after: bool) -> bool {
        self.ran += 1;
        self.told += usize::from(ran.told);
        if ran.hung {
            self.hung.push(ran.said.clone());
        } else if !ran.ok && !ran.told && after {
            self.unclear.push((second(), ran.said.clone()));
        }
        ran.ok && after
    }

    fn made(&mut self, dir: PathBuf, look: Look) {
        self.trees.push(Made { dir, look });
    }

    /// tar, copies with and without shared pages, with shared inodes; two of them are removed.
    fn copies(&mut self, place: &Place<'_>, n: usize) {
        let names = ["tar", "cp", "shared", "linked"].map(|name| place.mount.join(format!("{name}{n}")));
        let words: Vec<String> = names.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let [tar, copy, shared, linked] = [&words[0], &words[1], &words[2], &words[3]].map(String::as_str);
        let at = place.mount;
        let root = self.step(&call(at, &["mkdir", tar]), true);
        let archive = place.archive.to_string_lossy();
        let first = root && self.step(&call(at, &["tar", "-C", tar, "-xf", &archive]), true);
        let second = self.step(&call(at, &["cp", "-a", "--reflink=never", tar, copy]), first);
        let third = self.step(&call(at, &["cp", "-a", "--reflink=auto", tar, shared]), first);
        let fourth = self.step(&call(at, &["cp", "-al", tar, linked]), first);
        let unlinked = self.step(&call(at, &["rm", "-r", linked]), fourth);
        let removed = self.step(&call(at, &["rm", "-r", copy]), second);
        let look = |whole, look| if whole { look } else { Look::Part };
        // Links that could not be removed are links all the same.
        let (first, third) = (first && unlinked, third && first);
        for (dir, look) in names.into_iter().zip([
            look(first, Look::Whole),
            look(removed, Look::Nothing),
            look(third, Look::Whole),
            look(unlinked, Look::Nothing),
        ]) {
            self.made(dir, look);
        }
    }

    /// A copy, a second one that finds nothing to do. Without `-H`: rsync 3.5.0 waits for itself for ever where it cannot write one
    /// of several names, on any file system that is read-only.
    fn rsync(&mut self, place: &Place<'_>, n: usize) {
        let dir = place.mount.join(format!("rsync{n}"));
        let (from, to) = (
            format!("{}/", place.source.display()),
            dir.to_string_lossy().into_owned(),
        );
        let copy = |checked: &str| call(place.mount, &["rsync", "-a", checked, &from, &to]);
        let first = self.step(&copy("--whole-file"), true);
        let second = self.step(&copy("--checksum"), first);
        self.made(dir, if second { Look::Content } else { Look::Part });
    }

    /// A repository with two commits, packed and looked at.
    fn git(&mut self, place: &Place<'_>, n: usize) {
        let dir = place.mount.join(format!("git{n}"));
        let (from, to) = (
            format!("{}/.", place.source.display()),
            dir.to_string_lossy().into_owned(),
        );
        let mut whole = self.step(&call(place.mount, &["git", "init", "-q", &to]), true);
        whole = self.step(
            &call(place.mount, &["cp", "-r", "--preserve=links,mode", &from, &to]),
            whole,
        );
        let commands: [&[&str]; 6] = [
            &["add", "dir0", "dir3"],
            &["commit", "-q", "-m", "one"],
            &["add", "-A"],
            &["commit", "-q", "-m", "two"],
            &["gc", "-q"],
            &["fsck", "--full", "--no-progress"],
        ];
        for words in commands {
            let all: Vec<&str> = ["git", "-c", "gc.auto=0", "-C", &to]
                .into_iter()
                .chain(words.iter().copied())
                .collect();
            whole = whole && self.step(&call(place.mount, &all), true);
        }
        if whole {
            self.repositories.push(dir.clone());
        }
        self.made(dir, if whole { Look::Content } else { Look::Part });
    }

    /// Transactions, each durable when its program ends.
    fn sqlite(&mut self, place: &Place<'_>, n: usize) {
        let database = place.mount.join(format!("sqlite{n}"));
        let name = database.to_string_lossy().into_owned();
        let table = "create table if not exists t(batch integer, row integer, text text)";
        let (mut committed, mut begun) = (0, 0);
        let mut whole = self.step(&call(place.mount, &["sqlite3", &name, table]), true);
        for batch in 0..BATCHES {
            let rows: Vec<String> = (0..ROWS)
                .map(|row| format!("({batch},{row},'{}')", text(batch, row)))
                .collect();
            let insert = format!("begin; insert into t values {}; commit;", rows.join(","));
            if whole {
                begun += 1;
                whole = self.step(&call(place.mount, &["sqlite3", &name, &insert]), true);
                committed += usize::from(whole);
            }
        }
        if begun > 0 {
            self.databases.push((database, committed, begun));
        }
    }

    /// Looks at repositories and databases again: what is wrong with them, without an error that damage gives.
    pub fn look_again(&self, mount: &Path, lost: bool) -> Vec<String> {
        let mut wrong = Vec::new();
        for dir in self.repositories.iter().filter(|_| !lost) {
            let ran = call(
                mount,
                &["git", "-C", &dir.to_string_lossy(), "fsck", "--full", "--no-progress"],
            );
            if !ran.ok && !ran.told {
                wrong.push(ran.said);
            }
        }
        for (database, committed, begun) in &self.databases {
            let ask =
                "pragma integrity_check; select batch, count(*), sum(row), sum(length(text)) from t group by batch";
            let ran = call(mount, &["sqlite3", &database.to_string_lossy(), ask]);
            if ran.told {
                continue;
            }
            let right = |batches: usize| {
                let length = |batch| (0..ROWS).map(|row| text(batch, row).len()).sum::<usize>();
                let line = |batch| format!("{batch}|{ROWS}|{}|{}\n", ROWS * (ROWS - 1) / 2, length(batch));
                std::iter::once("ok\n".to_owned())
                    .chain((0..batches).map(line))
                    .collect::<String>()
            };
            if !ran.ok || !(*committed..=*begun).any(|batches| ran.out == right(batches)) {
                wrong.push(format!("{committed} batches were committed: {} {}", ran.said, ran.out));
            }
        }
        wrong
    }
}

/// Seconds since 1970.
pub fn second() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs() as i64)
}

fn text(batch: usize, row: usize) -> String {
    format!("{batch}.{row}.").repeat(1 + row % 17)
}
