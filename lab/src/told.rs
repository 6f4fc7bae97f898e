//! A figure as `cargo xtask papers` reads it: one JSON object a line.

use std::fmt::Write as _;

/// One run of a workload at one setting.
#[derive(Clone, Debug)]
pub struct Told {
    /// What was done.
    pub workload: String,
    /// At which setting.
    pub peer: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// `op/s`, `us`, `ns`, `%`, or a word for what was counted.
    pub unit: &'static str,
    /// Other numbers, by name.
    pub more: Vec<(&'static str, f64)>,
}

impl Told {
    /// A figure without other numbers.
    pub fn new(workload: impl Into<String>, peer: impl Into<String>, value: f64, unit: &'static str) -> Told {
        Told {
            workload: workload.into(),
            peer: peer.into(),
            value,
            unit,
            more: Vec::new(),
        }
    }

    /// The same with another number.
    pub fn with(mut self, name: &'static str, value: f64) -> Told {
        self.more.push((name, value));
        self
    }

    /// One JSON object. What is no number is told as 0; names have neither quotes nor backslashes.
    pub fn json(&self) -> String {
        let number = |value: f64| if value.is_finite() { value } else { 0.0 };
        let mut more = String::new();
        for (name, value) in &self.more {
            let comma = if more.is_empty() { "" } else { "," };
            // Writing into a String cannot fail.
            let _ = write!(more, r#"{comma}"{name}":{}"#, number(*value));
        }
        format!(
            r#"{{"workload":"{}","peer":"{}","value":{},"unit":"{}","more":{{{more}}}}}"#,
            self.workload,
            self.peer,
            number(self.value),
            self.unit
        )
    }
}

#[cfg(test)]
mod tests;
