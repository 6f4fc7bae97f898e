//! What is asked of one crash state.

use super::history::{self, History};
use super::setting::{LabClock, Setting, word_of};
use super::trace::{self, Looked, Read};
use keepfs_check::{Finding, Options, walk};
use keepfs_media::{Device, PageNo};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{Direct, FileKind, Ino, Vfs};
use std::sync::Arc;

/// An image as `audit` reads it.
pub struct Walked<'i>(pub &'i Image);

impl keepfs_check::Image for Walked<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        if page >= self.0.pages() {
            return Err("no such page".into());
        }
        buf.copy_from_slice(self.0.bytes(PageNo(page)));
        Ok(())
    }
}

/// What recovery made of a crash state.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// Hash of the tree.
    pub tree: u64,
    /// The device after recovery.
    pub image: Image,
    /// What was read of the crash state for it, in order.
    pub reads: Vec<Read>,
}

/// A check that failed, and what it said.
pub type Failed = (&'static str, String);

/// Recovers `image`, reads everything, and walks what recovery wrote.
pub fn recover(setting: &Setting, image: &Image) -> Result<Recovered, Failed> {
    let device = Arc::new(trace::over(image.clone()));
    let tree = open_and_read(setting, device.clone())?;
    sound(&Looked(&device), true).map_err(|e| ("walk", e))?;
    Ok(Recovered {
        tree,
        image: device.device.image(),
        reads: device.hooks.reads(),
    })
}

/// Recovers `image` at the next guard and the next level of protection: the same tree, and the same bytes written.
pub fn recover_otherwise(setting: &Setting, image: &Image, first: &Recovered) -> Result<(), Failed> {
    let other = setting.other();
    let device = Arc::new(SimDevice::over(image.clone()));
    let tree = open_and_read(&other, device.clone())?;
    let told = |what: &str| {
        Err((
            "guard",
            format!("{what} with guard={} protect={}", word_of(other.guard), other.protect),
        ))
    };
    match (tree == first.tree, device.image().digest() == first.image.digest()) {
        (true, true) => Ok(()),
        (false, _) => told("another tree"),
        (true, false) => told("recovery writes something else"),
    }
}

/// A server shows `image` read-only and dies, and another one resumes it to write: the same tree (S-9.9).
pub fn resume_what_was_shown(setting: &Setting, image: &Image, tree: u64) -> Result<(), Failed> {
    let device = Arc::new(SimDevice::over(image.clone()));
    let clock = LabClock::default();
    let told = |what: String| ("resume of what was shown", what);
    let first = setting.open_to_read_mortal(device.clone(), &clock);
    let first = first.map_err(|e| told(format!("read-only: {e}")))?;
    let left = first.remains().map_err(|e| told(format!("its memory: {e}")))?;
    first.store().kill();
    drop(first);
    let (volume, _) = setting
        .resume(device, &clock, left)
        .map_err(|e| told(format!("resume: {e}")))?;
    match history::hash(&volume).map_err(told)? == tree {
        true => Ok(()),
        false => Err(told("another tree than a recovery finds".into())),
    }
}

/// The hash of the tree that recovery finds.
fn open_and_read(setting: &Setting, device: Arc<dyn Device>) -> Result<u64, Failed> {
    let volume = setting
        .open(device, &LabClock::default())
        .map_err(|e| ("recovery", e.to_string()))?;
    let tree = history::hash(&volume).map_err(|e| ("recovery", e))?;
    match volume.store().fault() {
        Some(fault) => Err(("recovery", format!("the store gave up: {fault}"))),
        None => Ok(tree),
    }
}

/// The whole-tree walk: no error is allowed, no copy of a metablock that was not written when the checkpoint was.
pub fn sound(image: &dyn keepfs_check::Image, data: bool) -> Result<(), String> {
    let report = walk(image, &Options { data, limit: 20 });
    let not_by_a_crash = |f: &&Finding| matches!(f, Finding::MetaCopy { .. });
    let errors = report.errors().chain(report.findings.iter().filter(not_by_a_crash));
    let errors: Vec<String> = errors.map(|f| format!("[{}] {f}", f.code())).collect();
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("walk: {}", errors.join("; ")))
}

