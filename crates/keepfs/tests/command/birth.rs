//! What is left of a mount: nothing when it never was usable, no process that has ended, no empty file.

use super::bed::{Bed, done, keepfs};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

/// Processes that `pid` has started, by the first word after the program's name.
fn children(pid: u32, word: &str) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let pids = list.split_whitespace().map(|pid| pid.parse().unwrap());
    let has = |pid: &u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        words.split(|byte| *byte == 0).nth(1) == Some(word.as_bytes())
    };
    pids.filter(has).collect()
}

fn signal(pid: u32, signal: Signal) {
    // It may have ended.
    let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), signal);
}

/// The letter of a process's state.
fn state(pid: u32) -> Option<char> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// Whether a process has /dev/fuse open.
fn has_connection(pid: u32) -> bool {
    let Ok(open) = fs::read_dir(format!("/proc/{pid}/fd")) else {
        return false;
    };
    let mut files = open.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    files.any(|file| file == Path::new("/dev/fuse"))
}

/// A command that mounts, with the processes that it is made of.
struct Birth {
    mount: Child,
    keeper: u32,
    server: u32,
    helper: u32,
}

/// Mounts until the server has the connection and before the mount is usable; `None` if that was missed.
fn begun(bed: &Bed) -> Option<Birth> {
    begun_until(bed, has_connection)
}

/// Mounts until there is what mounts for a server that is `met`, and before the mount is usable; `None` if that was missed.
fn begun_until(bed: &Bed, met: impl Fn(u32) -> bool) -> Option<Birth> {
    let mut mount = bed.mounting("keeper=on");
    let piped = mount.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut mount = piped.spawn().unwrap();
    while mount.try_wait().unwrap().is_none() {
        let keeper = children(mount.id(), "keep").first().copied();
        let server = keeper.and_then(|keeper| children(keeper, "serve").first().copied());
        let helper = server.and_then(|server| children(server, "attach").first().copied());
        if let (Some(keeper), Some(server), Some(helper)) = (keeper, server, helper)
            && met(server)
        {
            return Some(Birth {
                mount,
                keeper,
                server,
                helper,
            });
        }
    }
    bed.unmount();
    None
}

/// The files of a keeper in /run.
fn files_of(keeper: u32) -> Vec<PathBuf> {
    let files = ["json", "sock", "err"].map(|end| PathBuf::from(format!("/run/keepfs/{keeper}.{end}")));
    files.into_iter().filter(|file| file.exists()).collect()
}

/// A mount that its command calls failed is not there; one that it calls usable is.
fn as_said(bed: &Bed, output: &Output) {
    let table = String::from_utf8_lossy(&fs::read("/proc/self/mountinfo").unwrap()).into_owned();
    assert_eq!(output.status.success(), bed.is_mounted(), "{output:?} {table}");
    if output.status.success() {
        fs::write(bed.on("file"), "text").unwrap();
        bed.unmount();
    } else {
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            said.contains("before the mount was usable") || said.contains("no keeper"),
            "{said}"
        );
    }
    bed.check();
}

/// The first server dies when the process that mounts has been told that the mount stays, and before it is usable.
#[test]
fn a_server_that_dies_before_it_serves_leaves_no_mount() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    loop {
        let Some(birth) = begun(&bed) else { continue };
        // The server waits for it to end.
        let met = stop_helper(&birth, |server| is_in(server, WAIT4, Some(birth.helper)));
        if met {
            signal(birth.server, Signal::KILL);
        }
        signal(birth.helper, Signal::CONT);
        let output = birth.mount.wait_with_output().unwrap();
        assert_eq!(met, !output.status.success(), "{output:?}");
        as_said(&bed, &output);
        if met {
            assert!(
                String::from_utf8_lossy(&output.stderr).contains("signal 9"),
                "{output:?}"
            );
            assert_eq!(files_of(birth.keeper), Vec::<PathBuf>::new());
            return;
        }
    }
}

