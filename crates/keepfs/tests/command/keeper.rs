//! A mount with a keeper: servers die, the mount does not (X-8.1); io_uring has none (X-8.2).

use super::bed::{Bed, KEEPFS, copy_program, done, done_when_free, fails, keepfs, run, soon};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process, pidfd_open, prlimit};
use std::fs;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

fn keeper(bed: &Bed) -> Pid {
    let pid = bed.status()["keeper"]["pid"].as_i64().unwrap();
    Pid::from_raw(pid as i32).unwrap()
}

fn deaths(bed: &Bed) -> u64 {
    bed.status()["keeper"]["deaths"].as_u64().unwrap()
}

fn events(bed: &Bed) -> String {
    done(keepfs(["events"]).arg(bed.pool()))
}

/// Kills a process and waits until it is gone.
fn end(pid: Pid, signal: Signal) {
    let process = pidfd_open(pid, PidfdFlags::empty()).unwrap();
    kill_process(pid, signal).unwrap();
    poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
}

/// Waits until a process is gone that nobody here started.
fn gone(pid: Pid) {
    if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
        poll(&mut [PollFd::new(&process, PollFlags::IN)], None).unwrap();
    }
}

#[test]
fn a_killed_server_is_replaced_and_open_files_go_on() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    let mut file = fs::File::create_new(bed.on("open")).unwrap();
    file.write_all(b"before").unwrap();
    file.sync_all().unwrap();
    let first = bed.server();
    for _ in 0..3 {
        bed.end_server(Signal::KILL);
        file.write_all(b" again").unwrap();
        file.sync_all().unwrap();
    }
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "before again again again");
    drop(file);
    assert_ne!(bed.server(), first);
    assert_eq!(deaths(&bed), 3);
    let status = bed.status();
    assert_eq!(status["keeper"]["servers"], 4);
    assert_eq!(status["keeper"]["last_death"]["how"], "signal 9");
    assert_eq!(fs::read(bed.on("open")).unwrap(), text.as_bytes());
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert!(
        events.contains("a server of this mount died") && events.contains("signal 9"),
        "{events}"
    );
    bed.unmount();
    bed.check();
}

/// Two strays into what is kept beside one frame of a bitmap, which only the next server makes right: it has what was not synced,
/// and nobody gets an error. S-16.8
#[test]
fn memory_that_nothing_mends_is_handed_on() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--test", "--size", "64M"]).arg(bed.pool()));
    bed.mount("keeper=on,commit=3600");
    for i in 0..300 {
        fs::write(bed.on(&format!("before{i}")), "").unwrap();
    }
    let ino = fs::metadata(bed.on("before0")).unwrap().ino().to_string();
    let words = [
        "scribble",
        "--kind",
        "bitmap",
        "--length",
        "1",
        "--pattern",
        "flip",
        "--ino",
        &ino,
    ];
    let said = done(keepfs(["inject"]).arg(bed.dir()).args(words));
    let frame = said.split_once("frame ").expect("a frame").1;
    let frame: u64 = frame.split(',').next().expect("number").parse().expect("number");
    done(keepfs(["scrub", "start", "--arena", "--wait"]).arg(bed.dir()));
    // The keyed sum, and the sum of a line (S-13.1).
    let sums = memory_of(bed.server(), "keepfs-sums");
    let frames = sums.metadata().unwrap().len() / 192;
    sums.write_all_at(&[0x5A; 8], 64 * frame + 40).unwrap();
    sums.write_all_at(&[0xA5; 8], 64 * frames + 128 * frame).unwrap();
    for i in 0..300 {
        fs::write(bed.on(&format!("behind{i}")), "").unwrap();
    }
    assert_eq!(fs::read_dir(bed.dir()).unwrap().count(), 600);
    assert_eq!(deaths(&bed), 1);
    assert!(bed.status()["mount"]["writing_ended"] == false);
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert!(events.contains("the next one makes its memory anew"), "{events}");
    bed.unmount();
    bed.check();
}

/// A rename that is lost with the redo is lost for the kernel, too, which believes names for a day. S-16.5
#[test]
fn names_that_are_lost_are_asked_for_again() {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release
        .split(['.', '-'])
        .filter_map(|number| number.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(16)) {
        return super::bed::skipped("Linux 6.16");
    }
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    fs::write(bed.on("old"), "text").unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    fs::rename(bed.on("old"), bed.on("new")).unwrap();
    let staging = memory_of(bed.server(), "keepfs-staging");
    // The beginning of the ring (S-14.1).
    staging.write_all_at(&[0; 65536], 4096).unwrap();
    bed.end_server(Signal::KILL);
    let has = |name: &str| fs::symlink_metadata(bed.on(name)).is_ok();
    let names: Vec<_> = fs::read_dir(bed.dir())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!((names, has("old"), has("new")), (vec!["old".into()], true, false));
    bed.unmount();
    bed.check();
}

/// Memory of a server, by its name.
/// Strays into both headers of the lookup counts cost nothing: files without names that are open stay. S-16.28
#[test]
fn lookup_counts_with_damaged_headers_are_used() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    let mut file = fs::File::create_new(bed.on("open")).unwrap();
    file.write_all(b"text").unwrap();
    file.sync_all().unwrap();
    fs::remove_file(bed.on("open")).unwrap();
    let counts = memory_of(bed.server(), "keepfs-lookups");
    for at in [0, 2048] {
        counts.write_all_at(&[0x5A; 24], at).unwrap();
    }
    bed.end_server(Signal::KILL);
    for _ in 0..2 {
        let mut text = [0; 4];
        file.read_exact_at(&mut text, 0).unwrap();
        assert_eq!(&text, b"text");
        file.write_all(b" more").unwrap();
        file.sync_all().unwrap();
        bed.end_server(Signal::KILL);
    }
    drop(file);
    bed.unmount();
    bed.check();
}

