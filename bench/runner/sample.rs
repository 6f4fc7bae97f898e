//! What one run of a workload on one file system gave, and the median of several.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// One run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// What was done.
    pub workload: String,
    /// On which file system, or with which setting of it.
    pub peer: String,
    /// The figure, in `unit`.
    pub value: f64,
    /// `op/s`, `MiB/s`, `s`, `us`, `%`.
    pub unit: String,
    /// Everything else that was counted, by name: see [`Sample::of`].
    pub more: BTreeMap<String, f64>,
}

impl Sample {
    /// A bare figure.
    pub fn new(workload: &str, peer: &str, value: f64, unit: &str) -> Self {
        Self {
            workload: workload.to_owned(),
            peer: peer.to_owned(),
            value,
            unit: unit.to_owned(),
            more: BTreeMap::new(),
        }
    }

    /// From a line of the workload program: speed, and all its numbers under the names they have there.
    pub fn of(workload: &str, peer: &str, done: &Value) -> Self {
        let figure = |name: &str| done[name].as_f64().unwrap_or_default();
        let seconds = figure("seconds").max(1e-9);
        let (value, unit) = match workload {
            _ if done["whole"].as_bool() == Some(true) => (seconds, "s"),
            "write" | "read" | "reread" => (figure("bytes") / seconds / f64::from(1 << 20), "MiB/s"),
            _ => (figure("operations") / seconds, "op/s"),
        };
        let mut sample = Self::new(workload, peer, value, unit);
        let numbers = done.as_object().into_iter().flatten();
        sample.more = numbers
            .filter_map(|(name, number)| Some((name.clone(), number.as_f64()?)))
            .collect();
        sample
    }

    /// A number by name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.more.get(name).copied()
    }

    /// `name` divided by the operations.
    pub fn each(&self, name: &str) -> Option<f64> {
        let operations = self.get("operations").filter(|n| *n > 0.0)?;
        Some(self.get(name)? / operations)
    }

    /// `name` divided by the fsyncs.
    pub fn each_fsync(&self, name: &str) -> Option<f64> {
        let fsyncs = self.get("fsyncs").filter(|n| *n > 0.0)?;
        Some(self.get(name)? / fsyncs)
    }

    /// For a file of results.
    pub fn json(&self) -> Value {
        json!({
            "workload": self.workload,
            "peer": self.peer,
            "value": self.value,
            "unit": self.unit,
            "more": self.more,
        })
    }

    /// From a file of results.
    pub fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| Some(value[name].as_str()?.to_owned());
        let more = value["more"].as_object()?.iter();
        Some(Self {
            workload: text("workload")?,
            peer: text("peer")?,
            value: value["value"].as_f64()?,
            unit: text("unit")?,
            more: more
                .filter_map(|(name, number)| Some((name.clone(), number.as_f64()?)))
                .collect(),
        })
    }
}

/// The rounds of a workload on a peer.
#[derive(Clone, Debug)]
pub struct Rounds<'s> {
    /// The sample with the median value.
    pub median: &'s Sample,
    /// Least value.
    pub min: f64,
    /// Greatest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

/// Samples by workload and peer, in the order in which they first come.
pub fn rounds(samples: &[Sample]) -> Vec<Rounds<'_>> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    // By workload first, also where the peers took turns.
    for sample in samples {
        if !order.iter().any(|(workload, _)| *workload == sample.workload) {
            order.push((&sample.workload, ""));
        }
    }
    let mut all = Vec::new();
    for (workload, _) in order {
        let mut peers: Vec<&str> = Vec::new();
        let of = samples.iter().filter(|sample| sample.workload == workload);
        for sample in of.clone() {
            if !peers.contains(&sample.peer.as_str()) {
                peers.push(&sample.peer);
            }
        }
        for peer in peers {
            let mut same: Vec<&Sample> = of.clone().filter(|sample| sample.peer == peer).collect();
            same.sort_by(|a, b| a.value.total_cmp(&b.value));
            if let (Some(first), Some(last), Some(median)) = (same.first(), same.last(), same.get(same.len() / 2)) {
                all.push(Rounds {
                    median,
                    min: first.value,
                    max: last.value,
                    count: same.len(),
                });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
