//! Paths are bytes (S-18.10), and whatever stands where a pool should be, no command waits for ever.

use super::bed::{Bed, copy_program, done, end, fails, keepfs, possible, run, soon};
use super::json::is_as_promised;
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take that has nothing to wait for, on a machine with forty times the work it can do.
const LONG: Duration = Duration::from_secs(60);

/// Runs a command that might never end.
fn ends(command: &mut Command) -> Output {
    let mut started = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let until = Instant::now() + LONG;
    while started.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            started.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    started.wait_with_output().unwrap()
}

fn pool(bed: &Bed) -> PathBuf {
    bed.path("").join(OsStr::from_bytes(b"p\xff"))
}

fn dir(bed: &Bed) -> PathBuf {
    bed.path("").join(OsStr::from_bytes(b"m\xe4\n"))
}

/// Makes them.
fn prepare(bed: &Bed) {
    fs::create_dir(dir(bed)).unwrap();
    is_told(
        "create",
        keepfs(["create", "--size", "64M", "--json"]).arg(pool(bed)),
        "pool",
        &pool(bed),
    );
}

fn mount(bed: &Bed, options: &str) {
    let mut mount = keepfs(["mount", "-o", options]);
    let output = ends(mount.arg(pool(bed)).arg(dir(bed)));
    assert!(output.status.success(), "{output:?}");
}

/// The answer of a command, which has the path.
fn is_told(name: &str, command: &mut Command, field: &str, path: &Path) -> Value {
    let output = ends(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_as_promised(name, &answer);
    is_path(&answer, field, path);
    answer
}

fn is_path(answer: &Value, field: &str, path: &Path) {
    let digits = path.as_os_str().as_bytes().iter().map(|byte| format!("{byte:02x}"));
    assert_eq!(answer[format!("{field}_bytes")], digits.collect::<String>(), "{answer}");
    assert!(answer[field].as_str().unwrap().starts_with("$'/"), "{answer}");
}

#[test]
fn a_pool_and_a_mount_point_are_any_bytes() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    prepare(&bed);
    let (pool, dir) = (pool(&bed), dir(&bed));
    is_told("status", keepfs(["status", "--json"]).arg(&pool), "pool", &pool);
    is_told("check", keepfs(["check", "--json"]).arg(&pool), "pool", &pool);
    is_told("events", keepfs(["events", "--json"]).arg(&pool), "pool", &pool);
    is_told("set", keepfs(["set", "--json", "label=x"]).arg(&pool), "of", &pool);
    is_told("get", keepfs(["get", "--json", "label"]).arg(&pool), "of", &pool);
    is_told(
        "grow",
        keepfs(["grow", "--json", "--size", "65M"]).arg(&pool),
        "pool",
        &pool,
    );
    let shown = done(keepfs(["probe"]).arg(&pool));
    assert!(shown.contains("/p\\xff': LABEL=\"x\""), "{shown}");

    mount(&bed, "");
    fs::write(dir.join("file"), "text").unwrap();
    for of in [&pool, &dir] {
        let status = is_told("status", keepfs(["status", "--json"]).arg(of), "pool", &pool);
        is_path(&status, "dir", &dir);
        assert_eq!(status["state"], "ONLINE");
        is_told("events", keepfs(["events", "--json"]).arg(of), "pool", &pool);
    }
    let shown = done(keepfs(["status"]).arg(&dir));
    assert!(shown.contains("/p\\xff'") && shown.contains("/m\\xe4\\n'"), "{shown}");
    done(keepfs(["metrics"]).arg(&dir));
    is_told("set", keepfs(["set", "--json", "label=y"]).arg(&dir), "of", &dir);
    // Places are handed on, in an upgrade too.
    let copy = bed.path("keepfs");
    copy_program(super::bed::KEEPFS, &copy);
    done(keepfs(["upgrade"]).arg(&dir).arg(&copy));
    let status = |of: &Path| is_told("status", keepfs(["status", "--json"]).arg(of), "pool", &pool);
    let server = status(&dir)["server_pid"].as_i64().unwrap();
    end(Pid::from_raw(server as i32).unwrap(), Signal::KILL);
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
    let told = soon("another server answers", || {
        let told = status(&dir);
        (told["server_pid"] != server && told["server_pid"].is_i64()).then_some(told)
    });
    // So it is by the next keeper.
    end(
        Pid::from_raw(told["keeper"]["pid"].as_i64().unwrap() as i32).unwrap(),
        Signal::KILL,
    );
    soon("another keeper has it", || {
        let now = run(keepfs(["status", "--json"]).arg(&dir));
        let now: Value = serde_json::from_slice(&now.stdout).ok()?;
        let pid = &now["keeper"]["pid"];
        (pid.is_i64() && *pid != told["keeper"]["pid"]).then_some(())
    });
    assert_eq!(fs::read_to_string(dir.join("file")).unwrap(), "text");
    done(keepfs(["unmount"]).arg(&dir));

    let saved = bed.path("saved");
    is_told(
        "salvage",
        keepfs(["salvage", "--json"]).arg(&pool).arg(&saved),
        "pool",
        &pool,
    );
    is_told(
        "repair",
        keepfs(["check", "--repair", "--json"]).arg(&pool),
        "pool",
        &pool,
    );
    mount(&bed, "keeper=off");
    let status = is_told("status", keepfs(["status", "--json"]).arg(&dir), "pool", &pool);
    is_path(&status, "dir", &dir);
    done(keepfs(["unmount"]).arg(&pool));
    done(keepfs(["check"]).arg(&pool));
}

