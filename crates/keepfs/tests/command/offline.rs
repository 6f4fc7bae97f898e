//! What can be said of a pool that is not mounted: check, dump, status, read-only mounts.

use super::bed::{Bed, done, fails, keepfs, run};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

fn json(args: &[&str], pool: &Path) -> Value {
    let mut command = keepfs(&args[..1]);
    command.arg(pool).args(&args[1..]).arg("--json");
    let output = run(&mut command);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {output:?}"))
}

/// Where the checkpoint has a metablock: its first and second page.
fn pages_of(id: &str, pool: &Path) -> [u64; 2] {
    let map = json(&["dump", "map", id], pool);
    ["first", "second"].map(|copy| map["map"][0][copy].as_u64().unwrap())
}

fn damage(pool: &Path, page: u64) {
    let file = fs::File::options().write(true).open(pool).unwrap();
    file.write_all_at(&[0xA5; 4096], page * 4096).unwrap();
}

/// `keepfs dump … | head`: no panic when the reader is gone.
#[test]
fn a_closed_pipe_ends_the_program_quietly() {
    let bed = Bed::empty();
    done(keepfs(["create"]).arg(bed.pool()).args(["--size", "64M"]));
    for words in [["dump", "superblock"], ["status", "--json"], ["check", "--json"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = keepfs([words[0]])
            .arg(bed.pool())
            .arg(words[1])
            .stdout(writer)
            .output()
            .unwrap();
        assert_eq!(output.status.signal(), Some(libc::SIGPIPE), "{words:?}: {output:?}");
    }
}

#[test]
fn damage_is_found_and_is_an_exit_code() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    let [first, second] = pages_of("Inodes:0", &bed.pool());
    let clean = json(&["check"], &bed.pool());
    assert_eq!(clean["version"], 1);
    assert_eq!(clean["sound"], true);
    assert_eq!(clean["counts"]["files"], 1);

    damage(&bed.pool(), first);
    let output = run(keepfs(["check"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(0), "one copy is enough: {output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("metablock-copy"),
        "{output:?}"
    );

    damage(&bed.pool(), second);
    let output = run(keepfs(["check"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("errors left uncorrected"),
        "{output:?}"
    );
    let found = json(&["check"], &bed.pool());
    assert_eq!(found["sound"], false);
    let codes: Vec<&str> = found["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| f["code"].as_str())
        .collect();
    assert!(codes.contains(&"metablock-bad"), "{codes:?}");
}

#[test]
fn data_is_compared_only_if_asked() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), vec![7; 2 * 4096]).unwrap();
    bed.unmount();
    let listing = json(&["dump", "dir", "/"], &bed.pool());
    let ino = listing["entries"][0]["ino"].as_u64().unwrap();
    let inode = json(&["dump", "inode", &ino.to_string()], &bed.pool());
    let page = inode["direct"][0]["page"].as_u64().unwrap();
    damage(&bed.pool(), page);
    assert_eq!(run(keepfs(["check"]).arg(bed.pool())).status.code(), Some(0));
    assert_eq!(run(keepfs(["check", "--data"]).arg(bed.pool())).status.code(), Some(4));
}

#[test]
fn check_refuses_what_it_cannot_check() {
    let Some(bed) = Bed::mounted("") else { return };
    let (code, said) = fails(keepfs(["check"]).arg(bed.pool()));
    assert_eq!(code, 8);
    assert!(said.contains("unmount it first") && said.contains("--live"), "{said}");
    let live = done(keepfs(["check", "--live"]).arg(bed.pool()));
    assert!(live.contains("without keeping writers out"), "{live}");
    assert_eq!(fails(&mut keepfs(["check", "/nowhere/pool"])).0, 8);
    assert_eq!(fails(&mut keepfs(["check"])).0, 16);
    assert_eq!(fails(keepfs(["check", "--nonsense"]).arg(bed.pool())).0, 16);
    fs::write(bed.path("other"), vec![0; 1 << 20]).unwrap();
    let output = run(keepfs(["check"]).arg(bed.path("other")));
    assert_eq!(output.status.code(), Some(4));
    assert!(
        String::from_utf8_lossy(&output.stdout).contains("superblock-none"),
        "{output:?}"
    );
}

#[test]
fn dump_shows_what_was_made() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    fs::create_dir(bed.on("dir")).unwrap();
    fs::write(bed.on("dir/note"), "inline text").unwrap();
    fs::File::open(bed.on("dir/note")).unwrap().sync_all().unwrap();
    bed.end_server(rustix::process::Signal::KILL);
    bed.unmount_dead();
    let superblock = json(&["dump", "superblock"], &bed.pool());
    assert_eq!(superblock["label"], "bed");
    assert_eq!(superblock["version"], 1);
    let listing = json(&["dump", "dir", "/dir"], &bed.pool());
    assert_eq!(listing["entries"][0]["name"], "note");
    let ino = listing["entries"][0]["ino"].to_string();
    let inode = json(&["dump", "inode", &ino], &bed.pool());
    assert_eq!(inode["inline"], "inline text");
    assert_eq!(inode["size"], 11);
    let log = json(&["dump", "plog"], &bed.pool());
    assert_eq!(log["groups"][0]["taken"], true);
    let text = done(keepfs(["dump"]).arg(bed.pool()).arg("plog"));
    assert!(text.contains("Create") || text.contains("create"), "{text}");
    for (args, part) in [
        (&["inode", "99"][..], "inode 99 is not alive"),
        (&["dir", "/nothing"], "nothing"),
        (&["dir", "/dir/note"], "is not a directory"),
        (&["map", "Inodes:999"], "Inodes:999"),
    ] {
        let (code, said) = fails(keepfs(["dump"]).arg(bed.pool()).args(args));
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(fails(keepfs(["dump"]).arg(bed.pool()).args(["map", "Nonsense"])).0, 2);
    let map = json(&["dump", "map"], &bed.pool());
    assert_ne!(map["map"].as_array().unwrap().len(), 0);
}

#[test]
fn a_read_only_mount_writes_nothing() {
    let Some(bed) = Bed::mounted("keeper=off,commit=3600") else {
        return;
    };
    fs::write(bed.on("file"), vec![3; 20_000]).unwrap();
    fs::File::open(bed.on("file")).unwrap().sync_all().unwrap();
    bed.end_server(rustix::process::Signal::KILL);
    bed.unmount_dead();
    // The log is not replayed on the device either.
    let before = fs::read(bed.pool()).unwrap();
    bed.mount("ro");
    assert_eq!(fs::read(bed.on("file")).unwrap(), vec![3; 20_000]);
    let refused = fs::write(bed.on("new"), "x").unwrap_err();
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()));
    assert!(bed.line(&bed.dir(), "mount").contains("read-only"));
    rustix::fs::sync();
    bed.unmount();
    assert!(
        fs::read(bed.pool()).unwrap() == before,
        "a read-only mount changed the pool"
    );
    bed.mount("rw");
    assert_eq!(fs::read(bed.on("file")).unwrap(), vec![3; 20_000]);
}

#[test]
fn a_bad_copy_is_read_around_and_told() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    bed.unmount();
    let [first, _] = pages_of("Inodes:0", &bed.pool());
    damage(&bed.pool(), first);
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    let dir = bed.dir();
    assert_eq!(bed.line(&dir, "state"), "DEGRADED");
    assert!(bed.line(&dir, "status").contains("copies of metadata were bad"));
    assert!(bed.line(&dir, "action").contains("keepfs scrub start"));
    let errors = bed.line(&dir, "errors");
    assert!(errors.contains("1 copies of metadata were bad"), "{errors}");
}
