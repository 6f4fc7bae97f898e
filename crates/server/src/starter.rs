//! What a server says to whoever started it: lines on its standard output, of which the last one is the answer.

use crate::visible::one_line;
use keepfs_store::mmp::wait_in_words;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};

/// What the server says when the mount is usable.
pub const READY: &str = "ready";
/// How a line of the server's begins that is no answer yet: what it waits for.
const WAITS: &str = "waits ";
/// The same of one that warns.
pub const WARNS: &str = "warning: ";

/// Tells that it is waited for another machine, so many seconds: to the starter, who waits for the answer, and as an event.
pub fn waits(seconds: u64) {
    let said = wait_in_words(seconds);
    tracing::warn!("{said}");
    tell(&said);
}

/// Tells the starter, who waits for the answer, one line.
pub fn tell(line: &str) {
    let mut starter = io::stdout();
    // Gone is as good as told.
    let _ = writeln!(starter, "{}", one_line(line)).and_then(|()| starter.flush());
}

/// Whether the starter has ended before it had its answer (S-16.29).
pub fn is_gone() -> bool {
    let starter = rustix::stdio::stdout();
    let mut fds = [PollFd::from_borrowed_fd(starter, PollFlags::empty())];
    let _ = poll(&mut fds, Some(&Timespec::default()));
    fds[0].revents().contains(PollFlags::ERR)
}

/// Says how it went to the starter, who reads one line but for those that begin with [`WAITS`] or [`WARNS`], whoever says it first:
/// a server, or its keeper if the server has died over it. From then on what is said there goes to `null`.
pub fn answer(line: &str, null: &File) {
    tell(line);
    if let Err(error) = rustix::stdio::dup2_stdout(null) {
        tracing::error!(%error, "the starter waits for more");
    }
}

/// The starter's side: the answer. `None` if the server ends without a word. What it waits for or warns of before is told to `tell`.
pub fn hear(server: impl Read, tell: &mut dyn FnMut(&str)) -> Option<String> {
    for line in BufReader::new(server).lines() {
        let line = line.ok()?;
        match line.starts_with(WAITS) || line.starts_with(WARNS) {
            true => tell(&line),
            false => return Some(line.trim_end().to_owned()).filter(|line| !line.is_empty()),
        }
    }
    None
}

/// Where everything may be written that nobody shall read.
pub const NOWHERE: &str = "/dev/null";

/// See [`NOWHERE`]. Errors: those of the file system.
pub fn nowhere() -> io::Result<File> {
    File::options().write(true).open(NOWHERE)
}
