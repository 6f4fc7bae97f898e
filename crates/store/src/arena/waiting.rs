//! Waiting for a frame's word, which its writers leave within microseconds (PROTOCOLS section 3).
//!
//! A stray write may leave a word that says for ever that somebody writes or verifies. No sum is over the words (S-13.1), and
//! nobody can tell then who really does: whoever waits too long ends the process. Its keeper starts the next server, whose
//! memory comes from the device and the log (SPEC section 16); without a keeper the mount ends instead of hanging.

use super::FrameNo;
use std::time::{Duration, Instant};

/// A look at the clock counts at most this much, so that a process that was stopped has not waited meanwhile.
const LOOK: Duration = Duration::from_millis(2);
/// So many looks, ten seconds, are too long: writers hold a word for a handful of stores, a repair for one frame.
const LOOKS_MAX: u32 = 5000;

/// One wait.
#[derive(Debug)]
pub(super) struct Waiting {
    frame: FrameNo,
    looked: Option<Instant>,
    looks: u32,
}

impl Waiting {
    /// Nothing is known to be wrong yet.
    pub(super) fn on(frame: FrameNo) -> Waiting {
        Waiting {
            frame,
            looked: None,
            looks: 0,
        }
    }

    /// Lets others run; ends the process when it was asked for too long.
    #[cold]
    pub(super) fn pause(&mut self) {
        crate::locks::yield_now();
        if self.is_over(Instant::now()) {
            tracing::error!(
                frame = self.frame,
                "the control word of a frame says that it is in use, and has for ten seconds: something else wrote it; \
                 this server ends, so that the next one makes its memory anew"
            );
            std::process::abort();
        }
    }

    fn is_over(&mut self, now: Instant) -> bool {
        let looked = *self.looked.get_or_insert(now);
        if now.saturating_duration_since(looked) >= LOOK {
            self.looked = Some(now);
            self.looks += 1;
        }
        self.looks >= LOOKS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_are_too_long_unless_the_process_was_stopped() {
        let start = Instant::now();
        let mut waiting = Waiting::on(7);
        assert!(!waiting.is_over(start));
        assert!(!waiting.is_over(start + Duration::from_secs(3600)), "stopped meanwhile");
        let begun = start + Duration::from_secs(3600);
        let over = (1..).find(|n| waiting.is_over(begun + LOOK * *n)).expect("ends");
        assert_eq!(over, LOOKS_MAX - 1);
    }
}
