//! How a region is written, at every guard level: the ways through which bytes leave the door.
//!
//! Invariants:
//! W-1 What may be written is open for as long as one change takes, and for who makes it: all of it behind the secret
//!     address (`alias`), this thread (`pkey`), these pages (`mprotect`), nothing (`sealed`).
//! W-2 A change of a word is one change for everybody: an atomic, or under the region's lock where the system writes.
//! W-3 Who knows the secret address is one call deep, calls nobody while it knows it, and clears the registers that it leaves
//!     behind: else the next call would save them on the stack (H-2). So no way of writing is inlined.

use super::Region;
use crate::guard::Guard;
use crate::parts::{load_fours, store_at};
use crate::sys::{byte, clear_registers, set_rights, set_writable, store_pair, word64};
use crate::{failpoint, torn};
use core::sync::atomic::Ordering;
use parking_lot::RwLockWriteGuard;
use std::os::fd::AsFd;

/// Bytes of a page.
const PAGE: usize = 4096;
/// Bytes that a sealed region takes at a time.
const PIECE: usize = 4096;

/// Makes a change at the address where `$len` bytes at `$offset` may be written meanwhile.
macro_rules! change {
    ($region:expr, $offset:expr, $len:expr, |$at:ident| $change:expr) => {
        match $region.guard {
            Guard::Alias => {
                let $at = $region.window($offset, $len);
                let result = $change;
                clear_registers();
                result
            }
            Guard::Off => {
                let $at = $region.window($offset, $len);
                $change
            }
            _ => $region.write_guarded($offset, $len, |$at| $change),
        }
    };
}

/// Closes the key when the change is made, whatever becomes of it.
struct Rights(u32);

impl Drop for Rights {
    fn drop(&mut self) {
        set_rights(Some(self.0));
    }
}

/// Makes pages read-only again when the change is made, whatever becomes of it.
pub struct Pages(usize, usize);

impl Drop for Pages {
    fn drop(&mut self) {
        // If the kernel cannot, the next look at the guard finds a page that is open: not worse than `off`.
        let _ = set_writable(self.0, self.1, false);
    }
}

impl Pages {
    /// Opens the pages of `len` bytes at address `at`. One that stays closed faults at the change, which names it.
    fn open(at: usize, len: usize) -> Pages {
        let start = at - at % PAGE;
        let pages = Pages(start, (at + len).next_multiple_of(PAGE) - start);
        let _ = set_writable(pages.0, pages.1, true);
        pages
    }
}

