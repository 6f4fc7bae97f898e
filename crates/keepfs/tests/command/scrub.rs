//! `keepfs scrub` and `keepfs inject` on a real mount: what is damaged on purpose is found, told and mended.

use super::bed::{Bed, done, fails, keepfs, possible, run};
use super::json::is_as_promised;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Output;

/// A mounted pool for tests with some files, everything at rest.
fn bed() -> Option<Bed> {
    possible().then(|| {
        let bed = Bed::empty();
        done(keepfs(["create", "--size", "64M", "--test"]).arg(bed.pool()));
        bed.mount("commit=3600");
        for n in 0..20 {
            fs::write(bed.on(&format!("file{n}")), vec![n; 100_000]).unwrap();
        }
        bed.unmount();
        // What is damaged here waits for the scrub that is asked for.
        bed.mount("commit=3600,scrub=off");
        bed
    })
}

impl Bed {
    /// `keepfs scrub VERB DIR …`.
    fn scrub(&self, verb: &str, more: &[&str]) -> Output {
        run(keepfs(["scrub", verb]).arg(self.dir()).args(more))
    }

    /// A scrub that is waited for: its exit code, and what it answers.
    fn scrubbed(&self, more: &[&str]) -> (i32, Value) {
        let output = self.scrub("start", &[&["--wait", "--json"], more].concat());
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
        (output.status.code().unwrap(), answer)
    }

    fn inject(&self, words: &[&str]) -> String {
        done(keepfs(["inject"]).arg(self.dir()).args(words))
    }

    fn state(&self) -> Value {
        serde_json::from_str(&done(keepfs(["scrub", "status", "--json"]).arg(self.dir()))).unwrap()
    }
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

#[test]
fn a_scrub_is_started_paused_resumed_limited_and_canceled() {
    let Some(bed) = bed() else { return };
    assert_eq!(bed.state()["state"], "none");
    assert_eq!(code(&bed.scrub("pause", &[])), 1, "none is running");
    assert_eq!(code(&bed.scrub("resume", &[])), 2, "nothing to resume");
    // So slow that it does not end by itself.
    assert_eq!(code(&bed.scrub("limit", &["4K"])), 0);
    assert_eq!(code(&bed.scrub("start", &[])), 0);
    for wait in [&["--json"][..], &["--json", "--wait"]] {
        let refused = bed.scrub("start", wait);
        assert_eq!(code(&refused), 1, "one is running");
        let answer: Value = serde_json::from_slice(&refused.stdout).unwrap();
        is_as_promised("error", &answer);
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains(answer["error"].as_str().unwrap()), "{said}");
    }
    assert_eq!(code(&bed.scrub("pause", &[])), 0);
    let paused = bed.state();
    assert_eq!(
        (&paused["state"], &paused["limit_bytes_per_s"]),
        (&"paused".into(), &4096.into())
    );
    // It outlives the mount.
    bed.unmount();
    bed.mount("");
    assert_eq!(bed.state()["state"], "paused");
    assert_eq!(code(&bed.scrub("limit", &[])), 0);
    assert_eq!(code(&bed.scrub("resume", &["--wait"])), 0);
    let ended = bed.state();
    assert_eq!(
        (&ended["state"], &ended["limit_bytes_per_s"]),
        (&"finished".into(), &0.into())
    );
    assert!(
        ended["data"]["pages"].as_u64().unwrap() >= 20 * 100_000 / 4096,
        "{ended}"
    );
    assert!(ended["rest_done_s"].as_u64().unwrap() > 0);
    assert_eq!(code(&bed.scrub("limit", &["4K"])), 0);
    assert_eq!(code(&bed.scrub("start", &["--rest"])), 0);
    assert_eq!(code(&bed.scrub("cancel", &[])), 0);
    assert_eq!(code(&bed.scrub("cancel", &[])), 1);
    assert_eq!(bed.state()["state"], "canceled");
    let text = String::from_utf8(bed.scrub("status", &[]).stdout).unwrap();
    assert!(text.contains("canceled") && text.contains("limit 4"), "{text}");
}

