//! What was noticed is told, to everybody who should hear it, and once told it is true and stays told.

use super::bed::{Bed, done, done_when_free, keepfs, possible, run, soon};
use keepfs::{OpenOptions, Pool};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Numbers and texts of all events that the pool remembers.
fn told(bed: &Bed) -> Vec<(u64, String)> {
    let answer: Value = serde_json::from_str(&done(keepfs(["events", "--json"]).arg(bed.dir()))).unwrap();
    let events = answer["history"].as_array().unwrap().iter();
    events
        .map(|event| (number(&event["number"]), event["text"].as_str().unwrap().to_owned()))
        .collect()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

/// A stray write into the metadata of a file, and a look at all memory, which finds it.
fn stray(bed: &Bed) {
    let ino = fs::metadata(bed.on("dir/file")).unwrap().ino().to_string();
    let words = [
        "scribble",
        "--kind",
        "inode",
        "--ino",
        &ino,
        "--offset",
        "8",
        "--length",
        "16",
        "--pattern",
        "random",
    ];
    done(keepfs(["inject"]).arg(bed.dir()).args(words));
    let mut scrub = keepfs(["scrub", "start"]);
    scrub.arg(bed.dir()).args(["--arena", "--wait"]);
    done_when_free(&mut scrub, "under way");
}

/// S-18.7: whatever the moment at which a server dies, the next one knows what that one found, and nobody sees a number twice.
#[test]
fn what_a_server_found_outlives_it() {
    let Some(bed) = Bed::with_a_file() else { return };
    let is_stray = |(_, text): &&(u64, String)| text.contains("stray write");
    let mut seen = Vec::new();
    for round in 1..=4 {
        stray(&bed);
        // Every other time nobody asks before it dies.
        if round % 2 == 0 {
            let now = told(&bed);
            assert_eq!(now[..seen.len()], seen, "round {round}");
            seen = now;
        }
        bed.end_server(Signal::KILL);
        let now = told(&bed);
        assert_eq!(now[..seen.len()], seen, "round {round}");
        assert_eq!(now.iter().filter(is_stray).count(), round, "round {round}: {now:#?}");
        let numbers: Vec<u64> = now.iter().map(|(number, _)| *number).collect();
        assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "{numbers:?}");
        seen = now;
        assert_eq!(bed.line(&bed.dir(), "state"), "DEGRADED", "round {round}");
    }
    bed.unmount();
    bed.mount("");
    assert_eq!(told(&bed)[..seen.len()], seen);
}

/// The file's first page is damaged on the device, which a reader meets.
fn rot(bed: &Bed) {
    fs::write(bed.on("dir/file"), vec![1; 30_000]).unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    let words = ["scribble", "--kind", "data", "--path", "/dir/file"];
    done(keepfs(["inject"]).arg(bed.dir()).args(words));
    fs::write("/proc/sys/vm/drop_caches", "1").unwrap();
    assert!(fs::read(bed.on("dir/file")).is_err());
    assert_eq!(lost(&bed.dir()), (Some(1), 1));
    assert!(bed.line(&bed.dir(), "errors").contains("1 object damaged"));
}

/// The exit code of `status -x`, the state, and whether there is an action.
fn health(bed: &Bed) -> (Option<i32>, String, bool) {
    let output = run(keepfs(["status", "-x"]).arg(bed.dir()));
    let status = bed.status();
    (
        output.status.code(),
        status["state"].as_str().unwrap().to_owned(),
        status["action"].is_string(),
    )
}

fn is_well(bed: &Bed) {
    assert_eq!(health(bed), (Some(0), "ONLINE".into(), false), "{:#}", bed.status());
}

fn is_degraded(bed: &Bed) {
    assert_eq!(health(bed), (Some(3), "DEGRADED".into(), true), "{:#}", bed.status());
}

