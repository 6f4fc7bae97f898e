//! filebench's file sets in our own words: numbered names in a tree, sizes drawn once, files picked round robin.
//!
//! A pick takes the next name in order that nobody is just picking; one rotor goes round the existing files, one round the
//! names that are free. An open file can be picked again; a file that anybody has open is not deleted (1.5-alpha3).

use crate::random::Random;
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Sizes of files.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Size {
    /// Gamma distributed with this mean and shape 1.5.
    Gamma(f64),
    /// All the same.
    Fixed(u64),
}

/// What a file set looks like.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shape {
    /// Names.
    pub entries: usize,
    /// Names in a directory; at least `entries` for one flat directory.
    pub width: usize,
    /// Percent of the names that are files at first, drawn at random.
    pub prealloc: u64,
    /// Sizes.
    pub size: Size,
}

impl Shape {
    /// The same with `percent` of the names, at least a few.
    pub fn scaled(self, percent: usize) -> Shape {
        Shape {
            entries: (self.entries * percent / 100).max(20),
            ..self
        }
    }

    /// Levels of directories: ln(entries) / ln(width), at least one.
    fn depth(&self) -> u32 {
        let levels = (self.entries as f64).ln() / (self.width as f64).ln();
        (levels as u32).max(1)
    }

    /// Where file `index` lies below the set's directory.
    fn place(&self, index: usize) -> PathBuf {
        let mut parts = vec![format!("{index:08}")];
        let mut directory = index / self.width;
        for _ in 1..self.depth() {
            parts.push(format!("{directory:08}"));
            directory /= self.width;
        }
        parts.iter().rev().collect()
    }
}

/// A file set in use by many threads.
pub struct Fileset {
    paths: Vec<PathBuf>,
    sizes: Vec<u64>,
    state: Mutex<State>,
    given: Condvar,
}

/// Which names can be picked.
struct State {
    files: BTreeSet<usize>,
    free: BTreeSet<usize>,
    /// How often each file is open.
    open: Vec<u32>,
    next_file: usize,
    next_free: usize,
}

impl Fileset {
    /// The set of this shape in `dir`, in its first state: the same every time.
    pub fn new(dir: &Path, shape: &Shape) -> Fileset {
        let mut random = Random(1);
        let size = |random: &mut Random| match shape.size {
            Size::Gamma(mean) => random.gamma(mean) as u64,
            Size::Fixed(size) => size,
        };
        let sizes = (0..shape.entries).map(|_| size(&mut random)).collect();
        let (files, free) = (0..shape.entries).partition(|_| random.below(100) < shape.prealloc);
        let state = State {
            files,
            free,
            open: vec![0; shape.entries],
            next_file: 0,
            next_free: 0,
        };
        Fileset {
            paths: (0..shape.entries).map(|index| dir.join(shape.place(index))).collect(),
            sizes,
            state: Mutex::new(state),
            given: Condvar::new(),
        }
    }

    /// Makes the directories, and the files of the first state.
    pub fn make(&self) -> io::Result<u64> {
        let state = self.lock();
        let mut made = BTreeSet::new();
        let buffer: Vec<u8> = (0..1 << 20).map(|at: u32| ((at * 31) >> 3) as u8).collect();
        for path in &self.paths {
            if let Some(parent) = path.parent()
                && made.insert(parent.to_owned())
            {
                std::fs::create_dir_all(parent)?;
            }
        }
        for index in &state.files {
            let mut file = std::fs::File::create(&self.paths[*index])?;
            write_size(&mut file, self.sizes[*index], &buffer)?;
        }
        Ok(state.files.len() as u64)
    }

    /// The path of a name.
    pub fn path(&self, index: usize) -> &Path {
        &self.paths[index]
    }

    /// The size that was drawn for it.
    pub fn size(&self, index: usize) -> u64 {
        self.sizes[index]
    }

    /// The next existing file; waits while others are picking all there are.
    pub fn pick_file(&self) -> usize {
        let mut state = self.lock();
        loop {
            if let Some(index) = round(&state.files, state.next_file) {
                state.files.remove(&index);
                state.next_file = index + 1;
                return index;
            }
            state = self.given.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next free name, if there is one.
    pub fn pick_free(&self) -> Option<usize> {
        let mut state = self.lock();
        let index = round(&state.free, state.next_free)?;
        state.free.remove(&index);
        state.next_free = index + 1;
        Some(index)
    }

    /// Whether anybody has the picked file open.
    pub fn is_open(&self, index: usize) -> bool {
        self.lock().open[index] > 0
    }

    /// A picked name is a file again, or for the first time; `opened` by the caller.
    pub fn is_file(&self, index: usize, opened: bool) {
        let mut state = self.lock();
        state.files.insert(index);
        state.open[index] += u32::from(opened);
        drop(state);
        self.given.notify_one();
    }

    /// A picked name is free.
    pub fn is_free(&self, index: usize) {
        self.lock().free.insert(index);
    }

    /// The caller has closed a file.
    pub fn closed(&self, index: usize) {
        self.lock().open[index] -= 1;
    }

    /// How many names are files.
    #[cfg(test)]
    pub fn files(&self) -> usize {
        self.lock().files.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first number from `from` on, round the end.
fn round(set: &BTreeSet<usize>, from: usize) -> Option<usize> {
    set.range(from..).next().or_else(|| set.first()).copied()
}

/// Writes `size` bytes at the file's position in pieces of the buffer.
pub fn write_size(file: &mut std::fs::File, size: u64, buffer: &[u8]) -> io::Result<()> {
    let mut left = size;
    while left > 0 {
        let now = left.min(buffer.len() as u64) as usize;
        io::Write::write_all(file, &buffer[..now])?;
        left -= now as u64;
    }
    Ok(())
}