/// The pool can be used on: everything is deleted, all space comes back, the walk finds nothing.
pub fn usable(setting: &Setting, image: &Image) -> Result<(), String> {
    let device = Arc::new(SimDevice::over(image.clone()));
    let clock = LabClock::default();
    let volume = setting
        .open(device.clone(), &clock)
        .map_err(|e| format!("usability, open: {e}"))?;
    let before = volume.store().totals();
    clear(&*volume, Ino::ROOT).map_err(|(what, e)| format!("usability, {what}: {e}"))?;
    volume.unmount().map_err(|e| format!("usability, unmount: {e}"))?;
    drop(volume);
    let image = device.image();
    sound(&Walked(&image), true).map_err(|e| format!("usability, everything deleted: {e}"))?;
    let volume = setting
        .open(device, &clock)
        .map_err(|e| format!("usability, open again: {e}"))?;
    let left = volume.store().totals();
    // The root keeps the nodes of its names (S-6.5) and attributes; that all nodes left are those of the root was walked.
    if left.inodes != 1 || left.shares != 0 || left.nodes > before.nodes {
        return Err(format!("usability: an empty pool has {left:?}, and had {before:?}"));
    }
    Ok(())
}

/// Deletes everything below `dir`, immutable or not.
fn clear(vfs: &dyn Vfs, dir: Ino) -> Result<(), (&'static str, keepfs_vfs::Errno)> {
    let mut names = Vec::new();
    vfs.set_flags(dir, keepfs_vfs::InodeFlags(0))
        .map_err(|e| ("clearing flags", e))?;
    vfs.readdir(dir, 0, &mut |e| {
        if e.name != b"." && e.name != b".." {
            names.push((e.name.to_vec(), e.kind));
        }
        true
    })
    .map_err(|e| ("readdir", e))?;
    for (name, kind) in names {
        let ino = vfs.lookup(dir, &name).map_err(|e| ("lookup", e))?.attr.ino;
        let gone = match kind {
            FileKind::Dir => clear(vfs, ino).and_then(|()| vfs.rmdir(dir, &name).map_err(|e| ("rmdir", e))),
            FileKind::File => vfs
                .set_flags(ino, keepfs_vfs::InodeFlags(0))
                .and_then(|()| vfs.unlink(dir, &name))
                .map_err(|e| ("unlink", e)),
            _ => vfs.unlink(dir, &name).map_err(|e| ("unlink", e)),
        };
        vfs.forget(ino, 1);
        gone?;
    }
    Ok(())
}

/// Whether a recovered tree is one that the promise C-1 allows at `position`: the step whose tree it is.
pub fn prefix_of(history: &History, position: usize, tree: u64) -> Result<usize, String> {
    let allowed = history.allowed(position);
    if let Some(step) = allowed.clone().rev().find(|step| history.hashes[*step] == tree) {
        return Ok(step);
    }
    let elsewhere = (0..history.hashes.len()).find(|step| history.hashes[*step] == tree);
    let (low, high) = (allowed.start(), allowed.end());
    Err(match elsewhere {
        Some(step) if step < *low => {
            format!("the tree is that after step {step}, but everything up to step {low} was acknowledged")
        }
        Some(step) => {
            format!("the tree is that after step {step}, which had not begun (steps {low} to {high} may be found)")
        }
        None => format!("the tree is that after no step (steps {low} to {high} may be found)"),
    })
}

/// Uses the pool of a device that lied about its flushes as far as it lets itself be used. Errors are all right; the
/// caller watches for panics.
pub fn contained(setting: &Setting, image: &Image) {
    let device = Arc::new(SimDevice::over(image.clone()));
    // Whatever the walk says of such an image, it has to come to an end.
    let _ = sound(&Walked(image), true);
    let Ok(volume) = setting.open(device, &LabClock::default()) else {
        return;
    };
    let _ = history::hash(&volume);
    let _ = clear(&*volume, Ino::ROOT);
    let _ = volume.unmount();
}
