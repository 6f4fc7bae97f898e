//! A server that hangs (not dies) hangs no tool: it says so, and the mount can be ended.

use super::bed::{Bed, done, fails, keepfs, run};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Command;

/// A stopped server, which goes on when a test fails.
struct Stopped(Pid);

impl Drop for Stopped {
    fn drop(&mut self) {
        // Gone is as good.
        let _ = kill_process(self.0, Signal::CONT);
    }
}

/// A mount whose server is stopped.
fn stopped(options: &str) -> Option<(Bed, Stopped)> {
    let bed = Bed::mounted(options)?;
    fs::write(bed.on("file"), "text").unwrap();
    let server = bed.server();
    kill_process(server, Signal::STOP).unwrap();
    Some((bed, Stopped(server)))
}

/// The command with the mount point, ended after a minute if it hangs.
fn of(bed: &Bed, words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["60", super::bed::KEEPFS]).args(words).arg(bed.dir());
    command
}

#[test]
fn tools_say_that_a_server_hangs() {
    let Some((bed, stopped)) = stopped("") else { return };
    let server = stopped.0;
    let said = done(&mut of(&bed, &["status"]));
    assert!(
        said.contains("UNKNOWN") && said.contains("has not answered for 2 s"),
        "{said}"
    );
    assert!(said.contains(&format!("process {server} is stopped")), "{said}");
    assert!(said.contains("keepfs unmount -f"), "{said}");
    assert_eq!(run(&mut of(&bed, &["status", "-x"])).status.code(), Some(4));
    // One sick mount hides no other.
    let all = run(Command::new("timeout").args(["60", super::bed::KEEPFS, "status"]));
    assert!(String::from_utf8_lossy(&all.stdout).contains("has not answered"));
    for words in [
        &["events"][..],
        &["scrub", "status"],
        &["damage", "list"],
        &["get", "all"],
        &["unmount"],
        &["unmount", "--lazy"],
    ] {
        let (code, said) = fails(&mut of(&bed, words));
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(said.contains("has not answered for 2 s"), "{words:?}: {said}");
    }
    assert!(bed.is_mounted());
    // It was not its end.
    drop(stopped);
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
    bed.unmount();
    bed.check();
}

/// What was acknowledged is there, since the keeper has another server close the pool.
#[test]
fn force_ends_a_mount_whose_server_hangs() {
    let Some((bed, _stopped)) = stopped("commit=3600") else {
        return;
    };
    let said = done(&mut of(&bed, &["unmount", "-f"]));
    assert!(said.contains("did not answer and was ended"), "{said}");
    assert!(!bed.is_mounted());
    bed.check();
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

/// The same without a keeper: the pool is as after a crash.
#[test]
fn force_ends_a_mount_without_a_keeper() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    fs::write(bed.on("file"), "text").unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    kill_process(bed.server(), Signal::STOP).unwrap();
    let said = done(&mut of(&bed, &["unmount", "-f"]));
    assert!(said.contains("recovers what was synced"), "{said}");
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

/// ps(1), top(1) and messages of the kernel name them.
#[test]
fn processes_are_called_keepfs() {
    for options in ["", "keeper=off"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let status = bed.status();
        let mut processes = vec![status["server_pid"].clone()];
        if options.is_empty() {
            processes.extend([status["keeper"]["pid"].clone(), status["keeper"]["spare_pid"].clone()]);
        }
        for process in processes {
            let of = |file: &str| fs::read_to_string(format!("/proc/{process}/{file}")).unwrap();
            assert_eq!(of("comm"), "keepfs\n");
            assert!(of("cmdline").starts_with("keepfs\0"), "{}", of("cmdline"));
        }
    }
}

/// A mount goes with the namespace that it was made in, whoever serves it, with all that was written.
#[test]
fn a_mount_ends_with_its_namespace() {
    for options in ["keeper=on", "keeper=off"] {
        if !super::bed::possible() {
            return;
        }
        let bed = Bed::new();
        let words = format!("\"$0\" mount \"$1\" \"$2\" -o {options},commit=3600 && echo text > \"$2/file\"");
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", &words, super::bed::KEEPFS]);
        done(shell.arg(bed.pool()).arg(bed.dir()));
        super::bed::soon("the pool is free", || {
            run(keepfs(["check", "--data"]).arg(bed.pool()))
                .status
                .success()
                .then_some(())
        });
        bed.mount("");
        assert_eq!(fs::read(bed.on("file")).unwrap(), b"text\n");
    }
}