#[test]
fn damage_in_memory_and_at_rest_is_found_and_mended() {
    let Some(bed) = bed() else { return };
    let ino = fs::metadata(bed.on("file3")).unwrap().ino().to_string();
    let (code, clean) = bed.scrubbed(&[]);
    assert_eq!((code, &clean["state"]), (0, &"finished".into()));
    for part in ["arena", "metadata", "data"] {
        assert_eq!(clean[part]["bad"], 0, "{clean}");
        assert!(clean[part]["pages"].as_u64().unwrap() > 0, "{clean}");
    }
    let told = bed.inject(&[
        "scribble",
        "--kind",
        "dir",
        "--ino",
        "1",
        "--length",
        "8",
        "--pattern",
        "a5",
    ]);
    assert!(told.contains("in memory"), "{told}");
    let (code, found) = bed.scrubbed(&["--arena"]);
    assert_eq!(
        (code, &found["arena"]["bad"], &found["arena"]["corrected"]),
        (0, &1.into(), &1.into()),
        "{found}"
    );
    assert_eq!(found["metadata"]["pages"], 0);
    // By path it is the metablock that the number tells, on the device and in memory.
    let place = |words: &[&str]| {
        let told = bed.inject(&[&["scribble", "--kind", "inode", "--at", "memory"], words].concat());
        told.split(',').take(2).collect::<String>()
    };
    assert_eq!(place(&["--path", "/file3"]), place(&["--ino", &ino]));
    assert_ne!(place(&["--path", "file4"]), place(&["--ino", &ino]));
    assert_eq!(bed.scrubbed(&["--arena"]).0, 0);

    let inode = ["scribble", "--kind", "inode", "--at", "device", "--copy", "1", "--ino"];
    let told = bed.inject(&[&inode[..], &[&ino]].concat());
    assert!(told.contains("copy 1"), "{told}");
    let (code, found) = bed.scrubbed(&["--rest"]);
    let metadata = &found["metadata"];
    assert_eq!(
        (code, &metadata["bad"], &metadata["corrected"]),
        (0, &1.into(), &1.into()),
        "{found}"
    );
    assert_eq!(bed.scrubbed(&["--rest"]).1["metadata"]["bad"], 0, "it was written anew");
    // Both are in the history of the pool, with what was seen and done.
    let events: Value = serde_json::from_str(&done(keepfs(["events", "--json"]).arg(bed.dir()))).unwrap();
    let history = events["history"].as_array().unwrap();
    let words = |e: &Value| e["text"].as_str().unwrap().to_owned();
    assert!(history.iter().any(|e| words(e).contains("in memory")), "{events}");
    assert!(
        history
            .iter()
            .any(|e| words(e).contains("copy 1 of Inodes:") && words(e).contains("bit flip")),
        "{events}"
    );
    bed.unmount();
    bed.check();
}

#[test]
fn damaged_data_is_told_by_the_exit_code_until_it_is_written_anew() {
    let Some(bed) = bed() else { return };
    let ino = fs::metadata(bed.on("file7")).unwrap().ino().to_string();
    let told = bed.inject(&["scribble", "--kind", "data", "--ino", &ino, "--offset", "5000"]);
    assert!(told.contains("page 1 of inode"), "{told}");
    let (code, found) = bed.scrubbed(&["--rest"]);
    assert_eq!((code, &found["data"]["uncorrectable"]), (3, &1.into()), "{found}");
    assert_eq!(bed.scrub("status", &[]).status.code(), Some(3));
    assert!(fs::read(bed.on("file7")).is_err());
    assert!(fs::read(bed.on("file8")).is_ok());
    let path = bed.on("file7");
    let (code, found) = bed.scrubbed(&["--rest", "--path", path.to_str().unwrap()]);
    assert_eq!((code, &found["data"]["bad"]), (3, &1.into()), "{found}");
    fs::write(bed.on("file7"), "anew").unwrap();
    done(std::process::Command::new("sync").arg("-f").arg(bed.on("file7")));
    let (code, found) = bed.scrubbed(&["--rest"]);
    assert_eq!((code, &found["data"]["bad"]), (0, &0.into()), "{found}");
}

