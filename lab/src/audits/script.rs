//! A life of files and directories that goes through every kind of change: prepared by one part, changed by another.

use keepfs_digest::Equations;
use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_store::{FormatOptions, StoreOptions};
use keepfs_vfs::{
    Direct, Errno, FallocMode, FileKind, Ino, NewInode, Owner, RenameFlags, Result, SetAttr, Time, Vfs, WriteHow,
    XattrHow,
};
use std::sync::Arc;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Pages of a file whose block map has two levels.
const MANY_PAGES: usize = 300;
/// Bytes of a value that leads attributes into a chain.
const LONG_VALUE: usize = 3000;

/// How a volume of these runs is opened: no threads, a clock that stands.
pub fn options(audit: Equations) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            background: false,
            audit,
            ..StoreOptions::default()
        },
        background: false,
        clock: Arc::new(|| Time { sec: 1 << 31, nsec: 0 }),
        ..VolumeOptions::default()
    }
}

/// A new pool on `device`. Its names have the same keys each time: where one of 256 keys leads through the slot that a planted bug
/// has just left empty, the transaction fails before it is audited (E-41).
pub fn format(device: Arc<dyn Device>) -> Result<()> {
    let options = FormatOptions {
        name_seed: Some([1, 2]),
        ..FormatOptions::default()
    };
    Volume::format(device, &options).map_err(Errno::from)
}

fn new(kind: FileKind) -> NewInode {
    NewInode {
        mode: kind.type_bits() | 0o755,
        umask: 0,
        uid: 1,
        gid: 1,
        rdev: 0,
    }
}

fn make(volume: &Volume, parent: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    let made = volume.mknod(parent, name.as_bytes(), &new(kind))?;
    volume.forget(made.attr.ino, 1);
    Ok(made.attr.ino)
}

fn file(volume: &Volume, name: &str, pages: usize) -> Result<Ino> {
    let ino = make(volume, Ino::ROOT, name, FileKind::File)?;
    write(volume, ino, 0, pages)?;
    Ok(ino)
}

fn write(volume: &Volume, ino: Ino, first: usize, pages: usize) -> Result<()> {
    let data = vec![7; pages * PAGE];
    let done = volume.write(ino, (first * PAGE) as u64, &data, WriteHow::default())?;
    if done == data.len() { Ok(()) } else { Err(Errno::EIO) }
}

fn find(volume: &Volume, parent: Ino, name: &str) -> Result<Ino> {
    let found = volume.lookup(parent, name.as_bytes())?.attr.ino;
    volume.forget(found, 1);
    Ok(found)
}

fn cut(volume: &Volume, ino: Ino, size: u64) -> Result<()> {
    let change = SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    volume.setattr(ino, &change).map(drop)
}

/// What [`STEPS`] change.
pub fn prepare(volume: &Volume) -> Result<()> {
    let (a, b) = (
        make(volume, Ino::ROOT, "a", FileKind::Dir)?,
        make(volume, Ino::ROOT, "b", FileKind::Dir)?,
    );
    make(volume, a, "sub", FileKind::Dir)?;
    make(volume, a, "other", FileKind::Dir)?;
    make(volume, b, "plain", FileKind::File)?;
    for name in ["e1", "e2", "e3"] {
        make(volume, b, name, FileKind::File)?;
    }
    file(volume, "big", MANY_PAGES)?;
    let whole = file(volume, "whole", 8)?;
    file(volume, "cut", 8)?;
    file(volume, "over", 6)?;
    for name in ["grow", "prealloc", "target", "regular"] {
        file(volume, name, 1)?;
    }
    let twin = file(volume, "twin", 1)?;
    volume.copy_file_range(whole, 0, twin, 0, 4 * PAGE as u64)?;
    volume.symlink(Ino::ROOT, b"symlink", b"whole", &new(FileKind::Symlink))?;
    let tagged = file(volume, "tagged", 1)?;
    volume.setxattr(tagged, b"user.long", &[1; LONG_VALUE], XattrHow::default())?;
    // Numbers that had a life before: free, and known to be free when the volume is opened again.
    for name in ["x1", "x2", "x3", "x4"] {
        make(volume, Ino::ROOT, name, FileKind::File)?;
    }
    for name in ["x1", "x2", "x3", "x4"] {
        volume.unlink(Ino::ROOT, name.as_bytes())?;
    }
    volume.reclaim_now().map_err(Errno::from)?;
    volume.syncfs()
}

