//! A workload as a file: what `lab/bugs/` keeps of every bug found.
//!
//! Lines: `# anything` is a comment; `setting …` says the pool; every other line is a step. The first comment of a
//! file in `lab/bugs/` says what was wrong.

use super::setting::Setting;
use super::step::Step;
use std::fmt::Write;

/// A workload.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Seed {
    /// Its number: draws subsets of writes.
    pub number: u64,
    /// Where it comes from.
    pub name: String,
    /// The pool.
    pub setting: Setting,
    /// The steps.
    pub steps: Vec<Step>,
}

impl Seed {
    /// Whether it is of the class of which one or two states a position are tried, so that there can be many.
    pub fn is_broad(&self) -> bool {
        self.name.starts_with("broad/")
    }

    /// Whether it was made for one danger: whoever searches blind has none of these.
    pub fn is_directed(&self) -> bool {
        self.name.starts_with("directed/")
    }

    /// Whether it is of the class that uses up the pages of its pool on purpose: operations beside a checkpoint end up waiting
    /// for it, and many short workloads find more than a few that are swept deeply.
    pub fn is_scarce(&self) -> bool {
        self.name == "scarcity"
    }

    /// Reads a file's text.
    pub fn parse(name: &str, text: &str) -> Result<Seed, String> {
        let mut seed = Seed {
            number: 0,
            name: name.into(),
            setting: Setting::default(),
            steps: Vec::new(),
        };
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            let told = |e: String| format!("{name}:{}: {e}", at + 1);
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if let Some(words) = line.strip_prefix("setting ") {
                seed.setting = words.parse().map_err(told)?;
            } else if let Some(number) = line.strip_prefix("number ") {
                seed.number = number.parse().map_err(|e| told(format!("{e}")))?;
            } else {
                seed.steps.push(line.parse().map_err(told)?);
            }
        }
        Ok(seed)
    }

    /// The file's text; `why` becomes its comment.
    pub fn print(&self, why: &str) -> String {
        let mut text = String::new();
        for line in why.lines() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "setting {}\nnumber {}", self.setting, self.number);
        for step in &self.steps {
            let _ = writeln!(text, "{step}");
        }
        text
    }
}
