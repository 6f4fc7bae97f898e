//! A mount that is ended from outside, as by `umount -f` of util-linux: each command says so and what to do.

use super::bed::{Bed, done, fails, keepfs, run, soon};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::process::Command;

/// A mount in use of which umount(8) has ended the connection, what it said, and who uses it.
fn ended(options: &str) -> Option<(Bed, String, fs::File)> {
    let bed = Bed::mounted(options)?;
    fs::write(bed.on("acknowledged"), "kept").unwrap();
    let user = fs::File::open(bed.on("acknowledged")).unwrap();
    let (code, said) = fails(Command::new("umount").arg("-f").arg(bed.dir()));
    assert_eq!(code, 32, "{said}");
    // Its server closes the pool first.
    soon("the server has ended", || {
        let status = run(keepfs(["status"]).arg(bed.dir()));
        String::from_utf8_lossy(&status.stdout)
            .contains("was ended from outside")
            .then_some(())
    });
    Some((bed, said, user))
}

#[test]
fn each_command_says_that_the_mount_was_ended_and_what_to_do() {
    let Some((bed, said, _user)) = ended("commit=3600") else {
        return;
    };
    assert!(said.contains("busy"), "{said}");
    let dir = bed.dir();
    let help = format!("keepfs unmount -f {}, then mount it again", dir.display());
    assert_eq!(bed.line(&dir, "state"), "UNAVAIL");
    assert_eq!(bed.line(&dir, "action"), help);
    assert_eq!(run(keepfs(["status", "-x"]).arg(&dir)).status.code(), Some(4));
    let all = done(&mut keepfs(["status"]));
    assert!(all.contains(&help) && !all.contains("as root"), "{all}");
    for words in [
        &["events"][..],
        &["events", "--follow"],
        &["damage", "list"],
        &["damage", "clear"],
        &["get", "all"],
        &["set", "label=x"],
        &["grow"],
        &["scrub", "status"],
        &["scrub", "start"],
        &["upgrade"],
        &["hooks", "test"],
        &["mount", "-o", "remount,ro", "none"],
    ] {
        let (code, said) = fails(keepfs(words).arg(&dir));
        assert_eq!(code, 1, "{words:?}: {said}");
        assert!(
            said.contains("was ended from outside") && said.contains(&help) && !said.contains("as root"),
            "{words:?}: {said}"
        );
    }
    // It is what helps, and nothing that was acknowledged is lost.
    done(keepfs(["unmount", "-f"]).arg(&dir));
    assert!(!bed.is_mounted());
    bed.check();
    bed.mount("");
    assert_eq!(fs::read(bed.on("acknowledged")).unwrap(), b"kept");
}

#[test]
fn without_a_keeper_too() {
    let Some((bed, _, _user)) = ended("keeper=off") else {
        return;
    };
    assert_eq!(bed.line(&bed.dir(), "state"), "UNAVAIL");
    done(keepfs(["unmount", "-f"]).arg(bed.dir()));
    bed.mount("");
    assert_eq!(fs::read(bed.on("acknowledged")).unwrap(), b"kept");
}

/// Whoever mounts behind a crash need not take away what it left: of the same pool, with the server gone, also where it is in use.
#[test]
fn mounting_takes_a_dead_mount_of_the_pool_away() {
    let Some((bed, _, _user)) = ended("keeper=off") else {
        return;
    };
    let mounts = |kind: &str| {
        let table = fs::read_to_string("/proc/self/mounts").unwrap();
        let dir = format!(" {} {kind}", bed.dir().display());
        table.lines().filter(|line| line.contains(&dir)).count()
    };
    for _ in 0..2 {
        let output = run(&mut bed.mounting("keeper=off"));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.success() && said.contains("had lost its server was taken away"),
            "{said}"
        );
        assert_eq!(fs::read(bed.on("acknowledged")).unwrap(), b"kept");
        assert_eq!(mounts("fuse"), 1);
        bed.end_server(Signal::KILL);
        soon("the mount is dead", || fs::metadata(bed.dir()).is_err().then_some(()));
    }
    bed.mount("");
    bed.unmount();
    assert_eq!(mounts("fuse"), 0);
    bed.check();
}

/// A dead mount of a pool that is mounted elsewhere now is in nobody's way: commands with the pool's path are about the live one.
#[test]
fn a_dead_mount_does_not_hide_the_live_one() {
    let Some(bed) = Bed::mounted("keeper=off") else { return };
    bed.end_server(Signal::KILL);
    soon("the mount is dead", || fs::metadata(bed.dir()).is_err().then_some(()));
    let other = bed.path("other");
    fs::create_dir(&other).unwrap();
    done(keepfs(["mount"]).arg(bed.pool()).arg(&other));
    fs::write(other.join("file"), "text").unwrap();
    assert_eq!(bed.line(&bed.pool(), "state"), "ONLINE");
    done(keepfs(["set", "label=live"]).arg(bed.pool()));
    done(keepfs(["unmount"]).arg(bed.pool()));
    assert!(
        !other.join("file").exists() && fs::metadata(bed.dir()).is_err(),
        "the live one was unmounted"
    );
    bed.check();
    // That one has closed the pool.
    done(keepfs(["unmount"]).arg(bed.dir()));
}

/// Who unmounts what died before is told that the pool was not closed, however it is asked for, unless somebody has recovered it. S-16.37
#[test]
fn unmounting_a_dead_mount_tells_that_the_pool_is_not_closed() {
    for how in ["", "--lazy", "--force", "pool", "keeper", "mounted"] {
        let options = if how == "keeper" {
            "commit=3600"
        } else {
            "keeper=off,commit=3600"
        };
        let Some(bed) = Bed::mounted(options) else { return };
        fs::write(bed.on("answered"), "text").unwrap();
        let status = bed.status();
        let pids = [
            &status["server_pid"],
            &status["keeper"]["pid"],
            &status["keeper"]["spare_pid"],
        ];
        for pid in pids.iter().filter_map(|pid| Pid::from_raw(pid.as_i64()? as i32)) {
            kill_process(pid, Signal::KILL).unwrap();
        }
        soon("the mount is dead", || fs::metadata(bed.dir()).is_err().then_some(()));
        let mut unmount = keepfs(["unmount"]);
        match how {
            "pool" => unmount.arg(bed.pool()),
            "--lazy" | "--force" => unmount.arg(how).arg(bed.dir()),
            _ => unmount.arg(bed.dir()),
        };
        if how == "mounted" {
            let other = bed.path("other");
            fs::create_dir(&other).unwrap();
            done(keepfs(["mount"]).arg(bed.pool()).arg(&other));
            done(&mut unmount);
            done(keepfs(["unmount"]).arg(&other));
        } else {
            let (code, said) = fails(&mut unmount);
            let told = "its server died before it had closed the pool; the next mount recovers what was synced, what was not may be lost";
            assert!(code == 1 && said.contains(told), "{how}: {code}: {said}");
        }
        assert!(!bed.is_mounted(), "{how}");
    }
}

/// What helps is said before somebody looks for a way.
#[test]
fn unmount_of_a_mount_in_use_says_who_uses_it_and_how_to_end_it() {
    let Some(bed) = Bed::mounted("") else { return };
    let _user = fs::File::create(bed.on("file")).unwrap();
    let (code, said) = fails(keepfs(["unmount"]).arg(bed.dir()));
    assert_eq!(code, 1, "{said}");
    let who = format!("`fuser -vm {}`", bed.dir().display());
    for part in ["busy", who.as_str(), "--lazy", "--force"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
}
