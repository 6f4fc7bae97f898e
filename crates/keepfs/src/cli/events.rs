//! `keepfs events`: what the servers of a pool noticed since the machine was started, also when they are gone.

use super::args::Events;
use super::control::{self, Silent};
use super::failure::Failure;
use super::image::DeviceImage;
use super::logging::{Event, journal};
use super::registry::{self, Record};
use super::unmount::patiently;
use super::{Outcome, figures, reader};
use keepfs_audit::read::View;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// The answer for programs.
#[derive(Serialize)]
struct Answer {
    version: u32,
    pool: PathBuf,
    server: Server,
    /// What a server that died wrote to standard error at its end.
    last_words: Option<String>,
    events: Vec<Event>,
}

/// How the pool's server is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Server {
    Serving,
    Dead,
    None,
}

/// Shows the events of a pool.
pub fn run(args: &Events) -> Outcome {
    let answer = gather(&args.of)?;
    reader::end_with_the_reader();
    if args.json {
        let text = serde_json::to_string_pretty(&answer).map_err(|e| Failure::Other(e.to_string()))?;
        println!("{text}");
        return Ok(0);
    }
    for event in &answer.events {
        println!("{} {} {}: {}", event.time_s, event.level, event.part, event.text);
    }
    match (answer.server, &answer.last_words) {
        (Server::Dead, Some(words)) => println!("its server has died; its last words:\n{words}"),
        (Server::Dead, None) => println!("its server has died without a word; unmount it and mount it again"),
        _ if answer.events.is_empty() => println!("nothing was noticed since the machine was started"),
        _ => {}
    }
    Ok(0)
}

fn gather(of: &Path) -> Result<Answer, Failure> {
    let at_dir = registry::at_dir(of).ok().and_then(|(_, record)| record);
    let record = at_dir.or_else(|| registry::of_pool(of).into_iter().find(Record::is_mounted));
    let Some(record) = record else {
        return Ok(kept(registry::settled(of), &id_on_device(of)?, Server::None));
    };
    match control::ask(&record, "events") {
        Ok(events) => Ok(Answer {
            version: figures::VERSION,
            pool: record.pool.clone(),
            server: Server::Serving,
            last_words: None,
            events: serde_json::from_value(events).map_err(|e| {
                Failure::Other(format!(
                    "{}: its server is of another version ({e})",
                    record.dir.display()
                ))
            })?,
        }),
        // Its lock on the pool went with it.
        Err(Silent::Dead) => Ok(Answer {
            last_words: record.last_words(),
            ..kept(record.pool.clone(), &id_on_device(&record.pool)?, Server::Dead)
        }),
        Err(error) => Err(Failure::Other(format!("{}: {error}", record.dir.display()))),
    }
}

fn kept(pool: PathBuf, id: &str, server: Server) -> Answer {
    Answer {
        version: figures::VERSION,
        pool,
        server,
        last_words: None,
        events: journal::read(&registry::events_file(id)),
    }
}

fn id_on_device(pool: &Path) -> Result<String, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    Ok(view.superblock_view().pool)
}