fn memory_of(server: Pid, name: &str) -> fs::File {
    let files = format!("/proc/{}/fd", server.as_raw_nonzero());
    let mut files = fs::read_dir(files).unwrap().map(|entry| entry.unwrap().path());
    let is_it = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().contains(name));
    let file = files.find(is_it).expect("such memory");
    fs::File::options().read(true).write(true).open(file).unwrap()
}

/// P-9: what threads free is of use to all of them, in a server that takes over too.
#[test]
fn a_server_has_one_heap() {
    for options in ["keeper=on", "keeper=off"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let heaps = || {
            let words = fs::read(format!("/proc/{}/environ", bed.server())).unwrap();
            let mut words = words.split(|byte| *byte == 0);
            words.any(|word| word == b"MALLOC_ARENA_MAX=1")
        };
        assert!(heaps(), "{options}");
        if options == "keeper=on" {
            bed.end_server(Signal::KILL);
            fs::metadata(bed.on(".")).unwrap();
            assert!(heaps(), "the second server");
        }
        bed.unmount();
    }
}

/// Decision 0612: a server that is taken over finds nothing there of whoever mounted.
#[test]
fn no_process_of_a_mount_has_the_environment_of_who_mounted() {
    for options in ["keeper=on", "keeper=off"] {
        if !super::bed::possible() {
            return;
        }
        let bed = Bed::new();
        let mut mount = bed.mounting(options);
        done(mount.env("KEEPFS_TEST_TOKEN", "secret").env("KEEPFS_LOG", "warn"));
        let names = |pid: i64| {
            let words = fs::read(format!("/proc/{pid}/environ")).unwrap();
            let words = String::from_utf8(words).unwrap();
            let names = words.split('\0').filter_map(|word| word.split_once('='));
            names.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        let known = [
            "PATH",
            "KEEPFS_LOG",
            "RUST_BACKTRACE",
            "MALLOC_ARENA_MAX",
            "KEEPFS_MOUNT",
        ];
        for _ in 0..2 {
            let status = bed.status();
            let mut pids = vec![status["server_pid"].as_i64().unwrap()];
            pids.extend(status["keeper"]["pid"].as_i64());
            pids.extend(status["keeper"]["spare_pid"].as_i64());
            for pid in pids {
                let names = names(pid);
                assert!(names.iter().all(|name| known.contains(&name.as_str())), "{names:?}");
                assert!(names.iter().any(|name| name == "KEEPFS_LOG"), "{names:?}");
            }
            if options == "keeper=off" {
                break;
            }
            bed.end_server(Signal::KILL);
            fs::metadata(bed.on(".")).unwrap();
        }
        bed.unmount();
    }
}

/// S-13.11: names and bytes of all users' files are in no core of a server, of the next one neither.
#[test]
fn no_core_has_the_memory_of_a_pool() {
    for options in ["keeper=on", "keeper=off"] {
        let Some(bed) = Bed::mounted(options) else { return };
        for life in 1..=2 {
            fs::write(bed.on("file"), "text").unwrap();
            let maps = fs::read_to_string(format!("/proc/{}/smaps", bed.server())).unwrap();
            let (mut region, mut regions) = (None, 0);
            for line in maps.lines() {
                match line.strip_prefix("VmFlags:") {
                    Some(flags) => {
                        if let Some(region) = region.take() {
                            assert!(flags.split(' ').any(|flag| flag == "dd"), "{life}: {region}: {flags}");
                            regions += 1;
                        }
                    }
                    None if line.contains("/memfd:keepfs-") => region = Some(line),
                    None => {}
                }
            }
            // Frames, their sums, undo records, redo and staged pages at least.
            assert!(regions > 4, "{maps}");
            if options == "keeper=off" {
                break;
            }
            bed.end_server(Signal::KILL);
        }
        bed.unmount();
    }
}

/// The command returns when the last process that holds the pool is gone.
#[test]
fn unmount_ends_keeper_and_server() {
    for options in ["keeper=on,anchor=loop", "keeper=on,anchor=none"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let (keeper, server) = (keeper(&bed), bed.server());
        assert_ne!(keeper, server);
        fs::write(bed.on("file"), "text").unwrap();
        bed.end_server(Signal::KILL);
        fs::write(bed.on("file"), "text").unwrap();
        bed.unmount();
        assert!(!bed.is_mounted());
        // Nobody holds the pool: it can be had alone.
        bed.check();
        gone(keeper);
    }
}

#[test]
fn a_plain_umount_ends_both() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let keeper = keeper(&bed);
    bed.end_server(Signal::KILL);
    fs::write(bed.on("file"), "text").unwrap();
    done_when_free(Command::new("umount").arg(bed.dir()), "busy");
    gone(keeper);
    bed.check();
    bed.mount("keeper=on");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

#[test]
fn a_signal_to_the_keeper_unmounts() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    end(keeper(&bed), Signal::TERM);
    assert!(!bed.is_mounted());
    bed.check();
}

#[test]
fn a_dead_keeper_is_replaced_by_its_server() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let (first, server) = (keeper(&bed), bed.server());
    fs::write(bed.on("file"), "text").unwrap();
    end(first, Signal::KILL);
    // The record's move is what a command waits for.
    let second = loop {
        let output = keepfs(["status", "--json"]).arg(bed.dir()).output().unwrap();
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        match status["keeper"]["pid"].as_i64() {
            Some(pid) if pid as i32 != first.as_raw_nonzero().get() => break Pid::from_raw(pid as i32).unwrap(),
            _ => std::thread::yield_now(),
        }
    };
    assert_eq!(bed.server(), server);
    // The new one does what the old one did.
    bed.end_server(Signal::KILL);
    fs::write(bed.on("more"), "text").unwrap();
    assert_eq!(keeper(&bed), second);
    assert_eq!(deaths(&bed), 1);
    bed.unmount();
    gone(second);
    bed.check();
}

