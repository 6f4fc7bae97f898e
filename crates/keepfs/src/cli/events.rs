//! `keepfs events`: what a server noticed since it was mounted. They are not kept on the pool yet.

use super::args::Events;
use super::control::{self, Silent};
use super::failure::Failure;
use super::logging::Event;
use super::registry::{self, Record};
use super::{Outcome, figures};
use serde_json::json;
use std::path::Path;

/// Shows the events of a mount.
pub fn run(args: &Events) -> Outcome {
    let record = server_of(&args.of)?;
    let answer = match control::ask(&record, "events") {
        Err(Silent::Dead) => return last_words(&record, args.json),
        other => other.map_err(|e| Failure::Other(format!("{}: {e}", record.dir.display())))?,
    };
    let events: Vec<Event> = serde_json::from_value(answer).map_err(|e| {
        Failure::Other(format!(
            "{}: its server is of another version ({e})",
            record.dir.display()
        ))
    })?;
    if args.json {
        println!(
            "{:#}",
            json!({"version": figures::VERSION, "pool": record.pool, "events": events})
        );
        return Ok(0);
    }
    for event in &events {
        println!("{} {} {}: {}", event.time_s, event.level, event.part, event.text);
    }
    if events.is_empty() {
        println!("nothing was noticed since it was mounted (events are not kept over unmount yet)");
    }
    Ok(0)
}

/// A dead server has no ring any more, but what a guard or a panic wrote at its end.
fn last_words(record: &Record, json: bool) -> Outcome {
    let Some(words) = record.last_words() else {
        return Err(Failure::Other(format!(
            "{}: its server has died without a word; umount -l and mount it again",
            record.dir.display()
        )));
    };
    match json {
        true => println!(
            "{:#}",
            json!({"version": figures::VERSION, "pool": record.pool, "last_words": words})
        ),
        false => println!("its server has died; its last words:\n{words}"),
    }
    Ok(0)
}

fn server_of(of: &Path) -> Result<Record, Failure> {
    let at_dir = registry::at_dir(of).ok().and_then(|(_, record)| record);
    let found = at_dir.or_else(|| registry::of_pool(of).into_iter().find(Record::is_mounted));
    found.ok_or_else(|| {
        Failure::Other(format!(
            "{} is not mounted; events are not kept over unmount yet, mount it or run `keepfs check`",
            of.display()
        ))
    })
}
