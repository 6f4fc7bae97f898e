//! A tree of files, and whether another is the same, byte by byte.

use crate::inject::Dice;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Directories and files of a tree.
const DIRS: usize = 12;
const FILES: usize = 360;
/// Most bytes of a file; few have as many.
const BYTES: usize = 160_000;
/// The system's number of EIO.
const EIO: i32 = 5;

/// How close a look is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// Names, bytes, kinds, modes, times, counts of links.
    Whole,
    /// Names, bytes, kinds, modes.
    Content,
    /// What is there is a part of what should be: who made it was told that it could not, or that something was lost.
    Part,
    /// Nothing is there.
    Nothing,
}

impl Look {
    const ALL: [(Look, &'static str); 4] = [
        (Look::Whole, "whole"),
        (Look::Content, "content"),
        (Look::Part, "part"),
        (Look::Nothing, "nothing"),
    ];

    /// Its word.
    pub fn word(self) -> &'static str {
        Look::ALL.iter().find(|row| row.0 == self).map_or("", |row| row.1)
    }

    /// From its word.
    pub fn named(word: &str) -> Option<Look> {
        Look::ALL.iter().find(|row| row.1 == word).map(|row| row.0)
    }
}

/// What differs.
#[derive(Default)]
pub struct Differences {
    /// Path and what is wrong.
    pub wrong: Vec<(PathBuf, String)>,
    /// Paths that gave EIO.
    pub eio: Vec<PathBuf>,
    /// What is right.
    root: PathBuf,
    /// Its files by their bytes, once somebody asks.
    source: HashMap<Vec<u8>, PathBuf>,
}

/// Makes a tree that follows from `seed` alone.
pub fn make(root: &Path, seed: u64) -> io::Result<()> {
    let mut dice = Dice::new(seed);
    let dirs: Vec<PathBuf> = (0..DIRS)
        .map(|n| match n % 3 {
            0 => root.join(format!("dir{n}")),
            _ => root.join(format!("dir{}/sub{n}", n / 3 * 3)),
        })
        .collect();
    dirs.iter().try_for_each(fs::create_dir_all)?;
    for n in 0..FILES {
        let path = dice.one_of(&dirs).join(format!("file-{n}"));
        let bytes = match dice.below(24) {
            0 => 0,
            1 => dice.below(BYTES),
            _ => dice.below(9000),
        };
        fs::write(&path, dice.bytes(bytes))?;
        match dice.below(12) {
            0 => fs::hard_link(&path, path.with_extension("linked"))?,
            1 => std::os::unix::fs::symlink(format!("file-{n}"), path.with_extension("symlink"))?,
            _ => {}
        }
    }
    Ok(())
}

/// Compares `found` with `right`.
pub fn compare(right: &Path, found: &Path, look: Look) -> Differences {
    let mut all = Differences {
        root: right.to_owned(),
        ..Differences::default()
    };
    match look {
        Look::Nothing => match found.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => all.error(found, &e),
            Ok(_) => all.wrong.push((found.to_owned(), "was removed and is there".into())),
        },
        _ => all.entry(right, found, look),
    }
    all
}

impl Differences {
    /// Which file of the source has just these bytes: a name that leads to another file is another mistake than wrong bytes.
    fn whose(&mut self, bytes: &[u8]) -> Option<&PathBuf> {
        if self.source.is_empty() {
            let mut dirs = vec![self.root.clone()];
            while let Some(dir) = dirs.pop() {
                for path in fs::read_dir(dir)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path())
                {
                    match path.symlink_metadata() {
                        Ok(meta) if meta.is_dir() => dirs.push(path),
                        Ok(meta) if meta.is_file() => {
                            self.source.insert(fs::read(&path).unwrap_or_default(), path);
                        }
                        _ => {}
                    }
                }
            }
        }
        self.source.get(bytes)
    }

    fn error(&mut self, path: &Path, e: &io::Error) {
        match e.raw_os_error() {
            Some(EIO) => self.eio.push(path.to_owned()),
            _ => self.wrong.push((path.to_owned(), e.to_string())),
        }
    }

    fn note(&mut self, path: &Path, what: String) {
        self.wrong.push((path.to_owned(), what));
    }

    fn entry(&mut self, right: &Path, found: &Path, look: Look) {
        let is = match found.symlink_metadata() {
            Ok(meta) => meta,
            Err(e) if look == Look::Part && e.kind() == io::ErrorKind::NotFound => return,
            Err(e) => return self.error(found, &e),
        };
        let Ok(should) = right.symlink_metadata() else {
            return self.note(found, "should not be there".into());
        };
        if is.file_type() != should.file_type() {
            let odd = is.file_type().is_fifo() || is.file_type().is_socket();
            return self.note(
                found,
                format!("is of another kind{}", if odd { ", an odd one" } else { "" }),
            );
        }
        if look != Look::Part && is.mode() != should.mode() {
            self.note(found, format!("has mode {:o} and not {:o}", is.mode(), should.mode()));
        }
        if look == Look::Whole {
            if is.nlink() != should.nlink() {
                self.note(found, format!("has {} links and not {}", is.nlink(), should.nlink()));
            }
            if is.mtime() != should.mtime() {
                self.note(found, format!("is of time {} and not {}", is.mtime(), should.mtime()));
            }
        }
        if is.is_dir() {
            self.dir(right, found, look);
        } else if is.is_symlink() {
            match fs::read_link(found) {
                Ok(target) if fs::read_link(right).is_ok_and(|right| right == target) => {}
                Ok(target) => self.note(found, format!("leads to {}", target.display())),
                Err(e) => self.error(found, &e),
            }
        } else {
            self.file(right, found, look);
        }
    }

    fn dir(&mut self, right: &Path, found: &Path, look: Look) {
        let names = |dir: &Path| -> io::Result<BTreeSet<_>> {
            fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name())).collect()
        };
        let Ok(should) = names(right) else {
            return self.note(found, "its original cannot be read".into());
        };
        let is = match names(found) {
            Ok(names) => names,
            // What it holds is looked at by name all the same.
            Err(e) => {
                self.error(found, &e);
                should.clone()
            }
        };
        let is_ours = |name: &&std::ffi::OsString| *name != ".git" && !name.to_string_lossy().starts_with(".file-");
        for name in is.union(&should).filter(is_ours) {
            self.entry(&right.join(name), &found.join(name), look);
        }
    }

    fn file(&mut self, right: &Path, found: &Path, look: Look) {
        let is = match fs::read(found) {
            Ok(bytes) => bytes,
            Err(e) => return self.error(found, &e),
        };
        let should = fs::read(right).unwrap_or_default();
        let same = is.iter().zip(&should).take_while(|(is, should)| is == should).count();
        if same < is.len().min(should.len()) {
            let differ = is.iter().zip(&should).filter(|(is, should)| is != should).count();
            let whose = match self.whose(&is) {
                Some(whose) => format!(", and is all of {}", whose.display()),
                None => String::new(),
            };
            self.note(found, format!("has {differ} wrong bytes, the first at {same}{whose}"));
        } else if is.len() > should.len() || (is.len() < should.len() && look != Look::Part) {
            self.note(found, format!("has {} bytes and not {}", is.len(), should.len()));
        }
    }
}

#[cfg(test)]
mod tests;
