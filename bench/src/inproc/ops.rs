//! Single operations: create, lookup, 1 KiB append, rename, unlink; 4 KiB reads and writes.

use super::calls::Calls;
use super::library::Library;
use super::{Failure, Medium, Row, measure, mount};
use keepfs_lab::million::order::Shuffled;
use std::io::{Error, Result};
use std::sync::Mutex;

/// Files of a thread that are appended to, in turn.
const LOGS: usize = 64;
/// Pages of the file that 4 KiB reads and writes go to.
const PAGES: u64 = 1024;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Wishes<'p> {
    /// Where the pool lies.
    pub medium: Medium<'p>,
    /// Bytes of the arena, MiB.
    pub arena_mib: usize,
    /// Files that each thread makes.
    pub files: usize,
}

/// All operations with `threads` threads, on a pool of their own.
pub fn run(w: &Wishes<'_>, threads: usize) -> std::result::Result<Vec<Row>, Failure> {
    let volume = &*mount(w.medium, (threads * w.files) as u64 * 2 + 262_144, w.arena_mib)?;
    let rows = on(&Library(volume), threads, w.files)?;
    keepfs_vfs::Vfs::unmount(volume)?;
    Ok(rows)
}

/// All operations with `threads` threads, each in a new directory of its own.
pub fn on<C: Calls>(calls: &C, threads: usize, files: usize) -> Result<Vec<Row>> {
    let dirs: Result<Vec<C::Dir>> = (0..threads)
        .map(|t| calls.directory(&format!("{threads}threads-{t}")))
        .collect();
    let work = Work {
        calls,
        dirs: dirs?,
        files,
    };
    let mut rows = work.names()?;
    // In the order in which they stand in the tables: appends before renames.
    rows.insert(2, work.appends()?);
    calls.settle()?;
    rows.extend(work.pages()?);
    Ok(rows)
}

/// Work on a file system, in a directory for each thread.
struct Work<'c, C: Calls> {
    calls: &'c C,
    dirs: Vec<C::Dir>,
    /// Files of each thread, and how often each other operation is done.
    files: usize,
}

impl<C: Calls> Work<'_, C> {
    fn measure(&self, what: &'static str, f: impl Fn(usize, usize) -> Result<()> + Sync) -> Result<Row> {
        measure(what, self.dirs.len(), self.files, f)
    }

    /// Create, lookup, rename, unlink.
    fn names(&self) -> Result<Vec<Row>> {
        let (calls, dirs) = (self.calls, &self.dirs);
        let order: Vec<usize> = Shuffled::new(self.files as u64).map(|i| i as usize).collect();
        let names = |stem: &str| -> Vec<String> { (0..self.files).map(|i| format!("{stem}-{i:012}")).collect() };
        let (names, others) = (names("file"), names("name"));
        let made = || Mutex::new(Vec::with_capacity(self.files));
        let made: Vec<Mutex<Vec<C::Made>>> = dirs.iter().map(|_| made()).collect();
        let create = self.measure("create", |t, i| {
            let new = calls.make(&dirs[t], names[i].as_bytes())?;
            made[t].lock().expect("not poisoned").push(new);
            Ok(())
        })?;
        for made in made {
            let made = made.into_inner().map_err(|_| Error::other("a thread panicked"))?;
            made.into_iter().for_each(|made| calls.release(made));
        }
        let lookup = self.measure("lookup", |t, i| calls.lookup(&dirs[t], names[order[i]].as_bytes()))?;
        let rename = self.measure("rename", |t, i| {
            calls.rename(&dirs[t], names[order[i]].as_bytes(), others[order[i]].as_bytes())
        })?;
        let unlink = self.measure("unlink", |t, i| calls.unlink(&dirs[t], others[order[i]].as_bytes()))?;
        Ok(vec![create, lookup, rename, unlink])
    }

    /// 1 KiB at the end of one of [`LOGS`] files in turn: three in four are staged, the fourth completes a page.
    fn appends(&self) -> Result<Row> {
        let calls = self.calls;
        let name = |log: usize| format!("log-{log:02}");
        let logs =
            |dir| -> Result<Vec<C::File>> { (0..LOGS).map(|log| calls.create(dir, name(log).as_bytes())).collect() };
        let logs: Result<Vec<Vec<C::File>>> = self.dirs.iter().map(logs).collect();
        let logs = logs?;
        let row = self.measure("append 1 KiB", |t, i| {
            calls.append(&logs[t][i % LOGS], &[i as u8; 1024])
        })?;
        for (dir, logs) in self.dirs.iter().zip(logs) {
            logs.into_iter().for_each(|log| calls.close(log));
            (0..LOGS).try_for_each(|log| calls.unlink(dir, name(log).as_bytes()))?;
        }
        Ok(row)
    }

    /// Pages of a file of its own for each thread.
    fn pages(&self) -> Result<Vec<Row>> {
        let calls = self.calls;
        let mut files = Vec::new();
        for dir in &self.dirs {
            let made = calls.make(dir, b"pages")?;
            calls.release(made);
            let file = calls.open(dir, b"pages", false)?;
            for index in 0..PAGES / 256 {
                calls.write(&file, index << 20, &vec![7; 1 << 20])?;
            }
            files.push(file);
        }
        let at =
            |t: usize, i: usize| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).wrapping_add(t as u64) % PAGES;
        let read = self.measure("read 4 KiB", |t, i| {
            let mut page = [0; 4096];
            calls.read(&files[t], at(t, i) * 4096, &mut page).map(drop)
        })?;
        let write = self.measure("write 4 KiB", |t, i| {
            calls.write(&files[t], at(t, i) * 4096, &[i as u8; 4096])
        })?;
        files.into_iter().for_each(|file| calls.close(file));
        Ok(vec![read, write])
    }
}
