//! Everything that is done with a hostile image: walked and read by `audit`, mounted read-only, listed to the end, looked at,
//! read, sought, paths looked for, mounted, walked, written, unmounted, mounted again. What an operation answers does not matter; that it answers does.

use super::base::{self, new, pattern};
use super::legal;
use crate::crash::Setting;
use crate::crash::judge::Walked;
use crate::crash::setting::LabClock;
use keepfs_check::read::View;
use keepfs_check::{Options, Severity, walk};
use keepfs_format::PAGE;
use keepfs_format::inode::PER_BLOCK;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{
    Direct, Errno, FallocMode, FileKind, Ino, OpenHow, RenameFlags, SeekWhence, SetAttr, Vfs, WriteHow, XattrHow,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What became of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It was not mounted.
    Refused(String),
    /// It was mounted; so many operations failed as damage does.
    Errors(u64),
    /// It was mounted and everything worked.
    Served,
    /// It did what must not be done.
    Violation(String),
}

/// Most bytes read from one end of a file.
const READ_MAX: usize = 128 << 10;
/// Most names looked at in a directory.
const NAMES_MAX: usize = 400;
/// Names asked for at a time, and most requests for one listing: a sound directory of the bases has fewer.
const NAMES_A_CALL: usize = 100;
const CALLS_MAX: usize = 60;
/// Most directories and files that are changed.
const CHANGED_MAX: usize = 24;

/// What the walk of a volume found.
#[derive(Default)]
struct Tree {
    errors: u64,
    dirs: BTreeSet<Ino>,
    files: BTreeSet<Ino>,
    names: Vec<(Ino, Vec<u8>, FileKind)>,
    held: Vec<Ino>,
}

impl Tree {
    /// Counts an answer that tells of damage.
    fn note<T>(&mut self, result: Result<T, Errno>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(e) => {
                self.errors += u64::from([Errno::EIO, Errno::EROFS, Errno::ESTALE, Errno::ENOSPC].contains(&e));
                None
            }
        }
    }
}

/// Does everything with an image. With `must_be_found` the offline check must tell an error of it.
pub fn exercise(base: &str, image: &Image, must_be_found: bool) -> Outcome {
    if audit(image) == 0 && must_be_found {
        return Outcome::Violation("the offline check finds nothing".into());
    }
    let setting = base::setting(base);
    let mut tree = Tree::default();
    let shown = match look_only(&setting, image, &mut tree) {
        Ok(shown) => shown,
        Err(what) => return Outcome::Violation(what),
    };
    let device = Arc::new(SimDevice::over(image.clone()));
    let volume = match (setting.open(device.clone(), &LabClock::default()), shown) {
        (Ok(volume), Ok(())) => volume,
        // The root of a pool without any inode is made by the first mount for writing (S-5.1).
        (Ok(volume), Err(why)) if why.contains("no root directory yet") => volume,
        (Ok(_), Err(why)) => return Outcome::Violation(format!("mounted, but refused read-only: {why}")),
        (Err(e), _) => return verdict(&device, Outcome::Refused(e.to_string())),
    };
    explore(&*volume, &mut tree, false);
    change(&*volume, &mut tree);
    let end = volume.unmount();
    tree.note(end);
    drop(volume);
    let outcome = if tree.errors > 0 {
        Outcome::Errors(tree.errors)
    } else {
        Outcome::Served
    };
    match verdict(&device, outcome) {
        Outcome::Violation(what) => Outcome::Violation(what),
        outcome => again(&setting, &device.image(), outcome),
    }
}