#[test]
fn stray_writes_all_over_are_mended() {
    let Some(bed) = bed() else { return };
    // Everything is in memory.
    for n in 0..20 {
        fs::metadata(bed.on(&format!("file{n}"))).unwrap();
    }
    let told = bed.inject(&["wild", "--threads", "2", "--count", "2000", "--seed", "5"]);
    assert!(told.starts_with("2000 stray writes"), "{told}");
    let (code, found) = bed.scrubbed(&["--arena"]);
    assert_eq!((code, &found["arena"]["uncorrectable"]), (0, &0.into()), "{found}");
    (0..20).for_each(|n| assert_eq!(fs::read(bed.on(&format!("file{n}"))).unwrap(), vec![n; 100_000]));
    // The same under another code, which the pool keeps.
    let told = bed.inject(&["wild", "--level", "pq", "--count", "500", "--seed", "6"]);
    assert!(told.starts_with("500 stray writes"), "{told}");
    assert_eq!(bed.status()["arena"]["protect"], "pq");
    assert_eq!(bed.scrubbed(&["--arena"]).0, 0);
    (0..20).for_each(|n| assert_eq!(fs::read(bed.on(&format!("file{n}"))).unwrap(), vec![n; 100_000]));
    bed.unmount();
    assert_eq!(bed.line(&bed.pool(), "watched").split(' ').nth(1), Some("pq"));
    bed.check();
}

/// What `damage list` tells of a pool or a mount.
fn damage(of: &std::path::Path) -> Vec<Value> {
    let list = run(keepfs(["damage", "list", "--json"]).arg(of)).stdout;
    let list: Value = serde_json::from_slice(&list).unwrap();
    list["damage"].as_array().unwrap().clone()
}

/// File data of a pool that is not mounted, by path. Who reads it gets EIO each time; one event, and a list that counts.
#[test]
fn rotten_data_at_rest_is_told_once_and_counted() {
    let Some(bed) = Bed::with_a_file() else { return };
    bed.unmount();
    let words = [
        "scribble",
        "--kind",
        "data",
        "--path",
        "/dir/file",
        "--offset",
        "9000",
        "--length",
        "16",
    ];
    let told = done(keepfs(["inject"]).arg(bed.pool()).args(words).args(["--pattern", "ab"]));
    assert!(told.contains("page 2 of inode") && told.contains("abababab"), "{told}");
    for (words, said) in [
        (&["--path", "/dir/nothing"][..], "nothing"),
        (&["--path", "/dir/file", "--offset", "40000"], "no page 9"),
        (&["--path", "/dir"], "no page 0"),
    ] {
        let scribble = ["scribble", "--kind", "data"];
        let (code, says) = fails(keepfs(["inject"]).arg(bed.pool()).args(scribble).args(words));
        assert!(code == 1 && says.contains(said), "{words:?}: {says}");
    }
    bed.mount("");
    let read = || fs::read(bed.on("dir/file")).unwrap_err().raw_os_error();
    assert_eq!(read(), Some(rustix::io::Errno::IO.raw_os_error()));
    let events = |of| {
        let text = done(keepfs(["events", "--json"]).arg(of));
        text.matches("page 2 of inode").count()
    };
    let told = events(bed.dir());
    assert_ne!(told, 0);
    let first = damage(&bed.dir());
    assert_eq!((first.len(), &first[0]["path"]), (1, &"/dir/file".into()), "{first:?}");
    for _ in 0..5 {
        assert_eq!(read(), Some(rustix::io::Errno::IO.raw_os_error()));
    }
    let last = damage(&bed.dir());
    assert_eq!(last.len(), 1, "{last:?}");
    let (count, before) = (last[0]["count"].as_u64().unwrap(), first[0]["count"].as_u64().unwrap());
    assert!(count >= before + 5, "{first:?} {last:?}");
    assert!(last[0]["last_s"].as_i64() >= last[0]["first_s"].as_i64());
    assert_eq!(last[0]["first_s"], first[0]["first_s"]);
    assert_eq!(events(bed.dir()), told);
    bed.unmount();
    // It outlives the mount, and a mount that meets it counts on.
    assert_eq!(damage(&bed.pool())[0]["count"], count);
    bed.mount("");
    assert_eq!(read(), Some(rustix::io::Errno::IO.raw_os_error()));
    assert!(damage(&bed.dir())[0]["count"].as_u64().unwrap() > count);
}

