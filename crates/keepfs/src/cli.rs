//! The command line: from the words that were typed to an exit code.

#[macro_use]
mod out;

mod args;
mod attach;
mod borrowed;
mod check;
mod clients;
mod completion;
mod concerned;
mod confine;
mod control;
mod create;
mod damage;
mod deserted;
mod dump;
mod environment;
mod events;
mod exposed;
mod failure;
mod figures;
mod follow;
mod get;
mod grow;
mod heap;
mod history;
mod hooks;
mod identify;
mod image;
mod inject;
mod keep;
mod lingering;
mod links;
mod logging;
mod manual;
mod metrics;
mod mmp;
mod mount;
mod namesake;
mod namespaces;
mod offline;
mod options;
mod panics;
mod pause;
#[cfg(feature = "planted")]
mod planted;
mod print;
mod probe;
mod progress;
mod properties;
mod registry;
mod remount;
mod repair;
mod replace;
mod rights;
mod salvage;
mod scrub;
mod serve;
mod servers;
mod set;
mod size;
mod status;
mod succeed;
mod table;
mod task;
mod times;
mod unmount;
mod unserved;
mod until;
mod upgrade;
mod visible;

use args::{Args, Command};
use clap::Parser;
use failure::{Failure, Manners};
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use visible::warn_of;

/// What a command ends with: its exit code, or why it failed.
type Outcome = Result<u8, Failure>;

/// Runs the command that `words` (argv) names.
pub fn run(words: Vec<OsString>) -> ExitCode {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Servers are started as /proc/self/exe, of which ps(1) would say `exe`.
    let _ = rustix::thread::set_name(c"keepfs");
    let (manners, outcome) = match name.as_str() {
        "mkfs.keepfs" => (Manners::Keepfs, borrowed::mkfs(words)),
        "fsck.keepfs" => (Manners::Fsck, borrowed::fsck(words)),
        "mount.keepfs" | "mount.fuse.keepfs" | "mount.fuseblk.keepfs" => (Manners::Mount, borrowed::mount(words)),
        _ => own(words),
    };
    out::finish();
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            failure.tell(&name);
            ExitCode::from(failure.code(manners))
        }
    }
}

fn own(words: Vec<OsString>) -> (Manners, Outcome) {
    let manners = match words.get(1) {
        Some(command) if command == "check" => Manners::Fsck,
        _ => Manners::Keepfs,
    };
    match completion::answered(&words) {
        Ok(false) => {}
        answered => return (manners, answered.map(|_| 0)),
    }
    let outcome = Args::try_parse_from(words)
        .map_err(Failure::Words)
        .and_then(|args| dispatch(args.command));
    (manners, outcome)
}

/// A command that prints; `code`: what it ends with if that fails.
fn begin(code: u8) {
    logging::to_stderr();
    out::end_with_the_reader(code);
}

fn dispatch(command: Command) -> Outcome {
    keepfs_store::mmp::tell_waits_by(match &command {
        Command::Serve(args) if !args.foreground => serve::waits,
        _ => |seconds| warn_of!("keepfs: {}", keepfs_store::mmp::wait_in_words(seconds)),
    });
    match &command {
        // A server logs elsewhere, and its starter says everything itself. Neither ends with who reads it.
        Command::Serve(_)
        | Command::Keep(_)
        | Command::Mount(_)
        | Command::Attach(_)
        | Command::Detach(_)
        | Command::Watch(_) => {}
        Command::Check(_) => begin(8),
        // Who scrapes it may go away, and so may who is told.
        Command::Metrics(args) if args.listen.is_some() => logging::to_stderr(),
        Command::Hooks(_) => logging::to_stderr(),
        _ => begin(1),
    }
    match command {
        Command::Create(args) => create::run(&args),
        Command::Mount(args) => mount::run(&args),
        Command::Serve(args) => serve::in_background(&args),
        Command::Keep(args) => keep::run(&args),
        Command::Attach(args) => attach::run(&args),
        Command::Detach(args) => attach::detach(&args),
        Command::Watch(args) => deserted::run(&args),
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
