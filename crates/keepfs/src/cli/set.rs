//! `keepfs set`: changes properties of a pool, while it is mounted too.
//!
//! What the superblock keeps is changed by a checkpoint (S-2.9). Of a mounted pool the server does it and then makes room
//! for another one that has its memory by the new settings, as `upgrade` does: programs notice a pause only.

use super::completion::values;
use super::events;
use super::json;
use super::tell::say;
use clap::Args as Fields;
use clap_complete::ArgValueCompleter;
use keepfs::{OpenOptions, Pool, Protection};
use keepfs_codes::Code;
use keepfs_server::control::{self, Silent};
use keepfs_server::figures::Status;
use keepfs_server::live::{is_as_wanted, was_set};
use keepfs_server::properties::Wanted;
use keepfs_server::question::{Question, Told};
use keepfs_server::registry::Record;
use keepfs_server::size::Size;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, figures, history, room, told_path, upgrade, visible};
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// For `--help`.
pub const HELP: &str = "\
Properties:
  protect=pcrc|pq|evenodd64|evenodd256|crc|off   what guards metadata in memory (see `keepfs create --help`)
  label=TEXT                                     a name for people, at most 64 bytes
  mmp=on|off|SECONDS                             other machines that reach the same device are refused (multi-mount protection);
                                                 on = 5: the pool shows every 5 seconds that it is in use
  scrub-limit=SIZE|none                          bytes a second that a scrub reads; while it is mounted only

Of a mounted pool protect and label need a keeper (mount option keeper=on, the default): the server makes room for another
one, and programs notice a pause only. Other properties that `keepfs get` shows are options of the mount.";

/// `keepfs set`.
#[derive(Fields, Debug)]
#[command(after_help = HELP)]
pub struct Set {
    /// Give a pool that is not mounted a new UUID: for a copy, which else is taken for what it was copied from
    #[arg(long)]
    pub new_id: bool,
    /// The mount point or the pool, and what it shall have; in any order
    #[arg(value_names = ["DIR|POOL", "NAME=VALUE"], num_args = 1.., required = true, add = ArgValueCompleter::new(values::set_words))]
    pub words: Vec<OsString>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// Changes what is asked for, all of it or nothing but the limit of scrubs.
pub fn run(args: &Set) -> Outcome {
    let (of, wanted) = sort(args)?;
    let server = history::server_of(&of)?;
    if let (true, Some(record)) = (args.new_id, &server) {
        return Err(Failure::Other(format!(
            "{}: it is mounted at {}, and gets another UUID only while it is not; unmount it first",
            of.shown(),
            record.dir.shown()
        )));
    }
    if let (Some(limit), None) = (wanted.scrub_limit, &server) {
        let limit = if limit == 0 { "none".into() } else { limit.to_string() };
        return Err(Failure::Other(format!(
            "{}: scrub-limit={limit} can be set while it is mounted only",
            of.shown()
        )));
    }
    let pid = server.as_ref().map(|record| live(record, &wanted)).transpose()?;
    let mut words = wanted.words();
    if server.is_none() {
        words.extend(unserved(&of, &wanted, args.new_id)?);
    }
    match args.json {
        true => {
            let answer = json!({"version": figures::VERSION, "set": words, "server_pid": pid});
            println!("{}", json::text(&told_path::with(answer, "of", &of))?);
        }
        false => words.iter().for_each(|word| say!("{}: {word}", visible::path(&of))),
    }
    Ok(0)
}

/// What is to be changed, and how. Errors: not one path, or a property that is none.
fn sort(args: &Set) -> Result<(PathBuf, Wanted), Failure> {
    let mut wanted = Wanted::default();
    let mut paths = Vec::new();
    for word in &args.words {
        let text = word.to_str().and_then(|word| word.split_once('='));
        match text.filter(|(name, _)| is_name(name)) {
            Some((name, value)) => wanted.take(name, value)?,
            None => paths.push(PathBuf::from(word)),
        }
    }
    let nothing = wanted == Wanted::default() && !args.new_id;
    match (paths.pop(), paths.is_empty(), nothing) {
        (Some(of), true, false) => Ok((of, wanted)),
        (_, _, true) => Err(Failure::Usage("say what to change, such as protect=pcrc".into())),
        _ => Err(Failure::Usage("name one mount point or pool".into())),
    }
}

/// No path is taken for a property unless it could be one.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
}