/// One change.
pub type Step = fn(&Volume) -> Result<()>;

/// Changes that do not depend on each other, with their names.
pub const STEPS: &[(&str, Step)] = &[
    ("create", |v| make(v, Ino::ROOT, "new", FileKind::File).map(drop)),
    ("mkdir", |v| make(v, Ino::ROOT, "dir", FileKind::Dir).map(drop)),
    ("append", |v| write(v, find(v, Ino::ROOT, "grow")?, 1, 3)),
    ("overwrite", |v| write(v, find(v, Ino::ROOT, "over")?, 1, 4)),
    ("large", |v| file(v, "larger", MANY_PAGES).map(drop)),
    ("truncate", |v| cut(v, find(v, Ino::ROOT, "cut")?, PAGE as u64)),
    ("share", |v| {
        let (from, to) = (find(v, Ino::ROOT, "whole")?, find(v, Ino::ROOT, "target")?);
        v.copy_file_range(from, 0, to, 0, 8 * PAGE as u64).map(drop)
    }),
    ("unshare", |v| cut(v, find(v, Ino::ROOT, "twin")?, 0)),
    ("fallocate", |v| {
        let ino = find(v, Ino::ROOT, "prealloc")?;
        v.fallocate(ino, FallocMode::Allocate, 0, 8 * PAGE as u64)
    }),
    ("punch", |v| {
        let ino = find(v, Ino::ROOT, "whole")?;
        v.fallocate(ino, FallocMode::PunchHole, 0, 2 * PAGE as u64)
    }),
    ("chmod", |v| {
        let change = SetAttr {
            mode: Some(0o600),
            uid: Some(5),
            ..SetAttr::default()
        };
        v.setattr(find(v, Ino::ROOT, "regular")?, &change).map(drop)
    }),
    ("link", |v| {
        v.link(find(v, Ino::ROOT, "regular")?, Ino::ROOT, b"name")
            .map(|e| v.forget(e.attr.ino, 1))
    }),
    ("tmpfile", |v| {
        let nameless = v.tmpfile(Ino::ROOT, &new(FileKind::File))?.attr.ino;
        v.link(nameless, Ino::ROOT, b"named").map(|e| v.forget(e.attr.ino, 2))
    }),
    ("setxattr", |v| {
        let ino = find(v, Ino::ROOT, "tagged")?;
        v.setxattr(ino, b"user.long", &[2; LONG_VALUE + 100], XattrHow::default())
    }),
    ("rename", |v| {
        let (a, b) = (find(v, Ino::ROOT, "a")?, find(v, Ino::ROOT, "b")?);
        v.rename(a, b"sub", b, b"moved", RenameFlags::default())
    }),
    ("rename over", |v| {
        v.rename(Ino::ROOT, b"symlink", Ino::ROOT, b"regular", RenameFlags::default())
    }),
    ("exchange", |v| {
        let (a, b) = (find(v, Ino::ROOT, "a")?, find(v, Ino::ROOT, "b")?);
        let exchange = RenameFlags {
            exchange: true,
            ..RenameFlags::default()
        };
        v.rename(a, b"other", b, b"plain", exchange)
    }),
    ("whiteout", |v| {
        let whiteout = RenameFlags {
            whiteout: Some(Owner::ROOT),
            ..RenameFlags::default()
        };
        v.rename(Ino::ROOT, b"target", Ino::ROOT, b"away", whiteout)
    }),
    ("unlink", |v| v.unlink(find(v, Ino::ROOT, "b")?, b"e2")),
    ("unlink large", |v| {
        v.unlink(Ino::ROOT, b"big")?;
        v.reclaim_now().map_err(Errno::from)
    }),
    ("many entries", |v| {
        let dir = make(v, Ino::ROOT, "many", FileKind::Dir)?;
        (0..120).try_for_each(|i| make(v, dir, &format!("a rather long name of entry {i}"), FileKind::File).map(drop))
    }),
    ("rmdir", |v| {
        v.mknod(Ino::ROOT, b"empty", &new(FileKind::Dir))
            .map(|e| v.forget(e.attr.ino, 1))?;
        v.rmdir(Ino::ROOT, b"empty")?;
        v.reclaim_now().map_err(Errno::from)
    }),
    ("sync", |v| v.syncfs()),
];
