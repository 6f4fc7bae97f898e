//! The images to start from: a small pool with every kind of structure, closed properly or with a log to replay.

use super::anatomy::Anatomy;
use super::case::Subject;
use super::sites::Sites;
use crate::crash::Setting;
use crate::crash::setting::LabClock;
use keepfs_format::PAGE;
use keepfs_store::{Guard, Protection};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{Direct, Errno, FallocMode, Ino, NewInode, RenameFlags, S_IFMT, SetAttr, Vfs, WriteHow, XattrHow};
use std::sync::Arc;

/// Names of the bases whose every field is changed.
pub const NAMES: [&str; 3] = ["clean", "crashed", "single"];
/// One more for what takes as long as the pool is large: 64 GiB with nothing in most of them.
pub const WIDE: &str = "wide";
/// Pages of that one.
const WIDE_PAGES: u64 = 1 << 24;

/// The pool of the bases: `single` keeps one copy of metadata. Each has another level of protection.
pub fn setting(name: &str) -> Setting {
    let (pages, zone_pages) = if name == WIDE {
        (WIDE_PAGES, 1 << 15)
    } else {
        (2048, 256)
    };
    Setting {
        pages,
        log_pages: 128,
        zone_pages,
        frames: 400,
        copies: if name == "single" { 1 } else { 2 },
        guard: Guard::Off,
        protect: match name {
            "clean" | WIDE => Protection::Crc,
            "crashed" => Protection::Pcrc,
            _ => Protection::Evenodd256,
        },
        staged: 64,
        ..Setting::default()
    }
}

/// Makes a base image. `clean` and `wide` were unmounted, `wide` with a deleted file that somebody held; the others were cut
/// with groups in the log.
pub fn make(name: &str) -> Result<Image, String> {
    let setting = setting(name);
    let device = Arc::new(SimDevice::over(setting.fresh()?));
    let clock = LabClock::default();
    let told = |what: &'static str| move |e: Errno| format!("base, {what}: {e}");
    let volume = setting.open(device.clone(), &clock).map_err(|e| format!("base: {e}"))?;
    furnish(&*volume).map_err(told("furnish"))?;
    if name == WIDE {
        leave_held(&*volume).map_err(told("leave held"))?;
    }
    volume.unmount().map_err(told("unmount"))?;
    drop(volume);
    if !["clean", WIDE].contains(&name) {
        let volume = setting.open(device.clone(), &clock).map_err(|e| format!("base: {e}"))?;
        live_on(&*volume).map_err(told("live on"))?;
        return Ok(device.image());
    }
    Ok(device.image())
}

/// Makes a base and finds what can be changed in it.
pub fn subject(name: &str) -> Result<Subject, String> {
    let anatomy = Anatomy::of(make(name)?)?;
    let sites = Sites::of(&anatomy);
    Ok(Subject { anatomy, sites })
}

/// A new inode of this mode.
pub fn new(mode: u32) -> NewInode {
    NewInode {
        mode,
        umask: 0,
        uid: 1000,
        gid: 1000,
        rdev: if mode & S_IFMT == 0o020000 { 0x103 } else { 0 },
    }
}

const FILE: u32 = 0o100644;
const DIR: u32 = 0o040755;

/// `len` bytes that differ from page to page.
pub fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len)
        .map(|i| salt ^ (i / 512) as u8 ^ (i as u8).wrapping_mul(7))
        .collect()
}

fn file(v: &dyn Vfs, dir: Ino, name: &str, len: usize) -> Result<Ino, Errno> {
    let ino = v.mknod(dir, name.as_bytes(), &new(FILE))?.attr.ino;
    if len > 0 {
        v.write(ino, 0, &pattern(len, name.len() as u8), WriteHow::default())?;
    }
    Ok(ino)
}

