//! Mounts that go on where nobody looks for them: unmounted lazily while in use, or bound elsewhere.

use super::bed::{Bed, done, done_when_free, end, fails, keepfs, possible, run, soon};
use rustix::process::{Pid, Signal};
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

fn said(of: &Path) -> String {
    done(keepfs(["status"]).arg(of))
}

/// What names the pool finds its server, says that it is mounted nowhere, and ends it.
#[test]
fn a_pool_unmounted_lazily_is_found_by_its_name() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let open = fs::File::open(bed.on("file")).unwrap();
    done(Command::new("umount").arg("-l").arg(bed.dir()));
    let where_it_was = format!("unmounted from {} while it was in use", bed.dir().display());
    let text = said(&bed.pool());
    assert!(text.contains(&where_it_was) && text.contains("unmount -f"), "{text}");
    done(keepfs(["events"]).arg(bed.pool()));
    for mut command in [keepfs(["unmount"]), keepfs(["check"])] {
        let (code, text) = fails(command.arg(bed.pool()));
        assert!(code != 0 && text.contains(&where_it_was), "{code}: {text}");
    }
    // A machine without fusectl has no way but to end who uses it.
    if Path::new("/sys/fs/fuse/connections")
        .read_dir()
        .is_ok_and(|mut all| all.next().is_some())
    {
        done(keepfs(["unmount", "-f"]).arg(bed.pool()));
        bed.check();
    }
    drop(open);
    bed.check();
    assert!(said(&bed.pool()).contains("OFFLINE"));
}

/// A bind mount stays, and is found by the pool.
#[test]
fn a_pool_bound_elsewhere_is_found_by_its_name() {
    let Some(bed) = Bed::mounted("") else { return };
    let bound = bed.path("bound");
    fs::create_dir(&bound).unwrap();
    done(Command::new("mount").arg("--bind").arg(bed.dir()).arg(&bound));
    let first = done_when_free(keepfs(["unmount"]).arg(bed.dir()), "busy");
    let (text, line) = (said(&bed.pool()), bed.line(&bed.pool(), "state"));
    done_when_free(keepfs(["unmount"]).arg(bed.pool()), "busy");
    assert!(first.contains("stays mounted at"), "{first}");
    assert!(line == "ONLINE" && text.contains(&*bound.to_string_lossy()), "{text}");
    bed.check();
}

/// Where another mount namespace keeps it, that is said, everything is durable, and it is not waited for longer than 10 s.
#[test]
fn a_pool_mounted_in_another_namespace_is_told() {
    let Some(bed) = Bed::mounted("cache=writeback,commit=3600") else {
        return;
    };
    fs::write(bed.on("file"), "text").unwrap();
    // The mounts of other tests are not kept, nor what is mounted over them.
    let words = r#"
        others() { awk -v here="$0" '/ - fuse(blk)?.keepfs / && $5 != here { print $5; exit }' /proc/self/mountinfo; }
        while other=$(others) && [ -n "$other" ] && umount -l "$other"; do :; done
        exec sleep 100"#;
    let mut apart = Command::new("unshare");
    apart.args(["--mount", "--propagation", "private", "sh", "-c", words]);
    let mut sleeper = apart.arg(bed.dir()).spawn().unwrap();
    let pid = sleeper.id();
    let comm = || fs::read_to_string(format!("/proc/{pid}/comm")).unwrap();
    soon("it sleeps", || (comm() == "sleep\n").then_some(()));
    let (code, text) = fails(keepfs(["unmount"]).arg(bed.dir()));
    let (is_mounted, status) = (bed.is_mounted(), done(keepfs(["status", "--json"]).arg(bed.pool())));
    let shown = said(&bed.pool());
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let there = format!(
        "at {} in the mount namespace of process {pid} (sleep)",
        bed.dir().display()
    );
    assert!(
        code == 1 && text.contains(&format!("stays mounted {there}")) && text.contains("everything is durable"),
        "{text}"
    );
    assert!(!is_mounted && shown.contains(&there), "{shown}");
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["log"]["durable_seq"], status["log"]["last_seq"]);
    bed.check();
}

/// By force what is bound elsewhere ends, too: that is said, and the pool is closed.
#[test]
fn a_bound_mount_that_ends_by_force_is_told() {
    let Some(bed) = Bed::mounted("") else { return };
    let bound = bed.path("bound");
    fs::create_dir(&bound).unwrap();
    done(Command::new("mount").arg("--bind").arg(bed.dir()).arg(&bound));
    let ended = run(keepfs(["unmount", "-f"]).arg(bed.dir()));
    let is_dead = fs::read_dir(&bound).is_err();
    done(Command::new("umount").arg("-l").arg(&bound));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && is_dead, "{ended:?}");
    assert!(
        said.contains(&format!("`umount {}` takes it away", bound.display())),
        "{said}"
    );
    bed.check();
}