#[test]
fn servers_that_die_too_often_may_change_nothing_then_do_nothing() {
    let Some(bed) = Bed::mounted("keeper=on,restarts=1") else {
        return;
    };
    fs::write(bed.on("file"), "text").unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    let kill = |times: usize| (0..times).for_each(|_| bed.end_server(Signal::KILL));
    kill(2);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    let refused = fs::write(bed.on("new"), "").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert_eq!(bed.line(&bed.dir(), "state"), "FAULTED");
    assert!(bed.line(&bed.dir(), "status").contains("changes are refused"));
    kill(2);
    assert!(bed.line(&bed.dir(), "status").contains("every access fails"));
    // What was noticed is told there as well, and what the pool remembers.
    let said = done(keepfs(["events"]).arg(bed.dir()));
    assert!(said.contains("died too often"), "{said}");
    let output = done(keepfs(["events", "--json"]).arg(bed.dir()));
    let events: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert!(events["history"].is_array(), "{events}");
    let refused = fs::metadata(bed.on("never asked")).unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    // Whoever asks it for more is told why there is none, and what to do (S-16.39).
    for words in [
        "set DIR protect=crc",
        "set DIR label=other",
        "set DIR scrub-limit=1M",
        "get all DIR",
        "scrub start DIR",
        "scrub pause DIR",
        "scrub status DIR",
        "damage clear DIR",
        "upgrade DIR",
        "inject DIR list",
    ] {
        let dir = bed.dir();
        let words = words
            .split(' ')
            .map(|word| if word == "DIR" { dir.as_os_str() } else { word.as_ref() });
        let command: Vec<_> = words.collect();
        let (code, said) = fails(&mut keepfs(command.clone()));
        let is_told = said.contains("its servers died too often (4 did) and every access fails");
        let is_advised = said.contains("unmount it, check it, and mount it again");
        assert!(code == 1 && is_told && is_advised, "{command:?}: {said}");
    }
    // It can be unmounted, and what was there is there.
    drop(keepfs(["unmount"]).arg(bed.dir()).output().unwrap());
    assert!(!bed.is_mounted());
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

#[test]
fn a_remount_outlives_its_server() {
    let Some(bed) = Bed::mounted("keeper=on,ro") else {
        return;
    };
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("file"), "text").unwrap();
    fs::File::open(bed.on("file")).unwrap().sync_all().unwrap();
    bed.end_server(Signal::KILL);
    fs::write(bed.on("file"), "more").unwrap();
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"more");
    let refused = fs::write(bed.on("new"), "").unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    bed.unmount();
    bed.check();
}

/// S-20.22: what a server that was told to write has acknowledged outlives it, whatever the mount was made as.
#[test]
fn what_is_not_durable_outlives_servers_of_a_remount() {
    let Some(bed) = Bed::mounted("keeper=on,ro,commit=3600,restarts=100") else {
        return;
    };
    done(&mut bed.mounting("remount,rw"));
    for text in ["first", "second", "third"] {
        bed.end_server(Signal::KILL);
        fs::write(bed.on("file"), text).unwrap();
    }
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"third");
    // By a server that began read-only behind one that had written.
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    bed.end_server(Signal::KILL);
    done(&mut bed.mounting("remount,rw"));
    fs::write(bed.on("file"), "fourth").unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"fourth");
    bed.unmount();
    bed.check();
}

/// S-20.22: a pool that was remounted ro is not written by the server that comes when one dies.
#[test]
fn a_pool_remounted_ro_is_not_written_over_a_death() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600,scrub=off") else {
        return;
    };
    fs::write(bed.on("file"), "text").unwrap();
    done_when_free(&mut bed.mounting("remount,ro"), "open for writing");
    let before = fs::read(bed.pool()).unwrap();
    let is_as_before = || fs::read(bed.pool()).unwrap() == before;
    for _ in 0..2 {
        bed.end_server(Signal::KILL);
        assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
        assert!(bed.line(&bed.dir(), "mount").contains("(read-only"));
        assert!(is_as_before(), "mounted ro, yet the pool was written");
    }
    bed.unmount();
    assert!(is_as_before(), "mounted ro, yet the pool was written at the end");
    bed.mount("keeper=on");
    fs::write(bed.on("file"), "more").unwrap();
    bed.unmount();
    bed.check();
}

/// S-20.15: the kernel refuses who may not mount, behind the server, which asks for the user only.
#[test]
fn a_remount_that_the_kernel_refuses_leaves_a_closed_pool() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600,scrub=off") else {
        return;
    };
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    bed.mount("keeper=on,ro,commit=3600,scrub=off");
    let mut remount = Command::new("setpriv");
    remount.args(["--bounding-set", "-sys_admin", "--inh-caps", "-sys_admin"]);
    remount
        .args([KEEPFS, "mount", "-o", "remount,rw"])
        .arg(bed.pool())
        .arg(bed.dir());
    let (code, said) = fails(&mut remount);
    assert!(code == 1 && said.contains("mount was refused"), "{code} {said}");
    assert!(bed.line(&bed.dir(), "mount").contains("(read-only"));
    let live = run(keepfs(["check", "--live"]).arg(bed.pool()));
    let live = String::from_utf8(live.stdout).unwrap();
    assert!(live.contains("closed properly"), "{live}");
    let before = fs::read(bed.pool()).unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    bed.unmount();
    assert!(
        fs::read(bed.pool()).unwrap() == before,
        "mounted ro, yet the pool was written"
    );
}

