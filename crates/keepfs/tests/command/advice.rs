//! What an administrator is told who knows the manual pages alone: what is wrong, and what to do next.

use super::bed::{Bed, KEEPFS, done, done_when_free, fails, keepfs, possible, run};
use super::json::is_as_promised;
use super::users::nobody;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Output};

const PAGE: u64 = 4096;

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Where the pool has a metablock: both pages.
fn pages_of(bed: &Bed, id: &str) -> [u64; 2] {
    let told = done(keepfs(["dump"]).arg(bed.pool()).args(["map", id, "--json"]));
    let map: Value = serde_json::from_str(&told).unwrap();
    ["first", "second"].map(|copy| map["map"][0][copy].as_u64().unwrap())
}

fn overwrite(bed: &Bed, page: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(bed.pool()).unwrap();
    file.write_all_at(bytes, page * PAGE).unwrap();
}

/// The pool of a mount point is checked, and a directory where none is mounted is told as that.
#[test]
fn a_directory_is_told_as_such() {
    let Some(bed) = Bed::mounted("") else { return };
    let dir = bed.dir();
    let live = run(keepfs(["check", "--live", "--data"]).arg(&dir));
    assert!(!text(&live).contains("superblock-none"), "{live:?}");
    assert!(text(&live).contains("1 directories"), "{live:?}");
    let (code, said) = fails(keepfs(["check"]).arg(&dir));
    assert!(code == 8 && said.contains("unmount it first"), "{said}");
    bed.unmount();
    let words: [&[&str]; 7] = [
        &["status"],
        &["events"],
        &["get", "all"],
        &["set", "label=x"],
        &["damage", "list"],
        &["check"],
        &["check", "--live"],
    ];
    for words in words {
        let (_, said) = fails(keepfs(words).arg(&dir));
        assert!(said.contains("no pool is mounted at"), "{words:?}: {said}");
    }
}

/// S-18.14: what a repair has mended is not told as damaged by the pool that is not mounted; until then each step is named.
#[test]
fn a_repair_ends_what_status_says() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let inodes = pages_of(&bed, "Inodes:0");
    inodes
        .iter()
        .for_each(|page| overwrite(&bed, *page, &[0xA5; PAGE as usize]));
    let mounted = run(&mut bed.mounting(""));
    let said = text(&mounted);
    assert!(
        mounted.status.success() && said.contains("the root directory of"),
        "{said}"
    );
    assert!(said.contains("check --repair"), "{said}");
    fs::read_dir(bed.dir()).unwrap_err();
    bed.unmount();
    let status = || done(keepfs(["status"]).arg(bed.pool()));
    assert!(status().contains("check --repair"), "{}", status());
    let checked = text(&run(keepfs(["check"]).arg(bed.pool())));
    assert!(
        checked.contains("what to do: `keepfs check --repair --dry-run"),
        "{checked}"
    );
    let mut repair = keepfs(["check", "--repair"]);
    repair.arg(bed.pool()).arg("--undo-file").arg(bed.path("undo"));
    let repaired = text(&run(&mut repair));
    assert!(repaired.contains("no errors are left"), "{repaired}");
    let status = status();
    assert!(!status.contains("root directory is damaged"), "{status}");
    let list = text(&run(keepfs(["damage", "list"]).arg(bed.pool())));
    assert!(!list.contains("nothing"), "{list}");
}

/// A file that was cut is a pool, and what helps first is its length.
#[test]
fn a_pool_that_was_cut_gets_its_length_back() {
    let bed = Bed::new();
    let file = File::options().write(true).open(bed.pool()).unwrap();
    file.set_len(40 << 20).unwrap();
    let said = text(&run(keepfs(["check"]).arg(bed.pool())));
    assert!(said.contains("truncate -s 67108864"), "{said}");
    assert!(!said.contains("superblock-none"), "{said}");
}

/// S-2.1: of a pool that was closed each slot holds a superblock.
#[test]
fn a_slot_that_lost_its_superblock_is_told() {
    let Some(bed) = Bed::mounted("") else { return };
    bed.unmount();
    bed.mount("");
    bed.unmount();
    let superblock = done(keepfs(["dump"]).arg(bed.pool()).args(["superblock", "--json"]));
    let superblock: Value = serde_json::from_str(&superblock).unwrap();
    if superblock["generation"].as_u64().unwrap().is_multiple_of(2) {
        // Page 0 is the other generation's then.
        done(keepfs(["set", "label=x"]).arg(bed.pool()));
    }
    for bytes in [[0; PAGE as usize], [0x5A; PAGE as usize]] {
        overwrite(&bed, 0, &bytes);
        let said = done(keepfs(["check"]).arg(bed.pool()));
        assert!(
            said.contains("[superblock-older]") || said.contains("[superblock-copy]"),
            "{said}"
        );
    }
}

/// Whoever may not ask is told so: nothing is said to be down, or not to be there.
#[test]
fn who_may_not_ask_is_told_so() {
    let Some(bed) = Bed::mounted("") else { return };
    let (code, said) = fails(nobody().arg(KEEPFS).arg("metrics"));
    assert!(code == 1 && said.contains("only root may"), "{said}");
    let (code, said) = fails(nobody().arg(KEEPFS).arg("probe"));
    assert!(
        code == 2 || code == 1 && said.contains("no block device can be opened"),
        "{said}"
    );
    let said = done(nobody().arg(KEEPFS).arg("status").arg(bed.dir()));
    assert!(said.contains("UNKNOWN") && said.contains("only root may"), "{said}");
    // What nobody was asked for is not known, and no number (S-18.20).
    let said = done(nobody().arg(KEEPFS).args(["status", "--json"]).arg(bed.dir()));
    knows_nothing(&serde_json::from_str(&said).unwrap());
}

