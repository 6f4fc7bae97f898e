//! Room that is kept in the file system under a pool's file, so that a full one costs new data alone (S-2.14, decision 0851).
//!
//! It is allocated behind the end of the file. Where a write of anything but file data finds no room, a part of it is given back
//! and the write is tried again.

use super::FileDevice;
use crate::{Class, PAGE_BYTES, sys};
use parking_lot::Mutex;
use std::fs::File;
use std::io;
use std::time::{Duration, Instant};

/// Taken of it at a time.
const STEP: u64 = 1 << 20;
/// Most that is kept.
const MOST: u64 = 64 << 20;
/// Between two tries to have it whole again.
const AGAIN: Duration = Duration::from_secs(5);

/// The room behind one file.
pub(super) struct Room {
    start: u64,
    most: u64,
    state: Mutex<State>,
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
        let most = (start / 64).clamp(STEP, MOST) / STEP * STEP;
        let state = State {
            kept: most,
            is_whole: false,
            tried: None,
        };
        Room {
            start,
            most,
            state: Mutex::new(state),
        }
    }

    /// Has it whole, if that can be. Where there is no room the next try comes later.
    pub(super) fn keep(&self, file: &File) {
        let mut state = self.state.lock();
        if state.is_whole || state.tried.is_some_and(|tried| tried.elapsed() < AGAIN) {
            return;
        }
        state.tried = Some(Instant::now());
        state.kept = 0;
        self.fill(file, &mut state, self.most);
        state.is_whole = state.kept == self.most;
    }

    /// Gives it back for the write of something that needs less than [`STEP`]. `false`: there is none.
    fn give(&self, file: &File) -> bool {
        let mut state = self.state.lock();
        let Some(left) = state.kept.checked_sub(STEP) else {
            return false;
        };
        (state.kept, state.is_whole) = (left, false);
        // Some file systems take no hole behind the end, others keep there what the file does not reach when it is cut: all is
        // given back then, and [`Room::hold`] has what is left again.
        let len = file.metadata().map(|found| found.len());
        len.and_then(|len| file.set_len(len)).is_ok() && sys::punch_hole(file, self.start, self.most).is_ok()
    }

    /// Has again what was not needed.
    fn hold(&self, file: &File) {
        let mut state = self.state.lock();
        // Not more before somebody had the use of it.
        state.tried = Some(Instant::now());
        let wanted = core::mem::take(&mut state.kept);
        self.fill(file, &mut state, wanted);
    }

    fn fill(&self, file: &File, state: &mut State, wanted: u64) {
        while state.kept < wanted {
            if sys::allocate_behind(file, self.start + state.kept, STEP).is_err() {
                return;
            }
            state.kept += STEP;
        }
    }
}

#[cfg(test)]
impl Room {
    pub(super) fn kept(&self) -> u64 {
        self.state.lock().kept
    }

    /// As when time has passed.
    pub(super) fn try_now(&self, file: &File) {
        self.state.lock().tried = None;
        self.keep(file);
    }
}

impl FileDevice {
    /// Writes; what is not file data may take of the room that is kept.
    pub(super) fn with_room(
        &self,
        file: &File,
        class: Class,
        mut write: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        loop {
            let error = match write() {
                Err(error) if is_full(&error) && class != Class::Data => error,
                other => return other,
            };
            let Some(room) = self.room.as_ref().filter(|room| room.give(file)) else {
                return Err(error);
            };
            // Journalling file systems give freed blocks out when their journal is written. By an open file of its own, so that
            // nobody else misses what it is told of failed writes (S-9.8).
            let _ = self.shared().map(File::sync_data);
            let again = write();
            room.hold(file);
            match again {
                Err(error) if is_full(&error) => {}
                other => return other,
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT))
}
