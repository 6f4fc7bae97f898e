//! Servers that misbehave, in a build with the feature `planted`: what a server that was taken over gets from the kernel, a store
//! that misses the door, a request that kills every server (decisions 0612, 0603; SPEC S-16.3, S-18.5).

#[path = "command/bed.rs"]
#[allow(dead_code)]
mod bed;

use bed::{Bed, done, keepfs};
use keepfs_server::planted::{FILES, RECORDS, REFUSED, REFUSED_ALONE, REFUSED_EARLY, REFUSED_SERVING};
use rustix::io::Errno;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Asks the server of a mount; `None` if it dies over it.
fn ask(bed: &Bed, question: &str) -> Option<Value> {
    let keeper = bed.status()["keeper"]["pid"].as_u64().unwrap();
    let mut stream = UnixStream::connect(format!("/run/keepfs/{keeper}.sock")).unwrap();
    writeln!(stream, "{question}").unwrap();
    let mut answer = String::new();
    // A server that dies breaks the connection.
    let _ = BufReader::new(stream).read_line(&mut answer);
    serde_json::from_str(&answer).ok()
}

fn deaths(bed: &Bed) -> u64 {
    bed.status()["keeper"]["deaths"].as_u64().unwrap()
}

/// One line of /proc/PID/status.
fn of_process(pid: i32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_server_that_was_taken_over_gets_nothing() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    for life in 0..2 {
        let server = bed.server().as_raw_nonzero().get();
        // Files of other users (1, 2), nothing else.
        assert_eq!(of_process(server, "CapEff"), "0000000000000006");
        assert_eq!(of_process(server, "CapPrm"), "0000000000000006");
        assert_eq!(of_process(server, "NoNewPrivs"), "1");
        assert_eq!(of_process(server, "Seccomp"), "2");
        for what in REFUSED.into_iter().chain(REFUSED_SERVING) {
            let answer = ask(&bed, &format!("planted try {what}"));
            assert_eq!(answer, Some(Errno::PERM.raw_os_error().into()), "{what}");
        }
        // Libc goes on by clone(2), which is seen through.
        let answer = ask(&bed, "planted try arguments that no filter sees");
        assert_eq!(answer, Some(Errno::NOSYS.raw_os_error().into()));
        fs::write(bed.on("file"), "text").unwrap();
        if life == 0 {
            bed.end_server(rustix::process::Signal::KILL);
        }
    }
    bed.unmount();
    bed.check();
}

/// Between giving up its rights and serving it opens files; those of others it gets neither for reading nor for writing.
#[test]
fn a_server_that_is_taken_over_by_its_image_gets_no_files() {
    if !bed::possible() {
        return;
    }
    let bed = Bed::new();
    let victim = bed.path("victim");
    fs::write(&victim, "text").unwrap();
    let try_there = format!("try:{}", bed.path("").display());
    // Of another mount, where records are: neither this server's keeper nor anybody else's.
    let folder = bed.path("");
    let record = Path::new("/run/keepfs").join(folder.file_name().unwrap());
    fs::create_dir_all("/run/keepfs").unwrap();
    fs::write(&record, "record").unwrap();
    for options in ["keeper=on", "keeper=on,ro"] {
        done(bed.mounting(options).env("KEEPFS_PLANTED", &try_there));
        for life in 0..2 {
            let tried = ask(&bed, "planted tried").unwrap();
            let tried = tried.as_object().unwrap();
            let all = REFUSED.len() + REFUSED_EARLY.len() + FILES.len() + RECORDS.len();
            assert_eq!(tried.len(), all, "{tried:?}");
            for (what, came) in tried {
                let refused = [Errno::PERM, Errno::ACCESS].map(|errno| errno.raw_os_error());
                let refused = came.as_i64().is_some_and(|errno| refused.contains(&(errno as i32)));
                assert!(refused, "{what}: {came}");
            }
            assert_eq!(fs::read(&victim).unwrap(), b"text");
            assert_eq!(fs::read(&record).unwrap(), b"record");
            if life == 0 {
                bed.end_server(rustix::process::Signal::KILL);
            }
        }
        // What it was refused it had before: its pool, also for writing after `ro`.
        done(&mut bed.mounting("remount,rw"));
        fs::write(bed.on("file"), "text").unwrap();
        bed.unmount();
        bed.check();
    }
    fs::remove_file(&record).unwrap();
}