/// What was written anew and found whole is no reason to do anything; what is damaged is, whoever took note of it.
#[test]
fn a_status_is_of_what_is_damaged_now() {
    let Some(bed) = Bed::with_a_file() else { return };
    is_well(&bed);
    rot(&bed);
    is_degraded(&bed);
    fs::write(bed.on("dir/file"), vec![2; 30_000]).unwrap();
    done(keepfs(["scrub", "start", "--wait"]).arg(bed.dir()));
    is_well(&bed);
    assert!(bed.line(&bed.dir(), "errors").starts_with("no known errors"));
    rot(&bed);
    done(keepfs(["damage", "clear"]).arg(bed.dir()));
    assert!(fs::read(bed.on("dir/file")).is_err());
    is_degraded(&bed);
}

/// What was damaged in memory and mended is told until somebody takes note of it, and not by the next server again.
#[test]
fn what_was_mended_is_told_until_it_is_noted() {
    let Some(bed) = Bed::with_a_file() else { return };
    let scribble = || {
        let words = ["scribble", "--kind", "inode", "--path", "/dir/file", "--offset", "8"];
        done(keepfs(["inject"]).arg(bed.dir()).args(words));
        // A server looks at memory by itself, too.
        done_when_free(
            keepfs(["scrub", "start", "--arena", "--wait"]).arg(bed.dir()),
            "under way",
        );
        is_degraded(&bed);
    };
    scribble();
    bed.end_server(Signal::KILL);
    fs::read(bed.on("dir/file")).unwrap();
    is_degraded(&bed);
    done(keepfs(["damage", "clear"]).arg(bed.dir()));
    is_well(&bed);
    bed.end_server(Signal::KILL);
    fs::read(bed.on("dir/file")).unwrap();
    is_well(&bed);
    scribble();
}

/// Exit code of `damage list`, and how many entries it has.
fn lost(of: &Path) -> (Option<i32>, usize) {
    let output = run(keepfs(["damage", "list", "--json"]).arg(of));
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    (output.status.code(), list["damage"].as_array().unwrap().len())
}

/// S-18.8: what was written anew or removed is not damaged any more, for status, the list, and when the pool is unmounted; what
/// was not stays damaged in the next mount too.
#[test]
fn the_damage_list_heals() {
    let Some(bed) = Bed::with_a_file() else { return };
    rot(&bed);
    bed.unmount();
    assert_eq!(lost(&bed.pool()), (Some(1), 1), "nobody has written it");
    bed.mount("");
    assert_eq!(lost(&bed.dir()), (Some(1), 1), "nor mended it");
    fs::write(bed.on("dir/file"), vec![2; 30_000]).unwrap();
    assert_eq!(bed.line(&bed.dir(), "errors").find("damaged"), None);
    assert_eq!(lost(&bed.dir()), (Some(0), 0), "written anew");
    rot(&bed);
    fs::remove_file(bed.on("dir/file")).unwrap();
    // The kernel closes the file that was read behind the back of who closed it.
    soon("what was removed is not damaged", || {
        (lost(&bed.dir()) == (Some(0), 0)).then_some(())
    });
    rot(&bed);
    let file = fs::File::options().write(true).open(bed.on("dir/file")).unwrap();
    file.set_len(0).unwrap();
    drop(file);
    // Nobody asks before.
    bed.unmount();
    assert_eq!(lost(&bed.pool()), (Some(0), 0), "cut off");
    assert_eq!(bed.line(&bed.pool(), "status"), "nothing to report");
}

/// What `damage list` says, which keeps its schema.
fn listed(of: &Path) -> String {
    let json = run(keepfs(["damage", "list", "--json"]).arg(of)).stdout;
    super::json::is_as_promised("damage", &serde_json::from_slice(&json).unwrap());
    String::from_utf8(run(keepfs(["damage", "list"]).arg(of)).stdout).unwrap()
}

/// S-18.11: administrators write anew or remove what is named, so no file is that came to its name later.
#[test]
fn a_path_that_leads_to_another_file_is_not_told() {
    let Some(bed) = Bed::with_a_file() else { return };
    rot(&bed);
    assert!(listed(&bed.dir()).contains(" /dir/file (inode "));
    fs::rename(bed.on("dir/file"), bed.on("dir/moved")).unwrap();
    fs::write(bed.on("dir/file"), "innocent").unwrap();
    let said = listed(&bed.dir());
    assert!(
        said.contains(" /dir/moved (inode ") && !said.contains("/dir/file"),
        "{said}"
    );
    fs::rename(bed.on("dir"), bed.on("other")).unwrap();
    fs::create_dir(bed.on("dir")).unwrap();
    fs::write(bed.on("dir/moved"), "innocent").unwrap();
    let said = listed(&bed.dir());
    assert!(
        said.contains(" /other/moved (inode ") && !said.contains("/dir"),
        "{said}"
    );
    bed.unmount();
    assert_eq!(listed(&bed.pool()), said);
    bed.mount("");
    fs::rename(bed.on("other/moved"), bed.on("last")).unwrap();
    bed.unmount();
    assert!(listed(&bed.pool()).contains(" /last (inode "));
    bed.mount("");
    assert!(listed(&bed.dir()).contains(" /last (inode "));
}

