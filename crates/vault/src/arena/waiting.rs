//! Waiting for a frame's word, which its writers leave within microseconds (S-13.1).
//!
//! A stray write may leave a word that says for ever that somebody writes or verifies. No sum is over the words (S-13.1, S-15.22), and
//! nobody can tell then who really does: whoever waits too long ends the process. Its keeper starts the next server, whose
//! memory comes from the device and the log (SPEC section 16); without a keeper the mount ends instead of hanging.

use super::FrameNo;
use std::time::{Duration, Instant};

/// A look at the clock counts at most this much, so that a process that was stopped has not waited meanwhile. On a machine where
/// others take nearly all of its time one look comes so long behind the one before it, and a hundred of them are enough for
/// whoever really writes to have had a turn.
const LOOK_MAX: Duration = Duration::from_millis(100);
/// This is too long: writers hold a word for a handful of stores, a repair for one frame.
const TOO_LONG: Duration = Duration::from_secs(10);

/// One wait.
#[derive(Debug)]
pub(super) struct Waiting {
    frame: FrameNo,
    looked: Option<Instant>,
    waited: Duration,
}

impl Waiting {
    /// Nothing is known to be wrong yet.
    pub(super) fn on(frame: FrameNo) -> Waiting {
        Waiting {
            frame,
            looked: None,
            waited: Duration::ZERO,
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
        let looked = self.looked.replace(now).unwrap_or(now);
        self.waited += now.saturating_duration_since(looked).min(LOOK_MAX);
        self.waited >= TOO_LONG
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
        let begun = start + Duration::from_secs(3600);
        assert!(!waiting.is_over(begun), "stopped meanwhile");
        let seconds = |step: Duration| {
            let mut waiting = Waiting::on(7);
            let over = (0..).find(|n| waiting.is_over(begun + step * *n)).expect("ends");
            (step * over).as_secs_f64()
        };
        // However often it is looked: each half millisecond, or where others have the processors, ten times a second.
        assert!((10.0..10.1).contains(&seconds(Duration::from_micros(500))));
        assert!((10.0..10.1).contains(&seconds(Duration::from_millis(100))));
        assert!((20.0..20.5).contains(&seconds(Duration::from_millis(200))));
    }
}