#[test]
fn a_mount_that_fails_leaves_no_keeper_and_says_why() {
    let bed = Bed::empty();
    if !super::bed::possible() {
        return;
    }
    fs::write(bed.pool(), vec![0; 1 << 20]).unwrap();
    let (code, said) = fails(&mut bed.mounting("keeper=on"));
    assert_eq!(code, 1);
    assert!(said.contains("pool"), "{said}");
    let (code, said) = fails(&mut bed.mounting("keeper=on,transport=uring"));
    assert_eq!(code, 2);
    assert!(said.contains("keeper=on needs transport=dev"), "{said}");
}

#[test]
fn a_mount_in_the_foreground_has_a_keeper_too() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    let mut mount = bed.mounting("keeper=on");
    let mut foreground = mount.arg("--foreground").stdin(Stdio::null()).spawn().unwrap();
    let mut status = keepfs(["status"]);
    while !bed.is_mounted() || !status.arg(bed.dir()).output().unwrap().status.success() {
        assert!(foreground.try_wait().unwrap().is_none(), "it ended");
        status = keepfs(["status"]);
    }
    // It answers a moment before it is confined and has told its keeper that it serves.
    let server = bed.status()["server_pid"].as_u64().unwrap();
    let is_confined = || {
        let status = fs::read_to_string(format!("/proc/{server}/status")).unwrap_or_default();
        status.contains("Seccomp:\t2")
    };
    assert!((0..10_000).any(|_| is_confined()), "it is not confined");
    bed.end_server(Signal::KILL);
    fs::write(bed.on("file"), "text").unwrap();
    assert_eq!(
        u64::from(foreground.id()),
        bed.status()["keeper"]["pid"].as_u64().unwrap()
    );
    bed.unmount();
    assert!(foreground.wait().unwrap().success());
}

#[test]
fn another_program_takes_the_servers_place() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let mut file = fs::File::create_new(bed.on("open")).unwrap();
    file.write_all(b"before").unwrap();
    let (copy, broken) = (bed.path("keepfs-new"), bed.path("broken"));
    copy_program(super::bed::KEEPFS, &copy);
    let said = done(keepfs(["upgrade"]).arg(bed.dir()).arg(&copy));
    assert!(said.contains("keepfs-new"), "{said}");
    file.write_all(b" after").unwrap();
    assert_eq!(fs::read(bed.on("open")).unwrap(), b"before after");
    let exe = fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap();
    assert_eq!(exe, copy);
    let told = events(&bed);
    assert!(told.contains("makes room, as `keepfs upgrade` asks"), "{told}");
    // It is no death, and one that dies is replaced by the new program.
    assert_eq!(deaths(&bed), 0);
    bed.end_server(Signal::KILL);
    let exe = fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap();
    assert_eq!(exe, copy);
    // A program that does not serve is taken back.
    copy_program("/bin/true", &broken);
    let (code, said) = fails(keepfs(["upgrade"]).arg(bed.dir()).arg(&broken));
    assert_eq!(code, 1);
    assert!(said.contains("the one before goes on"), "{said}");
    // It was no server that died, and is told.
    assert_eq!(deaths(&bed), 1);
    let told = "ended before it served (exit code 0)";
    assert!(events(&bed).contains(told), "{}", events(&bed));
    fs::write(&broken, "text").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o644)).unwrap();
    let (_, said) = fails(keepfs(["upgrade"]).arg(bed.dir()).arg(&broken));
    assert!(said.contains("no file that may be executed"), "{said}");
    file.write_all(b" all").unwrap();
    drop(file);
    assert_eq!(fs::read(bed.on("open")).unwrap(), b"before after all");
    bed.unmount();
    bed.check();
}

/// A program that starts and says nothing is killed in the end, and the one before serves; one that lies on the mount itself could not
/// be read while nobody serves, so it is refused. S-16.10
#[test]
fn a_program_that_does_not_come_to_serve_ends_nothing() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let on_it = bed.on("program");
    copy_program("/bin/true", &on_it);
    let (code, said) = fails(keepfs(["upgrade"]).arg(bed.dir()).arg(&on_it));
    assert_eq!(code, 1);
    assert!(said.contains("lies on this very mount"), "{said}");
    let (source, silent) = (bed.path("silent.c"), bed.path("silent"));
    fs::write(&source, "#include <unistd.h>\nint main(void) { for (;;) pause(); }\n").unwrap();
    done(Command::new("cc").arg("-o").args([&silent, &source]));
    let (code, said) = fails(keepfs(["upgrade"]).arg(bed.dir()).arg(&silent));
    assert_eq!(code, 1, "{said}");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    let told = "has not begun to serve within 30 s: it is killed";
    assert!(events(&bed).contains(told), "{}", events(&bed));
    assert_eq!(
        fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap(),
        Path::new(super::bed::KEEPFS)
    );
    bed.unmount();
    bed.check();
}

