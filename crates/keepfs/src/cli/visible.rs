//! Text for people, of which nothing is a command to their terminal: labels, names and paths are whatever an image or a user made
//! them (decision 0818). JSON has escapes of its own.

use std::borrow::Cow;
use std::fmt::Write;
use std::path::Path;

/// The text with escapes for what `ls -b` shows escaped, but for spaces and backslashes: applied twice it changes nothing more.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return text.into();
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a String never fails.
        let _ = match c {
            '\u{7}' => seen.write_str("\\a"),
            '\u{8}' => seen.write_str("\\b"),
            '\t' => seen.write_str("\\t"),
            '\n' => seen.write_str("\\n"),
            '\u{b}' => seen.write_str("\\v"),
            '\u{c}' => seen.write_str("\\f"),
            '\r' => seen.write_str("\\r"),
            '\u{1b}' => seen.write_str("\\e"),
            c if is_unseen(c) && c.is_ascii() => write!(seen, "\\x{:02x}", u32::from(c)),
            c if is_unseen(c) => write!(seen, "\\u{{{:x}}}", u32::from(c)),
            c => seen.write_char(c),
        };
    }
    seen.into()
}

/// The same of a text that may have lines: those behind the first stand indented, so that none is taken for another message.
pub fn lines(text: &str) -> String {
    text.split('\n').map(one_line).collect::<Vec<_>>().join("\n    ")
}

/// A path.
pub fn path(path: &Path) -> String {
    one_line(&path.display().to_string()).into_owned()
}

/// Control characters, and those that order lines or directions.
fn is_unseen(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Prints one line of text, whatever it is made of, to standard output.
macro_rules! say {
    ($($words:tt)*) => {
        println!("{}", $crate::cli::visible::one_line(&format!($($words)*)))
    };
}
pub(crate) use say;

/// The same to standard error.
macro_rules! warn_of {
    ($($words:tt)*) => {
        eprintln!("{}", $crate::cli::visible::one_line(&format!($($words)*)))
    };
}
pub(crate) use warn_of;

#[cfg(test)]
mod tests;
