//! Each line of `status`, and each figure, says its other value when that becomes true.

use super::bed::{Bed, done, fails, keepfs, possible, run};
use rustix::fs::{XattrFlags, setxattr};
use rustix::process::{Resource, Rlimit, prlimit};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

fn number(status: &Value, path: &str) -> u64 {
    let value = status
        .pointer(path)
        .unwrap_or_else(|| panic!("no {path} in {status:#}"));
    value.as_u64().unwrap_or_else(|| panic!("{path} is {value}"))
}

fn write_synced(path: &Path, bytes: usize) -> std::io::Result<()> {
    fs::write(path, vec![1; bytes])?;
    fs::File::open(path)?.sync_all()
}

#[test]
fn a_healthy_mount_and_the_same_pool_unmounted() {
    let Some(bed) = Bed::mounted("") else { return };
    let of = |name: &str| bed.line(&bed.dir(), name);
    assert_eq!(of("state"), "ONLINE");
    assert_eq!(of("status"), "nothing to report");
    assert_eq!(of("action"), "none needed");
    assert_eq!(of("errors"), "no known errors");
    assert!(of("scrub").starts_with("none yet"));
    assert_eq!(of("pool"), format!("bed ({})", bed.pool().display()));
    assert!(of("mount").starts_with(bed.dir().to_str().unwrap()));
    assert!(of("mount").contains(&format!("server {}", bed.status()["server_pid"])));
    let id = of("id");
    assert_eq!(id.len(), 36);
    bed.unmount();
    let of = |name: &str| bed.line(&bed.pool(), name);
    assert_eq!(of("state"), "OFFLINE");
    assert_eq!(of("mount"), "not mounted");
    assert_eq!(of("id"), id);
    assert_eq!(of("status"), "nothing to report");
    assert!(of("watched").starts_with("protect pcrc (keepfs set)"));
}

#[test]
fn a_pool_without_a_label_goes_by_its_path() {
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M"]).arg(bed.pool()));
    assert_eq!(bed.line(&bed.pool(), "pool"), bed.pool().display().to_string());
}

#[test]
fn the_mount_line_says_the_options() {
    let Some(bed) = Bed::mounted("cache=writeback,commit=30,anchor=none,guard=off") else {
        return;
    };
    let line = bed.line(&bed.dir(), "mount");
    for part in [
        "read-write",
        "relatime",
        "cache writeback",
        "io buffered",
        "commit every 30 s",
        "not anchored",
        "transport dev",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(
        bed.line(&bed.dir(), "watched")
            .starts_with("protect pcrc (keepfs set), guard off,")
    );
    bed.unmount();
    bed.mount("ro,noatime,anchor=loop,io=direct");
    let line = bed.line(&bed.dir(), "mount");
    for part in [
        "read-only",
        "noatime",
        "cache writethrough",
        "io direct",
        "commit every 5 s",
        ", anchored",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert!(
        bed.line(&bed.dir(), "watched")
            .starts_with("protect pcrc (keepfs set), guard alias,")
    );
}

#[test]
fn work_moves_the_figures() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    // The second mount finds everything in a checkpoint.
    bed.unmount();
    bed.mount("commit=3600");
    let before = bed.status();
    assert_eq!(number(&before, "/arena/dirty_frames"), 0);
    write_synced(&bed.on("data"), 1 << 20).unwrap();
    let after = bed.status();
    for path in [
        "/space/used_bytes",
        "/space/inodes",
        "/arena/dirty_frames",
        "/log/groups",
        "/log/last_seq",
        "/log/durable_seq",
        "/written/class_bytes/data",
        "/written/class_bytes/plog",
        "/written/cause_bytes/consistency",
        "/written/cause_bytes/persistence",
        "/written/flushes",
        "/written/transactions",
    ] {
        assert!(
            number(&after, path) > number(&before, path),
            "{path}: {before:#} {after:#}"
        );
    }
    assert!(number(&after, "/space/available_bytes") < number(&before, "/space/available_bytes"));
    assert!(number(&after, "/written/class_bytes/data") >= 1 << 20);
    assert_eq!(after["version"], 1);
    assert!(number(&after, "/log/used_percent") <= 100);
    assert!(number(&after, "/log/since_checkpoint_s") < 3600);
    // What is not synced is not durable.
    fs::write(bed.on("later"), "x").unwrap();
    let later = bed.status();
    assert!(number(&later, "/log/last_seq") > number(&later, "/log/durable_seq"));
}

/// How often the server was asked for the operation `name`, and its threads `fuse-…` began to run.
fn asked(status: &Value, name: &str) -> (u64, u64) {
    let list = |path| status.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let of = list("/serving/operations").find(|operation| operation["name"] == name);
    let fuse = |thread: &&Value| thread["name"].as_str().is_some_and(|name| name.starts_with("fuse-"));
    let runs = list("/serving/threads").filter(fuse);
    (
        of.map_or(0, |operation| number(operation, "/requests")),
        runs.map(|thread| number(thread, "/runs")).sum(),
    )
}

#[test]
fn a_server_tells_what_it_was_asked_for() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    let before = bed.status();
    assert_eq!(asked(&before, "CREATE").0, 0);
    for number in 0..10 {
        fs::write(bed.on(&format!("file{number}")), "x").unwrap();
    }
    let after = bed.status();
    let (creates, runs) = asked(&after, "CREATE");
    assert_eq!(creates, 10);
    assert!(runs > asked(&before, "CREATE").1);
}