/// Servers write it one after the other, also behind a remount. S-18.16
#[test]
fn a_log_is_at_any_bytes() {
    if !possible() {
        return;
    }
    for keeper in ["on", "off"] {
        let bed = Bed::new();
        let log = bed.path("").join(OsStr::from_bytes(b"log\xff"));
        let options = [format!("keeper={keeper},log=").as_bytes(), log.as_os_str().as_bytes()].concat();
        let mut mount = keepfs(["mount", "-o"]);
        let output = ends(
            mount
                .arg(OsStr::from_bytes(&options))
                .args([bed.pool().as_path(), &bed.dir()]),
        );
        assert!(output.status.success(), "{output:?}");
        let begun = fs::metadata(&log).unwrap().len();
        if keeper == "on" {
            bed.end_server(Signal::KILL);
            fs::write(bed.on("file"), "text").unwrap();
            assert!(fs::metadata(&log).unwrap().len() > begun);
        }
        let again = [b"remount,noatime,log=", log.as_os_str().as_bytes()].concat();
        done(
            keepfs(["mount", "-o"])
                .arg(OsStr::from_bytes(&again))
                .args([bed.pool().as_path(), &bed.dir()]),
        );
        bed.unmount();
        bed.check();
    }
}

/// What cannot be handed on ends the mount before it is one (S-16.30).
#[test]
fn a_mount_that_cannot_be_handed_on_fails_at_once() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    // More than the keeper has room for.
    let output = ends(&mut bed.mounting(&format!("comment={}", "x".repeat(70_000))));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("the keeper cannot take the place") && said.lines().count() == 1,
        "{said}"
    );
    done(keepfs(["check"]).arg(bed.pool()));
    bed.mount("");
    bed.unmount();
}

/// Nobody writes into it, so who opened it would wait.
#[test]
fn what_is_no_pool_is_not_waited_for() {
    let bed = Bed::empty();
    let fifo = bed.path("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let socket = bed.path("socket");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    for path in [&fifo, &socket, Path::new("/dev/zero")] {
        for words in [
            &["probe"][..],
            &["status"],
            &["check"],
            &["check", "--live"],
            &["check", "--repair"],
            &["events"],
            &["get", "all"],
            &["set", "label=x"],
            &["grow"],
            &["create", "--size", "16M"],
            &["damage", "list"],
            &["dump"],
        ] {
            let mut command = keepfs(words);
            command.arg(path);
            if words == ["dump"] {
                command.arg("superblock");
            }
            let output = ends(&mut command);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{command:?}: {said}");
            assert!(
                said.contains("neither a regular file nor a block device"),
                "{command:?}: {said}"
            );
        }
        for words in [["salvage"], ["mount"]] {
            let output = ends(keepfs(words).arg(path).arg(bed.path("mount")));
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{words:?} {path:?}: {said}");
        }
        let (code, _) = fails(keepfs(["scrub", "status"]).arg(path));
        assert_eq!(code, 1);
    }
}