/// What is mounted over a pool is said.
#[test]
fn a_pool_that_is_covered_is_told() {
    let Some(bed) = Bed::mounted("") else { return };
    done(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(bed.dir()));
    let said = [bed.pool(), bed.dir()].map(|of| fails(keepfs(["unmount"]).arg(of)).1);
    done(Command::new("umount").arg(bed.dir()));
    for said in said {
        assert!(said.contains("a tmpfs is mounted over the pool at"), "{said}");
    }
    done_when_free(keepfs(["unmount"]).arg(bed.pool()), "busy");
}

/// A pool is unmounted, or told to be covered, never the one that is mounted over it.
#[test]
fn no_other_pool_is_unmounted() {
    let Some(bed) = Bed::mounted("") else { return };
    let over = bed.path("over");
    done(keepfs(["create", "--size", "64M"]).arg(&over));
    done(keepfs(["mount"]).arg(&over).arg(bed.dir()));
    let told = [&[][..], &["-f"], &["--lazy"]].map(|how| fails(keepfs(["unmount"]).args(how).arg(bed.pool())).1);
    done_when_free(keepfs(["unmount"]).arg(&over), "busy");
    for told in told {
        let expected = format!("another pool ({}) is mounted over", over.display());
        assert!(told.contains(&expected), "{told}");
    }
    done_when_free(keepfs(["unmount"]).arg(bed.pool()), "busy");
}

/// S-16.34: servers under the limits of whoever mounts would be killed for their work.
#[test]
fn limits_of_who_mounts_end_no_server() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let mount = format!(
        "ulimit -S -t 1; ulimit -S -f 100; ulimit -S -s 32; exec {} mount {} {}",
        env!("CARGO_BIN_EXE_keepfs"),
        bed.pool().display(),
        bed.dir().display()
    );
    done(Command::new("bash").args(["-c", &mount]));
    let limits = fs::read_to_string(format!("/proc/{}/limits", bed.server().as_raw_nonzero())).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let mut limits = line[name.len()..].split_whitespace().map(str::to_owned);
        (limits.next().unwrap(), limits.next().unwrap())
    };
    for name in ["Max cpu time", "Max file size"] {
        let (has, may_have) = limit(name);
        assert_eq!(has, may_have, "{name}");
    }
    assert_eq!(limit("Max stack size").0, (8 << 20).to_string());
    fs::write(bed.on("file"), vec![1; 1 << 20]).unwrap();
    bed.unmount();
    bed.check();
}

/// S-16.35: the mount works as any of which nothing was blocked or ignored.
#[test]
fn signals_of_who_mounts_are_not_inherited() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let under = |word: &str| {
        let mut command = Command::new("env");
        command.args(["--ignore-signal=CHLD", "--block-signal=TERM,SEGV,BUS"]);
        command.args([env!("CARGO_BIN_EXE_keepfs"), word]);
        command
    };
    done(under("mount").arg(bed.pool()).arg(bed.dir()));
    bed.end_server(Signal::KILL);
    fs::write(bed.on("file"), "text").unwrap();
    let keeper = bed.status()["keeper"].clone();
    assert_eq!(keeper["last_death"]["how"], "signal 9");
    let keeper = Pid::from_raw(keeper["pid"].as_i64().unwrap() as i32).unwrap();
    for pid in [bed.server(), keeper] {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        assert_eq!(u64::from_str_radix(blocked.trim(), 16), Ok(0), "{status}");
    }
    end(keeper, Signal::TERM);
    assert!(!bed.is_mounted());
    bed.mount("");
    done_when_free(under("unmount").arg(bed.dir()), "busy");
    bed.check();
}

/// Whoever was killed while it mounted leaves files, which go with the next command. Those of a process that lives stay.
#[test]
fn what_the_killed_left_goes() {
    if !possible() {
        return;
    }
    let mut ended = Command::new("true").spawn().unwrap();
    ended.wait().unwrap();
    let folder = Path::new("/run/keepfs");
    fs::create_dir_all(folder).unwrap();
    let file = |pid: u32, end: &str| folder.join(format!("{pid}.{end}"));
    let (killed, living) = (ended.id(), std::process::id());
    for pid in [killed, living] {
        fs::write(file(pid, "err"), "").unwrap();
        drop(UnixListener::bind(file(pid, "sock")).unwrap());
    }
    done(&mut keepfs(["status"]));
    let are_there = |pid| ["err", "sock"].map(|end| file(pid, end).exists());
    let seen = (are_there(killed), are_there(living));
    for end in ["err", "sock"] {
        fs::remove_file(file(living, end)).unwrap();
    }
    assert_eq!(seen, ([false; 2], [true; 2]));
}
