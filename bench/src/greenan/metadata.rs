//! Figure 7: 100 directories, empty files in each, a link to each file, other permissions for the directories, and a touch of
//! each file; then, which the paper does not have, a look at each file.
//!
//! In process each size runs at each setting in turn, each time on a new pool in memory; what counts is the processor time
//! of the one thread there is, in which checkpoints run, too. Through FUSE the same calls go through the kernel.

use crate::inproc::calls::Calls;
use crate::inproc::library::Library;
use keepfs_lab::audits::cost::{LEVELS, Level};
use keepfs_lab::cpu::thread_ns;
use keepfs_lab::million::Failure;
use keepfs_lab::told::Told;
use std::io::Result;

/// Directories.
pub const DIRS: usize = 100;
/// Files of a directory in the six variations between the paper's 100 and 500.
pub const FILES: [usize; 6] = [100, 180, 260, 340, 420, 500];

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// Directories.
    pub dirs: usize,
    /// Directories where every write is two system calls and more: those settings are fifty times as slow.
    pub dirs_slow: usize,
    /// Rounds.
    pub rounds: usize,
    /// Most files of a directory.
    pub files_max: usize,
}

/// A tree that the workload made.
pub struct Tree<C: Calls> {
    dirs: Vec<C::Dir>,
    files: usize,
}

fn name(file: usize) -> String {
    format!("file-{file:05}")
}

/// The workload; returns the tree and how many operations it took.
pub fn run<C: Calls>(calls: &C, dirs: usize, files: usize) -> Result<(Tree<C>, u64)> {
    let made: Result<Vec<C::Dir>> = (0..dirs).map(|d| calls.directory(&format!("{files}-{d:03}"))).collect();
    let tree = Tree { dirs: made?, files };
    tree.each(|dir, file| {
        let made = calls.make(dir, name(file).as_bytes())?;
        calls.release(made);
        Ok(())
    })?;
    tree.each(|dir, file| calls.link(dir, name(file).as_bytes(), format!("link-{file:05}").as_bytes()))?;
    tree.dirs.iter().try_for_each(|dir| calls.chmod(dir, 0o700))?;
    tree.each(|dir, file| calls.touch(dir, name(file).as_bytes()))?;
    Ok((tree, (2 * dirs + 3 * dirs * files) as u64))
}

/// Looks at each file once: lookup and attributes. Returns how many operations that is.
pub fn look<C: Calls>(calls: &C, tree: &Tree<C>) -> Result<u64> {
    tree.each(|dir, file| calls.lookup(dir, name(file).as_bytes()))?;
    Ok((tree.dirs.len() * tree.files) as u64)
}

impl<C: Calls> Tree<C> {
    fn each(&self, mut f: impl FnMut(&C::Dir, usize) -> Result<()>) -> Result<()> {
        let mut all = self
            .dirs
            .iter()
            .flat_map(|dir| (0..self.files).map(move |file| (dir, file)));
        all.try_for_each(|(dir, file)| f(dir, file))
    }
}

/// The paper's settings, and ours: the first has nothing, the second the operation log only.
fn settings() -> Vec<(Level, bool)> {
    let mut all = Level::of_greenan().to_vec();
    all.push((LEVELS[3].named("keepfs"), false));
    all.push((LEVELS[3].without_audits("keepfs, no audits"), false));
    all
}

/// All settings in turn at each size; tells each run as soon as it is done.
pub fn compare(wishes: &Wishes, mut tell: impl FnMut(Told)) -> std::result::Result<(), Failure> {
    let settings = settings();
    let sizes = FILES.iter().filter(|files| **files <= wishes.files_max);
    for round in 0..wishes.rounds {
        for files in sizes.clone() {
            for at in 0..settings.len() {
                // Each begins as often as any other.
                let (level, slow) = &settings[(at + round) % settings.len()];
                let dirs = if *slow { wishes.dirs_slow } else { wishes.dirs };
                once(level, dirs, *files, &mut tell)?;
            }
        }
    }
    Ok(())
}

fn once(level: &Level, dirs: usize, files: usize, tell: &mut impl FnMut(Told)) -> std::result::Result<(), Failure> {
    let volume = level.volume()?;
    let calls = Library(&volume);
    let (mut count, mut tree) = (0, None);
    let made = spent(|| {
        let (own, operations) = run(&calls, dirs, files)?;
        (tree, count) = (Some(own), operations);
        Ok(())
    })?;
    let told = |what: &str, count: u64, ns: u64| {
        let each = ns as f64 / count as f64;
        Told::new(format!("{what}, {files} files"), level.name, 1e9 / each, "op/s")
            .with("operations", count as f64)
            .with("processor_us", each / 1e3)
    };
    tell(told("metadata", count, made));
    let Some(tree) = tree.filter(|_| FILES.last() == Some(&files)) else {
        return Ok(());
    };
    // Once to have everything as it is for long, and then several times: one look takes long enough to be measured well.
    look(&calls, &tree)?;
    let mut looks = 0;
    let looked = spent(|| (0..LOOKS).try_for_each(|_| look(&calls, &tree).map(|n| looks += n)))?;
    tell(told("look", looks, looked));
    Ok(())
}

/// How often each file is looked at.
const LOOKS: usize = 3;

/// Processor time of this thread, nanoseconds, at least 1.
fn spent(f: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = thread_ns();
    f()?;
    Ok((thread_ns() - before).max(1))
}

#[cfg(test)]
mod tests;
