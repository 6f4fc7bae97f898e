//! The product as its user drives it: the command, with a limit on the time of each call.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Time that a program may take; more is a hang.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Behind that it is killed, and behind this nobody waits for it any more: what waits for an answer of the mount may not end.
const GRACE: Duration = Duration::from_secs(10);
/// Bytes of complaints that a program is listened to.
const COMPLAINTS: u64 = 1 << 20;
/// What timeout(1) answers then.
const TIMED_OUT: [i32; 2] = [124, 137];
/// SIGBUS: a page that it had mapped could not be read.
const BUS: i32 = 7;
/// How a program says that the file system told it of damage; the last two keep the error's number for themselves, and git says
/// so of a program of its own that ended by [`BUS`].
const TOLD: [&str; 8] = [
    "Input/output error",
    "Read-only file system",
    "disk I/O error",
    "readonly database",
    "Bus error",
    "died of signal 7",
    "unable to open database file",
    "not a git repository",
];

/// How a program ended.
pub struct Ran {
    /// With exit code 0.
    pub ok: bool,
    /// It did not end in time.
    pub hung: bool,
    /// It failed and names the error that damage gives.
    pub told: bool,
    /// Standard output.
    pub out: String,
    /// The command, how it ended, the end of what it said.
    pub said: String,
}

/// Runs a program in `dir` to its end.
pub fn call(dir: &Path, words: &[&str]) -> Ran {
    call_within(PATIENCE, dir, words)
}

/// The same with another limit of its time, in whole seconds.
pub fn call_within(patience: Duration, dir: &Path, words: &[&str]) -> Ran {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &patience.as_secs().to_string()])
        .args(words)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .env("LC_ALL", "C")
        .env("HOME", "/nonexistent")
        .env("GIT_CONFIG_NOSYSTEM", "1");
    for who in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{who}_NAME"), "strays")
            .env(format!("GIT_{who}_EMAIL"), "strays@localhost");
    }
    let words = words.join(" ");
    let ended = |hung, why: String| Ran {
        ok: false,
        hung,
        told: false,
        out: String::new(),
        said: format!("timeout {words}: {why}"),
    };
    let child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return ended(false, e.to_string()),
    };
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || drop(tell.send(heard(child))));
    let (output, complaints) = match told.recv_timeout(patience + GRACE) {
        Ok(Ok(heard)) => heard,
        Ok(Err(e)) => return ended(false, e.to_string()),
        Err(_) => return ended(true, "it cannot even be killed".into()),
    };
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&complaints),
    );
    // timeout(1) kills itself, too, when its program has to be killed.
    let code = output.status.code();
    let code = code.unwrap_or(128 + output.status.signal().unwrap_or(0));
    let hung = TIMED_OUT.contains(&code);
    // timeout(1) ends as its program did.
    let bus = code == 128 + BUS || output.status.signal() == Some(BUS);
    let told = bus || TOLD.iter().any(|word| err.contains(word) || out.contains(word));
    let end = |text: &str| {
        text.chars()
            .rev()
            .take(600)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
            .collect::<String>()
    };
    Ran {
        ok: code == 0,
        hung,
        told: told && !hung,
        said: format!("{words}: {}: {} {}", output.status, end(&out), end(&err)),
        out: out.into_owned(),
    }
}

/// How a program ended, what it said, and the beginning of what it complained of. One that is told of damage may ask for ever: git
/// 2.39 reads a directory again and again that cannot be read. It ends (SIGPIPE) when it has said more than [`COMPLAINTS`].
fn heard(mut child: Child) -> std::io::Result<(Output, Vec<u8>)> {
    let stderr = child.stderr.take();
    let listener = std::thread::spawn(move || {
        let mut complaints = Vec::new();
        stderr.map_or(Ok(0), |pipe| pipe.take(COMPLAINTS).read_to_end(&mut complaints))?;
        Ok(complaints)
    });
    let output = child.wait_with_output()?;
    let complaints = listener
        .join()
        .unwrap_or_else(|_| Err(std::io::Error::other("who listens panicked")))?;
    Ok((output, complaints))
}

/// The command `keepfs`.
pub struct Product {
    /// Where it is.
    pub binary: PathBuf,
}

impl Product {
    /// Runs it.
    pub fn run(&self, words: &[&str]) -> Ran {
        let binary = self.binary.to_string_lossy();
        let words: Vec<&str> = std::iter::once(&*binary).chain(words.iter().copied()).collect();
        call(Path::new("/"), &words)
    }

    /// Its answer in JSON, whatever the exit code.
    pub fn json(&self, words: &[&str]) -> Result<Value, String> {
        let ran = self.run(words);
        serde_json::from_str(&ran.out).map_err(|_| ran.said)
    }

    /// The process that serves a mount.
    pub fn server(&self, point: &Path) -> Result<i32, String> {
        let status = self.json(&["status", &point.to_string_lossy(), "--json"])?;
        let server = status["server_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
        server.ok_or_else(|| "status names no server".to_owned())
    }

    /// Ends a mount that cannot be unmounted, with the processes that `status` named last.
    pub fn abandon(&self, point: &Path, status: &Value) {
        let processes = [
            &status["keeper"]["pid"],
            &status["server_pid"],
            &status["keeper"]["spare_pid"],
        ];
        for pid in processes.iter().filter_map(|pid| pid.as_i64()) {
            // Its number may be another's by now.
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let place = point.to_string_lossy().into_owned();
            let is_ours = words.split(|byte| *byte == 0).any(|word| word == place.as_bytes());
            if let Some(pid) = Pid::from_raw(pid as i32).filter(|_| is_ours) {
                let _gone_already = kill_process(pid, Signal::KILL);
            }
        }
        drop(Command::new("umount").arg("-l").arg(point).output());
    }
}

#[cfg(test)]
mod tests;
