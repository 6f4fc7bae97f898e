//! Events in a file of JSON lines, so that `keepfs events` has them when their server is gone.
//!
//! The file lies in /run and ends with the machine's uptime: a server must not write to a place that may be its own mount.

use super::Event;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// Lines after which the file is written anew with the last events only.
const LINES_MAX: usize = 1024;

/// An open file of events.
pub struct Journal {
    file: File,
    lines: usize,
}

impl Journal {
    /// Writes `file`, which is open for appending, anew. Errors: those of the file system.
    pub fn begin<'e>(file: File, events: impl Iterator<Item = &'e Event>) -> io::Result<Journal> {
        let mut journal = Journal { file, lines: 0 };
        journal.again(events)?;
        Ok(journal)
    }

    /// The file once more, for whoever keeps it. Errors: no free descriptor.
    pub fn file(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// Writes it anew where it is: this process may not be allowed to make files. Who reads it meanwhile misses some.
    fn again<'e>(&mut self, events: impl Iterator<Item = &'e Event>) -> io::Result<()> {
        let (text, lines) = text(events)?;
        self.file.set_len(0)?;
        self.file.write_all(&text)?;
        self.lines = lines;
        Ok(())
    }

    /// Adds the last of `events`, which are all that shall be kept. Errors: those of the file system; what the file lacks
    /// then is written with the next one.
    pub fn add(&mut self, events: &VecDeque<Event>) -> io::Result<()> {
        if self.lines >= LINES_MAX {
            return self.again(events.iter());
        }
        let Some(last) = events.back() else { return Ok(()) };
        let mut line = serde_json::to_vec(last)?;
        line.push(b'\n');
        let written = self.file.write_all(&line);
        self.lines = match written {
            Ok(()) => self.lines + 1,
            Err(_) => LINES_MAX,
        };
        written
    }
}

/// Adds one event to a file of a server that is gone, whatever it left there. Errors: those of the file system; it is none.
pub fn append(file: &OwnedFd, event: &Event) -> io::Result<()> {
    let mut file = File::from(file.try_clone()?);
    // A server says which file it is, and whoever waited for another kind would wait for it.
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // The last line may have been cut by its writer's death.
    let mut line = vec![b'\n'];
    serde_json::to_writer(&mut line, event)?;
    line.push(b'\n');
    file.write_all(&line)
}

/// Events as lines, and how many.
fn text<'e>(events: impl Iterator<Item = &'e Event>) -> io::Result<(Vec<u8>, usize)> {
    let mut text = Vec::new();
    let mut lines = 0;
    for event in events {
        serde_json::to_writer(&mut text, event)?;
        text.push(b'\n');
        lines += 1;
    }
    Ok((text, lines))
}

/// The events in a file, oldest first; none if there is no file. A line that was cut by a dying server is left out.
pub fn read(path: &Path) -> Vec<Event> {
    events(&fs::read(path).unwrap_or_default())
}

/// The same of a file that is open. Errors: those of the file system.
pub fn read_open(mut file: &File) -> io::Result<Vec<Event>> {
    let mut text = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut text)?;
    Ok(events(&text))
}

fn events(text: &[u8]) -> Vec<Event> {
    let lines = text.split(|b| *b == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

#[cfg(test)]
mod tests;
