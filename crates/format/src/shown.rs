//! Names and paths are bytes. In text and JSON no two of them look alike (S-18.10).

use std::borrow::Cow;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Begins a name that is not told as it is. No path does: they begin with `/`, or with the mark of a cut one.
const QUOTED: &str = "$'";

/// A name or path in text: as it is, or, if some of it is not seen or it is no UTF-8, as `$'...'`, which shells take.
pub fn shown(name: &[u8]) -> Cow<'_, str> {
    match str::from_utf8(name) {
        Ok(text) if !text.starts_with(QUOTED) && !text.contains(is_unseen) => text.into(),
        _ => quoted(name).into(),
    }
}

/// The same of a path.
pub fn path(path: &Path) -> Cow<'_, str> {
    shown(path.as_os_str().as_bytes())
}

/// A path for JSON: its text, and if it is no UTF-8 it as [`shown`], and its bytes as hexadecimal digits.
pub fn for_programs(path: &[u8]) -> (String, Option<String>) {
    match str::from_utf8(path) {
        Ok(text) => (text.to_owned(), None),
        Err(_) => {
            let digits = path.iter().map(|byte| format!("{byte:02x}"));
            (quoted(path), Some(digits.collect()))
        }
    }
}

/// A path from JSON in text.
pub fn from_programs<'p>(path: &'p str, bytes: Option<&str>) -> Cow<'p, str> {
    match bytes {
        Some(_) => path.into(),
        None => shown(path.as_bytes()),
    }
}

/// Control characters, those that order lines or directions, those that take no room or look like a space, and those that mean
/// nothing by themselves.
pub fn is_unseen(c: char) -> bool {
    let is_blank = matches!(c, '\u{115f}' | '\u{1160}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}');
    let looks_like_space = is_blank || c.is_whitespace() && c != ' ';
    let takes_no_room = matches!(
        c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}'
    );
    let is_private = matches!(c, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}');
    let is_no_character = c as u32 & 0xfffe == 0xfffe || matches!(c, '\u{fdd0}'..='\u{fdef}');
    c.is_control() || looks_like_space || takes_no_room || is_private || is_no_character
}

/// Adds such a character as `$'...'` has it: by its letter, or byte for byte.
pub fn escape(c: char, to: &mut String) {
    let letter = match c {
        '\u{7}' => 'a',
        '\u{8}' => 'b',
        '\t' => 't',
        '\n' => 'n',
        '\u{b}' => 'v',
        '\u{c}' => 'f',
        '\r' => 'r',
        '\u{1b}' => 'e',
        c => return escape_bytes(c.encode_utf8(&mut [0; 4]).as_bytes(), to),
    };
    to.extend(['\\', letter]);
}

fn escape_bytes(bytes: &[u8], to: &mut String) {
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(to, "\\x{byte:02x}");
    }
}

fn quoted(name: &[u8]) -> String {
    let mut text = QUOTED.to_owned();
    for chunk in name.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' => text.extend(['\\', c]),
                c if is_unseen(c) => escape(c, &mut text),
                c => text.push(c),
            }
        }
        escape_bytes(chunk.invalid(), &mut text);
    }
    text.push('\'');
    text
}

#[cfg(test)]
mod tests;
