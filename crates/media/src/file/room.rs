//! Room that is kept in the file system under a pool's file, so that a full one costs new data alone (S-2.14, decision 0720).
//!
//! It is allocated behind the end of the file. Where a write of anything but file data finds no room, it is given back, the write
//! is made again, and what that did not need is had again.

use super::{FileDevice, Kind, is_unsupported};
use crate::device::check_range;
use crate::{Access, Class, DeviceError, PAGE_BYTES, PageNo, sys};
use parking_lot::RwLock;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Least that is kept.
const LEAST: u64 = 1 << 20;
/// Most that is kept.
const MOST: u64 = 64 << 20;
/// Between two tries to have it whole again.
const AGAIN: Duration = Duration::from_secs(5);

/// The room behind one file.
pub(super) struct Room {
    start: u64,
    most: u64,
    /// Shared by every write, and alone while the room is given back: file data would take it before the write that it is for.
    state: RwLock<State>,
}

struct State {
    /// Bytes that are there, from `start` on; what a process before this one left is taken to be whole.
    kept: u64,
    /// All of it was seen to be there.
    is_whole: bool,
    tried: Option<Instant>,
}

impl Room {
    /// Of a file of so many pages: a sixty-fourth of it, 1 to 64 MiB.
    pub(super) fn behind(pages: u64) -> Room {
        let start = pages.saturating_mul(PAGE_BYTES);
        let most = (start / 64).clamp(LEAST, MOST) / LEAST * LEAST;
        let state = State {
            kept: most,
            is_whole: false,
            tried: None,
        };
        Room {
            start,
            most,
            state: RwLock::new(state),
        }
    }

    /// Has it whole, if that can be. Where there is no room the next try comes later.
    pub(super) fn keep(&self, file: &File) {
        let is_due = |state: &State| !state.is_whole && state.tried.is_none_or(|tried| tried.elapsed() >= AGAIN);
        if !is_due(&self.state.read()) {
            return;
        }
        let mut state = self.state.write();
        state.tried = Some(Instant::now());
        state.kept = self.hold(file, self.most);
        state.is_whole = state.kept == self.most;
    }

    /// Gives it back, for the write of something.
    fn give(&self, file: &File) -> io::Result<()> {
        // Some file systems take no hole behind the end, others keep there what the file does not reach when it is cut.
        file.set_len(file.metadata()?.len())?;
        sys::punch_hole(file, self.start, self.most)
    }

    /// Has so much of it, as far as there is room; how much that is.
    fn hold(&self, file: &File, wanted: u64) -> u64 {
        let (mut kept, mut part) = (0, wanted);
        while kept < wanted && part >= PAGE_BYTES {
            part = part.min(wanted - kept);
            match sys::allocate(file, self.start + kept, part) {
                Ok(()) => kept += part,
                Err(_) => part = part / 2 / PAGE_BYTES * PAGE_BYTES,
            }
        }
        kept
    }
}

#[cfg(test)]
impl Room {
    pub(super) fn kept(&self) -> u64 {
        self.state.read().kept
    }

    /// As when time has passed.
    pub(super) fn try_now(&self, file: &File) {
        self.state.write().tried = None;
        self.keep(file);
    }
}

impl FileDevice {
    /// Has pages of a regular file allocated, where its file system can do that.
    pub(super) fn allocate(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        let file = self.writable()?;
        check_range(self.pages, at, pages)?;
        if self.kind == Kind::Block || pages == 0 {
            return Ok(());
        }
        match sys::allocate(file, at.0 * PAGE_BYTES, pages * PAGE_BYTES) {
            Err(error) if !is_unsupported(&error) => Err(self.fails(Access::Allocate, at, error)),
            _ => Ok(()),
        }
    }

    /// Writes; what is not file data may take of the room that is kept.
    pub(super) fn with_room(
        &self,
        file: &File,
        class: Class,
        mut write: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(room) = &self.room else {
            return write();
        };
        let beside = room.state.read();
        let error = match write() {
            Err(error) if is_full(&error) && class != Class::Data => error,
            other => return other,
        };
        drop(beside);
        let mut state = room.state.write();
        if state.kept == 0 || room.give(file).is_err() {
            return Err(error);
        }
        // Journalling file systems give freed blocks out when their journal is written. By an open file of its own, so that
        // nobody else misses what it is told of failed writes (S-9.8).
        let _ = self.shared().map(File::sync_data);
        let again = write();
        // The rest, before somebody else has the use of it.
        state.kept = room.hold(file, state.kept);
        state.is_whole = false;
        again
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