/// What becomes of a program that has left something behind.
enum Then {
    End,
    Wait,
    /// It is another program.
    Be(&'static str),
}

/// A program that goes into the background: what it leaves is in a session of its own, has taken all that was handed to it, and ends by
/// itself behind two minutes.
fn leaving(bed: &Bed, name: &str, then: &Then) -> PathBuf {
    let (source, made) = (bed.path(&format!("{name}.c")), bed.path(name));
    let (then, serves) = match then {
        Then::End => ("return 0;".into(), false),
        Then::Wait => ("alarm(120); for (;;) pause();".into(), false),
        Then::Be(program) => (format!("execv(\"{program}\", argv);"), true),
    };
    let text = format!(
        r#"#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>
static char bytes[1 << 20], more[1 << 16];
int main(int argc, char **argv) {{
    if (fork()) {{ {then} }}
    setsid();
    if (fork()) return 0;
    alarm(120);
    for (;;) {{
        struct iovec part = {{ bytes, sizeof bytes }};
        struct msghdr message = {{ NULL, 0, &part, 1, more, sizeof more, 0 }};
        if ({} || recvmsg(0, &message, 0) <= 0) pause();
    }}
}}
"#,
        u8::from(serves)
    );
    fs::write(&source, text).unwrap();
    done(Command::new("cc").arg("-o").args([&made, &source]));
    made
}

/// How many processes run a program.
fn running(program: &Path) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let exe = |process: fs::DirEntry| fs::read_link(process.path().join("exe")).ok();
    processes.filter_map(exe).filter(|exe| exe == program).count()
}

/// Of upgrades of one mount at one time one is done, and others say why they are not. S-16.29
#[test]
fn one_upgrade_is_done_at_a_time() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let programs = ["one", "two", "three"].map(|name| bed.path(name));
    programs.iter().for_each(|program| copy_program(KEEPFS, program));
    for _ in 0..4 {
        let begun = programs.each_ref().map(|program| {
            let mut upgrade = keepfs(["upgrade"]);
            upgrade.arg(bed.dir()).arg(program);
            upgrade
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            upgrade.spawn().unwrap()
        });
        let ended = begun.map(|upgrade| upgrade.wait_with_output().unwrap());
        assert!(ended.iter().any(|output| output.status.success()), "{ended:?}");
        for output in ended.iter().filter(|output| !output.status.success()) {
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(
                said.contains("another `keepfs upgrade` or `keepfs set` of it is going on"),
                "{ended:?}"
            );
        }
    }
    bed.unmount();
    bed.check();
}

/// A setting takes another server as an upgrade does: beside one it is refused, and what needs no other server is not. S-16.29
#[test]
fn nothing_is_set_beside_an_upgrade() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let before = bed.status()["arena"]["protect"].clone();
    let program = leaving(&bed, "waiting", &Then::Wait);
    let mut upgrade = keepfs(["upgrade"]);
    let mut upgrade = upgrade.arg(bed.dir()).arg(&program).spawn().unwrap();
    soon("it is on trial", || (running(&program) > 0).then_some(()));
    for words in [["set", "protect=pcrc"], ["set", "label=x"]] {
        let (code, said) = fails(keepfs(words).arg(bed.dir()));
        assert_eq!(code, 1);
        assert!(
            said.contains("another `keepfs upgrade` or `keepfs set` of it is going on"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "{said}");
    }
    assert!(upgrade.try_wait().unwrap().is_none());
    assert!(!upgrade.wait().unwrap().success());
    assert_eq!(bed.status()["arena"]["protect"], before);
    done(keepfs(["set", "label=x"]).arg(bed.dir()));
    bed.unmount();
    bed.check();
}

/// Who gives a mount up before it is there finds none later. S-16.29
#[test]
fn a_mount_that_nobody_waits_for_ends() {
    if !super::bed::possible() {
        return;
    }
    for (options, role) in [("arena=2G", "--kept"), ("arena=2G,keeper=off", "--alone")] {
        let bed = Bed::new();
        let words = format!("serve\0{role}\0{}\0", bed.pool().display());
        let mut mounting = bed.mounting(options);
        let mut mount = mounting.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        soon("a server has begun", || process_with(&words, None));
        mount.kill().unwrap();
        mount.wait().unwrap();
        soon("no process has the pool", || {
            process_with(&words, None).is_none().then_some(())
        });
        assert!(!bed.is_mounted(), "{options}");
        bed.check();
    }
}

/// What a program that an upgrade named leaves behind has the pool and its locks, and nobody would end it. S-16.27
#[test]
fn what_a_program_on_trial_leaves_behind_ends_with_it() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let program = leaving(&bed, "leaving", &Then::End);
    let (code, _) = fails(keepfs(["upgrade"]).arg(bed.dir()).arg(&program));
    assert_eq!(code, 1);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    assert_eq!(running(&program), 0);
    let told = "that a server of this mount had started and left behind";
    assert!(events(&bed).contains(told), "{}", events(&bed));
    bed.unmount();
    bed.check();
}

/// A keeper that is killed within the trial can end neither the program nor what that left: who stands ready does. S-16.31
#[test]
fn what_a_program_on_trial_leaves_behind_ends_without_its_keeper() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let first = keeper(&bed);
    let program = leaving(&bed, "waiting", &Then::Wait);
    // It has the variable, but it is no process of this mount.
    let mut another = Command::new("sleep");
    let mut another = another.arg("600").env("KEEPFS_MOUNT", "1.1").spawn().unwrap();
    let mut upgrade = keepfs(["upgrade"]);
    let mut upgrade = upgrade.arg(bed.dir()).arg(&program).spawn().unwrap();
    soon("it is on trial and left something", || {
        (running(&program) > 1).then_some(())
    });
    end(first, Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    assert_eq!(running(&program), 0);
    assert!(!upgrade.wait().unwrap().success());
    assert_ne!(keeper(&bed), first);
    let told = "that a server of this mount had started and left behind";
    assert!(events(&bed).contains(told), "{}", events(&bed));
    assert!(another.try_wait().unwrap().is_none());
    another.kill().unwrap();
    another.wait().unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    bed.unmount();
    bed.check();
}