/// The first server dies while it waits for its mount, which is made when it is dead: the command waits for what makes it.
#[test]
fn a_mount_that_is_made_for_a_dead_server_is_taken_away() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    loop {
        let Some(mut birth) = begun_until(&bed, |_| true) else {
            continue;
        };
        let met = stop_helper(&birth, |server| is_in(server, RECVMSG, None));
        let mut too_early = false;
        if met {
            signal(birth.server, Signal::KILL);
            let keeper_waits = || state(birth.server).is_none() && is_in(birth.keeper, RECVMSG, None);
            while !too_early && !keeper_waits() {
                too_early = birth.mount.try_wait().unwrap().is_some();
            }
        }
        signal(birth.helper, Signal::CONT);
        let output = birth.mount.wait_with_output().unwrap();
        assert!(!too_early, "{output:?}");
        as_said(&bed, &output);
        if met {
            assert_eq!(files_of(birth.keeper), Vec::<PathBuf>::new());
            return;
        }
    }
}

/// Stops what mounts, and waits until the server is where it `waits` for that; whether it came so far.
fn stop_helper(birth: &Birth, waits: impl Fn(u32) -> bool) -> bool {
    signal(birth.helper, Signal::STOP);
    // It runs on for a moment.
    while !matches!(state(birth.helper), Some('T' | 'Z') | None) {
        std::thread::yield_now();
    }
    let stopped = || state(birth.helper) == Some('T');
    // It was stopped when its work was done, and the server waits for something else.
    let passed = || is_in(birth.server, WAIT4, Some(birth.helper));
    while stopped() && !waits(birth.server) && !passed() {
        std::thread::yield_now();
    }
    stopped() && waits(birth.server)
}

/// Whether a process is in this system call, with this first argument.
fn is_in(pid: u32, call: i64, argument: Option<u32>) -> bool {
    let now = fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default();
    match argument {
        Some(argument) => now.starts_with(&format!("{call} 0x{argument:x} ")),
        None => now.starts_with(&format!("{call} ")),
    }
}

/// Number of wait4(2).
const WAIT4: i64 = if cfg!(target_arch = "x86_64") { 61 } else { 260 };
/// Number of recvmsg(2).
const RECVMSG: i64 = if cfg!(target_arch = "x86_64") { 47 } else { 212 };

/// Decision 0612: it has read the pool by now and does not serve yet.
#[test]
fn a_server_is_confined_before_it_reads_its_pool() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    loop {
        let Some(birth) = begun(&bed) else { continue };
        let status = fs::read_to_string(format!("/proc/{}/status", birth.server)).unwrap();
        as_said(&bed, &birth.mount.wait_with_output().unwrap());
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        return;
    }
}

/// The keeper dies before its first server serves: the one that stands ready goes on, or no mount is left.
#[test]
fn a_keeper_that_dies_before_the_mount_is_usable_leaves_what_the_command_says() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    for _ in 0..8 {
        let Some(birth) = begun(&bed) else { continue };
        signal(birth.keeper, Signal::KILL);
        as_said(&bed, &birth.mount.wait_with_output().unwrap());
    }
}

/// What unmounts for a keeper is no zombie while the mount's last user is still there.
#[test]
fn what_a_keeper_started_is_reaped_when_it_ends() {
    let Some(bed) = Bed::mounted("keeper=on") else { return };
    let open = fs::File::create(bed.on("open")).unwrap();
    let keeper = bed.status()["keeper"]["pid"].as_u64().unwrap() as u32;
    let started = || {
        let list = fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).unwrap();
        list.split_whitespace().count()
    };
    let before = started();
    signal(keeper, Signal::TERM);
    while bed.is_mounted() {
        std::thread::yield_now();
    }
    // Server and spare stay; a zombie would stay too.
    while started() != before {
        std::thread::yield_now();
    }
    drop(open);
    bed.check();
}

#[test]
fn an_empty_file_of_events_goes_with_the_mount() {
    for options in ["keeper=on", "keeper=off"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let events = PathBuf::from(format!("/run/keepfs/{}.events", bed.status()["id"].as_str().unwrap()));
        // A pool for tests would be one.
        assert_eq!(fs::read(&events).unwrap(), b"", "{options}");
        bed.unmount();
        bed.check();
        assert!(!events.exists(), "{options}");
        if options == "keeper=on" {
            bed.mount(options);
            bed.end_server(Signal::KILL);
            fs::write(bed.on("file"), "text").unwrap();
            bed.unmount();
            let told = done(keepfs(["events"]).arg(bed.pool()));
            assert!(told.contains("signal 9") && events.exists(), "{told}");
        }
    }
}
