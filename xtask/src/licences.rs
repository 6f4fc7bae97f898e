//! Licences and sources of all that is linked in, against the lists of deny.toml. cargo-deny knows more (advisories,
//! clarifications) and runs beside where it is installed; this much is checked everywhere.

use std::process::Command;

use serde_json::Value;

use crate::paths;

/// The only registry that packages may come from; cargo names every mirror of it so.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// What is wrong with a package.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No choice that its licence leaves is allowed.
    Licence { package: String, licence: String },
    /// It comes from elsewhere.
    Source { package: String, source: String },
}

/// Checks every package of the workspace's dependency tree; returns how many there are, and the refusals.
pub fn check() -> Result<(usize, Vec<Refusal>), String> {
    let deny = std::fs::read_to_string(paths::root().join("deny.toml")).map_err(|e| format!("deny.toml: {e}"))?;
    let allowed = allowed(&deny).ok_or("deny.toml has no `allow = [...]` of licences")?;
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1"])
        .current_dir(paths::root())
        .output();
    let output = output.map_err(|e| format!("cargo metadata: {e}"))?;
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata: {e}\n{}", String::from_utf8_lossy(&output.stderr)))?;
    let packages = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata names no packages")?;
    Ok((packages.len(), refusals(packages, &allowed)))
}

fn refusals(packages: &[Value], allowed: &[&str]) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for package in packages {
        let name = format!(
            "{} {}",
            package["name"].as_str().unwrap_or("?"),
            package["version"].as_str().unwrap_or("?")
        );
        let licence = package["license"].as_str().unwrap_or("none given");
        if !permits(licence, allowed) {
            refusals.push(Refusal::Licence {
                package: name.clone(),
                licence: licence.to_owned(),
            });
        }
        if let Some(source) = package["source"].as_str().filter(|source| *source != REGISTRY) {
            refusals.push(Refusal::Source {
                package: name,
                source: source.to_owned(),
            });
        }
    }
    refusals
}

/// The list `allow` of deny.toml.
fn allowed(deny: &str) -> Option<Vec<&str>> {
    let (_, list) = deny.split_once("[licenses]")?.1.split_once("allow = [")?;
    let (list, _) = list.split_once(']')?;
    Some(
        list.split(',')
            .map(|item| item.trim().trim_matches('"'))
            .filter(|item| !item.is_empty())
            .collect(),
    )
}

/// Whether the SPDX expression leaves a choice that is allowed. `/` is the old way to write `OR`.
fn permits(expression: &str, allowed: &[&str]) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser {
        words: &words,
        allowed,
        cut_short: false,
    };
    let permitted = parser.either();
    permitted && parser.words.is_empty() && !parser.cut_short
}

/// Reads from the front of `words`.
struct Parser<'a> {
    words: &'a [&'a str],
    allowed: &'a [&'a str],
    /// A name was expected, and there was none.
    cut_short: bool,
}

impl<'a> Parser<'a> {
    fn takes(&mut self, word: &str) -> bool {
        let here = self.words.first() == Some(&word);
        if here {
            self.words = &self.words[1..];
        }
        here
    }

    fn either(&mut self) -> bool {
        let mut permitted = self.both();
        while self.takes("OR") {
            permitted |= self.both();
        }
        permitted
    }

    fn both(&mut self) -> bool {
        let mut permitted = self.one();
        while self.takes("AND") {
            permitted &= self.one();
        }
        permitted
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            let permitted = self.either();
            return self.takes(")") && permitted;
        }
        let name = self.name();
        if self.takes("WITH") {
            let exception = self.name();
            return self.allowed.contains(&format!("{name} WITH {exception}").as_str());
        }
        self.allowed.contains(&name)
    }

    fn name(&mut self) -> &'a str {
        let Some((name, rest)) = self.words.split_first() else {
            self.cut_short = true;
            return "";
        };
        self.words = rest;
        name
    }
}

#[cfg(test)]
mod tests;
