//! One writer of a crowd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Result as Io};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use super::super::sample::Random;

/// Files of a writer.
const FILES: u64 = 4;
/// Deaths of servers that one of the crowd asks for.
const DEATHS: u64 = 5;
/// Most pages of a file that is written as a whole.
const PAGES: u64 = 48;
/// Bytes of a page.
pub const PAGE: usize = 4096;
/// Kinds of calls, and some of their numbers.
const KINDS: u64 = 8;
const WRITE: u64 = 0;
const REMOVE: u64 = 3;
const COPY: u64 = 6;
const SYNC: u64 = 7;

/// What the death of a server is for those who use its mount.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mount {
    /// A pause.
    Lasts,
    /// The end of the mount: calls fail, and what was not synced may be lost.
    DiesWithServer,
}

/// One of the crowd: its files are its own, and it knows what is in them.
pub struct Writer {
    dir: PathBuf,
    me: u64,
    mount: Mount,
    /// Calls that it makes.
    calls: u64,
    random: Random,
    files: BTreeMap<u64, Vec<u8>>,
    /// Of those, the ones that were synced as they are.
    durable: BTreeSet<u64>,
    /// Calls made.
    pub done: u64,
    /// Of those, how many found no space.
    pub refused: u64,
}

impl Writer {
    pub fn new(dir: PathBuf, me: u64, mount: Mount, calls: u64) -> Self {
        Self {
            dir,
            me,
            mount,
            calls,
            random: Random(me + 1),
            files: BTreeMap::new(),
            durable: BTreeSet::new(),
            done: 0,
            refused: 0,
        }
    }

    pub fn is_done(&self) -> bool {
        self.done >= self.calls
    }

    /// Writes its first files.
    pub fn begin(&mut self) -> Result<(), String> {
        (0..FILES).try_for_each(|file| self.step(WRITE, file).map_err(|e| self.failed(WRITE, file, &e)))
    }

    /// Calls, one after the other, until it is done or the mount has died; every so many a death is asked for.
    pub fn live(&mut self, tell: &Sender<()>) -> Result<(), String> {
        while !self.is_done() {
            self.done += 1;
            let file = self.random.below(FILES);
            let what = self.random.below(KINDS);
            match self.step(what, file) {
                Err(e) if self.mount == Mount::DiesWithServer && is_dead(&e) => return Ok(()),
                done => done.map_err(|e| self.failed(what, file, &e))?,
            }
            if self.me == 0 && self.done.is_multiple_of(self.calls / DEATHS) {
                // Where nobody kills, nobody listens.
                let _ = tell.send(());
            }
        }
        Ok(())
    }

    /// A call; one that finds no space may have done a part of its work, so that the file begins anew.
    fn step(&mut self, what: u64, file: u64) -> Io<()> {
        match self.call(what, file) {
            Err(e) if e.kind() == ErrorKind::StorageFull => {
                self.refused += 1;
                self.forget(file)
            }
            done => done,
        }
    }

    /// Behind a death of the mount: what was synced is there, the rest begins anew.
    pub fn find_again(&mut self) -> Result<(), String> {
        for file in 0..FILES {
            let found = match self.files.get(&file).filter(|_| self.durable.contains(&file)) {
                Some(bytes) => compare(&self.path(file), bytes),
                None => self.forget(file),
            };
            found.map_err(|e| format!("behind a server's death, file {file} of writer {}: {e}", self.me))?;
        }
        Ok(())
    }

    fn failed(&self, what: u64, file: u64, error: &std::io::Error) -> String {
        format!("call {what} of writer {} on file {file}: {error}", self.me)
    }

    fn path(&self, file: u64) -> PathBuf {
        self.dir.join(format!("w{}-{file}", self.me))
    }

    fn forget(&mut self, file: u64) -> Io<()> {
        self.files.remove(&file);
        self.durable.remove(&file);
        match fs::remove_file(self.path(file)) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        }
    }

    fn bytes(&mut self) -> Vec<u8> {
        let pages = 1 + self.random.below(PAGES) as usize;
        let mut stamp = self.random.next();
        let mut bytes = Vec::with_capacity(pages * PAGE);
        for _ in 0..pages * PAGE / 8 {
            bytes.extend(stamp.to_le_bytes());
            stamp = stamp.wrapping_add(0x9E37_79B9);
        }
        bytes
    }

    fn call(&mut self, what: u64, file: u64) -> Io<()> {
        let path = self.path(file);
        let was = self.files.get(&file).cloned();
        if !matches!((what, &was), (COPY | SYNC, Some(_))) {
            self.durable.remove(&file);
        }
        match (what, was) {
            (WRITE | 1, _) | (_, None) => {
                let bytes = self.bytes();
                fs::write(&path, &bytes)?;
                self.files.insert(file, bytes);
            }
            (2, Some(mut was)) => {
                let at = self.random.below(was.len() as u64 + 1) as usize;
                let mut bytes = self.bytes();
                bytes.truncate(1 + self.random.below(3 * PAGE as u64) as usize);
                OpenOptions::new()
                    .write(true)
                    .open(&path)?
                    .write_all_at(&bytes, at as u64)?;
                was.resize(was.len().max(at + bytes.len()), 0);
                was[at..at + bytes.len()].copy_from_slice(&bytes);
                self.files.insert(file, was);
            }
            (REMOVE, Some(was)) => {
                compare(&path, &was)?;
                self.forget(file)?;
            }
            (4, Some(mut was)) => {
                let len = self.random.below(was.len() as u64 + 1);
                OpenOptions::new().write(true).open(&path)?.set_len(len)?;
                was.truncate(len as usize);
                self.files.insert(file, was);
            }
            (5, Some(mut was)) => {
                let len = was.len() as u64 + 64 * PAGE as u64;
                fallocate(
                    OpenOptions::new().write(true).open(&path)?,
                    FallocateFlags::empty(),
                    0,
                    len,
                )?;
                was.resize(len as usize, 0);
                self.files.insert(file, was);
            }
            (COPY, Some(was)) => {
                let to = self.random.below(FILES);
                let copy = self.dir.join(format!("w{}-copy", self.me));
                fs::copy(&path, &copy)?;
                self.durable.remove(&to);
                fs::rename(&copy, self.path(to))?;
                self.files.insert(to, was);
            }
            (_, Some(was)) => {
                File::open(&path)?.sync_all()?;
                self.durable.insert(file);
                compare(&path, &was)?;
            }
        }
        Ok(())
    }

    /// Every file has the bytes that were written last.
    pub fn compare_all(&self) -> Result<(), String> {
        let mut files = self.files.iter();
        files.try_for_each(|(file, bytes)| compare(&self.path(*file), bytes).map_err(|e| e.to_string()))
    }
}

fn compare(path: &Path, bytes: &[u8]) -> Io<()> {
    match fs::read(path)? == bytes {
        true => Ok(()),
        false => Err(other(format!("{}: other bytes came back", path.display()))),
    }
}

pub fn other(text: impl Into<String>) -> std::io::Error {
    std::io::Error::other(text.into())
}

/// Whether a call failed because its mount has died.
fn is_dead(error: &std::io::Error) -> bool {
    let dead = [Errno::NOTCONN, Errno::CONNABORTED, Errno::CANCELED];
    error
        .raw_os_error()
        .is_some_and(|number| dead.iter().any(|errno| errno.raw_os_error() == number))
}
