//! Values as lines of words: what the processes of a mount say to each other, and what servers are asked (S-16.15, S-16.16).
//!
//! A variant without a value is its name, one with a value its name, a space, and the value: a text as it is, anything else in JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The line of a value. Nothing, for what is no variant.
pub fn of<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        Ok(Value::Object(variant)) => variant.into_iter().map(|(name, value)| with(&name, value)).collect(),
        _ => String::new(),
    }
}

fn with(name: &str, value: Value) -> String {
    match value {
        Value::String(text) if text.is_empty() => name.to_owned(),
        Value::String(text) => format!("{name} {text}"),
        other => format!("{name} {other}"),
    }
}

/// The value of a line; `None`: it says nothing that is known.
pub fn read<T: DeserializeOwned>(line: &str) -> Option<T> {
    let name = |value: &str| serde_json::from_value(Value::String(value.to_owned())).ok();
    let variant = |name: &str, value| {
        let variant = Map::from_iter([(name.to_owned(), value)]);
        serde_json::from_value(Value::Object(variant)).ok()
    };
    let with_value = |(name, rest): (&str, &str)| {
        let in_json = serde_json::from_str(rest).ok().and_then(|value| variant(name, value));
        in_json.or_else(|| variant(name, Value::String(rest.to_owned())))
    };
    let parts = line.match_indices(' ').take(WORDS_OF_NAMES);
    let mut parts = parts.map(|(at, _)| (&line[..at], &line[at + 1..]));
    name(line)
        .or_else(|| parts.find_map(with_value))
        .or_else(|| variant(line, Value::String(String::new())))
}

/// Most words that a name has.
const WORDS_OF_NAMES: usize = 2;
