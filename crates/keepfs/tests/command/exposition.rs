//! Prometheus' text exposition format, as strictly as promtool(1) checks it, and values of it.

use std::collections::{BTreeMap, BTreeSet};

/// A sample.
#[derive(Debug)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// All samples of an answer, and the names of all families.
#[derive(Debug)]
pub struct Metrics {
    pub samples: Vec<Sample>,
    pub families: BTreeSet<String>,
}

impl Metrics {
    /// The value of the only sample with these labels among its own.
    pub fn one(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &&Sample| {
            sample.name == name
                && labels
                    .iter()
                    .all(|(label, value)| sample.labels.get(*label).is_some_and(|v| v == value))
        };
        let found: Vec<&Sample> = self.samples.iter().filter(has).collect();
        assert_eq!(found.len(), 1, "{name} {labels:?}: {found:?}");
        found[0].value
    }

    /// The only sample of a name.
    pub fn only(&self, name: &str) -> &Sample {
        let found: Vec<&Sample> = self.samples.iter().filter(|sample| sample.name == name).collect();
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        found[0]
    }
}

/// Units and their parts that are not base units, and abbreviations.
const NOT_BASE: &[&str] = &[
    "s",
    "ms",
    "us",
    "ns",
    "sec",
    "msec",
    "usec",
    "millis",
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "b",
    "kb",
    "mb",
    "gb",
    "kib",
    "mib",
    "gib",
    "kilobytes",
    "megabytes",
    "percent",
    "gauge",
    "counter",
    "metric",
];

/// Reads an answer. Errors: what of it is against the format, or against the practice of names.
pub fn parse(text: &str) -> Result<Metrics, String> {
    if !text.ends_with('\n') {
        return Err("the last line has no end".into());
    }
    let mut metrics = Metrics {
        samples: Vec::new(),
        families: BTreeSet::new(),
    };
    let mut seen = BTreeSet::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let wrong = |what: &str| Err(format!("{what}: {line}"));
        let Some((name, help)) = line.strip_prefix("# HELP ").and_then(|rest| rest.split_once(' ')) else {
            return wrong("a family begins with its HELP");
        };
        let kind = lines
            .next()
            .and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        let parts: Vec<&str> = name.split('_').collect();
        let is_counter = match kind {
            Some("counter") => true,
            Some("gauge") => false,
            _ => return wrong("HELP without TYPE"),
        };
        if help.is_empty() || !metrics.families.insert(name.to_owned()) {
            return wrong("no help, or a second one");
        }
        let is_plain = name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_plain || parts[0] != "keepfs" || parts.iter().any(|part| part.is_empty() || NOT_BASE.contains(part)) {
            return wrong("a name against the practice");
        }
        if is_counter != name.ends_with("_total") || ["_count", "_sum", "_bucket"].iter().any(|end| name.ends_with(end))
        {
            return wrong("an end that is for another type");
        }
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = sample(line).ok_or_else(|| format!("no sample: {line}"))?;
            if sample.name != name || (is_counter && sample.value < 0.0) {
                return Err(format!("not of {name}: {line}"));
            }
            if !seen.insert((sample.name.clone(), sample.labels.clone())) {
                return Err(format!("twice: {line}"));
            }
            metrics.samples.push(sample);
        }
    }
    Ok(metrics)
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(mut inner) = rest.strip_prefix('{') {
        loop {
            let (label, more) = inner.split_once("=\"")?;
            let (value, more) = quoted(more)?;
            let is_label = label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
            if !is_label || label.starts_with("__") || labels.insert(label.to_owned(), value).is_some() {
                return None;
            }
            match more.strip_prefix(',') {
                Some(more) => inner = more,
                None => {
                    rest = more.strip_prefix('}')?;
                    break;
                }
            }
        }
    }
    Some(Sample {
        name: name.to_owned(),
        labels,
        value: rest.strip_prefix(' ')?.parse().ok()?,
    })
}

/// A value up to its closing quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match letters.next()?.1 {
                'n' => '\n',
                '"' => '"',
                '\\' => '\\',
                _ => return None,
            }),
            other => value.push(other),
        }
    }
    None
}