/// The files that the last event is about, and what `events` says, which keeps its schema.
fn files_told(of: &Path) -> (Value, String) {
    let json = serde_json::from_str(&done(keepfs(["events", "--json"]).arg(of))).unwrap();
    super::json::is_as_promised("events", &json);
    let last = json["history"].as_array().unwrap().last().unwrap().clone();
    (last["files"].clone(), done(keepfs(["events"]).arg(of)))
}

/// S-18.9: an event names its file by the path that it has now, and nothing else that came to its name or its number.
#[test]
fn an_event_names_its_file() {
    let Some(bed) = Bed::with_a_file() else { return };
    rot(&bed);
    let ino = fs::metadata(bed.on("dir/file")).unwrap().ino();
    let (files, said) = files_told(&bed.dir());
    assert_eq!(files, json!([{"inode": ino, "path": "/dir/file"}]));
    assert!(
        said.contains(&format!(": /dir/file (inode {ino}): page 0 of ")),
        "{said}"
    );
    fs::rename(bed.on("dir/file"), bed.on("dir/moved")).unwrap();
    fs::write(bed.on("dir/file"), "innocent").unwrap();
    let moved = json!([{"inode": ino, "path": "/dir/moved"}]);
    assert_eq!(files_told(&bed.dir()).0, moved);
    bed.unmount();
    assert_eq!(files_told(&bed.pool()).0, moved);
    bed.mount("");
    fs::rename(bed.on("dir/moved"), bed.on("last")).unwrap();
    bed.unmount();
    assert_eq!(files_told(&bed.pool()).0, json!([{"inode": ino, "path": "/last"}]));
    bed.mount("");
    assert_eq!(files_told(&bed.dir()).0, json!([{"inode": ino, "path": "/last"}]));
    fs::remove_file(bed.on("last")).unwrap();
    assert_eq!(files_told(&bed.dir()).0, json!([{"inode": ino, "was": "/last"}]));
    // The next mount gives numbers away from the first one on.
    bed.unmount();
    bed.mount("");
    let has_its_number = |n: &u64| {
        let young = bed.on(&format!("dir/young{n}"));
        fs::write(&young, "innocent").unwrap();
        fs::metadata(young).unwrap().ino() == ino
    };
    assert!((0..200).any(|n| has_its_number(&n)));
    let (files, said) = files_told(&bed.dir());
    assert_eq!(files, json!([{"inode": ino}]));
    assert!(
        said.contains(&format!(": inode {ino} (no path known): page 0 of ")),
        "{said}"
    );
}

/// S-18.9: a number that a younger file has still tells the older one's damage, and with the path that this had.
#[test]
fn damage_is_of_one_life_of_a_number() {
    let Some(bed) = Bed::with_a_file() else { return };
    let ino = fs::metadata(bed.on("dir/file")).unwrap().ino();
    stray(&bed);
    assert!(listed(&bed.dir()).contains("mended /dir/file (inode "));
    let name = "young";
    a_younger_file_gets_the_number(&bed, "dir/file", name);
    let of = |of: &Path| {
        let (files, said) = files_told(of);
        assert_eq!(files, json!([{"inode": ino, "was": "/dir/file"}]), "{said}");
        let said = listed(of);
        let told = format!("mended inode {ino}, which was /dir/file: ");
        assert!(said.contains(&told) && !said.contains(name), "{said}");
    };
    of(&bed.dir());
    bed.unmount();
    of(&bed.pool());
    bed.mount("");
    of(&bed.dir());
    // To its own damage it is named.
    rot_of(&bed, name, ino);
    let said = listed(&bed.dir());
    assert!(said.contains(&format!("LOST /young (inode {ino}): ")), "{said}");
    let told = format!("mended inode {ino}, which was /dir/file: ");
    assert!(said.contains(&told), "{said}");
    assert_eq!(files_told(&bed.dir()).0, json!([{"inode": ino, "path": "/young"}]));
    bed.unmount();
    let said = listed(&bed.pool());
    assert!(
        said.contains(&format!("LOST /young (inode {ino}): ")) && said.contains(&told),
        "{said}"
    );
    assert_eq!(files_told(&bed.pool()).0, json!([{"inode": ino, "path": "/young"}]));
}