/// A read-only mount, everything read. `Ok(Err)`: it is refused. Errors: the device was written to.
fn look_only(setting: &Setting, image: &Image, tree: &mut Tree) -> Result<Result<(), String>, String> {
    let device = Arc::new(SimDevice::over(image.clone()));
    let opened = setting.open_read_only(device.clone(), &LabClock::default());
    let shown = opened.map_err(|e| e.to_string()).map(|volume| {
        explore(&*volume, tree, true);
        let _ = volume.paths_of(&BTreeSet::from([1 << 40]));
        let refused = volume.mknod(Ino::ROOT, b"no", &new(0o100644));
        let end = volume.unmount();
        (refused.is_err(), end)
    });
    if device.log_len() > 0 {
        return Err("a read-only mount wrote to the device".into());
    }
    match shown {
        Ok((false, _)) => Err("a read-only mount made a file".into()),
        other => Ok(other.map(drop)),
    }
}

/// The whole walk, and every way to read without writing. How many errors the walk told.
fn audit(image: &Image) -> usize {
    let walked = Walked(image);
    let report = walk(&walked, &Options { data: true, limit: 100 });
    let _ = report.to_string();
    let errors = report
        .findings
        .iter()
        .filter(|f| f.severity() == Severity::Error)
        .count();
    let Ok(mut view) = View::open(&walked) else {
        return errors;
    };
    let _ = (view.superblock_view(), view.groups().len(), view.findings().len());
    for space in keepfs_format::Space::ALL {
        let _ = view.map(space).len();
    }
    for ino in 0..PER_BLOCK * 30 {
        let Ok(shown) = view.inode_view(ino) else { continue };
        let _ = (format!("{shown:?}"), view.list(ino), view.xattrs(ino));
        for index in [0, 1, 5, 300, 70_000, 20_000_000, u64::MAX / PAGE as u64, u64::MAX] {
            let _ = view.page(ino, index);
        }
    }
    let _ = view.resolve(b"/small dir/nested/inner/tree again");
    errors
}

/// Checks what was written, whether it was mounted in the end or not.
fn verdict(device: &SimDevice, outcome: Outcome) -> Outcome {
    match legal::check(&device.recording()) {
        Err(what) => Outcome::Violation(what),
        Ok(()) => outcome,
    }
}

/// The second mount: whatever the first one left can be read or is refused.
fn again(setting: &Setting, image: &Image, outcome: Outcome) -> Outcome {
    let device = Arc::new(SimDevice::over(image.clone()));
    match setting.open(device, &LabClock::default()) {
        Ok(volume) => {
            let mut tree = Tree::default();
            explore(&*volume, &mut tree, true);
            let _ = volume.unmount();
        }
        Err(e) if outcome == Outcome::Served => {
            return Outcome::Violation(format!("everything worked, but it cannot be mounted again: {e}"));
        }
        Err(_) => {}
    }
    audit(image);
    outcome
}

/// Looks at everything that can be reached, and at numbers that cannot; with `deep`, reads it too.
fn explore(v: &dyn Vfs, tree: &mut Tree, deep: bool) {
    *tree = Tree {
        errors: tree.errors,
        ..Tree::default()
    };
    tree.dirs.insert(Ino::ROOT);
    let mut todo = vec![Ino::ROOT];
    while let Some(dir) = todo.pop() {
        for (name, _) in names(v, dir, tree) {
            let Some(entry) = tree.note(v.lookup(dir, &name)) else {
                continue;
            };
            let (ino, kind) = (entry.attr.ino, entry.attr.kind());
            tree.held.push(ino);
            if tree.names.len() < 2000 {
                tree.names.push((dir, name, kind));
            }
            if kind == FileKind::Dir {
                if tree.dirs.insert(ino) {
                    todo.push(ino);
                }
            } else if tree.files.insert(ino) && deep {
                look(v, ino, kind, tree);
            }
        }
        if deep {
            attributes(v, dir, tree);
        }
    }
    for number in (0..40).chain([300, 1 << 20, 1 << 40, u64::MAX >> 8, u64::MAX]) {
        if let Ok(entry) = v.lookup_ino(Ino(number)) {
            tree.held.push(entry.attr.ino);
            if deep {
                look(v, Ino(number), entry.attr.kind(), tree);
            }
        }
    }
    let figures = v.statfs();
    tree.note(figures);
}