/// A status that nobody gave.
fn knows_nothing(status: &serde_json::Value) {
    is_as_promised("status", status);
    assert_eq!(status["state"], "UNKNOWN");
    for figure in ["space", "device_errors", "damage", "files_lost", "scribbles_dropped"] {
        assert!(status[figure].is_null(), "{figure}: {status}");
    }
}

/// S-18.21: however the pool is, also where something has it open of which nothing is known here.
#[test]
fn a_pool_that_something_unknown_has_open_has_a_status() {
    let bed = Bed::new();
    let other = fs::File::open(bed.pool()).unwrap();
    other.try_lock().unwrap();
    let said = done(keepfs(["status"]).arg(bed.pool()));
    for part in ["UNKNOWN", "another process has it open", "mount: unknown", "ask where"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let said = done(keepfs(["status", "--json"]).arg(bed.pool()));
    knows_nothing(&serde_json::from_str(&said).unwrap());
    assert_eq!(run(keepfs(["status", "-x"]).arg(bed.pool())).status.code(), Some(4));
}

/// A smaller arena is advised where that helps.
#[test]
fn a_mount_without_memory_is_advised_what_helps() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    for (limit, error, advice) in [
        ("-n 20", "Too many open files", "ulimit -n"),
        ("-f 1", "File too large", "ulimit -f"),
    ] {
        let mut command = Command::new("setpriv");
        let script = format!("ulimit {limit}; exec \"$@\"");
        command.args([
            "--bounding-set=-sys_resource",
            "bash",
            "-c",
            &script,
            "bash",
            KEEPFS,
            "mount",
        ]);
        let (_, said) = fails(command.arg(bed.pool()).arg(bed.dir()));
        assert!(said.contains(error) && said.contains(advice), "{limit}: {said}");
        assert!(!said.contains("arena="), "{limit}: {said}");
    }
}

/// What lies among the hooks and would not be run is named, whatever the reason.
#[test]
fn hooks_that_are_not_run_are_listed() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let folder = bed.path("hooks.d");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let hook = |name: &str| {
        fs::write(folder.join(name), "#!/bin/sh\n").unwrap();
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o755)).unwrap();
    };
    let list = || {
        let output = run(keepfs(["hooks", "list", "--config"]).arg(bed.path("")));
        (output.status.code(), text(&output))
    };
    hook("good");
    assert_eq!(list().0, Some(0), "{}", list().1);
    hook("mail.sh");
    let (code, said) = list();
    assert!(code == Some(1) && said.contains("mail.sh: not run: its name"), "{said}");
    fs::remove_file(folder.join("mail.sh")).unwrap();
    let conf = bed.path("hooks.conf");
    fs::write(&conf, "MAIL_TO=root\n").unwrap();
    fs::set_permissions(&conf, Permissions::from_mode(0o666)).unwrap();
    let (code, said) = list();
    assert!(code == Some(1) && said.contains("hooks.conf is not used"), "{said}");
}

/// A pool's file on a file system that is mounted read-only: what helps is to make that one writable.
#[test]
fn a_read_only_host_is_named() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let host = bed.path("host");
    fs::create_dir(&host).unwrap();
    done(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&host));
    let said = std::panic::catch_unwind(|| {
        fs::copy(bed.pool(), host.join("pool")).unwrap();
        done_when_free(Command::new("mount").args(["-o", "remount,ro"]).arg(&host), "busy");
        fails(keepfs(["set", "label=x"]).arg(host.join("pool"))).1
    });
    done_when_free(Command::new("umount").arg(&host), "busy");
    let said = said.unwrap();
    assert!(said.contains("mounted read-only; make that one writable"), "{said}");
}

/// Words that are nearly right are taken, or what is wrong with them is said.
#[test]
fn words_that_are_nearly_right() {
    let Some(bed) = Bed::mounted("") else { return };
    let (code, said) = fails(&mut keepfs(["get", "all"]));
    assert!(
        code == 2 && said.contains("DIR|POOL") && !said.contains("all|NAME,NAME...>\n"),
        "{said}"
    );
    let both = done(keepfs(["get", "-H", "label", "protect"]).arg(bed.dir()));
    assert_eq!(both.lines().count(), 2, "{both}");
    done(keepfs(["scrub", "limit"]).arg(bed.dir()).arg("1K"));
    done(keepfs(["scrub", "start"]).arg(bed.dir()));
    done(keepfs(["scrub", "pause"]).arg(bed.dir()));
    let (_, said) = fails(keepfs(["scrub", "pause"]).arg(bed.dir()));
    assert!(said.contains("paused already"), "{said}");
    done(keepfs(["scrub", "limit"]).arg(bed.dir()).arg("none"));
    done(keepfs(["scrub", "cancel"]).arg(bed.dir()));
    bed.unmount();
    let new = bed.path("new");
    let (_, said) = fails(keepfs(["create", "--size", "1M"]).arg(&new));
    assert!(said.contains("at least 2 MiB"), "{said}");
    let (_, said) = fails(keepfs(["create", "--size", "8T", "--preallocate"]).arg(&new));
    assert!(said.contains("bytes are missing"), "{said}");
    assert!(!new.exists());
}
