//! Running the programs of the benchmark: with a time limit, and stopped by ctrl-c.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use xtask::suites::process;

/// Set by SIGINT, SIGTERM and SIGHUP: whoever waits for a program gives up, and everything is taken down on the way out.
#[derive(Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Takes the signals over.
    pub fn on_signals() -> Result<Self, String> {
        let stop = Self::default();
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            signal_hook::flag::register(signal, stop.0.clone()).map_err(|e| format!("signal {signal}: {e}"))?;
        }
        Ok(stop)
    }

    /// An error once a signal has come.
    pub fn check(&self) -> Result<(), String> {
        match self.0.load(Ordering::Relaxed) {
            true => Err("stopped by a signal".into()),
            false => Ok(()),
        }
    }

    /// Whether a signal has come.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Waits for `time`, or until a signal comes.
    pub fn wait(&self, time: Duration) -> Result<(), String> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            std::thread::sleep(Duration::from_millis(100));
        }
        self.check()
    }
}

/// Runs to the end and returns standard output; killed after `limit` or when a signal comes.
pub fn limited(command: &mut Command, limit: Duration, stop: &Stop) -> Result<String, String> {
    waited_for(command.stdout(Stdio::piped()).stderr(Stdio::piped()), limit, stop)
}

/// The same of a program that tells on standard error how far it is.
pub fn limited_telling(command: &mut Command, limit: Duration, stop: &Stop) -> Result<String, String> {
    waited_for(command.stdout(Stdio::piped()).stderr(Stdio::inherit()), limit, stop)
}

/// Runs to the end with its output in a file; killed after `limit` or when a signal comes.
pub fn limited_to(command: &mut Command, output: std::fs::File, limit: Duration, stop: &Stop) -> Result<(), String> {
    waited_for(command.stdout(output), limit, stop).map(drop)
}

fn waited_for(command: &mut Command, limit: Duration, stop: &Stop) -> Result<String, String> {
    let shown = format!("{command:?}");
    let child = command.spawn();
    let mut child = child.map_err(|e| format!("{shown}: {e}"))?;
    let end = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => {}
            Err(e) => return Err(format!("{shown}: {e}")),
        }
        let over = Instant::now() >= end;
        if over || stop.is_set() {
            let why = if over {
                "over its time limit"
            } else {
                "stopped by a signal"
            };
            end_within(&mut child, Duration::ZERO);
            return Err(format!("{shown}: {why}, killed"));
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let mut said = [String::new(), String::new()];
    let [out, err] = &mut said;
    // What cannot be read is not said.
    let _out = child.stdout.as_mut().map(|pipe| pipe.read_to_string(out));
    let _err = child.stderr.as_mut().map(|pipe| pipe.read_to_string(err));
    match status.success() {
        true => Ok(std::mem::take(out)),
        false => Err(format!("{shown}: {status}\n{out}{err}")),
    }
}

/// Waits until a child has ended; after `time` it is killed. One that hangs in the kernel is left alone after a while.
pub fn end_within(child: &mut Child, time: Duration) {
    let ended = |child: &mut Child, time: Duration| {
        let end = Instant::now() + time;
        loop {
            match child.try_wait() {
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
                Ok(None) => return false,
                Ok(Some(_)) | Err(_) => return true,
            }
        }
    };
    if !ended(child, time) {
        // It may be gone by now.
        let _gone = child.kill();
        ended(child, Duration::from_secs(5));
    }
}

/// A command that a ctrl-c at the terminal does not reach, because it serves a mount; `scratch` marks it for the sweep.
///
/// It gets a session of its own, as the server of `keepfs mount` has: the kernel shares the CPUs out among sessions
/// (sched_autogroup_enabled), and a server in its client's session seems up to ten times as fast beside other work
/// (`docs/decisions/0421-the-benchmark-compares-like-with-like.md`).
pub fn server(program: impl AsRef<std::ffi::OsStr>, scratch: &Path) -> Command {
    let mut command = process::command("setsid", Path::new("/"));
    command.arg(program).env("TMPDIR", scratch);
    command
}

#[cfg(test)]
mod tests;