/// The first mount: files of all bodies, directories of both shapes, links, attributes, shares, holes.
fn furnish(v: &dyn Vfs) -> Result<(), Errno> {
    let root = Ino::ROOT;
    file(v, root, "empty", 0)?;
    file(v, root, "inline", 40)?;
    let direct = file(v, root, "direct", 3 * PAGE)?;
    let tree = file(v, root, "tree", 12 * PAGE + 100)?;
    let sparse = file(v, root, "sparse", 0)?;
    for at in [0u64, 300, 70_000, 20_000_000] {
        v.write(sparse, at * PAGE as u64, &pattern(PAGE, 9), WriteHow::default())?;
    }
    v.fallocate(direct, FallocMode::KeepSize, 3 * PAGE as u64, PAGE as u64)?;
    let unwritten = file(v, root, "unwritten", 0)?;
    v.fallocate(unwritten, FallocMode::Allocate, 0, 10 * PAGE as u64)?;
    let copy = file(v, root, "copy", 0)?;
    v.fsync(tree, false)?;
    v.syncfs()?;
    v.copy_file_range(tree, 0, copy, 0, 8 * PAGE as u64)?;
    v.fallocate(tree, FallocMode::PunchHole, 4 * PAGE as u64, PAGE as u64)?;
    v.symlink(root, b"short link", b"inline", &new(0o120777))?;
    v.symlink(root, b"long link", &[b'x'; 200], &new(0o120777))?;
    for (name, mode) in [("fifo", 0o010644), ("char", 0o020644), ("socket", 0o140755)] {
        v.mknod(root, name.as_bytes(), &new(mode))?;
    }
    let small = v.mknod(root, b"small dir", &new(DIR))?.attr.ino;
    let nested = v.mknod(small, b"nested", &new(DIR))?.attr.ino;
    file(v, nested, "deep", 100)?;
    let inner = v.mknod(nested, b"inner", &new(DIR))?.attr.ino;
    v.link(tree, inner, b"tree again")?;
    v.link(direct, small, b"direct again")?;
    let large = v.mknod(root, b"large dir", &new(DIR))?.attr.ino;
    for i in 0..240 {
        let ino = v
            .mknod(large, format!("name-{i:03}-of-many").as_bytes(), &new(FILE))?
            .attr
            .ino;
        v.forget(ino, 1);
    }
    v.setxattr(direct, b"user.a", b"inline value", XattrHow::default())?;
    v.setxattr(tree, b"user.small", b"x", XattrHow::default())?;
    v.setxattr(tree, b"trusted.large", &pattern(9000, 3), XattrHow::default())?;
    v.setxattr(small, b"user.chain", &pattern(300, 4), XattrHow::default())?;
    for i in 0..30 {
        v.unlink(large, format!("name-{i:03}-of-many").as_bytes())?;
    }
    let gone = file(v, root, "gone", 2 * PAGE)?;
    v.unlink(root, b"gone")?;
    v.forget(gone, 1);
    Ok(())
}

/// A file without a name that is held, so that the hidden list has its metablock.
fn leave_held(v: &dyn Vfs) -> Result<(), Errno> {
    file(v, Ino::ROOT, "held", 9 * PAGE)?;
    v.unlink(Ino::ROOT, b"held")
}

/// The second mount: everything that makes a record of the log, then the power is cut.
fn live_on(v: &dyn Vfs) -> Result<(), Errno> {
    let root = Ino::ROOT;
    let ino = |dir: Ino, name: &[u8]| v.lookup(dir, name).map(|e| e.attr.ino);
    let (tree, direct, small) = (ino(root, b"tree")?, ino(root, b"direct")?, ino(root, b"small dir")?);
    let large = ino(root, b"large dir")?;
    v.write(tree, 100, b"staged over a page", WriteHow::default())?;
    v.write(direct, 5000, b"staged too", WriteHow::default())?;
    let tail = file(v, root, "tail", 1000)?;
    v.fsync(tail, false)?;
    let fresh = file(v, small, "fresh", 20 * PAGE)?;
    v.fsync(fresh, false)?;
    v.write(fresh, 3 * PAGE as u64 + 7, b"over", WriteHow::default())?;
    v.fallocate(
        fresh,
        FallocMode::ZeroRange { keep_size: true },
        5 * PAGE as u64 + 10,
        100,
    )?;
    v.fallocate(fresh, FallocMode::PunchHole, 9 * PAGE as u64, 2 * PAGE as u64)?;
    let size = SetAttr {
        size: Some(15 * PAGE as u64 + 9),
        ..SetAttr::default()
    };
    v.setattr(fresh, &size)?;
    let unwritten = file(v, root, "unwritten too", 0)?;
    v.fallocate(unwritten, FallocMode::Allocate, 0, 6 * PAGE as u64)?;
    let copy = file(v, root, "copy too", 0)?;
    v.copy_file_range(tree, 5 * PAGE as u64, copy, 0, 4 * PAGE as u64)?;
    v.fsync(copy, false)?;
    v.link(copy, small, b"copy link")?;
    v.unlink(root, b"copy")?;
    v.setxattr(copy, b"user.chain", &pattern(5000, 5), XattrHow::default())?;
    v.setxattr(direct, b"user.b", &pattern(100, 6), XattrHow::default())?;
    v.removexattr(small, b"user.chain")?;
    for i in 0..90 {
        let ino = v
            .mknod(large, format!("later-{i:03}-of-many").as_bytes(), &new(FILE))?
            .attr
            .ino;
        v.forget(ino, 1);
    }
    v.rename(root, b"inline", small, b"moved", RenameFlags::default())?;
    let held = file(v, root, "held", 3 * PAGE)?;
    v.unlink(root, b"held")?;
    let dir = v.mknod(root, b"held dir", &new(DIR))?.attr.ino;
    v.rmdir(root, b"held dir")?;
    let nameless = v.tmpfile(root, &new(FILE))?.attr.ino;
    v.write(nameless, 0, &pattern(6 * PAGE, 8), WriteHow::default())?;
    v.syncfs()?;
    v.write(held, 0, b"more", WriteHow::default())?;
    let _ = (v.getattr(dir)?, v.getattr(nameless)?);
    v.unlink(root, b"empty")?;
    v.syncfs()
}