#[test]
fn more_metadata_than_memory_is_evicted_and_checkpointed() {
    let Some(bed) = Bed::mounted("arena=16M,commit=3600") else {
        return;
    };
    let before = bed.status();
    assert_eq!(number(&before, "/arena/frames"), 4096);
    assert_eq!(number(&before, "/arena/evictions"), 0);
    let value = vec![9; 3000];
    for n in 0..5000 {
        let path = bed.on(&format!("file{n}"));
        fs::write(&path, "").unwrap();
        setxattr(&path, "user.large", &value, XattrFlags::empty()).unwrap();
    }
    for n in 0..100 {
        let mut read = vec![0; 4000];
        let path = bed.on(&format!("file{n}"));
        let len = rustix::fs::getxattr(&path, "user.large", &mut read[..]).unwrap();
        assert_eq!(read[..len], value);
    }
    let after = bed.status();
    for path in [
        "/arena/evictions",
        "/arena/fetched",
        "/written/class_bytes/metadata",
        "/written/class_bytes/map",
        "/written/class_bytes/superblock",
        "/written/cause_bytes/checkpoint",
        "/written/checkpoints",
        "/written/read_bytes",
    ] {
        assert!(number(&after, path) > number(&before, path), "{path}: {after:#}");
    }
    // Only clean frames are evicted, so none is ever written for that.
    assert_eq!(number(&after, "/written/cause_bytes/eviction"), 0);
    bed.unmount();
    bed.check();
}

#[test]
fn a_device_that_refuses_writes_faults_the_pool() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    write_synced(&bed.on("before"), 10_000).unwrap();
    let (none, all) = (Some(0), None);
    let old = prlimit(
        Some(bed.server()),
        Resource::Fsize,
        Rlimit {
            current: none,
            maximum: all,
        },
    )
    .unwrap();
    assert!(
        write_synced(&bed.on("after"), 10).is_err(),
        "the device takes no byte, yet fsync succeeded"
    );
    let dir = bed.dir();
    assert_eq!(bed.line(&dir, "state"), "FAULTED");
    assert!(bed.line(&dir, "mount").contains("read-only"));
    assert!(bed.line(&dir, "status").contains("ended all writing"));
    assert!(bed.line(&dir, "action").contains("see to the device"));
    assert_ne!(bed.line(&dir, "errors"), "no known errors");
    let events = done(keepfs(["events"]).arg(&dir));
    assert!(events.contains("error"), "{events}");
    assert!(number(&bed.status(), "/events") > 0);
    let json = done(keepfs(["events", "--json"]).arg(bed.pool()));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["version"], 1);
    let mut levels = json["events"].as_array().unwrap().iter().map(|event| &event["level"]);
    assert!(
        levels.any(|level| level == "error"),
        "the retries are warnings, the end is none (S-8.12): {json}"
    );
    assert_eq!(json["server"], "serving");
    // Unmounting says that not everything was kept; what was synced is.
    prlimit(Some(bed.server()), Resource::Fsize, old).unwrap();
    let (code, said) = fails(keepfs(["unmount"]).arg(&dir));
    assert_eq!(code, 1);
    assert!(said.contains("not everything could be made durable"), "{said}");
    // The server is gone, what it noticed is not.
    let kept: Value = serde_json::from_str(&done(keepfs(["events", "--json"]).arg(bed.pool()))).unwrap();
    assert_eq!(kept["server"], "none");
    assert!(kept["events"].as_array().unwrap().len() >= json["events"].as_array().unwrap().len());
    bed.mount("");
    assert_eq!(number(&bed.status(), "/events"), 0, "another server's events");
    assert_eq!(fs::read(bed.on("before")).unwrap(), vec![1; 10_000]);
}

/// Data that the device refuses is an error of the device, although metadata goes on (FAULTED is another thing).
#[test]
fn a_host_without_room_degrades_the_pool_and_says_so() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let host = bed.path("host");
    fs::create_dir(&host).unwrap();
    done(
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "none"])
            .arg(&host),
    );
    let pool = host.join("pool");
    let told = std::panic::catch_unwind(|| {
        done(keepfs(["create", "--size", "256M"]).arg(&pool));
        done(keepfs(["mount", "-o", "commit=3600"]).arg(&pool).arg(bed.dir()));
        let full = fs::write(bed.on("large"), vec![7; 32 << 20]);
        assert!(full.is_err(), "more was written than the host has");
        let told = (bed.line(&bed.dir(), "state"), bed.line(&bed.dir(), "errors"));
        drop(run(keepfs(["unmount", "--force"]).arg(bed.dir())));
        told
    });
    drop(run(keepfs(["unmount", "--lazy"]).arg(bed.dir())));
    done(Command::new("umount").arg("-l").arg(&host));
    let (state, errors) = told.unwrap();
    assert!(state == "DEGRADED" || state == "FAULTED", "{state}: {errors}");
    assert!(
        errors.contains("writes") || errors.contains("no room for"),
        "{state}: {errors}"
    );
}

