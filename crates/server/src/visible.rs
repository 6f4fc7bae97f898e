//! Text for people, of which nothing is a command to their terminal: labels, names and paths are whatever an image or a user made
//! them (decision 0818; S-18.10). JSON has escapes of its own.

use keepfs_check::{escape, is_unseen, shown};
use std::borrow::Cow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A text with escapes for what is not seen, as `$'...'` has them: applied twice it changes nothing more.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return text.into();
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unseen(c) {
            true => escape(c, &mut seen),
            false => seen.push(c),
        }
    }
    seen.into()
}

/// The same of a text that may have lines: those behind the first stand indented, so that none is taken for another message.
pub fn lines(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n    ")
}

/// A path.
pub fn path(path: &Path) -> String {
    shown(path.as_os_str().as_bytes()).into_owned()
}

/// Paths in the midst of a text.
pub trait Shown {
    /// As [`path`].
    fn shown(&self) -> String;
}

impl Shown for Path {
    fn shown(&self) -> String {
        path(self)
    }
}

#[cfg(test)]
mod tests;
