//! Printing to a reader who may go away.

use signal_hook::consts::SIGPIPE;
use signal_hook::flag::register_conditional_default;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// From here on a write to a pipe that nobody reads ends the process, as with other programs that print (SIGPIPE).
pub fn end_with_the_reader() {
    if let Err(error) = register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true))) {
        tracing::debug!(%error, "SIGPIPE stays ignored");
    }
}