/// A file is removed, and another one made that has its number.
fn a_younger_file_gets_the_number(bed: &Bed, old: &str, young: &str) {
    let ino = fs::metadata(bed.on(old)).unwrap().ino();
    fs::remove_file(bed.on(old)).unwrap();
    // The next mount gives numbers away from the first one on; mostly within the second of the damage.
    bed.unmount();
    bed.mount("");
    let made = (0..200).find_map(|n| {
        let path = bed.on(&format!("other{n}"));
        fs::write(&path, vec![3; 30_000]).unwrap();
        (fs::metadata(&path).unwrap().ino() == ino).then_some(path)
    });
    fs::rename(made.unwrap(), bed.on(young)).unwrap();
}

/// The second page of a file is damaged on the device, and a scrub finds it.
fn rot_of(bed: &Bed, name: impl AsRef<Path>, ino: u64) {
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    assert_eq!(fs::metadata(bed.dir().join(name)).unwrap().ino(), ino);
    let words = [
        "scribble", "--kind", "data", "--offset", "4096", "--length", "5", "--ino",
    ];
    done(keepfs(["inject"]).arg(bed.dir()).args(words).arg(ino.to_string()));
    soon("a scrub that finds it", || {
        let found = run(keepfs(["scrub", "start", "--wait"]).arg(bed.dir())).status.code();
        (found == Some(3)).then_some(())
    });
}

/// S-18.10: names are bytes, and no two of them look alike, for people or for programs.
#[test]
fn no_two_names_look_alike() {
    let Some(bed) = Bed::with_a_file() else { return };
    let names: [(&[u8], &str, Option<&str>); 6] = [
        (b"inv\xff", "$'/inv\\xff'", Some("2f696e76ff")),
        (b"inv\xfe", "$'/inv\\xfe'", Some("2f696e76fe")),
        ("inv\u{fffd}".as_bytes(), "/inv\u{fffd}", None),
        (b"a\nb", "$'/a\\nb'", None),
        (b"a\\nb", "/a\\nb", None),
        ("zw\u{200b}x".as_bytes(), "$'/zw\\xe2\\x80\\x8bx'", None),
    ];
    for (name, ..) in names {
        fs::write(bed.dir().join(OsStr::from_bytes(name)), vec![1; 9000]).unwrap();
    }
    let mut inodes = Vec::new();
    for (name, ..) in names {
        let name = OsStr::from_bytes(name);
        inodes.push(fs::metadata(bed.dir().join(name)).unwrap().ino());
        rot_of(&bed, name, *inodes.last().unwrap());
    }
    let told = |of: &Path| {
        let (damage, (_, events)) = (listed(of), files_told(of));
        let json = run(keepfs(["damage", "list", "--json"]).arg(of)).stdout;
        let json: Value = serde_json::from_slice(&json).unwrap();
        let list = json["damage"].as_array().unwrap();
        for ((name, text, bytes), ino) in names.into_iter().zip(&inodes) {
            let words = format!(" {text} (inode {ino}): ");
            assert!(
                damage.contains(&words) && events.contains(&words),
                "{words}: {damage}{events}"
            );
            let entry = list.iter().find(|entry| entry["inode"] == *ino).unwrap();
            assert_eq!(entry["path_bytes"].as_str(), bytes);
            let path = str::from_utf8(name).map(|name| format!("/{name}"));
            assert_eq!(entry["path"], path.unwrap_or(text.to_owned()));
        }
    };
    told(&bed.dir());
    bed.unmount();
    told(&bed.pool());
    let said = String::from_utf8(run(keepfs(["check", "--data"]).arg(bed.pool())).stdout).unwrap();
    for ((_, text, _), ino) in names.into_iter().zip(inodes) {
        let words = format!(" {text} (inode {ino}): ");
        assert_eq!(said.matches(&words).count(), 2, "known and found: {said}");
    }
}