#[test]
fn faults_of_the_device_wait_and_can_be_taken_back() {
    let Some(bed) = bed() else { return };
    assert!(bed.inject(&["list"]).contains("nothing waits"));
    bed.inject(&["device", "--error", "eio", "--op", "read", "--count", "3"]);
    bed.inject(&["device", "--error", "latency", "--op", "flush", "--ms", "5"]);
    let list = bed.inject(&["list"]);
    assert!(
        list.contains("read eio (3 left)") && list.contains("flush latency of 5 ms"),
        "{list}"
    );
    let first = list.split(':').next().unwrap();
    assert_eq!(bed.inject(&["cancel", first]), "1 taken back\n");
    let (code, said) = fails(keepfs(["inject"]).arg(bed.dir()).args(["cancel", first]));
    assert_eq!((code, said.contains("no fault number")), (1, true), "{said}");
    assert_eq!(bed.inject(&["cancel"]), "1 taken back\n");
    assert!(bed.inject(&["list"]).contains("nothing waits"));
}

/// C-4: what contradicts itself never becomes part of the pool, and with its equation off it does.
#[test]
fn a_logic_bug_is_taken_back_unless_nobody_looks() {
    let Some(bed) = bed() else { return };
    let wrong = |field: &str, path: &str| bed.inject(&["logic", "--field", field, "--path", path]);
    fs::create_dir(bed.on("dir")).unwrap();
    for (field, path) in [
        ("links", "file3"),
        ("pages", "/file3"),
        ("entries", "/dir"),
        ("parent", "dir"),
    ] {
        let told = wrong(field, path);
        assert!(told.contains("taken back") && told.contains("E-"), "{told}");
    }
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert_eq!(events.matches("logic bug #").count(), 4, "{events}");
    let (code, said) = fails(
        keepfs(["inject"])
            .arg(bed.dir())
            .args(["logic", "--field", "entries", "--path", "file3"]),
    );
    assert_eq!(code, 1, "{said}");
    assert_eq!(fs::metadata(bed.on("file3")).unwrap().nlink(), 1);
    bed.unmount();
    bed.check();
    bed.mount("audit=off");
    assert!(wrong("links", "file3").contains("nobody saw it"));
    bed.unmount();
    assert_eq!(fails(keepfs(["check"]).arg(bed.pool())).0, 4);
}

#[test]
fn faults_are_for_pools_that_are_made_for_them() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    for words in [
        &["scribble", "--kind", "inode", "--ino", "1"][..],
        &["wild"],
        &["logic", "--field", "links", "--ino", "1"],
        &["device", "--error", "eio", "--op", "read"],
    ] {
        let (code, said) = fails(keepfs(["inject"]).arg(bed.dir()).args(words));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("for tests"), "{said}");
    }
    // One that was not closed is not even opened: recovery would write.
    fs::write(bed.on("file"), "synced").unwrap();
    fs::File::open(bed.on("file")).unwrap().sync_all().unwrap();
    bed.end_server(rustix::process::Signal::KILL);
    bed.unmount_dead();
    let before = fs::read(bed.pool()).unwrap();
    for of in [["--ino", "1"], ["--path", "/"]] {
        let offline = ["scribble", "--kind", "inode", "--at", "device"];
        let (_, said) = fails(keepfs(["inject"]).arg(bed.pool()).args(offline).args(of));
        assert!(said.contains("create --test"), "{said}");
    }
    assert!(fs::read(bed.pool()).unwrap() == before, "a refusal wrote something");
}

#[test]
fn a_pool_that_is_not_mounted_is_scribbled_on() {
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M", "--test"]).arg(bed.pool()));
    if !possible() {
        return;
    }
    bed.mount("");
    fs::write(bed.on("file"), vec![1; 30_000]).unwrap();
    let ino = fs::metadata(bed.on("file")).unwrap().ino().to_string();
    bed.unmount();
    let words = ["scribble", "--kind", "inode", "--at", "device", "--ino", &ino];
    let told = done(keepfs(["inject"]).arg(bed.pool()).args(words));
    assert!(told.contains("on the device: copy 0"), "{told}");
    let check = done(keepfs(["check"]).arg(bed.pool()));
    assert!(check.contains("metablock-copy"), "{check}");
}