/// Changes a pool that nobody serves, and tells so as its server would. Returns what else is set.
fn unserved(of: &Path, wanted: &Wanted, new_id: bool) -> Result<Option<String>, Failure> {
    let is_changed = *wanted != Wanted::default() && offline(of, wanted)?;
    let id = match new_id {
        true => Some(patiently(of, || Ok(Pool::renew_id(of)?))?),
        false => None,
    };
    let id = id.map(|id| format!("id={id}"));
    let words = wanted.words().into_iter().filter(|_| is_changed);
    let words: Vec<String> = words.chain(id.clone()).collect();
    if !words.is_empty() {
        events::tell_alone(of, &was_set(&words));
    }
    Ok(id)
}

/// A pool that nobody serves is opened for it, and recovered if it was not closed. Whether anything is different.
fn offline(of: &Path, wanted: &Wanted) -> Result<bool, Failure> {
    let settings = wanted.settings().ok_or_else(|| no_such(of))?;
    let pool: Pool = patiently(of, || Ok(Pool::open(of, &OpenOptions::default())?))?;
    let is_changed = {
        let store = pool.volume().store();
        let has_mmp = store.mmp().unwrap_or(0);
        !is_as_wanted(&settings, store.pool()) || wanted.mmp.is_some_and(|seconds| seconds != has_mmp)
    };
    let set = pool.set(&settings);
    let protected = wanted
        .mmp
        .map(|seconds| pool.set_mmp((seconds != 0).then_some(seconds)));
    let closed = pool.close();
    set?;
    protected.transpose()?;
    closed?;
    Ok(is_changed)
}

fn no_such(of: &Path) -> Failure {
    Failure::Other(format!("{}: no pool can have that", of.shown()))
}

/// Of a mounted pool: another code guards its metadata when this returns.
pub fn level(record: &Record, code: Protection) -> Result<(), Failure> {
    let mut wanted = Wanted::default();
    wanted.take("protect", code.name())?;
    live(record, &wanted).map(drop)
}

/// Of a mounted pool: the process of the server that has it.
fn live(record: &Record, wanted: &Wanted) -> Result<u64, Failure> {
    let dir = record.dir.shown();
    let failed = |why: &str| Failure::Other(format!("{dir}: {why}"));
    if let Some(limit) = wanted.scrub_limit {
        done(record, control::ask(record, &Question::ScrubLimit(limit)))?;
    }
    // Its server may make room for another, as for an upgrade.
    let replaces = record.kept && (wanted.protect.is_some() || wanted.label.is_some());
    let _alone = replaces.then(|| upgrade::turn(record)).transpose()?;
    enough_memory(record, wanted)?;
    match control::ask_once(record, &Question::Set(wanted.clone())) {
        // It made room for one that has it.
        Err(Silent::Dead) => {}
        answer => done(record, answer)?,
    }
    let status = status(record)?;
    let has = |value: Option<&str>, wanted: &Option<String>| wanted.is_none() || value == wanted.as_deref();
    let protect = status.arena.as_ref().map(|arena| arena.protect.as_str());
    let mmp_as_wanted = wanted.mmp.is_none_or(|seconds| status.mmp_s.unwrap_or(0) == seconds);
    if !has(protect, &wanted.protect) || !has(Some(&status.label), &wanted.label) || !mmp_as_wanted {
        return Err(failed(
            "no server came to serve with the new settings; see `keepfs status` and `keepfs events`",
        ));
    }
    Ok(status.server_pid.unwrap_or_default().into())
}

/// Whether there is memory for the code that is wanted. What the server itself can try it tries when it is asked.
fn enough_memory(record: &Record, wanted: &Wanted) -> Result<(), Failure> {
    let status = status(record)?;
    let wanted = wanted.settings().and_then(|settings| settings.protect);
    let (Some(wanted), Some(arena)) = (wanted, status.arena) else {
        return Ok(());
    };
    let Ok(had) = arena.protect.parse::<Protection>() else {
        return Ok(());
    };
    let more = arena.frames * wanted.parity_len().saturating_sub(had.parity_len()) as u64;
    let server = status.server_pid.unwrap_or_default();
    match room::of_process(server).filter(|left| *left < more) {
        Some(left) => Err(Failure::Other(format!(
            "{}: protect={} takes {} more memory and there are {}; nothing was changed",
            record.dir.shown(),
            wanted.name(),
            Size(more),
            Size(left)
        ))),
        None => Ok(()),
    }
}

fn status(record: &Record) -> Result<Status, Failure> {
    let status = control::ask(record, &Question::Status);
    status.map_err(|e| Failure::Other(format!("{}: {e}", record.dir.shown())))
}

/// Whether the server has done it.
fn done(record: &Record, answer: Result<Told, Silent>) -> Result<(), Failure> {
    let why = match answer {
        Ok(Told { error: None, .. }) => return Ok(()),
        Ok(Told { error: Some(why), .. }) => why,
        Err(error) => error.to_string(),
    };
    Err(Failure::Other(format!("{}: {why}", record.dir.shown())))
}
