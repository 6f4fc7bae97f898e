//! `keepfs events`: what the servers of a pool noticed since the machine was started, also when they are gone.

use super::args::Events;
use super::json;
use super::tell::warn_of;
use super::times;
use keepfs_check::read::View;
use keepfs_server::control::{self, Silent};
use keepfs_server::history::{self, Noticed};
use keepfs_server::image::DeviceImage;
use keepfs_server::logging::{About, Event, Level, journal, tell_alone as tell};
use keepfs_server::question::Question;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, figures, namesake, registry, told_path, visible};
use serde::Serialize;
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a server is asked for new events.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The answer for programs.
#[derive(Serialize)]
struct Answer {
    version: u32,
    #[serde(flatten, with = "told_path::pool")]
    pool: PathBuf,
    server: Server,
    /// What a server that died wrote to standard error at its end.
    last_words: Option<String>,
    events: Vec<Event>,
    /// What the pool itself remembers (S-18.5), from before the machine was started too.
    history: Vec<Noticed>,
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
    if args.follow {
        return follow(&args.of, &answer, args.json);
    }
    if args.json {
        let text = json::text(&answer)?;
        println!("{text}");
        return Ok(0);
    }
    in_order(&answer).iter().for_each(|(_, line)| println!("{line}"));
    match (answer.server, &answer.last_words) {
        (Server::Dead, Some(words)) => {
            println!("its server has died; its last words:\n    {}", visible::lines(words));
        }
        (Server::Dead, None) => println!("its server has died without a word; unmount it and mount it again"),
        _ if answer.events.is_empty() && answer.history.is_empty() => {
            println!("nothing was noticed since the machine was started")
        }
        _ => {}
    }
    Ok(0)
}

/// What the pool remembers and what its servers logged besides, by their times.
fn in_order(answer: &Answer) -> Vec<(i64, String)> {
    // What the pool remembers was told in the log as well.
    let told = |event: &&Event| answer.history.iter().any(|noticed| noticed.text == event.text);
    let noticed = answer.history.iter().map(|event| (event.time_s, line(event)));
    let logged = answer.events.iter().filter(|event| !told(event)).map(|event| {
        let time_s = i64::try_from(event.time_s).unwrap_or(i64::MAX);
        (time_s, log_line(event, time_s))
    });
    let mut lines: Vec<(i64, String)> = noticed.chain(logged).collect();
    lines.sort_by_key(|(time_s, _)| *time_s);
    lines
}

fn log_line(event: &Event, time_s: i64) -> String {
    let Event { level, part, text, .. } = event;
    visible::lines(&format!("{} {level} {part}: {text}", times::told(time_s)))
}

fn line(event: &Noticed) -> String {
    visible::lines(&format!(
        "{} {} #{}: {}",
        times::told(event.time_s),
        event.verdict,
        event.number,
        event.sentence()
    ))
}

/// Tells each event when it is noticed, those that are kept first, until the server ends.
fn follow(of: &Path, answer: &Answer, json: bool) -> Outcome {
    let record = history::server_of(of)?;
    let record = record.ok_or_else(|| Failure::Other(format!("{}: nobody serves it", of.shown())))?;
    match json {
        true => {
            answer.history.iter().try_for_each(json_line)?;
            answer.events.iter().try_for_each(json_line)?;
        }
        false => in_order(answer).iter().for_each(|(_, line)| println!("{line}")),
    }
    let mut after = answer.history.last().map_or(0, |event| event.number);
    let mut logged = answer.events.last().cloned();
    let mut texts: VecDeque<String> = answer.history.iter().map(|event| event.text.clone()).collect();
    let mut waiting: Vec<Event> = Vec::new();
    let mut was_silent = false;
    loop {
        let asked = history::ask::<Vec<Event>>(&record, &Question::Events).and_then(|events| {
            Ok((
                events,
                history::ask::<Vec<Noticed>>(&record, &Question::History(after))?,
            ))
        });
        let (events, noticed) = match asked {
            Ok((Some(events), Some(noticed))) => (events, noticed),
            Ok(_) => return Ok(0),
            // It may come back, and a successor does.
            Err(failure) => {
                if !std::mem::replace(&mut was_silent, true) {
                    warn_of!("keepfs: {failure}");
                }
                std::thread::sleep(LOOK_AGAIN);
                continue;
            }
        };
        was_silent = false;
        for event in &noticed {
            after = event.number;
            texts.push_back(event.text.clone());
            match json {
                true => json_line(event)?,
                false => println!("{}", line(event)),
            }
        }
        // What was logged a look ago is with the pool by now, if it is of that kind.
        for event in waiting.drain(..).filter(|event| !texts.contains(&event.text)) {
            match json {
                true => json_line(&event)?,
                false => println!("{}", log_line(&event, i64::try_from(event.time_s).unwrap_or(i64::MAX))),
            }
        }
        texts.drain(..texts.len().saturating_sub(TEXTS));
        waiting = behind(&events, logged.as_ref()).to_vec();
        logged = events.last().cloned().or(logged);
        std::thread::sleep(LOOK_AGAIN);
    }
}

/// Texts that are remembered, of what the pool remembers.
const TEXTS: usize = 1024;

/// The events behind the last of those that were seen; all, if it is not there.
fn behind<'e>(events: &'e [Event], seen: Option<&Event>) -> &'e [Event] {
    let at = seen.and_then(|seen| events.iter().rposition(|event| event == seen));
    events.get(at.map_or(0, |at| at + 1)..).unwrap_or_default()
}

fn json_line(event: &impl Serialize) -> Result<(), Failure> {
    let text = json::line(event)?;
    println!("{text}");
    Ok(())
}

fn gather(of: &Path) -> Result<Answer, Failure> {
    let Some(record) = history::server_of(of)? else {
        return kept(registry::settled(of), of, Server::None);
    };
    match control::ask_soon(&record, &Question::Events) {
        Ok(events) => Ok(Answer {
            version: figures::VERSION,
            pool: record.pool.clone(),
            server: Server::Serving,
            last_words: None,
            history: history::ask(&record, &Question::History(0))?.unwrap_or_default(),
            events,
        }),
        // Its lock on the pool went with it.
        Err(Silent::Dead) => Ok(Answer {
            last_words: record.last_words(),
            ..kept(record.pool.clone(), &record.pool, Server::Dead)?
        }),
        Err(error) => Err(Failure::Other(format!("{}: {error}", record.dir.shown()))),
    }
}

fn kept(pool: PathBuf, device: &Path, server: Server) -> Result<Answer, Failure> {
    let id = id_on_device(device)?;
    let events = match namesake::is_anothers(&id, device) {
        true => Vec::new(),
        false => journal::read(&registry::events_file(&id)),
    };
    Ok(Answer {
        version: figures::VERSION,
        pool,
        server,
        last_words: None,
        events,
        history: history::events_on_device(device)?,
    })
}

/// Tells something of a pool that is not mounted: to the system's log, and to its events where these are kept.
pub fn tell_alone(pool: &Path, text: &str) {
    let about = About {
        pool: pool.shown(),
        dir: String::new(),
    };
    let id = id_on_device(pool).ok().filter(|id| !namesake::is_anothers(id, pool));
    // Who may not write there may use a pool of his own all the same.
    let events = id.and_then(|id| registry::open_events(&id).ok()).map(OwnedFd::from);
    tell(about, events.as_ref(), Level::WARN, text);
}

fn id_on_device(pool: &Path) -> Result<String, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    Ok(view.superblock_view().pool)
}
