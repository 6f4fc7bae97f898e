//! How soon a frame that nobody uses any more is replaced: a counter that uses raise and the hand lowers (decision 0673).

use core::sync::atomic::{AtomicU8, Ordering};
use keepfs_format::Kind;

/// The most turns of the hand that a frame outlasts.
pub const MOST: u8 = 4;

/// How many more times the hand passes a frame. Changes that meet may be lost: nothing but the choice depends on it.
#[derive(Default)]
pub struct Heat {
    turns: AtomicU8,
    /// What a use raises it to.
    worth: AtomicU8,
}

impl Heat {
    /// A metablock of kind `kind` was put into the frame.
    pub fn begin(&self, kind: u8) {
        let (turns, worth) = of(kind);
        self.worth.store(worth, Ordering::Relaxed);
        self.turns.store(turns, Ordering::Relaxed);
    }

    /// It is used. A frame that is hot already is not written to.
    #[inline]
    pub fn rise(&self) {
        let worth = self.worth.load(Ordering::Relaxed);
        if self.turns.load(Ordering::Relaxed) != worth {
            self.turns.store(worth, Ordering::Relaxed);
        }
    }

    /// The hand passes: lowers it by at most `by`. Whether it was still hot.
    #[inline]
    pub fn lower(&self, by: u8) -> bool {
        let turns = self.turns.load(Ordering::Relaxed);
        if turns > 0 {
            self.turns.store(turns.saturating_sub(by), Ordering::Relaxed);
        }
        turns > 0
    }
}

/// How many turns a metablock stays that is used just once, and behind each further use. Pages that lead to a hundred others
/// stay longest; then inodes that were used again, as those that change are: 15 lie in one metablock.
fn of(kind: u8) -> (u8, u8) {
    match Kind::of(kind) {
        Some(Kind::DirIndex | Kind::Map) => (MOST - 1, MOST),
        Some(Kind::Inodes) => (0, 3),
        _ => (0, 2),
    }
}