/// Without a keeper it mounts and unmounts itself and opens files; what it never needs it has not (decision 0612).
#[test]
fn a_server_alone_starts_no_programs() {
    if !bed::possible() {
        return;
    }
    let bed = Bed::new();
    for options in ["keeper=off", "transport=uring"] {
        let try_it = format!("try:{}", bed.path("").display());
        done(bed.mounting(options).env("KEEPFS_PLANTED", &try_it));
        let server = bed.server();
        let mut stream = UnixStream::connect(format!("/run/keepfs/{server}.sock")).unwrap();
        writeln!(stream, "planted tried").unwrap();
        let mut tried = String::new();
        BufReader::new(stream).read_line(&mut tried).unwrap();
        let tried: serde_json::Map<String, Value> = serde_json::from_str(&tried).unwrap();
        assert_eq!(tried.len(), REFUSED_ALONE.len(), "{tried:?}");
        for (what, came) in tried {
            assert_eq!(came, Errno::PERM.raw_os_error(), "{what}");
        }
        fs::write(bed.on("file"), "text").unwrap();
        bed.unmount();
        bed.check();
    }
}

/// What a keeper does it does with all rights, so it takes no server's word for what to remove or to start (decision 0580).
#[test]
fn a_keeper_believes_no_server() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let (marker, program) = (bed.path("marker"), bed.path("program"));
    fs::write(&program, format!("#!/bin/sh\ntouch {}\n", marker.display())).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let before = bed.server();
    assert_eq!(ask(&bed, &format!("planted lie upgrade {}", program.display())), None);
    fs::write(bed.on("file"), "text").unwrap();
    assert_ne!(bed.server(), before);
    assert!(!marker.exists(), "the keeper has started what its server named");
    let victim = bed.path("victim");
    fs::write(&victim, "text").unwrap();
    let server = bed.server();
    let record = Path::new("/run/keepfs").join(format!("{}.json", bed.status()["keeper"]["pid"]));
    let lied = ask(&bed, &format!("planted lie ended {}", victim.display()));
    assert_eq!(lied, Some("not refused".into()));
    // It lets go as it is told.
    while record.exists() {
        std::thread::yield_now();
    }
    rustix::process::kill_process(server, rustix::process::Signal::KILL).unwrap();
    assert!(victim.exists(), "the keeper has removed what its server named");
}

/// A name that nobody leaves, and bytes where there are none: the keeper says so and holds what it held (decision 0530).
#[test]
fn a_keeper_does_not_grow_by_what_its_server_leaves() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    for (name, why) in [
        ("planted", "nothing is kept under the name"),
        (
            "control",
            "the control has 1000 bytes and 0 descriptors; 0 and 1 are kept",
        ),
    ] {
        assert_eq!(
            ask(&bed, &format!("planted lie put {name}")),
            Some("not refused".into())
        );
        let told = || done(keepfs(["events"]).arg(bed.dir())).contains(why);
        assert!((0..1000).any(|_| told()), "{name}: not a word");
    }
    // With the socket replaced the next server would hear nobody.
    bed.end_server(rustix::process::Signal::KILL);
    fs::write(bed.on("file"), "text").unwrap();
    assert_eq!(deaths(&bed), 1);
    bed.unmount();
    bed.check();
}

/// The store faults, the handler reports, the next server makes names of the report and tells it: to `keepfs events` and to
/// the history, which is still there when the pool is not mounted.
#[test]
fn a_store_that_misses_the_door_is_named_and_only_a_pause() {
    for options in ["keeper=on", "keeper=on,guard=sealed"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let mut open = fs::File::create_new(bed.on("open")).unwrap();
        open.write_all(b"before").unwrap();
        assert_eq!(ask(&bed, "planted store"), None);
        open.write_all(b" after").unwrap();
        assert_eq!(fs::read(bed.on("open")).unwrap(), b"before after");
        assert_eq!(deaths(&bed), 1);
        assert_eq!(bed.status()["keeper"]["last_death"]["how"], "signal 11");
        let told = done(keepfs(["events"]).arg(bed.dir()));
        for what in [
            "keepfs: guard: stray write",
            "offset 100",
            "all other threads are stopped",
            "(keepfs-control)",
            "stray_store",
            "memory/src/sys.rs",
            "server/src/planted.rs",
        ] {
            assert!(told.contains(what), "no {what:?} in: {told}");
        }
        drop(open);
        bed.unmount();
        bed.check();
        let kept = done(keepfs(["events"]).arg(bed.pool()));
        assert!(kept.contains("keepfs: guard: stray write"), "{kept}");
        assert!(kept.contains("stray_store"), "{kept}");
    }
}

/// The second death on the same request answers EIO (S-16.2); everything else goes on.
#[test]
fn a_request_that_kills_every_server_is_answered() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let refused = fs::create_dir(bed.on("planted-abort")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(Errno::IO.raw_os_error()));
    assert_eq!(deaths(&bed), 2);
    assert_eq!(bed.status()["keeper"]["last_death"]["how"], "signal 6");
    fs::create_dir(bed.on("another")).unwrap();
    assert!(!bed.on("planted-abort").exists());
    bed.unmount();
    bed.check();
}
