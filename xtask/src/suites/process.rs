//! Running a program and saying what went wrong.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether commands are printed before they run: for a log, not for a reader.
static ECHO: AtomicBool = AtomicBool::new(false);

/// From now on every command is printed before it runs.
pub fn echo() {
    ECHO.store(true, Ordering::Relaxed);
}

/// Prints the command if they are to be printed.
pub fn announce(command: &Command) {
    if ECHO.load(Ordering::Relaxed) {
        println!("$ {}", shown(command));
    }
}

/// A command without input, in `dir`.
pub fn command(program: impl AsRef<OsStr>, dir: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(dir).stdin(Stdio::null());
    command
}

/// Runs to the end and returns standard output. An exit code other than 0 is an error with all the program said.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = output(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(said(command, &output))
}

/// Runs to the end, whatever the exit code.
pub fn output(command: &mut Command) -> Result<Output, String> {
    announce(command);
    command.output().map_err(|e| format!("{}: {e}", shown(command)))
}

/// All that a program said, with how it ended.
pub fn said(command: &Command, output: &Output) -> String {
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    format!("{}: {}\n{out}{err}", shown(command), output.status)
}

/// Program and arguments as one line.
fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(OsStr::to_string_lossy).collect::<Vec<_>>().join(" ")
}
