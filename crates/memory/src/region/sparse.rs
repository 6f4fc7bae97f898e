//! Large regions of which little is used: where something was ever written, and giving pages back.

use super::Region;
use core::ops::Range;
use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use std::io;

impl Region {
    /// Makes a region whose pages can be given back where nobody keeps regions for another life ([`crate::Reuse`]).
    pub fn sparse(name: &str, len: usize, guard: crate::Guard, seal: bool) -> io::Result<Region> {
        match super::reuse::is_on() {
            true => Region::new(name, len, guard, seal),
            false => Region::lasting(name, len, guard, seal),
        }
    }

    /// Gives the memory of whole pages back; they read as zeros. Nothing happens where that cannot be. The caller sees to it
    /// that nobody writes them meanwhile.
    pub fn give_back(&self, pages: Range<usize>) {
        let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if let Some(memory) = self.descriptor() {
            // Errors: the memory stays, which costs memory only.
            let _ = fallocate(memory, mode, pages.start as u64, (pages.end - pages.start) as u64);
        }
    }

    /// The ranges that were ever written and not given back, of a region whose descriptor is kept.
    pub fn written_ranges(&self) -> io::Result<Vec<Range<usize>>> {
        let mut ranges = Vec::new();
        let Some(memory) = self.descriptor() else {
            return Ok(ranges);
        };
        let mut at = 0;
        loop {
            let start = match seek(memory, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(rustix::io::Errno::NXIO) => return Ok(ranges),
                Err(other) => return Err(other.into()),
            };
            let end = seek(memory, SeekFrom::Hole(start))?;
            ranges.push(start as usize..end as usize);
            at = end;
        }
    }
}
