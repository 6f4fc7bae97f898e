//! Answers for programs. People look at them, too, so nothing of them is a command to a terminal (S-18.10).

use keepfs_check::is_unseen;
use keepfs_server::failure::Failure;
use serde::Serialize;
use std::fmt::Write;

/// An answer in lines.
pub fn text(answer: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(answer).map_err(|e| Failure::Other(e.to_string()))?;
    Ok(seen(text))
}

/// An answer in one line.
pub fn line(answer: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(answer).map_err(|e| Failure::Other(e.to_string()))?;
    Ok(seen(text))
}

/// The same JSON, with `\u` for what is not seen: JSON itself asks for that below U+0020 only.
fn seen(text: String) -> String {
    let is_hidden = |c: char| c != '\n' && is_unseen(c);
    if !text.contains(is_hidden) {
        return text;
    }
    let mut seen = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
                // A `String` takes everything.
                let _ = write!(seen, "\\u{unit:04x}");
            }),
            false => seen.push(c),
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// S-18.10: what a terminal obeys, or nobody sees, stands there as an escape, and means the same.
    #[test]
    fn nothing_is_a_command_to_a_terminal() {
        let names = "a\u{1b}[2J\u{7f}\u{85}\u{9b}2J\u{202e}\u{200b}\u{e0041}\u{a0}b\n\"\\ \u{e9}\u{3000}";
        let answer = json!({"path": names, names: [1, 2]});
        for told in [text(&answer).expect("text"), line(&answer).expect("text")] {
            assert!(!told.contains(|c| c != '\n' && is_unseen(c)), "{told:?}");
            assert!(
                told.contains("\\u009b2J\\u202e\\u200b\\udb40\\udc41\\u00a0b") && told.contains('\u{e9}'),
                "{told}"
            );
            assert_eq!(serde_json::from_str::<Value>(&told).expect("JSON"), answer);
        }
    }
}
