//! Programs end, one way or the other.

use super::*;

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[test]
fn what_a_program_says_is_returned_and_failures_tell_all() {
    let stop = Stop::default();
    let minute = Duration::from_secs(60);
    assert_eq!(limited(&mut shell("echo a"), minute, &stop), Ok("a\n".to_owned()));
    let failed = limited(&mut shell("echo out; echo err >&2; exit 3"), minute, &stop).expect_err("exit code 3");
    assert!(failed.contains("out\nerr"), "{failed}");
}

#[test]
fn a_program_over_its_limit_is_killed() {
    let late = limited(&mut shell("read line"), Duration::ZERO, &Stop::default());
    // With no input it may end at once or be killed; with an open pipe it would wait for ever.
    let waiting = limited(
        shell("read line").stdin(Stdio::piped()),
        Duration::ZERO,
        &Stop::default(),
    );
    assert!(waiting.is_err(), "{late:?} {waiting:?}");
}

#[test]
fn a_signal_stops_the_waiting() {
    let stop = Stop::default();
    stop.0.store(true, Ordering::Relaxed);
    assert!(stop.check().is_err() && stop.wait(Duration::from_secs(60)).is_err());
    let stopped = limited(shell("read line").stdin(Stdio::piped()), Duration::from_secs(60), &stop);
    assert!(stopped.is_err());
}
