//! What was searched, against what is expected; the page docs/MODEL.md.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::instances::{INSTANCES, Instance, for_removal};
use crate::rules::{Expect, ROWS, Row, Rule, Rules};
use crate::search::{Outcome, search};
use crate::state::Budget;

/// What the protocol was before rules 1, 5, 6 and 13.
const BEFORE: &[Rule] = &[Rule::FlushOld, Rule::FullChain, Rule::RoomTwice, Rule::ResumeJudges];

/// The proof that one flush is enough; it names the rules that it uses itself.
const PROOF: &[&str] = &["S-11.5", "S-11.6", "S-11.7", "S-11.8", "S-11.9", "S-11.10"];

/// A search, what it is for, and whether it came to what was expected.
struct Job {
    name: String,
    instance: Instance,
    rules: Rules,
    fails: bool,
}

/// Runs jobs on two threads, each search on one, so that its figures are always the same; with `tell` each is told as it ends.
fn all(jobs: &[Job], tell: bool) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((at, job)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, jobs.get(n)?)))
                {
                    let outcome = search(job.instance, job.rules);
                    if tell {
                        eprintln!("{}: {} states", job.instance.name, outcome.states);
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((at, outcome));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_by_key(|d| d.0);
    done.into_iter().map(|d| d.1).collect()
}

fn removal(row: &Row) -> Job {
    let rules = row
        .with
        .iter()
        .fold(Rules::ALL.without(row.rule), |rules, rule| rules.without(*rule));
    let name = format!("without rule {} ({})", row.id, row.text);
    Job {
        name,
        instance: for_removal(row.kind, row.expect == Expect::Fails),
        rules,
        fails: row.expect == Expect::Fails,
    }
}

fn before() -> Job {
    let rules = BEFORE.iter().fold(Rules::ALL, |rules, rule| rules.without(*rule));
    let instance = for_removal(crate::instances::Kind::Plain, true);
    Job {
        name: "without rules 1, 5, 6 and 13".to_owned(),
        instance,
        rules,
        fails: true,
    }
}

fn told(job: &Job, outcome: &Outcome, json: bool) -> bool {
    let met = job.fails == outcome.failure.is_some() && outcome.states > 100;
    let steps = outcome.failure.as_ref().map(|f| f.1.clone()).unwrap_or_default();
    let what = outcome.failure.as_ref().map_or("holds", |f| f.0);
    if json {
        let value: Value = json!({
            "search": job.name, "instance": job.instance.name, "states": outcome.states,
            "result": what, "steps": steps, "expected": met,
        });
        println!("{value}");
    } else {
        let end = if met { "" } else { "  NOT EXPECTED" };
        println!(
            "{} in {}: {what}, {} states, {} steps{end}",
            job.name,
            job.instance.name,
            outcome.states,
            steps.len()
        );
        for (n, step) in steps.iter().enumerate() {
            println!("    {}. {step}", n + 1);
        }
    }
    met
}

/// One instance, by its name; without a rule, by its number, if one is named.
pub fn one(named: &[String], json: bool) -> ExitCode {
    let instance = named.first().and_then(|name| INSTANCES.iter().find(|i| i.name == name));
    let row = named.get(1).and_then(|id| ROWS.iter().find(|r| r.id == id));
    let Some(instance) = instance.filter(|_| row.is_some() == (named.len() > 1)) else {
        eprintln!("there is no such instance or rule");
        return ExitCode::from(2);
    };
    let all_rules = Job {
        name: "all rules".to_owned(),
        instance: *instance,
        rules: Rules::ALL,
        fails: false,
    };
    let job = row.map_or(all_rules, |row| Job {
        instance: *instance,
        ..removal(row)
    });
    match told(&job, &search(job.instance, job.rules), json) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// All that CI searches, or the larger instances; fails if something is not as expected.
pub fn run(long: bool, json: bool) -> ExitCode {
    let holds = INSTANCES.iter().filter(|i| i.long == long).map(|instance| Job {
        name: "all rules".to_owned(),
        instance: *instance,
        rules: Rules::ALL,
        fails: false,
    });
    let mut jobs: Vec<Job> = holds.collect();
    if !long {
        jobs.push(before());
        jobs.extend(ROWS.iter().map(removal));
    }
    let outcomes = all(&jobs, long);
    let wrong = jobs
        .iter()
        .zip(&outcomes)
        .filter(|(job, outcome)| !told(job, outcome, json))
        .count();
    if wrong + jobs.len() - outcomes.len() > 0 {
        eprintln!("{wrong} of {} searches did not come to what is expected", jobs.len());
        return ExitCode::FAILURE;
    }
    if !json {
        println!("{} searches came to what is expected", jobs.len());
    }
    ExitCode::SUCCESS
}

/// A rule in a line, with what is expected of its removal.
fn row(row: &Row) -> String {
    let unseen = match row.expect {
        Expect::Fails => String::new(),
        Expect::Unseen(why) => format!(". *Not seen*: {why}"),
    };
    let with: Vec<&str> = row
        .with
        .iter()
        .filter_map(|w| ROWS.iter().find(|r| r.rule == *w))
        .map(|r| r.id)
        .collect();
    let with = if with.is_empty() {
        String::new()
    } else {
        format!(" (with {})", with.join(", "))
    };
    let clauses: Vec<&str> = row
        .clauses
        .iter()
        .copied()
        .filter(|clause| !PROOF.contains(clause))
        .collect();
    format!("- {}{with}: {} ({}){unseen}", row.id, row.text, clauses.join(", "))
}

/// How often each thing happens in an instance, where that is not as in the first one.
fn counts(left: &Budget) -> String {
    let first = INSTANCES[0].left;
    let counts = [
        (left.ops, first.ops, "changes"),
        (left.syncs, first.syncs, "syncs"),
        (left.checkpoints, first.checkpoints, "checkpoints"),
        (left.cuts, first.cuts, "cuts"),
        (left.kills, first.kills, "deaths"),
        (left.discards, first.discards, "discards"),
        (left.bad, first.bad, "unwritten"),
        (left.rotten, first.rotten, "unreadable"),
        (left.losses, first.losses, "lost"),
        (left.strays, first.strays, "damaged"),
        (left.wrong, first.wrong, "wrong"),
    ];
    let other = counts.iter().filter(|(count, first, _)| count != first);
    let told: Vec<String> = other.map(|(count, _, what)| format!("{what} {count}")).collect();
    told.join(", ")
}

/// The page docs/MODEL.md.
pub fn page() -> String {
    let mut page = include_str!("head.md").to_owned();
    for instance in INSTANCES.iter().filter(|instance| !instance.long) {
        let counts = counts(&instance.left);
        let told = if counts.is_empty() {
            counts
        } else {
            format!(": {counts}")
        };
        page += &format!("\n**{}**{told}\n", instance.name);
        let searched = |row: &&Row| for_removal(row.kind, row.expect == Expect::Fails).name == instance.name;
        let rules: Vec<String> = ROWS.iter().filter(searched).map(row).collect();
        if !rules.is_empty() {
            page += &format!("\n{}\n", rules.join("\n"));
        }
    }
    let long: Vec<&str> = INSTANCES.iter().filter(|i| i.long).map(|i| i.name).collect();
    page + &format!("\nOf `-- long`: {}.\n", long.join("; "))
}

#[cfg(test)]
mod tests;