impl Region {
    /// How it is guarded.
    #[inline]
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// Nobody else changes the region meanwhile; only for guards that write under the region's lock, and `off`.
    pub fn alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.writing.write()
    }

    /// Opens the pages of `len` bytes at `offset` until the answer is dropped, if the guard closes them.
    pub fn opened(&self, offset: usize, len: usize) -> Option<Pages> {
        self.check(offset, len);
        (self.guard == Guard::Mprotect).then(|| Pages::open(self.window(offset, len), len))
    }

    /// Stores bytes into pages that are open.
    pub fn store_opened(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if !failpoint::ARMED || !failpoint::is_armed() {
            return self.store_into_open(offset, bytes);
        }
        for (i, b) in bytes.iter().enumerate().filter(|_| failpoint::store()) {
            self.store_into_open(offset + i, &[*b]);
        }
    }

    #[inline(never)]
    fn store_into_open(&self, offset: usize, bytes: &[u8]) {
        store_at(self.window(offset, bytes.len()), bytes);
        clear_registers();
    }

    /// Calls `change` with the address where `len` bytes at `offset` may be written meanwhile, which is no secret.
    #[inline(never)]
    fn write_guarded<T>(&self, offset: usize, len: usize, change: impl FnOnce(usize) -> T) -> T {
        match self.guard {
            Guard::Pkey => {
                let _rights = Rights(set_rights(None));
                change(self.window(offset, len))
            }
            Guard::Mprotect => {
                let _alone = self.writing.write();
                let at = self.window(offset, len);
                let _open = Pages::open(at, len);
                change(at)
            }
            _ => self.write_sealed(offset, len, change),
        }
    }

    /// The change is made on a private copy, which the system writes. Longer ones come in pieces.
    fn write_sealed<T>(&self, offset: usize, len: usize, change: impl FnOnce(usize) -> T) -> T {
        let _alone = self.writing.write();
        let first = offset - offset % 8;
        let mut words = [0u64; PIECE / 8 + 1];
        assert!(offset + len <= first + PIECE + 8, "a longer change than a frame");
        let count = (offset + len - first).div_ceil(8);
        for (i, word) in words[..count].iter_mut().enumerate() {
            *word = word64(self.shown + first + 8 * i).load(Ordering::Relaxed);
        }
        let result = change(words.as_mut_ptr() as usize + offset % 8);
        let bytes: Vec<u8> = words[..count].iter().flat_map(|word| word.to_ne_bytes()).collect();
        let bytes = &bytes[offset % 8..offset % 8 + len];
        let memory = self.sealed.as_ref().map(AsFd::as_fd);
        let written = memory.map(|memory| rustix::io::pwrite(memory, bytes, offset as u64));
        assert!(
            matches!(written, Some(Ok(n)) if n == len),
            "guarded memory could not be written: {written:?}"
        );
        result
    }

    /// The word at `offset`, a multiple of 8.
    #[inline]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        self.check_word(offset, 8);
        // The system writes bytes, not words (W-2).
        let _whole = (self.guard == Guard::Sealed).then(|| self.writing.read());
        word64(self.shown + offset).load(order)
    }

    /// The word at `offset`, a multiple of 8, as it lies there: where the system writes it may be half of one value and half of
    /// another.
    #[inline]
    pub fn load_plain(&self, offset: usize, order: Ordering) -> u64 {
        self.check_word(offset, 8);
        word64(self.shown + offset).load(order)
    }

    /// Copies a page out of the region that is going to be written: through the window, where that is a mapping of its own
    /// and always open. A processor that finds a line in its first cache by the address of its last use would fetch each
    /// line once more for the other address (decision 0673).
    #[inline(never)]
    pub fn load_to_write(&self, offset: usize, page: &mut [u8; PAGE]) {
        self.check_word(offset, PAGE);
        match self.guard {
            Guard::Alias => {
                load_fours(self.window(offset, PAGE), page.as_chunks_mut().0);
                clear_registers();
            }
            _ => self.load(offset, page),
        }
    }

    /// Stores bytes through the window. Part of the door: called by `update` and `install` only.
    #[inline(never)]
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if failpoint::ARMED && failpoint::is_armed() {
            return self.store_byte_by_byte(offset, bytes);
        }
        if self.guard == Guard::Sealed && bytes.len() > PIECE {
            let pieces = bytes.chunks(PIECE).enumerate();
            return pieces.for_each(|(i, piece)| self.store(offset + i * PIECE, piece));
        }
        change!(self, offset, bytes.len(), |at| store_at(at, bytes));
    }

    /// Stores two words at `offset`, a multiple of 16, through the window, at once where the processor can (S-14.15).
    #[inline(never)]
    pub fn store_pair(&self, offset: usize, pair: [u64; 2]) {
        self.check_word(offset, 16);
        if failpoint::ARMED && failpoint::is_armed() {
            let bytes: Vec<u8> = pair.iter().flat_map(|word| word.to_ne_bytes()).collect();
            return self.store_byte_by_byte(offset, &bytes);
        }
        change!(self, offset, 16, |at| store_pair(at, pair));
    }

    /// Under a failpoint each byte is a step of its own: a copy can be torn anywhere.
    fn store_byte_by_byte(&self, offset: usize, bytes: &[u8]) {
        for (i, b) in bytes.iter().enumerate() {
            if failpoint::store() {
                self.store_byte(offset + i, *b);
            }
        }
    }

    #[inline(never)]
    fn store_byte(&self, offset: usize, b: u8) {
        change!(self, offset, 1, |at| byte(at).store(b, Ordering::Relaxed));
    }

    /// Stores a word through the window; who sees it sees what was stored before.
    #[inline(never)]
    pub fn store_u64(&self, offset: usize, value: u64) {
        self.check_word(offset, 8);
        if failpoint::store() {
            change!(self, offset, 8, |at| word64(at).store(value, Ordering::Release));
        }
    }

    /// Atomic XOR of a byte through the window.
    #[inline(never)]
    pub fn xor_u8(&self, offset: usize, mask: u8) {
        self.check(offset, 1);
        let mask = if failpoint::store() { mask } else { 0 };
        change!(self, offset, 1, |at| {
            byte(at).fetch_xor(mask, Ordering::AcqRel);
        });
    }

    /// Atomic XOR of a word through the window.
    #[inline(never)]
    pub fn xor_u64(&self, offset: usize, mask: u64) {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { 0 };
        if torn::is_torn() {
            return change!(self, offset, 8, |at| {
                let old = word64(at).load(Ordering::Acquire);
                word64(at).store(old ^ mask, Ordering::Release);
            });
        }
        change!(self, offset, 8, |at| {
            word64(at).fetch_xor(mask, Ordering::AcqRel);
        });
    }

    /// Atomic addition to a word through the window; returns the old word.
    #[inline(never)]
    pub fn add_u64(&self, offset: usize, delta: u64) -> u64 {
        self.check_word(offset, 8);
        let delta = if failpoint::store() { delta } else { 0 };
        change!(self, offset, 8, |at| word64(at).fetch_add(delta, Ordering::AcqRel))
    }

    /// Atomic OR of a word through the window; returns the old word.
    #[inline(never)]
    pub fn or_u64(&self, offset: usize, mask: u64) -> u64 {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { 0 };
        change!(self, offset, 8, |at| word64(at).fetch_or(mask, Ordering::AcqRel))
    }

    /// Atomic AND of a word through the window.
    #[inline(never)]
    pub fn and_u64(&self, offset: usize, mask: u64) {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { !0 };
        change!(self, offset, 8, |at| {
            word64(at).fetch_and(mask, Ordering::AcqRel);
        });
    }

    /// Replaces a word that is `old` through the window; `false`: it is another.
    #[inline(never)]
    pub fn replace_u64(&self, offset: usize, old: u64, new: u64) -> bool {
        self.check_word(offset, 8);
        let new = if failpoint::store() { new } else { old };
        let (set, read) = (Ordering::AcqRel, Ordering::Acquire);
        change!(self, offset, 8, |at| word64(at).compare_exchange(old, new, set, read)).is_ok()
    }

    #[inline]
    fn check_word(&self, offset: usize, size: usize) {
        self.check(offset, size);
        assert!(offset.is_multiple_of(size), "word access is not aligned");
    }
}