/// What a server leaves behind is not the child of a keeper that took the server over. S-16.31
#[test]
fn what_a_server_leaves_behind_ends_with_another_keeper() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let first = keeper(&bed);
    let program = leaving(&bed, "serving", &Then::Be(KEEPFS));
    let _ = run(keepfs(["upgrade"]).arg(bed.dir()).arg(&program));
    // Who stands ready is of that program, too.
    soon("it left something", || (running(&program) > 1).then_some(()));
    end(first, Signal::KILL);
    soon("another keeper is there", || {
        try_keeper(&bed).filter(|pid| *pid != first)
    });
    bed.end_server(Signal::KILL);
    fs::write(bed.on("file"), "text").unwrap();
    // This keeper and its servers are of the program that leaves nothing.
    assert_eq!(running(&program), 0);
    bed.unmount();
    bed.check();
}

/// The same of a server that served. S-16.27
#[test]
fn what_a_server_leaves_behind_ends_with_it() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let first = bed.server();
    let program = leaving(&bed, "serving", &Then::Be(KEEPFS));
    // It is said that another program serves, and one does.
    let _ = run(keepfs(["upgrade"]).arg(bed.dir()).arg(&program));
    assert_ne!(bed.server(), first);
    // Who stands ready is of that program, too.
    soon("it left something", || (running(&program) > 1).then_some(()));
    fs::write(bed.on("file"), "text").unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    // The next server has left one.
    assert_eq!(running(&program), 1);
    bed.unmount();
    soon("it has ended", || (running(&program) == 0).then_some(()));
    bed.check();
}

/// A package's removal takes the program away that its upgrade gave to the mount: servers and keepers go on. S-16.10
#[test]
fn a_program_that_is_removed_is_started_all_the_same() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    let copy = bed.path("keepfs-new");
    copy_program(super::bed::KEEPFS, &copy);
    done(keepfs(["upgrade"]).arg(bed.dir()).arg(&copy));
    fs::remove_file(&copy).unwrap();
    for round in ["first", "second"] {
        fs::write(bed.on(round), "text").unwrap();
        bed.end_server(Signal::KILL);
        assert_eq!(fs::read(bed.on(round)).unwrap(), b"text");
    }
    let exe = fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap();
    assert!(exe.to_string_lossy().contains("keepfs-new (deleted)"), "{exe:?}");
    assert_eq!(deaths(&bed), 2);
    end(keeper(&bed), Signal::KILL);
    fs::write(bed.on("third"), "text").unwrap();
    while bed.status()["keeper"]["alive"] != true {
        std::thread::yield_now();
    }
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("third")).unwrap(), b"text");
    bed.unmount();
    bed.check();
}

/// The program that a mount was upgraded to cannot be started any more: the one that the keeper is serves, and that is told. S-16.10
#[test]
fn a_keeper_goes_back_to_its_own_program() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    let copy = bed.path("keepfs-new");
    copy_program(super::bed::KEEPFS, &copy);
    done(keepfs(["upgrade"]).arg(bed.dir()).arg(&copy));
    fs::write(bed.on("file"), "text").unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o644)).unwrap();
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    let exe = fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap();
    assert_eq!(exe, PathBuf::from(super::bed::KEEPFS));
    assert_eq!(deaths(&bed), 1);
    let told = events(&bed);
    assert!(told.contains("cannot be started (Permission denied"), "{told}");
    assert!(told.contains("signal 9"), "{told}");
    bed.unmount();
    bed.check();
}

/// The last word of a mount whose servers all died is the keeper's. S-16.24
#[test]
fn a_mount_that_nobody_serves_any_more_says_so() {
    let Some(bed) = Bed::mounted("keeper=on,restarts=0") else {
        return;
    };
    let keeper = pidfd_open(keeper(&bed), PidfdFlags::empty()).unwrap();
    (0..3).for_each(|_| bed.end_server(Signal::KILL));
    poll(&mut [PollFd::new(&keeper, PollFlags::IN)], None).unwrap();
    let told = events(&bed);
    assert!(told.contains("this mount has no server any more"), "{told}");
    drop(keepfs(["unmount", "--lazy"]).arg(bed.dir()).output().unwrap());
    bed.mount("");
}

/// Every end that is not in order is survived, whatever signal it was.
#[test]
fn a_server_that_crashes_is_replaced() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    for signal in [Signal::SEGV, Signal::ABORT, Signal::ILL] {
        if signal == Signal::SEGV {
            // The guard's handler takes the first for a fault that will come again.
            kill_process(bed.server(), signal).unwrap();
        }
        bed.end_server(signal);
        fs::write(bed.on("file"), format!("{signal:?}")).unwrap();
        let how = format!("signal {}", signal.as_raw());
        assert_eq!(bed.status()["keeper"]["last_death"]["how"], how.as_str());
    }
    bed.unmount();
    bed.check();
}

/// What was acknowledged and never synced is there after a death: with `commit=3600` nothing else brings it.
#[test]
fn nothing_acknowledged_is_lost_without_a_sync() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    for round in 0..3 {
        for n in 0..50 {
            fs::write(bed.on(&format!("file{round}-{n}")), vec![n; 100 * usize::from(n)]).unwrap();
        }
        fs::create_dir(bed.on(&format!("dir{round}"))).unwrap();
        fs::rename(bed.on(&format!("file{round}-0")), bed.on(&format!("dir{round}/moved"))).unwrap();
        fs::remove_file(bed.on(&format!("file{round}-1"))).unwrap();
        bed.end_server(Signal::KILL);
        assert!(!bed.on(&format!("file{round}-0")).exists());
        assert!(!bed.on(&format!("file{round}-1")).exists());
        assert_eq!(fs::read(bed.on(&format!("dir{round}/moved"))).unwrap(), b"");
        for n in 2..50 {
            let found = fs::read(bed.on(&format!("file{round}-{n}"))).unwrap();
            assert_eq!(found, vec![n; 100 * usize::from(n)], "{round} {n}");
        }
    }
    bed.unmount();
    bed.check();
}

