//! `keepfs hooks`: programs of the administrator that are run when something happens to a pool. `follow` is to hooks what zed(8) is
//! to zedlets: it asks the servers as any other command does, so no server and no keeper starts a program (decision 0846).

mod event;
mod follow;
mod programs;
mod runner;
mod watch;

use super::args::{Hooks, HooksWhat};
use super::out;
use super::tell::say;
use event::{Event, Kind};
use keepfs_server::visible::Shown;
use keepfs_server::{Outcome, status, unserved};
use programs::Programs;
use runner::{Ended, Limits};
use std::path::Path;

/// Follows, tries or lists.
pub fn run(args: &Hooks) -> Outcome {
    let programs = Programs::new(args.config.as_deref());
    match &args.what {
        HooksWhat::Follow { state, timeout } => follow::run(&programs, state, Limits::of(*timeout)),
        HooksWhat::Test { dir, timeout } => test(&programs, dir.as_deref(), Limits::of(*timeout)),
        HooksWhat::List => list(&programs),
    }
}

/// Exit code 1: there is one that would not be run.
fn list(programs: &Programs) -> Outcome {
    let mut all = programs.all();
    let misnamed = programs.misnamed().into_iter();
    all.extend(misnamed.map(|path| (path, Some("its name has more than letters, digits, _ and -".to_owned()))));
    if all.is_empty() {
        say!("no hooks in {}", programs.folders());
    }
    let mut code = 0;
    for (path, refused) in &all {
        match refused {
            None => say!("{}", path.shown()),
            Some(why) => {
                code = 1;
                say!("{}: not run: {why}", path.shown());
            }
        }
    }
    if let Err(failure) = programs.settings() {
        code = 1;
        say!("none is run until this is put right: {failure}");
    }
    Ok(code)
}

/// An event of no pool, or of the mount at `dir`, for every hook; waits for them. Exit code 1: one failed, or none did anything.
fn test(programs: &Programs, dir: Option<&Path>, limits: Limits) -> Outcome {
    let mut event = Event::new(Kind::Test, "this is a test: nothing has happened");
    if let Some(dir) = dir {
        let (_, record) = unserved::server_at(dir)?;
        event = event.of(&status::live(&record)?);
    }
    let all = programs.all();
    let (mut is_good, mut is_done) = (true, false);
    if all.is_empty() {
        say!("no hooks in {}", programs.folders());
    }
    // What a hook prints stands before how it ended.
    out::finish();
    let settings = programs.settings()?;
    for (path, refused) in &all {
        let ended = match refused {
            Some(why) => Ended::NotRun(why.clone()),
            None => runner::run(path, &event, &settings, limits),
        };
        is_good &= ended.is_good();
        is_done |= matches!(ended, Ended::Done);
        say!("{}: {ended}", path.shown());
        out::finish();
    }
    Ok(u8::from(!is_good || !is_done))
}
