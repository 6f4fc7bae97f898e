//! What a process of a mount is: its keeper, its server, or one that does something for them.
//!
//! All of them are the program that mounts, started once more with the words of a role ([`crate::words`], S-16.13). So that any program can
//! mount, it calls [`serve_if_asked`] first; a program that was started for a role never comes back from there.

use crate::failure::Failure;
use crate::visible::one_line;
use crate::words::{Attach, Detach, Keep, Serve, Watch};
use crate::{Outcome, attach, deserted, keep, limits, serve, starter};
use clap::{Parser, Subcommand};
use keepfs_store::mmp;
use std::ffi::OsString;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

/// The words of a role.
#[derive(Parser, Debug)]
#[command(name = "keepfs")]
struct Words {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand, Debug)]
enum Role {
    /// The server of a mount
    Serve(Serve),
    /// The keeper of a mount's server
    Keep(Keep),
    /// Mounts for a server that has not the right to
    Attach(Attach),
    /// Unmounts for a keeper
    Detach(Detach),
    /// Ends a server's mount with its namespace
    Watch(Watch),
}

/// How the words of a role begin; no other words of a program that mounts may.
const BEGINNINGS: [[&str; 2]; 7] = [
    ["keep", "--first"],
    ["keep", "--adopt"],
    ["serve", "--kept"],
    ["serve", "--alone"],
    ["attach", "--keeper"],
    ["detach", "--keeper"],
    ["watch", "--server"],
];

/// This program can be started for a role.
static CAN_SERVE: AtomicBool = AtomicBool::new(false);

/// For the first line of `main` of a program that mounts pools: if this process was started as the keeper or the server of a mount it is
/// that, and ends with it. Else this returns at once. Before it no thread may be started and no file opened.
pub fn serve_if_asked() {
    CAN_SERVE.store(true, Ordering::Relaxed);
    let words: Vec<OsString> = std::env::args_os().collect();
    if is_of_role(&words) {
        process::exit(run(words).into());
    }
}

/// Whether processes of a mount can be started. Errors: what the program lacks.
pub fn can_serve() -> Result<(), Failure> {
    match CAN_SERVE.load(Ordering::Relaxed) {
        true => Ok(()),
        false => Err(Failure::Other(
            "this program cannot be the server of a mount: its main must call keepfs::serve_if_asked() first".into(),
        )),
    }
}

fn is_of_role(words: &[OsString]) -> bool {
    matches!(words, [_, role, second, ..] if BEGINNINGS.iter().any(|begin| role == begin[0] && second == begin[1]))
}

/// The exit code.
fn run(words: Vec<OsString>) -> u8 {
    // Servers are started as /proc/self/exe, of which ps(1) would say `exe`.
    let _ = rustix::thread::set_name(c"keepfs");
    limits::raise();
    keepfs_fuse::forget_inherited_signals();
    let role = match Words::try_parse_from(words) {
        Ok(words) => words.role,
        Err(words) => {
            // There is nobody to tell if that fails.
            drop(words.print());
            return 2;
        }
    };
    mmp::tell_waits_by(match &role {
        Role::Serve(args) if !args.foreground => starter::waits,
        _ => |seconds| eprintln!("keepfs: {}", one_line(&mmp::wait_in_words(seconds))),
    });
    let done: Outcome = match role {
        Role::Serve(args) => serve::in_background(&args),
        Role::Keep(args) => keep::run(&args),
        Role::Attach(args) => attach::run(&args),
        Role::Detach(args) => attach::detach(&args),
        Role::Watch(args) => deserted::run(&args),
    };
    done.unwrap_or_else(|failure| {
        eprintln!("keepfs: {}", one_line(&failure.to_string()));
        if matches!(failure, Failure::Usage(_)) { 2 } else { 1 }
    })
}

#[cfg(test)]
mod tests;
