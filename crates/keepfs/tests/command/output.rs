//! Standard output as other programs have it: who stops reading ends the command in silence, and what cannot be written is an error.

use super::bed::{Bed, done, keepfs, run};
use rustix::process::Signal;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

/// Commands that print something about a pool.
const WORDS: [&[&str]; 7] = [
    &["status"],
    &["status", "--json"],
    &["check"],
    &["get", "all"],
    &["damage", "list"],
    &["events"],
    &["version"],
];

#[test]
fn a_full_output_is_an_error_and_a_closed_one_is_quiet() {
    let bed = Bed::new();
    for words in WORDS {
        let command = || {
            let mut command = keepfs(words);
            if words != ["version"] {
                command.arg(bed.pool());
            }
            command
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command().stdin(Stdio::null()).stdout(full).output_of_errors();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = if words == ["check"] { 8 } else { 1 };
        assert_eq!(output.status.code(), Some(code), "{words:?}: {said}");
        assert!(said.contains("cannot write to standard output"), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");

        // A pipe that nobody reads.
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command().stdin(Stdio::null()).stdout(writer).output_of_errors();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{words:?}");
        assert_eq!(output.status.signal(), Some(Signal::PIPE.as_raw()), "{words:?}");
    }
}

/// `output` of a command whose standard output is told.
trait Errors {
    fn output_of_errors(&mut self) -> std::process::Output;
}

impl Errors for std::process::Command {
    fn output_of_errors(&mut self) -> std::process::Output {
        let child = self.stderr(Stdio::piped()).spawn().unwrap();
        child.wait_with_output().unwrap()
    }
}

/// Times have an offset and say how long ago they were, in what is for people.
#[test]
fn times_are_for_people() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.end_server(Signal::KILL);
    done(keepfs(["scrub", "start", "--wait"]).arg(bed.dir()));
    let here = |words: &[&str]| done(keepfs(words).arg(bed.dir()).env("TZ", "UTC"));
    for said in [here(&["events"]), here(&["status"])] {
        let line = said.lines().find(|line| line.contains("signal 9")).unwrap();
        assert!(line.contains("+00:00 (just now)"), "{line}");
    }
    // When it began and ended, and when all was looked at last; of status its end.
    assert_eq!(here(&["scrub", "status"]).matches("+00:00 (just now)").count(), 3);
    let scrub = bed.line(&bed.dir(), "scrub");
    assert!(scrub.contains("; ended 2") && scrub.ends_with(" (just now)"), "{scrub}");
    let east = run(keepfs(["events"]).arg(bed.dir()).env("TZ", "Etc/GMT-5"));
    let east = String::from_utf8_lossy(&east.stdout).into_owned();
    assert!(
        east.contains("+05:00 (just now)") || !std::path::Path::new("/usr/share/zoneinfo/Etc/GMT-5").exists(),
        "{east}"
    );
}
