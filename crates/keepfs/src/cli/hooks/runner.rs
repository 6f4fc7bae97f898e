//! One run of a hook: with an event, with a limit of time, and never longer than that.

use super::event::Event;
use super::programs::Settings;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use std::fmt;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

/// The exit code of a hook that had nothing to do.
const DID_NOTHING: i32 = 77;

/// What a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    timeout_s: u32,
}

impl Limits {
    /// So many seconds.
    pub fn of(timeout_s: u32) -> Limits {
        Limits { timeout_s }
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Ended {
    /// With exit code 0.
    Done,
    /// It says that there was nothing for it to do.
    Nothing,
    /// With another one, or by a signal.
    Failed(ExitStatus),
    /// It was ended, with all that it had started and that stayed in its process group.
    TooLong(u32),
    /// It was not started, because of this.
    NotRun(String),
}

impl Ended {
    /// Whether it did what it is for, as far as it says.
    pub fn is_good(&self) -> bool {
        matches!(self, Ended::Done | Ended::Nothing)
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ended::Done => write!(f, "done"),
            Ended::Nothing => write!(f, "did nothing"),
            Ended::Failed(status) => write!(f, "failed ({status})"),
            Ended::TooLong(seconds) => write!(f, "was ended: it took longer than {seconds} s"),
            Ended::NotRun(why) => write!(f, "not run: {why}"),
        }
    }
}

/// Runs `program`; what it says goes where this process says things.
pub fn run(program: &Path, event: &Event, settings: &Settings, limits: Limits) -> Ended {
    // It begins in another directory than this process.
    let program = std::path::absolute(program).unwrap_or_else(|_| program.into());
    let mut command = Command::new(program);
    command
        .current_dir("/")
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .envs(event.variables())
        .stdin(Stdio::piped())
        .process_group(0);
    if std::env::var_os("PATH").is_none() {
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    }
    let ran = command.spawn().and_then(|child| attend(child, event, limits));
    ran.unwrap_or_else(|error| Ended::NotRun(error.to_string()))
}

fn attend(mut child: Child, event: &Event, limits: Limits) -> io::Result<Ended> {
    let pid = Pid::from_child(&child);
    let told = tell(&mut child, event);
    let in_time = told.and_then(|()| ends_within(pid, limits.timeout_s));
    if !matches!(in_time, Ok(true)) {
        // It may have ended meanwhile.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let status = child.wait()?;
    Ok(match (in_time?, status.success()) {
        (false, _) => Ended::TooLong(limits.timeout_s),
        (true, true) => Ended::Done,
        (true, false) if status.code() == Some(DID_NOTHING) => Ended::Nothing,
        (true, false) => Ended::Failed(status),
    })
}

/// The event on its standard input, which it may read or not.
fn tell(child: &mut Child, event: &Event) -> io::Result<()> {
    let mut text = serde_json::to_vec(event)?;
    text.push(b'\n');
    let Some(mut stdin) = child.stdin.take() else {
        return Ok(());
    };
    let write = move || {
        // Whoever does not read it has the environment.
        let _ = stdin.write_all(&text);
    };
    thread::Builder::new().name("keepfs-hook".into()).spawn(write)?;
    Ok(())
}

fn ends_within(pid: Pid, seconds: u32) -> io::Result<bool> {
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let limit = Timespec {
        tv_sec: seconds.into(),
        tv_nsec: 0,
    };
    Ok(poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&limit))? > 0)
}
