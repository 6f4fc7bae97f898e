//! A thread that writes small files, fsyncs each, and says which were acknowledged.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;

/// Writes until an error comes.
pub struct Writer {
    acknowledged: Receiver<usize>,
    thread: JoinHandle<(usize, String)>,
}

impl Writer {
    /// Begins to write into the directory `dir`, which need not exist.
    pub fn start(dir: PathBuf) -> Self {
        let (sender, acknowledged) = channel();
        let thread = std::thread::spawn(move || {
            for number in 0.. {
                if let Err(e) = write(&dir, number) {
                    return (number, e.to_string());
                }
                // Nobody listens any more once enough was written.
                let _nobody_listens = sender.send(number + 1);
            }
            (usize::MAX, "written for ever".to_owned())
        });
        Self { acknowledged, thread }
    }

    /// Returns when `count` files are acknowledged.
    pub fn wait_for(&self, count: usize) -> Result<(), String> {
        let reached = self.acknowledged.iter().any(|number| number >= count);
        if reached {
            Ok(())
        } else {
            Err(format!("the writer failed before it wrote {count} files"))
        }
    }

    /// How many files were acknowledged, and the error that ended it.
    pub fn join(self) -> Result<(usize, String), String> {
        drop(self.acknowledged);
        self.thread.join().map_err(|_| "the writer panicked".to_owned())
    }
}

/// An error unless the first `count` files of the directory are there with their bytes.
pub fn verify(dir: &Path, count: usize) -> Result<(), String> {
    for number in 0..count {
        let path = path(dir, number);
        let bytes = fs::read(&path).map_err(|e| format!("acknowledged, but {}: {e}", path.display()))?;
        if bytes != content(number) {
            return Err(format!("acknowledged, but {} has other bytes", path.display()));
        }
    }
    Ok(())
}

fn write(dir: &Path, number: usize) -> std::io::Result<()> {
    let path = path(dir, number);
    fs::create_dir_all(path.parent().unwrap_or(dir))?;
    let mut file = File::create(path)?;
    file.write_all(&content(number))?;
    file.sync_all()
}

fn path(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("{:03}", number / 100))
        .join(format!("file{number:06}"))
}

/// Between 1 and 20,000 bytes that no other file has.
fn content(number: usize) -> Vec<u8> {
    let line = format!("this is file {number}\n");
    let length = 1 + number.wrapping_mul(7919) % 20_000;
    line.bytes().cycle().take(length).collect()
}

#[cfg(test)]
mod tests;
