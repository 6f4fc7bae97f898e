//! Prometheus' text exposition format, version 0.0.4: for each family HELP and TYPE, then its samples.

use std::fmt::{Display, Write};

/// What Content-Type calls it.
pub const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// How a family's values move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Up and down.
    Gauge,
    /// Only up, from 0 at each new server; its name ends with `_total`.
    Counter,
}

/// A value with the labels that tell it from others of its family.
pub struct Sample {
    labels: Vec<(&'static str, String)>,
    value: String,
}

impl Sample {
    /// Without labels yet.
    pub fn of(value: impl Display) -> Sample {
        Sample {
            labels: Vec::new(),
            value: value.to_string(),
        }
    }

    /// With one more. An empty value is as good as no label, and none is written.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Sample {
        let value = value.into();
        if !value.is_empty() {
            self.labels.push((name, value));
        }
        self
    }
}

/// Writes a family.
pub fn family(text: &mut String, name: &str, kind: Kind, help: &str, samples: impl IntoIterator<Item = Sample>) {
    let kind = match kind {
        Kind::Gauge => "gauge",
        Kind::Counter => "counter",
    };
    // Writing to a String never fails.
    let _ = writeln!(text, "# HELP {name} {}\n# TYPE {name} {kind}", escaped(help, false));
    for Sample { labels, value } in samples {
        let labels: Vec<String> = labels
            .iter()
            .map(|(label, value)| format!("{label}=\"{}\"", escaped(value, true)))
            .collect();
        let _ = match labels.is_empty() {
            true => writeln!(text, "{name} {value}"),
            false => writeln!(text, "{name}{{{}}} {value}", labels.join(",")),
        };
    }
}

/// Backslashes and ends of lines, in labels quotes too.
fn escaped(text: &str, in_label: bool) -> String {
    let text = text.replace('\\', "\\\\").replace('\n', "\\n");
    match in_label {
        true => text.replace('"', "\\\""),
        false => text,
    }
}

#[cfg(test)]
mod tests;
