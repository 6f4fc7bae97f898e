//! Single operations: create, lookup, 1 KiB append, rename, unlink; 4 KiB reads and writes.

use super::{Failure, Medium, Row, directory, measure, mount};
use crate::million::new_inode;
use crate::million::order::Shuffled;
use keepfs_fs::Volume;
use keepfs_vfs::{Errno, FileKind, Ino, RenameFlags, Vfs, WriteHow};
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

/// A thread's files.
struct Place {
    dir: Ino,
    made: Mutex<Vec<Ino>>,
}

fn name(i: usize) -> String {
    format!("file-{i:012}")
}

fn make(volume: &Volume, place: &Place, i: usize) -> Result<Ino, Errno> {
    let entry = volume.mknod(place.dir, name(i).as_bytes(), &new_inode(FileKind::File))?;
    Ok(entry.attr.ino)
}

/// All operations with `threads` threads, on a pool of their own.
pub fn run(w: &Wishes<'_>, threads: usize) -> Result<Vec<Row>, Failure> {
    let files = w.files;
    let volume = &*mount(w.medium, (threads * files) as u64 * 2 + 262_144, w.arena_mib)?;
    let mut places = Vec::new();
    for t in 0..threads {
        let dir = directory(volume, &format!("thread{t}"))?;
        places.push(Place {
            dir,
            made: Mutex::new(Vec::with_capacity(files)),
        });
    }
    let order: Vec<usize> = Shuffled::new(files as u64).map(|i| i as usize).collect();
    let names: Vec<String> = (0..files).map(name).collect();
    let others: Vec<String> = (0..files).map(|i| format!("name-{i:012}")).collect();
    let mut rows = Vec::new();
    rows.push(measure("create", threads, files, |t, i| {
        let new = volume.mknod(places[t].dir, names[i].as_bytes(), &new_inode(FileKind::File))?;
        places[t].made.lock().expect("not poisoned").push(new.attr.ino);
        Ok::<(), Errno>(())
    })?);
    forget_all(volume, &places);
    rows.push(measure("lookup", threads, files, |t, i| {
        let entry = volume.lookup(places[t].dir, names[order[i]].as_bytes())?;
        volume.forget(entry.attr.ino, 1);
        Ok::<(), Errno>(())
    })?);
    rows.extend(append(volume, &places, threads, files)?);
    rows.push(measure("rename", threads, files, |t, i| {
        let (from, to) = (names[order[i]].as_bytes(), others[order[i]].as_bytes());
        volume.rename(places[t].dir, from, places[t].dir, to, RenameFlags::default())
    })?);
    rows.push(measure("unlink", threads, files, |t, i| {
        volume.unlink(places[t].dir, others[order[i]].as_bytes())
    })?);
    volume.reclaim_now()?;
    rows.extend(pages(volume, &places, threads, files)?);
    volume.unmount()?;
    Ok(rows)
}

fn forget_all(volume: &Volume, places: &[Place]) {
    for place in places {
        let made = core::mem::take(&mut *place.made.lock().expect("not poisoned"));
        made.into_iter().for_each(|ino| volume.forget(ino, 1));
    }
}

/// 1 KiB at the end of one of [`LOGS`] files in turn: three in four are staged, the fourth completes a page.
fn append(volume: &Volume, places: &[Place], threads: usize, count: usize) -> Result<Vec<Row>, Failure> {
    let mut logs = Vec::new();
    for place in places {
        let made: Result<Vec<Ino>, Errno> = (0..LOGS).map(|i| make(volume, place, 1_000_000_000 + i)).collect();
        logs.push(made?);
    }
    let how = WriteHow {
        append: true,
        ..WriteHow::default()
    };
    let row = measure("append 1 KiB", threads, count, |t, i| {
        volume.write(logs[t][i % LOGS], 0, &[i as u8; 1024], how).map(drop)
    })?;
    for (place, logs) in places.iter().zip(&logs) {
        for (i, ino) in logs.iter().enumerate() {
            volume.forget(*ino, 1);
            volume.unlink(place.dir, name(1_000_000_000 + i).as_bytes())?;
        }
    }
    Ok(vec![row])
}

fn pages(volume: &Volume, places: &[Place], threads: usize, count: usize) -> Result<Vec<Row>, Failure> {
    let mut files = Vec::new();
    for place in places {
        let ino = make(volume, place, 0)?;
        for index in 0..PAGES / 256 {
            volume.write(ino, index << 20, &vec![7; 1 << 20], WriteHow::default())?;
        }
        files.push(ino);
    }
    let at = |t: usize, i: usize| ((i as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20).wrapping_add(t as u64) % PAGES;
    let read = measure("read 4 KiB", threads, count, |t, i| {
        let mut page = [0; 4096];
        volume.read(files[t], at(t, i) * 4096, &mut page).map(drop)
    })?;
    let write = measure("write 4 KiB", threads, count, |t, i| {
        let page = [i as u8; 4096];
        volume
            .write(files[t], at(t, i) * 4096, &page, WriteHow::default())
            .map(drop)
    })?;
    Ok(vec![read, write])
}