/// S-18.9: a path is told whole up to 4096 bytes, and what is cut is seen to be.
#[test]
fn a_deep_file_is_named() {
    let Some(bed) = Bed::with_a_file() else { return };
    let chain = |letter: &str, count: usize| vec![letter.repeat(150); count].join("/");
    let (upper, lower) = (chain("U", 15), chain("L", 15));
    fs::create_dir_all(bed.on(&upper)).unwrap();
    fs::write(bed.on("file"), vec![1; 9000]).unwrap();
    let ino = fs::metadata(bed.on("file")).unwrap().ino();
    rot_of(&bed, "file", ino);
    assert!(listed(&bed.dir()).contains("LOST /file (inode "));
    fs::rename(bed.on("file"), bed.on(&format!("{upper}/file"))).unwrap();
    let check = || String::from_utf8(run(keepfs(["check", "--data"]).arg(bed.pool())).stdout).unwrap();
    let whole = format!("/{upper}/file (inode {ino}): ");
    assert!(whole.len() > 2048 && listed(&bed.dir()).contains(&whole));
    assert!(files_told(&bed.dir()).1.contains(&whole));
    bed.unmount();
    // The list on the device has the end of it alone.
    assert!(listed(&bed.pool()).contains(&whole));
    assert!(check().contains(&format!("error: {whole}")));
    bed.mount("");
    assert!(listed(&bed.dir()).contains(&whole));
    // What no call takes whole has its end told.
    fs::create_dir_all(bed.on(&lower)).unwrap();
    let (from, to) = ("U".repeat(150), format!("{lower}/moved"));
    fs::rename(bed.on(&from), bed.on(&to)).unwrap();
    let end = format!("/moved/{}/file (inode {ino}): ", chain("U", 14));
    let is_cut = |said: &str| said.contains(" …/LLL") && said.contains(&end);
    assert!(is_cut(&listed(&bed.dir())), "{}", listed(&bed.dir()));
    assert!(is_cut(&files_told(&bed.dir()).1));
    bed.unmount();
    assert!(is_cut(&check()), "{}", check());
}

/// S-18.11, S-18.15: a file is named behind its server's end, whether or not anybody has asked for it, and however long its path is.
#[test]
fn a_deep_file_is_named_without_a_server() {
    let Some(bed) = Bed::with_a_file() else { return };
    let chain = |letter: &str| vec![letter.repeat(150); 15].join("/");
    let (upper, lower) = (chain("U"), chain("L"));
    fs::create_dir_all(bed.on(&upper)).unwrap();
    fs::create_dir_all(bed.on(&lower)).unwrap();
    fs::write(bed.on(&format!("{upper}/file")), vec![1; 9000]).unwrap();
    let ino = fs::metadata(bed.on(&format!("{upper}/file"))).unwrap().ino();
    let from = "U".repeat(150);
    fs::rename(bed.on(&from), bed.on(&format!("{lower}/{from}"))).unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    let words = ["scribble", "--kind", "data", "--length", "5", "--ino"];
    done(keepfs(["inject"]).arg(bed.dir()).args(words).arg(ino.to_string()));
    soon("a scrub that finds it", || {
        let found = run(keepfs(["scrub", "start", "--wait"]).arg(bed.dir())).status.code();
        (found == Some(3)).then_some(())
    });
    for _ in 0..2 {
        bed.unmount();
        let end = format!("/{upper}/file (inode {ino}): ");
        for said in [listed(&bed.pool()), files_told(&bed.pool()).1] {
            assert!(said.contains(" …/LLL") && said.contains(&end), "{said}");
        }
        bed.mount("");
        assert!(listed(&bed.dir()).contains(&end));
    }
}