/// Names of a directory, some at a time as the kernel asks for them; a listing whose cookies do not rise would never end.
fn names(v: &dyn Vfs, dir: Ino, tree: &mut Tree) -> Vec<(Vec<u8>, FileKind)> {
    let mut found = Vec::new();
    let mut cookie = 0;
    for _ in 0..CALLS_MAX {
        let mut told = 0;
        let listed = v.readdir(dir, cookie, &mut |e| {
            if e.name != b"." && e.name != b".." && found.len() < NAMES_MAX {
                found.push((e.name.to_vec(), e.kind));
            }
            (told, cookie) = (told + 1, e.cookie);
            told < NAMES_A_CALL
        });
        if tree.note(listed).is_none() || told == 0 {
            break;
        }
    }
    let _ = v.lookup(dir, b"..");
    let _ = v.lookup(dir, b"no such name");
    found
}

fn attributes(v: &dyn Vfs, ino: Ino, tree: &mut Tree) {
    tree.note(v.getattr(ino));
    for name in tree.note(v.listxattr(ino)).unwrap_or_default() {
        let _ = v.getxattr(ino, &name);
    }
    let _ = v.getxattr(ino, b"system.posix_acl_access");
}

fn look(v: &dyn Vfs, ino: Ino, kind: FileKind, tree: &mut Tree) {
    attributes(v, ino, tree);
    if kind == FileKind::Symlink {
        tree.note(v.readlink(ino));
    }
    if kind != FileKind::File {
        return;
    }
    let size = v.getattr(ino).map_or(0, |a| a.size);
    let mut buf = vec![0; READ_MAX];
    tree.note(v.read(ino, 0, &mut buf));
    tree.note(v.read(ino, size.saturating_sub(5000), &mut buf[..6000]));
    for at in [1u64 << 40, i64::MAX as u64 - 10, i64::MAX as u64, u64::MAX] {
        let _ = v.read(ino, at, &mut buf[..PAGE]);
    }
    let mut at = 0;
    for _ in 0..40 {
        let Ok(data) = v.seek(ino, at, SeekWhence::Data) else {
            break;
        };
        tree.note(v.read(ino, data, &mut buf[..PAGE]));
        match v.seek(ino, data, SeekWhence::Hole) {
            Ok(hole) if hole > at => at = hole,
            _ => break,
        }
    }
}

/// Changes what was found in every way.
fn change(v: &dyn Vfs, tree: &mut Tree) {
    let dirs: Vec<Ino> = tree.dirs.iter().copied().take(CHANGED_MAX).collect();
    let files: Vec<Ino> = tree.files.iter().copied().take(CHANGED_MAX).collect();
    for (i, dir) in dirs.iter().enumerate() {
        change_dir(v, *dir, dirs[(i + 1) % dirs.len()], tree);
    }
    let first = v.syncfs();
    tree.note(first);
    for (i, ino) in files.iter().enumerate() {
        change_file(v, *ino, files[(i + 1) % files.len()], i, tree);
    }
    let second = v.syncfs();
    tree.note(second);
    for ino in core::mem::take(&mut tree.held) {
        v.forget(ino, 1);
    }
    remove(v, tree);
    let last = v.syncfs();
    tree.note(last);
    for i in 0..30 {
        if let Some(e) = tree.note(v.mknod(Ino::ROOT, format!("last {i}").as_bytes(), &new(0o100644))) {
            tree.note(v.write(e.attr.ino, 0, &pattern(16 * PAGE, i), WriteHow::default()));
            v.forget(e.attr.ino, 1);
        }
    }
}

