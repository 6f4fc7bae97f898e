//! The command line: from the words that were typed to an exit code.

#[macro_use]
mod out;

mod args;
mod borrowed;
mod check;
mod completion;
mod create;
mod damage;
mod dump;
mod events;
mod failure;
mod get;
mod grow;
mod hooks;
mod identify;
mod inject;
mod json;
mod links;
mod manual;
mod metrics;
mod mount;
mod print;
mod probe;
mod progress;
mod remount;
mod repair;
mod replace;
mod salvage;
mod scrub;
mod set;
mod status;
mod tell;
mod times;
mod unmount;
mod upgrade;

use args::{Args, Command};
use clap::Parser;
use failure::Manners;
use keepfs_server::{Outcome, logging};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use tell::warn_of;

/// Runs the command that `words` (argv) names.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_json = words.iter().skip(1).any(|word| word == "--json");
    let (manners, outcome) = match name.as_str() {
        "mkfs.keepfs" => (Manners::Keepfs, borrowed::mkfs(words)),
        "fsck.keepfs" => (Manners::Fsck, borrowed::fsck(words)),
        "mount.keepfs" | "mount.fuse.keepfs" | "mount.fuseblk.keepfs" => (Manners::Mount, borrowed::mount(words)),
        _ => own(words),
    };
    if let Err(failure) = &outcome
        && is_json
        && out::is_empty()
        && let Ok(text) = json::text(&failure::for_programs(failure))
    {
        println!("{text}");
    }
    out::finish();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => ExitCode::from(failure::told(&failure, &name, manners)),
    }
}

fn own(words: Vec<OsString>) -> (Manners, Outcome) {
    let manners = match words.get(1) {
        Some(command) if command == "check" => Manners::Fsck,
        _ => Manners::Keepfs,
    };
    let outcome = match completion::answered(&words) {
        Ok(true) => Ok(0),
        Ok(false) => match Args::try_parse_from(words) {
            Ok(args) => dispatch(args.command),
            Err(words) => Ok(failure::of_words(&words, manners)),
        },
        Err(words) => Ok(failure::of_words(&words, manners)),
    };
    (manners, outcome)
}

/// A command that prints; `code`: what it ends with if that fails.
fn begin(code: u8) {
    logging::to_stderr();
    out::end_with_the_reader(code);
}

fn dispatch(command: Command) -> Outcome {
    keepfs_store::mmp::tell_waits_by(|seconds| warn_of!("keepfs: {}", keepfs_store::mmp::wait_in_words(seconds)));
    match &command {
        // A server logs elsewhere, and its starter says everything itself, whether anybody reads it or not.
        Command::Mount(_) => {}
        Command::Check(_) => begin(8),
        // Who scrapes it may go away, and so may who is told.
        Command::Metrics(args) if args.listen.is_some() => logging::to_stderr(),
        Command::Hooks(_) => logging::to_stderr(),
        _ => begin(1),
    }
    match command {
        Command::Create(args) => create::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Unmount(args) => unmount::run(&args),
        Command::Upgrade(args) => upgrade::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Set(args) => set::run(&args),
        Command::Get(args) => get::run(&args),
        Command::Grow(args) => grow::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Salvage(args) => salvage::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Events(args) => events::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Hooks(args) => hooks::run(&args),
        Command::Scrub(args) => scrub::run(&args),
        Command::Inject(args) => inject::run(&args),
        Command::Damage(args) => damage::run(&args),
        Command::Probe(args) => identify::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::InstallLinks(args) => links::run(&args),
        Command::Version => {
            println!("keepfs {}", env!("CARGO_PKG_VERSION"));
            Ok(0)
        }
    }
}
