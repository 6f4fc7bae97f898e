//! A server that hangs (not dies) hangs no tool: it says so, and the mount can be ended.

use super::bed::{Bed, done, fails, keepfs, run, soon};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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

/// Kills each server of a keeper as it begins, until it is dropped.
struct Killer(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Killer {
    fn of(keeper: i64) -> Killer {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let work = move || {
            while !over.load(Ordering::Relaxed) {
                let list = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap_or_default();
                for pid in list.split_whitespace() {
                    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
                    if words.split(|byte| *byte == 0).nth(1) == Some(b"serve") {
                        let _ = kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL);
                    }
                }
                std::thread::park_timeout(Duration::from_millis(5));
            }
        };
        Killer(is_over, Some(std::thread::spawn(work)))
    }
}

impl Drop for Killer {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().map(JoinHandle::join);
    }
}

/// A mount of which no server comes to serve is told of as one whose server hangs, and as soon.
#[test]
fn tools_say_that_no_server_comes_to_serve() {
    let Some(bed) = Bed::mounted("restarts=10000") else {
        return;
    };
    let killer = Killer::of(bed.status()["keeper"]["pid"].as_i64().unwrap());
    let begun = Instant::now();
    let said = done(&mut of(&bed, &["status"]));
    assert!(
        said.contains("UNKNOWN") && said.contains("one after the other"),
        "{said}"
    );
    for words in [&["events"][..], &["damage", "list"], &["get", "all"], &["unmount"]] {
        let (code, said) = fails(&mut of(&bed, words));
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(said.contains("one after the other"), "{words:?}: {said}");
    }
    // Three seconds each, and what a busy machine takes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(killer);
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
    bed.unmount();
    bed.check();
}

/// Whatever is asked of a server, or of the kernel about its mount; and whether it may be done later is said.
#[test]
fn tools_that_change_something_say_that_a_server_hangs() {
    let Some((bed, stopped)) = stopped("") else { return };
    let begun = Instant::now();
    let file = bed.on("file");
    let file = file.to_str().unwrap();
    for (may_do, words) in [
        (false, &["set", "label=other"][..]),
        (true, &["set", "scrub-limit=1M"]),
        (false, &["upgrade"]),
        (false, &["mount", "-o", "remount,ro", "none"]),
        (true, &["mount", "-o", "remount,rw", "none"]),
        (true, &["scrub", "pause"]),
        (true, &["scrub", "cancel"]),
        (false, &["scrub", "start", "--path", file]),
        (true, &["damage", "clear"]),
    ] {
        let (code, said) = fails(&mut of(&bed, words));
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(said.contains("has not answered for 2 s"), "{words:?}: {said}");
        assert!(
            said.contains(&format!("`kill -CONT {}`", stopped.0)),
            "{words:?}: {said}"
        );
        assert_eq!(
            said.contains("may still be done when it goes on"),
            may_do,
            "{words:?}: {said}"
        );
    }
    // Two seconds and a half each, and what a busy machine takes.
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    drop(stopped);
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
    // What was said to be possible: the limit came through, the label did not.
    assert_eq!(
        done(keepfs(["get", "-H", "-o", "value", "scrub-limit,label"]).arg(bed.dir())),
        "1.00M\nbed\n"
    );
    bed.unmount();
    bed.check();
}

#[test]
fn faults_are_not_put_into_a_server_that_hangs() {
    let Some(bed) = Bed::with_a_file() else { return };
    let server = bed.server();
    kill_process(server, Signal::STOP).unwrap();
    let _stopped = Stopped(server);
    for words in [&["list"][..], &["scribble", "--kind", "inode", "--path", "dir/file"]] {
        let mut command = Command::new("timeout");
        command
            .args(["60", super::bed::KEEPFS, "inject"])
            .arg(bed.dir())
            .args(words);
        let (code, said) = fails(&mut command);
        assert!(
            code == 1 && said.contains("has not answered for 2 s"),
            "{words:?}: {said}"
        );
    }
}

/// What takes longer than that is waited for, and so is what waits behind it: the server lives.
#[test]
fn what_takes_long_is_waited_for() {
    let Some(bed) = Bed::with_a_file() else { return };
    // One that has just begun would be given more time whatever it does.
    std::thread::park_timeout(Duration::from_secs(11));
    let slow = ["device", "--op", "flush", "--error", "latency", "--ms", "5000"];
    done(keepfs(["inject"]).arg(bed.dir()).args(slow));
    let begun = Instant::now();
    let mut set = of(&bed, &["set", "label=slow"]).spawn().unwrap();
    std::thread::park_timeout(Duration::from_millis(500));
    done(&mut of(&bed, &["damage", "clear"]));
    assert!(begun.elapsed() > Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(set.wait().unwrap().success());
    assert!(bed.line(&bed.dir(), "pool").starts_with("slow "));
}

/// It holds what its servers need, so nothing ends or begins without it.
#[test]
fn a_keeper_that_is_stopped_is_told_of() {
    let Some(bed) = Bed::mounted("") else { return };
    let keeper = bed.status()["keeper"]["pid"].as_i64().unwrap() as i32;
    let stop = || {
        kill_process(Pid::from_raw(keeper).unwrap(), Signal::STOP).unwrap();
        Stopped(Pid::from_raw(keeper).unwrap())
    };
    let stopped = stop();
    let (code, said) = fails(&mut of(&bed, &["set", "label=kept"]));
    let expected = format!("its keeper, process {keeper} is stopped");
    assert!(code == 1 && said.contains(&expected), "{said}");
    drop(stopped);
    soon("another server has come", || {
        (bed.line(&bed.dir(), "state") == "ONLINE").then_some(())
    });
    assert!(bed.line(&bed.dir(), "pool").starts_with("kept "));
    let stopped = stop();
    let (code, said) = fails(&mut of(&bed, &["unmount"]));
    assert!(
        code == 1 && said.contains(&expected) && said.contains("is unmounted"),
        "{said}"
    );
    drop(stopped);
    soon("the pool is free", || {
        run(keepfs(["check", "--data"]).arg(bed.pool()))
            .status
            .success()
            .then_some(())
    });
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
    let upgrade = "&& cp \"$0\" \"$1.program\" && \"$0\" upgrade \"$2\" \"$1.program\"";
    for (options, more) in [("keeper=on", ""), ("keeper=off", ""), ("keeper=on", upgrade)] {
        if !super::bed::possible() {
            return;
        }
        let bed = Bed::new();
        let words = format!("\"$0\" mount \"$1\" \"$2\" -o {options},commit=3600 && echo text > \"$2/file\" {more}");
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