/// S-18.6: whose a metablock is that is bad in every copy is told, whoever found it: of one of inodes all of them.
#[test]
fn files_of_a_lost_metablock_are_named() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let create = ["create", "--size", "64M", "--test", "--meta-copies", "1"];
    done(keepfs(create).arg(bed.pool()));
    bed.mount("");
    // More than the metablocks of the others hold, on whichever processor each is made.
    for n in 0..100 {
        fs::write(bed.on(&format!("small{n}")), "small").unwrap();
    }
    for name in ["read", "found"] {
        fs::write(bed.on(name), vec![1; 60_000]).unwrap();
    }
    let number = |name: &str| fs::metadata(bed.on(name)).unwrap().ino();
    let (read, found) = (number("read"), number("found"));
    let mates = (0..100).map(|n| format!("small{n}"));
    let mates: Vec<(String, u64)> = mates.map(|name| (name.clone(), number(&name))).collect();
    // Of a metablock of 15 inodes that has no other file.
    let is_with_others = |ino: u64| [1, read, found].iter().any(|other| other / 15 == ino / 15);
    let (small_name, small) = mates.iter().find(|(_, ino)| !is_with_others(*ino)).unwrap().clone();
    let of_small = |ino: u64| ino / 15 == small / 15;
    bed.unmount();
    bed.mount("");
    for (kind, ino) in [("map", read), ("map", found), ("inode", small)] {
        let words = [
            "scribble", "--at", "device", "--offset", "100", "--length", "9", "--kind", kind, "--ino",
        ];
        done(keepfs(["inject"]).arg(bed.dir()).args(words).arg(ino.to_string()));
    }
    bed.unmount();
    bed.mount("");
    assert!(fs::read(bed.on("read")).is_err() && fs::metadata(bed.on(&small_name)).is_err());
    // Nobody reads the other file; the scrub sees its node.
    run(keepfs(["scrub", "start", "--wait"]).arg(bed.dir()));
    let told = |of: &Path| {
        let said = listed(of);
        for (name, ino) in [("read", read), ("found", found)] {
            let words = format!("LOST /{name} (inode {ino}): metadata Nodes:");
            assert!(said.contains(&words), "{said}");
        }
        for (name, ino) in mates.iter().filter(|(_, ino)| of_small(*ino)) {
            let words = format!("LOST /{name} (inode {ino}): metadata Inodes:{}", small / 15);
            assert!(said.contains(&words), "{said}");
        }
        assert!(!said.contains("the pool: metadata"), "{said}");
        let (_, events) = files_told(of);
        assert!(events.contains(&format!(": /read (inode {read}): ")), "{events}");
    };
    told(&bed.dir());
    bed.unmount();
    told(&bed.pool());
}

/// S-21.12: of lost metadata of which nobody has found whose it is a check says it, without a server: its walk meets the reference.
#[test]
fn a_check_knows_whose_lost_metadata_is() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let create = ["create", "--size", "64M", "--test", "--meta-copies", "1"];
    done(keepfs(create).arg(bed.pool()));
    bed.mount("");
    fs::write(bed.on("file"), vec![1; 60_000]).unwrap();
    let ino = fs::metadata(bed.on("file")).unwrap().ino();
    bed.unmount();
    bed.mount("");
    let words = [
        "scribble", "--at", "device", "--offset", "100", "--length", "9", "--kind", "map", "--ino",
    ];
    done(keepfs(["inject"]).arg(bed.dir()).args(words).arg(ino.to_string()));
    bed.unmount();
    let pool = Pool::open(bed.pool(), &OpenOptions::default()).unwrap();
    assert!(pool.read("/file").is_err());
    // As if one had met it who does not know by which file, and learns nothing from its bytes.
    let history = pool.volume().store().history();
    let [known] = &history.damage()[..] else {
        panic!("{:?}", history.damage())
    };
    let mut nobodys = known.clone();
    (nobodys.inode, nobodys.path) = (0, Vec::new());
    history.clear_damage();
    history.note(nobodys);
    pool.close().unwrap();
    let check = || run(keepfs(["check"]).arg(bed.pool()));
    let said = String::from_utf8(check().stdout).unwrap();
    let known: Vec<&str> = said.lines().filter(|line| line.contains("[known-damage]")).collect();
    let words = format!("LOST /file (inode {ino}): metadata Nodes:");
    assert!(
        !known.is_empty() && known.iter().all(|line| line.contains(&words)),
        "{said}"
    );
}