/// Decisions 0612, 0580: of all threads of the server, the first as well as a later one's.
#[test]
fn a_server_has_given_up_what_it_does_not_need() {
    // DAC_OVERRIDE and DAC_READ_SEARCH by their numbers; fewer in a container.
    let pools = 1 << 1 | 1 << 2;
    // SYS_ADMIN and IPC_LOCK: who has no keeper unmounts itself and may open files.
    let alone = 1 << 21 | 1u64 << 14;
    for (options, needed, filter) in [("keeper=on", pools, "2"), ("keeper=off", pools | alone, "2")] {
        let Some(bed) = Bed::mounted(options) else { return };
        for _ in 0..2 {
            let tasks = fs::read_dir(format!("/proc/{}/task", bed.server())).unwrap();
            for task in tasks.map(Result::unwrap) {
                // A thread may have ended since.
                let Ok(status) = fs::read_to_string(task.path().join("status")) else {
                    continue;
                };
                let field = |name: &str| {
                    let mut lines = status.lines();
                    lines
                        .find_map(|line| line.strip_prefix(name))
                        .unwrap()
                        .trim()
                        .to_owned()
                };
                assert_eq!(field("NoNewPrivs:"), "1");
                assert_eq!(field("Seccomp:"), filter, "{options}");
                let has = u64::from_str_radix(&field("CapPrm:"), 16).unwrap();
                assert_eq!(has & !needed, 0, "{options}: {has:#x}");
            }
            if options == "keeper=off" {
                break;
            }
            bed.end_server(Signal::KILL);
        }
        bed.unmount();
    }
}

/// Decision 0580: a keeper stands ready, and one that dies is followed by another; none of them outlives the mount.
#[test]
fn keepers_die_one_after_the_other() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let server = bed.server();
    for round in 0..3 {
        let first = keeper(&bed);
        end(first, Signal::KILL);
        while try_keeper(&bed).is_none_or(|now| now == first) {
            std::thread::yield_now();
        }
        assert_eq!(bed.server(), server);
        fs::write(bed.on(&format!("file{round}")), "text").unwrap();
    }
    let last = keeper(&bed);
    bed.end_server(Signal::KILL);
    fs::write(bed.on("more"), "text").unwrap();
    // What unmounts at a signal is the keeper, also when the server gets it.
    let server = pidfd_open(bed.server(), PidfdFlags::empty()).unwrap();
    kill_process(bed.server(), Signal::TERM).unwrap();
    poll(&mut [PollFd::new(&server, PollFlags::IN)], None).unwrap();
    gone(last);
    assert!(!bed.is_mounted());
    bed.check();
}

/// The keeper, if another stands ready beside it: one that dies before it has started that is the last.
fn try_keeper(bed: &Bed) -> Option<Pid> {
    try_keepers(bed).and_then(|(keeper, spare)| spare.and(Some(keeper)))
}

/// The keeper and the one that stands ready, if that can be told now.
fn try_keepers(bed: &Bed) -> Option<(Pid, Option<Pid>)> {
    let output = keepfs(["status", "--json"]).arg(bed.dir()).output().unwrap();
    let status: serde_json::Value = serde_json::from_slice(&output.stdout).ok()?;
    let pid = |name: &str| Pid::from_raw(status["keeper"][name].as_i64()? as i32);
    Some((pid("pid")?, pid("spare_pid")))
}

/// Keepers that cannot live are not started for ever; a mount whose last one died says so and works on.
#[test]
fn a_mount_without_a_keeper_says_so() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let last = keeper(&bed);
    let mut dead = Vec::new();
    while dead.len() < 17 {
        match try_keepers(&bed) {
            Some((keeper, Some(spare))) if keeper == last && !dead.contains(&spare) => {
                end(spare, Signal::KILL);
                dead.push(spare);
            }
            _ => std::thread::yield_now(),
        }
    }
    assert_eq!(try_keepers(&bed), Some((last, None)));
    assert_eq!(bed.status()["state"], "ONLINE");
    end(last, Signal::KILL);
    while bed.status()["keeper"]["alive"] == true {
        std::thread::yield_now();
    }
    let dir = bed.dir();
    assert_eq!(bed.line(&dir, "state"), "DEGRADED");
    assert!(bed.line(&dir, "status").contains("its keeper has died"));
    assert!(bed.line(&dir, "action").contains("unmount it and mount it again"));
    assert!(bed.line(&dir, "mount").contains("(dead)"));
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    bed.check();
    bed.mount("keeper=on");
    assert_eq!(bed.line(&dir, "state"), "ONLINE");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
}

/// What takes the mount down finds something else mounted over it: that is told, and the mount goes on (decision 0580).
#[test]
fn a_mount_that_cannot_be_taken_down_says_so() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let keeper = keeper(&bed);
    fs::write(bed.on("file"), "text").unwrap();
    done(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(bed.dir()));
    kill_process(keeper, Signal::TERM).unwrap();
    let told = || done(keepfs(["events"]).arg(bed.pool()));
    while !told().contains("could not be taken down") {
        std::thread::yield_now();
    }
    assert!(told().contains("nothing of this file system is mounted"), "{}", told());
    done(Command::new("umount").arg(bed.dir()));
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    end(keeper, Signal::TERM);
    assert!(!bed.is_mounted());
    bed.check();
}

