//! What audits cost: the same changes with and without them, in turns, by the processor time of the thread.

use super::script;
use keepfs_audit::digest::Equations;
use keepfs_fs::Volume;
use keepfs_media::ram::RamDevice;
use keepfs_vfs::{Errno, FileKind, Ino, NewInode, Vfs, WriteHow};
use std::sync::Arc;

/// Pages of a pool.
const PAGES: u64 = 64 << 10;
/// Operations between two changes of turn.
const TURN: usize = 500;

/// A volume that takes turns.
pub struct Runner {
    volume: Arc<Volume>,
    dir: Ino,
    done: usize,
}

impl Runner {
    /// On a pool of its own in memory. Errors: it could not be made.
    pub fn new(audit: Equations) -> Result<Runner, Errno> {
        let device = Arc::new(RamDevice::new(PAGES));
        script::format(device.clone())?;
        let volume = Volume::open(device, &script::options(audit)).map_err(Errno::from)?;
        let new = NewInode::by_root(FileKind::Dir.type_bits() | 0o755);
        let dir = volume.mknod(Ino::ROOT, b"dir", &new)?.attr.ino;
        Ok(Runner { volume, dir, done: 0 })
    }

    /// Creates a file, writes a page, writes it again, removes it.
    fn one(&mut self) -> Result<(), Errno> {
        let name = format!("f{}", self.done % 40);
        self.done += 1;
        let new = NewInode::by_root(FileKind::File.type_bits() | 0o644);
        let ino = self.volume.mknod(self.dir, name.as_bytes(), &new)?.attr.ino;
        for _ in 0..2 {
            self.volume.write(ino, 0, &[1; 4096], WriteHow::default())?;
        }
        self.volume.forget(ino, 1);
        self.volume.unlink(self.dir, name.as_bytes())
    }

    /// A turn. Errors: those of the volume.
    pub fn turn(&mut self) -> Result<(), Errno> {
        (0..TURN).try_for_each(|_| self.one())
    }
}

/// Processor time a turn, nanoseconds: with `first` and with `second`, the median of `rounds` turns each.
pub fn compare(first: Equations, second: Equations, rounds: usize) -> Result<(u64, u64), Errno> {
    let mut runners = [Runner::new(first)?, Runner::new(second)?];
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (runner, times) in runners.iter_mut().zip(&mut times) {
            let before = crate::inproc::cpu_ns();
            runner.turn()?;
            times.push(crate::inproc::cpu_ns() - before);
        }
    }
    let median = |times: &mut Vec<u64>| {
        times.sort_unstable();
        times.get(times.len() / 2).copied().unwrap_or(0)
    };
    let [a, b] = &mut times;
    Ok((median(a), median(b)))
}
