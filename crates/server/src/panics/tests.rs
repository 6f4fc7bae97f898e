//! Which panics end a process: seen in one of its own.

use super::end_the_server;
use signal_hook::consts::SIGABRT;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

/// The thread that panics in the process below.
const THREAD: &str = "KEEPFS_TEST_PANICS";
/// Before its name: it catches its panic, as that of a request.
const ANSWERED: &str = "answered ";

/// Does nothing but in the process that [`ended`] starts.
#[test]
fn the_process_that_panics() {
    let Ok(name) = std::env::var(THREAD) else { return };
    end_the_server();
    let answered = name.strip_prefix(ANSWERED).map(str::to_owned);
    let is_answered = answered.is_some();
    let thread = std::thread::Builder::new().name(answered.unwrap_or(name));
    let thread = thread.spawn(move || match is_answered {
        true => assert!(keepfs_fuse::caught(|| panic!("on purpose")).is_err()),
        false => panic!("on purpose"),
    });
    assert_eq!(thread.expect("a thread").join().is_ok(), is_answered);
}

fn ended(name: &str) -> ExitStatus {
    let own = std::env::current_exe().expect("its own path");
    let mut child = Command::new(own);
    child.args(["--exact", "panics::tests::the_process_that_panics"]);
    child.env(THREAD, name).stdout(Stdio::null()).stderr(Stdio::null());
    child.status().expect("a process")
}

#[test]
fn a_panic_in_the_background_ends_the_server() {
    for name in [
        "keepfs-checkpoint",
        "keepfs-log",
        "keepfs-commit",
        "keepfs-scrub",
        "keepfs-history",
        "fuse-read-0",
        "fuse-notify",
        "fuse-sync",
    ] {
        assert_eq!(ended(name).signal(), Some(SIGABRT), "{name}");
    }
}

#[test]
fn a_panic_of_a_request_does_not() {
    assert!(ended("answered fuse-work").success());
}