/// What fails in a keeper is told, though it has no standard error (S-16.24).
#[test]
fn a_keeper_that_can_start_nothing_says_so() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let (keeper, spare) = try_keepers(&bed).unwrap();
    // It gets no new descriptor; with fewer it could not wait for those that it has.
    let few = Rlimit {
        current: Some(6),
        ..getrlimit(Resource::Nofile)
    };
    let before = prlimit(Some(keeper), Resource::Nofile, few).unwrap();
    end(spare.unwrap(), Signal::KILL);
    soon("it says that none stands ready", || {
        events(&bed).contains("no keeper stands ready").then_some(())
    });
    kill_process(keeper, Signal::TERM).unwrap();
    soon("it says that the mount stays", || {
        events(&bed)
            .contains("nothing can be started that unmounts")
            .then_some(())
    });
    prlimit(Some(keeper), Resource::Nofile, before).unwrap();
    bed.unmount();
    bed.check();
}

/// The keeper dies when a server has made room and the next one has not begun: who stands ready has all that was held. S-16.12, S-16.26
#[test]
fn a_keeper_may_die_while_its_server_is_replaced() {
    let Some(bed) = Bed::mounted("keeper=on,commit=3600") else {
        return;
    };
    let copy = bed.path("keepfs-new");
    copy_program(super::bed::KEEPFS, &copy);
    let mut file = fs::File::create_new(bed.on("open")).unwrap();
    file.write_all(b"before").unwrap();
    let (first, server) = (keeper(&bed), pidfd_open(bed.server(), PidfdFlags::empty()).unwrap());
    kill_process(first, Signal::STOP).unwrap();
    let mut upgrade = keepfs(["upgrade"])
        .arg(bed.dir())
        .arg(&copy)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    poll(&mut [PollFd::new(&server, PollFlags::IN)], None).unwrap();
    end(first, Signal::KILL);
    file.write_all(b" after").unwrap();
    assert_eq!(fs::read(bed.on("open")).unwrap(), b"before after");
    assert!(upgrade.wait().unwrap().success());
    let exe = fs::read_link(format!("/proc/{}/exe", bed.server())).unwrap();
    assert_eq!(exe, copy);
    assert_eq!(deaths(&bed), 0);
    assert!(
        events(&bed).contains("the keeper of this mount died"),
        "{}",
        events(&bed)
    );
    // The next one stands ready, of the new program.
    let second = soon("a keeper stands ready", || try_keeper(&bed));
    assert_ne!(second, first);
    let ready = soon("the spare is of the new program", || {
        let (_, spare) = try_keepers(&bed)?;
        let exe = fs::read_link(format!("/proc/{}/exe", spare?.as_raw_nonzero())).ok()?;
        (exe == copy).then_some(spare?)
    });
    end(second, Signal::KILL);
    soon("it is the keeper", || try_keeper(&bed).filter(|now| *now == ready));
    bed.end_server(Signal::KILL);
    file.write_all(b" all").unwrap();
    drop(file);
    assert_eq!(fs::read(bed.on("open")).unwrap(), b"before after all");
    bed.unmount();
    bed.check();
}

/// The process that serves the mount, asked of nobody; not `but`.
fn serving(bed: &Bed, but: Pid) -> Option<Pid> {
    process_with(&format!("serve\0--kept\0{}\0", bed.pool().display()), Some(but))
}

/// A process with these words, not `but`.
fn process_with(start: &str, but: Option<Pid>) -> Option<Pid> {
    let numbers = fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut found = numbers.filter(|pid: &i32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(start)
    });
    found.find_map(|pid| Pid::from_raw(pid).filter(|pid| Some(*pid) != but))
}

/// Writes and reads a file here and there until `stop`; counts what was done. Errors are what a loss brings.
fn use_file(bed: &Bed, number: u64, stop: &AtomicBool, count: &AtomicU64) {
    let path = bed.on(&format!("file{}", number % 4));
    let mut at = number;
    while !stop.load(Ordering::Relaxed) {
        let file = fs::File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        for _ in 0..50 {
            let Ok(file) = &file else { break };
            at = at.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let place = (at >> 33) % 180 * 4096;
            let done = match number < 4 {
                true => file.write_all_at(&[number as u8; 3000], place),
                false => {
                    let _ = rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed);
                    file.read_at(&mut [0; 65536], place).map(drop)
                }
            };
            if done.is_err() || stop.load(Ordering::Relaxed) {
                break;
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A server is killed while it waits in the kernel for a page that only its successor can bring: that is started. S-16.11, S-16.25
#[test]
fn a_server_that_waits_for_its_successor_has_one() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--test", "--size", "96M"]).arg(bed.pool()));
    bed.mount("keeper=on,restarts=100000,cache=writethrough");
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let hangs = std::thread::scope(|users| {
        for number in 0..8 {
            let (bed, stop, count) = (&bed, &stop, &count);
            users.spawn(move || use_file(bed, number, stop, count));
        }
        let hangs = (0..10).any(|round| {
            std::thread::park_timeout(Duration::from_millis(150));
            let first = bed.server();
            kill_process(first, Signal::STOP).unwrap();
            // The beginning of the ring (S-14.1): what was not synced is lost, and the kernel is told to forget pages (S-16.5).
            memory_of(first, "keepfs-staging")
                .write_all_at(&[0; 4096], 4096)
                .unwrap();
            kill_process(first, Signal::KILL).unwrap();
            let second = soon("another server is there", || serving(&bed, first));
            std::thread::park_timeout(Duration::from_millis(8 * round));
            let _ = kill_process(second, Signal::KILL);
            let before = count.load(Ordering::Relaxed);
            !(0..2000).any(|_| {
                std::thread::park_timeout(Duration::from_millis(10));
                count.load(Ordering::Relaxed) > before + 20
            })
        });
        stop.store(true, Ordering::Relaxed);
        if hangs {
            drop(keepfs(["unmount", "-f"]).arg(bed.dir()).output().unwrap());
        }
        hangs
    });
    assert!(!hangs, "nobody got an answer for 20 s");
    bed.unmount();
    bed.check();
}
