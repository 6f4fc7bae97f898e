//! Standard output as other programs have it: a reader who goes away ends the program without a word (SIGPIPE), and what cannot be written
//! is an error with an exit code, not a panic.

use signal_hook::consts::SIGPIPE;
use signal_hook::flag::register_conditional_default;
use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// What the program ends with if its output cannot be written.
static CODE: AtomicU8 = AtomicU8::new(1);

/// Whether anything was written.
static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether nothing was written yet.
pub fn is_empty() -> bool {
    !BEGUN.load(Ordering::Relaxed)
}

/// In this program instead of the one of std, which panics.
macro_rules! print {
    ($($words:tt)*) => {
        $crate::cli::out::put(format_args!($($words)*))
    };
}

/// The same with the end of a line.
macro_rules! println {
    ($($words:tt)*) => {
        $crate::cli::out::put(format_args!("{}\n", format_args!($($words)*)))
    };
}

/// From here on a write to a pipe that nobody reads ends the process, and one that fails otherwise ends it with `code`.
pub fn end_with_the_reader(code: u8) {
    CODE.store(code, Ordering::Relaxed);
    if let Err(error) = register_conditional_default(SIGPIPE, Arc::new(AtomicBool::new(true))) {
        tracing::debug!(%error, "SIGPIPE stays ignored");
    }
}

/// Writes to standard output, or ends the program.
pub fn put(words: Arguments<'_>) {
    BEGUN.store(true, Ordering::Relaxed);
    told(io::stdout().lock().write_fmt(words));
}

/// Writes what is left of it, or ends the program.
pub fn finish() {
    told(io::stdout().lock().flush());
}

fn told(written: io::Result<()>) {
    if let Err(error) = written {
        // Standard error may be as full.
        let _ = writeln!(io::stderr(), "keepfs: cannot write to standard output: {error}");
        std::process::exit(CODE.load(Ordering::Relaxed).into());
    }
}