#[test]
fn a_pool_that_is_cut_while_mounted_says_so_and_answers_no_sync() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    let file = fs::File::create(bed.on("file")).unwrap();
    fs::File::options()
        .write(true)
        .open(bed.pool())
        .unwrap()
        .set_len(32 << 20)
        .unwrap();
    fs::write(bed.on("more"), "text").unwrap();
    assert!(
        file.sync_all().is_err(),
        "half of the pool is gone, yet fsync succeeded"
    );
    assert_eq!(bed.line(&bed.dir(), "state"), "FAULTED");
    let errors = bed.line(&bed.dir(), "errors");
    assert!(errors.contains("was cut while in use"), "{errors}");
    drop(file);
    // A program that another test starts at this moment may hold a copy of the file: then again.
    let said = (0..100)
        .map(|_| fails(keepfs(["unmount"]).arg(bed.dir())).1)
        .find(|said| !said.contains("busy"))
        .unwrap();
    assert!(said.contains("not everything"), "{said}");
    let (_, said) = fails(&mut bed.mounting(""));
    assert!(said.contains("the device has only"), "{said}");
}

#[test]
fn a_pool_that_grows_while_mounted_goes_on() {
    let Some(bed) = Bed::mounted("") else { return };
    let file = fs::File::options().write(true).open(bed.pool()).unwrap();
    file.set_len(128 << 20).unwrap();
    write_synced(&bed.on("file"), 10_000).unwrap();
    assert_eq!(bed.line(&bed.dir(), "state"), "ONLINE");
    assert_eq!(number(&bed.status(), "/space/size_bytes"), 64 << 20);
    bed.unmount();
    bed.check();
}

#[test]
fn nothing_to_tell() {
    let Some(bed) = Bed::mounted("") else { return };
    assert!(done(keepfs(["events"]).arg(bed.dir())).starts_with("nothing was noticed"));
    bed.unmount();
    assert!(done(keepfs(["events"]).arg(bed.pool())).starts_with("nothing was noticed"));
    let (code, said) = fails(&mut keepfs(["status", "/nowhere/pool"]));
    assert_eq!(code, 1);
    assert!(said.contains("/nowhere/pool"), "{said}");
}

#[test]
fn the_list_of_all_has_this_one_while_it_is_mounted() {
    let Some(bed) = Bed::mounted("") else { return };
    let listed = || -> Vec<Value> {
        let all: Value = serde_json::from_str(&done(&mut keepfs(["status", "--json"]))).unwrap();
        assert_eq!(all["version"], 1);
        all["pools"].as_array().unwrap().clone()
    };
    let is_here = |pools: &[Value]| pools.iter().any(|pool| pool["pool"] == bed.pool().to_str().unwrap());
    assert!(is_here(&listed()));
    bed.unmount();
    assert!(!is_here(&listed()));
}

#[test]
fn only_root_may_ask_the_server() {
    let Some(bed) = Bed::mounted("") else { return };
    let mut asked = super::users::nobody();
    let said = done(asked.arg(super::bed::KEEPFS).arg("status").arg(bed.dir()));
    assert!(said.contains("only root may"), "{said}");
    let all = done(super::users::nobody().arg(super::bed::KEEPFS).arg("status"));
    assert!(
        all.contains(bed.dir().to_str().unwrap()) && all.contains("ask as root"),
        "{all}"
    );
}

/// `status -x` for monitors: nothing but what is not healthy, and an exit code; and a pool that is not mounted says what it
/// knows to be lost.
#[test]
fn what_is_not_healthy_is_told_by_the_exit_code() {
    let Some(bed) = Bed::with_a_file() else { return };
    let unhealthy = |of: &Path| {
        let output = run(keepfs(["status", "-x"]).arg(of));
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(unhealthy(&bed.dir()), (0, "the pool is healthy\n".into()));
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    done(
        keepfs(["inject"])
            .arg(bed.dir())
            .args(["scribble", "--kind", "data", "--path", "/dir/file"]),
    );
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
    assert!(fs::read(bed.on("dir/file")).is_err());
    let (code, said) = unhealthy(&bed.dir());
    assert!(code == 3 && said.contains("DEGRADED"), "{code} {said}");
    bed.unmount();
    let (code, said) = unhealthy(&bed.pool());
    assert!(
        code == 3 && said.contains("OFFLINE") && said.contains("1 object damaged"),
        "{code} {said}"
    );
    done(keepfs(["damage", "clear"]).arg(bed.pool()));
    assert_eq!(unhealthy(&bed.pool()).0, 0);
}
