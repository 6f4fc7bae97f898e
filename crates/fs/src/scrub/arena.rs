//! The round of the arena that never ends: a few frames a second, so that each is looked at once in a few minutes
//! (S-19.1), and the staged pages behind the last one. 64 MiB in 300 s are 55 frames a second, about 4 us of work; a round has at
//! most some thousand staged pages, a millisecond.

use super::IDLE;
use crate::Volume;
use keepfs_store::Looked;
use std::time::{Duration, Instant};

/// How far the round is.
#[derive(Default)]
pub(super) struct Round {
    next: u32,
    pub(super) last: Option<Instant>,
    /// What all rounds found since the volume was opened.
    looked: Looked,
}

impl Volume {
    /// Looks at as many frames as are due. How long to wait for the next.
    pub(super) fn scrub_round(&self) -> Duration {
        let Some(every) = self.scrubs.options.arena_every else {
            return IDLE;
        };
        let mut round = self.scrubs.round.lock();
        let now = Instant::now();
        let passed = round.last.replace(now).map_or(IDLE, |last| now - last);
        let count = self.store.arena_figures().0;
        let share = passed.as_secs_f64() / every.as_secs_f64().max(1e-3);
        for _ in 0..((f64::from(count) * share).ceil() as u32).min(count) {
            let looked = self.store.scrub_frame(round.next);
            round.looked += looked;
            round.next = (round.next + 1) % count.max(1);
            if round.next == 0 {
                round.looked += self.store.scrub_page_0();
                for (ino, index) in self.store.staged_keys() {
                    round.looked += self.store.scrub_staged(ino, index);
                }
            }
        }
        IDLE
    }

    /// What the rounds of the arena came to since the volume was opened.
    pub fn scrub_rounds(&self) -> Looked {
        self.scrubs.round.lock().looked
    }
}
