//! Files of results: docs/results/FIGURE.json, from which the tables and the plots are made.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::figure::{FIGURES, Figure};
use super::run::{Missing, Outcome};
use super::sample::Sample;
use super::session::Bench;

/// What a figure gave when it was measured last.
pub struct Results {
    /// Which figure.
    pub figure: &'static Figure,
    /// Where and how: one line.
    pub how: String,
    /// All runs.
    pub samples: Vec<Sample>,
    /// What did not run.
    pub missing: Vec<Missing>,
}

impl Results {
    /// Of a run just done.
    pub fn of(figure: &'static Figure, bench: &Bench, outcome: Outcome) -> Self {
        let rounds = bench.rounds.min(figure.rounds_max);
        let size = bench
            .percent
            .map_or_else(String::new, |percent| format!(", file sets of {percent} %"));
        Self {
            figure,
            how: format!(
                "{rounds} rounds, {} s a workload{size}, device `{}`, {}",
                bench.seconds,
                bench.profile(figure).name(),
                machine()
            ),
            samples: outcome.samples,
            missing: outcome.missing,
        }
    }

    fn json(&self) -> Value {
        let missing = self.missing.iter().map(|m| json!({"peer": m.peer, "why": m.why}));
        json!({
            "figure": self.figure.name,
            "how": self.how,
            "samples": self.samples.iter().map(Sample::json).collect::<Vec<_>>(),
            "missing": missing.collect::<Vec<_>>(),
        })
    }

    fn parse(figure: &'static Figure, value: &Value) -> Option<Self> {
        let list = |name: &str| value[name].as_array().cloned().unwrap_or_default();
        let text = |value: &Value, name: &str| Some(value[name].as_str()?.to_owned());
        let missing = |value: &Value| {
            Some(Missing {
                peer: text(value, "peer")?,
                why: text(value, "why")?,
            })
        };
        Some(Self {
            figure,
            how: text(value, "how")?,
            samples: list("samples").iter().filter_map(Sample::parse).collect(),
            missing: list("missing").iter().filter_map(missing).collect(),
        })
    }
}

/// Processors, kernel and load now.
fn machine() -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    format!(
        "{cpus} CPUs, Linux {}, load average at the end {}",
        kernel.trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}

fn file(dir: &Path, figure: &Figure) -> PathBuf {
    dir.join(format!("{}.json", figure.name))
}

/// Keeps the results of one figure in `dir`.
pub fn store(dir: &Path, results: &Results) -> Result<(), String> {
    let path = file(dir, results.figure);
    let text = format!("{:#}\n", results.json());
    std::fs::create_dir_all(dir)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// All results in `dir`, in the order of the figures.
pub fn load(dir: &Path) -> Result<Vec<Results>, String> {
    let mut all = Vec::new();
    for figure in FIGURES {
        let path = file(dir, figure);
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        let value = serde_json::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        all.push(Results::parse(figure, &value).ok_or_else(|| format!("{} has no results", path.display()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