/// S-18.13, S-5.9: what repeats is counted in the list of damages and is no event again, and what cannot be freed is not tried again at
/// each deletion.
#[test]
fn what_repeats_is_told_once() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "16M", "--test", "--meta-copies", "1"]).arg(bed.pool()));
    bed.mount("");
    fs::write(bed.on("file"), vec![1; 200_000]).unwrap();
    fs::write(bed.on("other"), vec![1; 9000]).unwrap();
    let ino = fs::metadata(bed.on("file")).unwrap().ino();
    rot_of(&bed, "other", fs::metadata(bed.on("other")).unwrap().ino());
    let first = told(&bed);
    bed.unmount();
    bed.mount("");
    let words = [
        "scribble",
        "--kind",
        "map",
        "--offset",
        "100",
        "--length",
        "500",
        "--pattern",
        "random",
        "--at",
        "device",
        "--ino",
    ];
    done(keepfs(["inject"]).arg(bed.dir()).args(words).arg(ino.to_string()));
    bed.unmount();
    bed.mount("");
    fs::remove_file(bed.on("file")).unwrap();
    for _ in 0..4 {
        (0..200).for_each(|n| fs::write(bed.on(&format!("n{n}")), "").unwrap());
        (0..200).for_each(|n| fs::remove_file(bed.on(&format!("n{n}"))).unwrap());
    }
    let now = told(&bed);
    assert_eq!((now.len(), &now[..1]), (2, &first[..1]), "{now:#?}");
    let list = run(keepfs(["damage", "list", "--json"]).arg(bed.dir())).stdout;
    let list: Value = serde_json::from_slice(&list).unwrap();
    let node = list["damage"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["metablock"].is_string());
    let count = number(&node.unwrap()["count"]);
    assert!((1..20).contains(&count), "{list:#}");
}

/// S-21.12: a check of data names the file of each bad page.
#[test]
fn a_check_names_the_file_of_a_bad_page() {
    let Some(bed) = Bed::with_a_file() else { return };
    rot(&bed);
    let ino = fs::metadata(bed.on("dir/file")).unwrap().ino();
    bed.unmount();
    let said = String::from_utf8(run(keepfs(["check", "--data"]).arg(bed.pool())).stdout).unwrap();
    assert!(
        said.contains(&format!("error: /dir/file (inode {ino}): page 0 of inode {ino} ")),
        "{said}"
    );
    // The next ones as well: one line for the file, each of them for programs.
    for offset in ["4096", "8192", "12288"] {
        let words = ["scribble", "--kind", "data", "--path", "/dir/file", "--offset", offset];
        done(keepfs(["inject"]).arg(bed.pool()).args(words));
    }
    let said = String::from_utf8(run(keepfs(["check", "--data"]).arg(bed.pool())).stdout).unwrap();
    let line = format!("error: 4 pages of /dir/file (inode {ino}), from page 0 to 3, cannot be read");
    assert!(
        said.contains(&line) && said.matches("[data-bad]").count() == 1,
        "{said}"
    );
    let checked = run(keepfs(["check", "--data", "--json"]).arg(bed.pool())).stdout;
    let checked: Value = serde_json::from_slice(&checked).unwrap();
    super::json::is_as_promised("check", &checked);
    let is_bad = |finding: &&Value| finding["code"] == "data-bad";
    let bad = checked["findings"].as_array().unwrap().iter().find(is_bad).unwrap();
    assert_eq!(bad["files"], json!([{"inode": ino, "path": "/dir/file"}]));
}

/// An offline check names what the pool knows to be lost, though a walk without the data meets nothing of it (S-18.6).
#[test]
fn a_check_names_what_is_known_to_be_lost() {
    let Some(bed) = Bed::with_a_file() else { return };
    let check = || {
        let checked: Value = serde_json::from_str(&done(keepfs(["check", "--json"]).arg(bed.pool()))).unwrap();
        super::json::is_as_promised("check", &checked);
        let paths = checked["known_damage"].as_array().unwrap().iter();
        let paths: Vec<Value> = paths.map(|entry| entry["path"].clone()).collect();
        (
            paths,
            done(keepfs(["check"]).arg(bed.pool())).contains("[known-damage]"),
        )
    };
    rot(&bed);
    bed.unmount();
    assert_eq!(check(), (vec!["/dir/file".into()], true));
    bed.mount("");
    fs::write(bed.on("dir/file"), vec![2; 30_000]).unwrap();
    bed.unmount();
    assert_eq!(check(), (vec![], false));
}

