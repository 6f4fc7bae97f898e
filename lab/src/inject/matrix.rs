//! Truth and verdicts side by side: the confusion matrix.

use super::fault::Class;
use super::judge::{OUTCOMES, VERDICTS};
use super::lines::{Change, Judged, Served, Truth};
use std::collections::BTreeMap;

/// What injections of one kind came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// By verdict.
    pub verdicts: BTreeMap<String, u64>,
    /// By outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// How many.
    pub count: u64,
    /// Verdicts that are wrong.
    pub wrong: u64,
    /// Readers got wrong bytes.
    pub silent: u64,
    /// The pool told that it had repaired it, and readers got wrong bytes.
    pub wrong_repairs: u64,
    /// Readers got an error.
    pub errors: u64,
}

/// What a run came to.
#[derive(Debug, Default)]
pub struct Matrix {
    /// By class.
    pub classes: BTreeMap<Class, Row>,
    /// By code.
    pub codes: BTreeMap<String, Row>,
    /// The sum.
    pub all: Row,
    /// What is wrong, in words, at most a hundred of it.
    pub complaints: Vec<String>,
}

/// Of an injection of which nothing was told.
fn silence(number: u64) -> Judged {
    Judged {
        number,
        verdict: "none".into(),
        outcome: "nothing told".into(),
        change: Change::default(),
    }
}

/// Why a verdict is wrong; `None`: it is right, or says that it does not know.
pub fn complaint(truth: &Truth, judged: &Judged) -> Option<&'static str> {
    let verdict = judged.verdict.as_str();
    let (range, told) = (&truth.change.range, &judged.change.range);
    let within = range.start <= told.start && told.end <= range.end;
    match verdict {
        "unknown" => None,
        "none" if truth.class.may_vanish() && truth.served == Served::Right => None,
        "none" => Some("nobody told"),
        // What is left of it, when others wrote there too.
        "flip" | "stray" if truth.class.may_vanish() => (!within).then_some("another place was told"),
        // One or two bits are a flip, whoever changed them (S-15.15).
        "flip" if truth.class.tells_place() && truth.change.bits <= 2 => place(truth, judged),
        _ if !truth.class.right().contains(&verdict) => Some("it was something else"),
        "flip" | "stray" if truth.class.tells_place() => place(truth, judged),
        _ => None,
    }
}

/// The place told is that of the injection, and so are the bytes, where they are told.
fn place(truth: &Truth, judged: &Judged) -> Option<&'static str> {
    let (changed, told) = (&truth.change, &judged.change);
    if changed.range != told.range {
        return Some("another place was told");
    }
    let same = judged.verdict == "flip" || (&changed.old, &changed.new) == (&told.old, &told.new);
    (!same).then_some("other bytes were told")
}

impl Matrix {
    /// From the injector's lines and the judge's. Errors: a line is none.
    pub fn of(truth: &str, verdicts: &str) -> Result<Matrix, String> {
        let mut told = BTreeMap::new();
        for line in verdicts.lines() {
            let judged = Judged::parse(line).ok_or(format!("no line of a judge: {line}"))?;
            told.insert(judged.number, judged);
        }
        let mut matrix = Matrix::default();
        for line in truth.lines() {
            let truth = Truth::parse(line).ok_or(format!("no line of an injector: {line}"))?;
            let judged = told.remove(&truth.number).unwrap_or_else(|| silence(truth.number));
            matrix.add(&truth, &judged);
        }
        match told.pop_first() {
            None => Ok(matrix),
            Some((number, _)) => Err(format!("a verdict on {number}, which nobody injected")),
        }
    }

    fn add(&mut self, truth: &Truth, judged: &Judged) {
        let wrong = complaint(truth, judged);
        let silent = truth.served == Served::Wrong;
        let repaired = !matches!(judged.outcome.as_str(), "EIO" | "writing ended" | "nothing told");
        if let Some(why) = wrong.or(silent.then_some("readers got wrong bytes"))
            && self.complaints.len() < 100
        {
            self.complaints.push(format!("{truth} | {judged} | {why}"));
        }
        let rows = [
            self.classes.entry(truth.class).or_default(),
            self.codes.entry(truth.code.clone()).or_default(),
            &mut self.all,
        ];
        for row in rows {
            *row.verdicts.entry(judged.verdict.clone()).or_default() += 1;
            *row.outcomes.entry(judged.outcome.clone()).or_default() += 1;
            row.count += 1;
            row.wrong += u64::from(wrong.is_some());
            row.silent += u64::from(silent);
            row.wrong_repairs += u64::from(silent && repaired);
            row.errors += u64::from(truth.served == Served::Error);
        }
    }

    /// Whether no verdict is wrong and nothing was silent.
    pub fn is_good(&self) -> bool {
        self.all.wrong == 0 && self.all.silent == 0
    }

    /// The tables, in markdown.
    pub fn text(&self) -> String {
        let classes = || self.classes.iter().map(|(class, row)| (class.word(), row));
        let codes = || self.codes.iter().map(|(code, row)| (code.as_str(), row));
        [
            table("injected", classes(), &VERDICTS, |row| &row.verdicts),
            table("injected", classes(), &OUTCOMES, |row| &row.outcomes),
            table("code", codes(), &OUTCOMES, |row| &row.outcomes),
        ]
        .join("\n")
    }
}

fn table<'r>(
    head: &str,
    rows: impl Iterator<Item = (&'r str, &'r Row)>,
    columns: &[&str],
    counts: impl Fn(&'r Row) -> &'r BTreeMap<String, u64>,
) -> String {
    let mut text = format!(
        "| {head} | count | {} | wrong | error | silent |\n",
        columns.join(" | ")
    );
    text.push_str(&"|---".repeat(columns.len() + 5));
    text.push_str("|\n");
    for (name, row) in rows {
        let cells: Vec<String> = columns
            .iter()
            .map(|column| counts(row).get(*column).map_or(String::new(), u64::to_string))
            .collect();
        let Row {
            count,
            wrong,
            errors,
            silent,
            ..
        } = row;
        let cells = cells.join(" | ");
        text.push_str(&format!(
            "| {name} | {count} | {cells} | {wrong} | {errors} | {silent} |\n"
        ));
    }
    text
}

#[cfg(test)]
mod tests;