fn change_dir(v: &dyn Vfs, dir: Ino, other: Ino, tree: &mut Tree) {
    if let Some(made) = tree.note(v.mknod(dir, b"made here", &new(0o100644))) {
        let ino = made.attr.ino;
        tree.note(v.write(ino, 0, &pattern(9000, 1), WriteHow::default()));
        tree.note(v.link(ino, other, b"linked there"));
        tree.note(v.setxattr(ino, b"user.big", &pattern(5000, 2), XattrHow::default()));
        tree.held.push(ino);
    }
    if let Some(made) = tree.note(v.mknod(dir, b"dir here", &new(0o040755))) {
        tree.held.push(made.attr.ino);
        tree.note(v.rename(dir, b"dir here", other, b"dir there", RenameFlags::default()));
    }
    if let Some(made) = tree.note(v.symlink(dir, b"link here", &[b'y'; 100], &new(0o120777))) {
        tree.held.push(made.attr.ino);
    }
    if let Some(made) = tree.note(v.tmpfile(dir, &new(0o100600))) {
        tree.note(v.write(made.attr.ino, 0, &pattern(20_000, 3), WriteHow::default()));
        v.forget(made.attr.ino, 1);
    }
    tree.note(v.rename(dir, b"made here", other, b"moved there", RenameFlags::default()));
    let exchange = RenameFlags {
        exchange: true,
        ..RenameFlags::default()
    };
    let _ = v.rename(other, b"moved there", other, b"linked there", exchange);
    // Whole directories to places where they may be their own parents.
    let inside: Vec<Vec<u8>> = tree
        .names
        .iter()
        .filter(|(d, _, kind)| *d == dir && *kind == FileKind::Dir)
        .map(|(_, name, _)| name.clone())
        .collect();
    for name in inside {
        let _ = v.rename(dir, &name, other, b"carried", RenameFlags::default());
        let _ = v.rename(other, b"carried", dir, &name, RenameFlags::default());
        let _ = v.rename(dir, &name, other, b"dir there", exchange);
        let _ = v.rename(dir, &name, other, b"dir there", exchange);
    }
    tree.note(v.setxattr(dir, b"user.dir", &pattern(60, 4), XattrHow::default()));
    tree.note(v.fsync(dir, false));
}

fn change_file(v: &dyn Vfs, ino: Ino, other: Ino, i: usize, tree: &mut Tree) {
    let size = tree.note(v.getattr(ino)).map_or(0, |a| a.size);
    let _ = v.open(ino, OpenHow::default());
    let append = WriteHow {
        append: true,
        ..WriteHow::default()
    };
    tree.note(v.write(ino, 0, b"first bytes", WriteHow::default()));
    tree.note(v.write(ino, 5000, &pattern(3 * PAGE, i as u8), WriteHow::default()));
    tree.note(v.write(ino, 0, b"appended", append));
    tree.note(v.fallocate(ino, FallocMode::PunchHole, 100, 9000));
    let keep = FallocMode::ZeroRange { keep_size: true };
    tree.note(v.fallocate(ino, keep, 4000, 300));
    tree.note(v.fallocate(ino, FallocMode::Allocate, 40 * PAGE as u64, 5000));
    let _ = v.fallocate(ino, FallocMode::PunchHole, 0, i64::MAX as u64);
    tree.note(v.copy_file_range(ino, 0, other, 0, 6 * PAGE as u64));
    tree.note(v.copy_file_range(ino, 100, ino, 20 * PAGE as u64, 5000));
    tree.note(v.setxattr(ino, b"user.more", &pattern(700 * (i % 8), 5), XattrHow::default()));
    let _ = v.removexattr(ino, b"user.small");
    for size in [size.saturating_add(100_000), size / 2, 10, i64::MAX as u64, 0] {
        let to = SetAttr {
            size: Some(size),
            ..SetAttr::default()
        };
        let cut = v.setattr(ino, &to);
        tree.note(cut);
        if i.is_multiple_of(3) {
            break;
        }
    }
    tree.note(v.fsync(ino, false));
}

/// Removes two thirds of the names, deepest first.
fn remove(v: &dyn Vfs, tree: &mut Tree) {
    let names = core::mem::take(&mut tree.names);
    for (i, (dir, name, kind)) in names.iter().enumerate().rev() {
        if i % 3 == 1 {
            continue;
        }
        if *kind == FileKind::Dir {
            let _ = v.rmdir(*dir, name);
        } else {
            tree.note(v.unlink(*dir, name));
        }
    }
}
