//! Another program takes the server's place under a live mount, the way a new server takes that of a dead one.

use crate::control::{self, Silent};
use crate::failure::Failure;
use crate::figures::Status;
use crate::program::{OWN, open};
use crate::question::{Question, Told};
use crate::registry::{self, Record};
use crate::unserved;
use crate::visible::Shown;
use rustix::fs::{major, minor};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What of a server tells it from others.
#[derive(PartialEq, Eq)]
struct Which {
    pid: u64,
    servers: u64,
}

/// A mount whose server was replaced.
pub struct Upgraded {
    /// The mount point.
    pub dir: PathBuf,
    /// The process that serves now.
    pub pid: u64,
    /// Its program.
    pub program: PathBuf,
    /// What it serves no more: writing has ended, and why (S-16.33).
    pub ended: Option<String>,
}

/// Replaces the server of the mount at `dir` by one of `program`, or of the program that this process is. Errors: the one before
/// goes on, or none does any more.
pub fn upgrade(dir: &Path, program: Option<&Path>) -> Result<Upgraded, Failure> {
    let (mount, record) = unserved::server_at(dir)?;
    let dir = mount.dir.shown();
    let failed = |why: &str| Failure::Other(format!("{dir}: {why}"));
    if !record.kept {
        return Err(failed(
            "it has no keeper (mounted with keeper=off or transport=uring): unmount it and mount it again",
        ));
    }
    let program = meant(program)?;
    let opened = open(&program).map_err(Failure::io("use as program", &program))?;
    let lies = opened
        .metadata()
        .map_err(Failure::io("use as program", &program))?
        .dev();
    if format!("{}:{}", major(lies), minor(lies)) == mount.device {
        return Err(failed(&format!(
            "{} lies on this very mount, which cannot be read while nobody serves it: copy it elsewhere and name that",
            program.shown()
        )));
    }
    let _alone = turn(&record)?;
    let before = Which::of(&status(&record)?);
    // For the keeper: which program it is, no server is believed.
    registry::wish(record.pid, &program).map_err(|e| failed(&format!("its keeper cannot be told: {e}")))?;
    let asked: Result<Told, Silent> = control::ask_once(&record, &Question::Upgrade);
    let after = status(&record);
    // Nobody shall take it for a wish of another time.
    drop(registry::take_wish(record.pid));
    match asked {
        // It ended instead of answering.
        Err(Silent::Dead) => {}
        Ok(answer) => {
            let why = answer.error.as_deref();
            return Err(failed(why.unwrap_or("its server did not make room")));
        }
        Err(error) => return Err(failed(&error.to_string())),
    }
    let status = after?;
    if status.keeper.is_none() {
        return Err(failed(&said(&status)));
    }
    let after = Which::of(&status);
    let runs = std::fs::read_link(format!("/proc/{}/exe", after.pid)).ok();
    match runs {
        Some(runs) if runs == program && after != before => Ok(Upgraded {
            dir: mount.dir.clone(),
            pid: after.pid,
            program,
            ended: has_ended(&status).then(|| said(&status)),
        }),
        _ => Err(failed(
            "the new program did not come to serve; the one before goes on (see `keepfs events`)",
        )),
    }
}

/// Whoever has this replaces the server of a mount with a keeper, alone (S-16.29). Errors: somebody else does.
pub fn turn(record: &Record) -> Result<File, Failure> {
    let failed = |why: &str| Failure::Other(format!("{}: {why}", record.dir.shown()));
    registry::turn_to_upgrade(record.pid).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            failed("another `keepfs upgrade` or `keepfs set` of it is going on; try again when that has ended")
        }
        _ => failed(&format!("its keeper cannot be told: {error}")),
    })
}

/// What shall run: the path that was given, or this program.
fn meant(given: Option<&Path>) -> Result<PathBuf, Failure> {
    match given {
        Some(path) => path.canonicalize().map_err(Failure::io("find", path)),
        None => std::env::current_exe().map_err(Failure::io("find", Path::new(OWN))),
    }
}

impl Which {
    fn of(status: &Status) -> Which {
        Which {
            pid: status.server_pid.unwrap_or_default().into(),
            servers: status.keeper.as_ref().map_or(0, |keeper| keeper.servers),
        }
    }
}

fn has_ended(status: &Status) -> bool {
    status.mount.as_ref().is_some_and(|mount| mount.writing_ended)
}

/// What a mount that is not as it should be says of itself, in a sentence.
fn said(status: &Status) -> String {
    let parts = [&status.status, &status.action].into_iter().flatten();
    let parts = parts.chain(&status.errors).map(String::as_str);
    parts.collect::<Vec<_>>().join("; ")
}

fn status(record: &Record) -> Result<Status, Failure> {
    let status = control::ask(record, &Question::Status);
    status.map_err(|e| Failure::Other(format!("{}: {e}", record.dir.shown())))
}