/// Who follows the events hears of deaths of servers, once each, and of refusals.
#[test]
fn a_follower_hears_of_deaths() {
    let Some(bed) = Bed::mounted("") else { return };
    let mut follow = keepfs(["events", "--follow"]);
    let mut follower = follow.arg(bed.dir()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    bed.end_server(Signal::KILL);
    let heard = lines.find_map(|line| line.ok().filter(|line| line.contains("signal 9")));
    assert!(heard.unwrap().contains("a server of this mount died"));
    bed.unmount();
    let more: Vec<String> = lines.map_while(Result::ok).collect();
    assert!(!more.iter().any(|line| line.contains("signal 9")), "{more:?}");
    assert!(follower.wait().unwrap().success());
}

/// What the journal hears until it hears `wanted`, in a namespace whose journal is the test's. `words` are done in a shell there, with
/// the program as $0, the pool and the mount point, until they read a line.
fn journal(bed: &Bed, words: &str, wanted: &str) -> String {
    fs::create_dir(bed.path("journal")).unwrap();
    let journal = UnixDatagram::bind(bed.path("journal/socket")).unwrap();
    // A journal that hears nothing is a failure, not a test that hangs.
    journal.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    fs::create_dir_all("/run/systemd/journal").unwrap();
    let words = format!(
        r#"mount --bind "$3" /run/systemd/journal && "$0" mount "$1" "$2" && {{ {words}; read -r _; "$0" unmount "$2"; }}"#
    );
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", &words, super::bed::KEEPFS]);
    shell.arg(bed.pool()).arg(bed.dir()).arg(bed.path("journal"));
    let mut shell = shell.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let mut message = [0; 8192];
    let heard = loop {
        let length = journal.recv(&mut message).unwrap();
        let said = String::from_utf8_lossy(&message[..length]).into_owned();
        if said.contains(wanted) {
            break said;
        }
    };
    writeln!(shell.stdin.take().unwrap()).unwrap();
    assert!(shell.wait().unwrap().success());
    heard
}

/// The journal has the death of a server, with fields.
#[test]
fn the_journal_has_deaths() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::new();
    let words = r#"kill -9 $("$0" status --json "$2" | grep -o '"server_pid": [0-9]*' | grep -o '[0-9]*') && ls "$2""#;
    let death = journal(&bed, words, "a server of this mount died");
    for field in [
        "PRIORITY=3".to_owned(),
        "SYSLOG_IDENTIFIER=keepfs".to_owned(),
        "KEEPFS_HOW=signal 9".to_owned(),
        "KEEPFS_DEATHS=1".to_owned(),
        format!("KEEPFS_POOL={}", bed.pool().display()),
        format!("KEEPFS_MOUNT={}", bed.dir().display()),
    ] {
        assert!(death.lines().any(|line| line == field), "{field}: {death}");
    }
}

/// S-18.15: behind an event the journal has the path of its file, which no control character leaves.
#[test]
fn the_journal_names_the_file() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M", "--test"]).arg(bed.pool()));
    let words = r#"name=$(printf 'a\033[31mfile'); head -c 30000 "$0" > "$2/$name"; sync -f "$2"; "$0" inject "$2" scribble --kind data --path "/$name"; echo 1 > /proc/sys/vm/drop_caches; cat "$2/$name" 2>&1"#;
    let said = journal(&bed, words, "KEEPFS_PATH=");
    for field in [
        "KEEPFS_PATH=$'/a\\e[31mfile'",
        "KEEPFS_EVENT=1",
        "SYSLOG_IDENTIFIER=keepfs",
    ] {
        assert!(said.lines().any(|line| line == field), "{field}: {said}");
    }
    assert!(said.contains("KEEPFS_INODE="), "{said}");
}
