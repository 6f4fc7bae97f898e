//! `keepfs check --repair`: pools that nothing mounts are mounted again, with all that a walk reaches, and can be taken back
//! (S-21.3, S-21.4, S-21.5, S-21.6, S-21.7, S-21.9). The engine judges: it mounts what was repaired, works on it and closes it.

use super::bed::{Bed, done, fails, keepfs, possible, run};
use super::damage::{PAGE, Seen, forgotten, grown, lost, map_of, other, pages_of, ruin, staged, tree};
use super::json::is_as_promised;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn repair(bed: &Bed) -> Command {
    let mut command = keepfs(["check", "--repair", "--json", "--undo-file"]);
    command.arg(bed.path("undo")).arg(bed.pool());
    command
}

fn answer(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    is_as_promised("repair", &answer);
    answer
}

/// Repairs, and lets the engine judge. What is in the pool then; the pool is unmounted.
#[track_caller]
fn repaired(bed: &Bed) -> BTreeMap<PathBuf, Seen> {
    let output = run(&mut repair(bed));
    let answer = answer(&output);
    let code = if answer["may_be_older"] == true { 5 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert_eq!(answer["errors_after"], 0);
    bed.check();
    bed.mount("");
    let found = tree(&bed.dir());
    for n in 0..20 {
        fs::write(bed.on(&format!("new{n}")), vec![n; 70_000]).unwrap();
    }
    (0..20).for_each(|n| fs::remove_file(bed.on(&format!("new{n}"))).unwrap());
    bed.unmount();
    bed.check();
    bed.mount("");
    assert!(tree(&bed.dir()).len() == found.len());
    bed.unmount();
    found
}

/// The content of the files, by path: times of directories that were made anew are others.
fn same(was: &BTreeMap<PathBuf, Seen>, found: &BTreeMap<PathBuf, Seen>) {
    for (path, seen) in was {
        let is_small = seen.content.len() < 100;
        let shown = (is_small.then_some(seen), is_small.then_some(found.get(path)));
        assert!(found.get(path) == Some(seen), "{path:?} is another: {shown:?}");
    }
    assert_eq!(was.len(), found.len());
}

#[test]
fn what_a_walk_computes_is_computed() {
    for space in ["Pages", "Totals", "Homes", "InodeNumbers", "NodeNumbers"] {
        let Some((bed, was)) = grown() else { return };
        ruin(&bed, &pages_of(&bed, space));
        fails(keepfs(["check"]).arg(bed.pool()));
        same(&was, &repaired(&bed));
    }
}

#[test]
fn all_of_it_and_the_map_at_once() {
    let Some((bed, was)) = grown() else { return };
    let spaces = ["Pages", "Totals", "Homes", "InodeNumbers", "NodeNumbers"];
    let pages: Vec<u64> = spaces.iter().flat_map(|space| pages_of(&bed, space)).collect();
    ruin(&bed, &[pages, map_of(&bed)].concat());
    let other = other(&was, &repaired(&bed));
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn metadata_that_a_device_did_not_keep_may_be_files() {
    let Some(bed) = forgotten() else { return };
    let output = run(keepfs(["check", "--repair", "--undo-file"])
        .arg(bed.path("undo"))
        .arg(bed.pool()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.contains("no errors are left; but files may be missing, or older than they were"),
        "{said}"
    );
    let listed = run(keepfs(["damage", "list"]).arg(bed.pool()));
    let listed_text = String::from_utf8_lossy(&listed.stdout);
    assert_eq!(listed.status.code(), Some(1), "{listed_text}");
    for map in ["map:Nodes/0/0", "map:Inodes/0/0"] {
        let told = format!("LOST perhaps, files, or what was written last of them: {map}, which led to them");
        assert!(listed_text.contains(&told), "{listed_text}");
    }
    bed.check();
    // It is told until somebody takes note, and not a second time.
    let again = run(&mut repair(&bed));
    assert_eq!(again.status.code(), Some(0), "{again:?}");
}

#[test]
fn the_root_directory_is_made_again() {
    let Some((bed, was)) = grown() else { return };
    ruin(&bed, &pages_of(&bed, "Inodes:0"));
    let found = repaired(&bed);
    let missing = lost(&was, &found);
    assert!(missing.len() <= 13, "{missing:?}");
    // Names of lost inodes are gone, so what was lost can be made again.
    bed.mount("");
    fs::write(bed.on("many/file3"), "again").unwrap();
    fs::remove_dir_all(bed.on("many")).unwrap();
    bed.unmount();
    bed.check();
}

#[test]
fn files_of_lost_directories_are_in_lost_and_found() {
    let Some((bed, was)) = grown() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    let nodes = map["map"].as_array().unwrap().iter();
    // Kinds 2 and 3 are nodes of directories.
    let of_directories = nodes.filter(|row| row["live"] == true && [2, 3].contains(&row["kind"].as_u64().unwrap()));
    let pages = of_directories.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()]);
    ruin(&bed, &pages.collect::<Vec<_>>());
    let found = repaired(&bed);
    assert!(lost(&was, &found).is_empty(), "{:?}", lost(&was, &found));
    assert!(found.keys().any(|path| path.starts_with("./lost+found")));
}

/// S-21.11: what a repair gave up has its name in the pool's own list, wherever that is asked for, until somebody takes note of it.
#[test]
fn what_is_given_up_is_told_by_its_name() {
    let Some((bed, was)) = grown() else { return };
    // The root directory and its first files; and all that leads to pages of larger ones.
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    let nodes = map["map"].as_array().unwrap().iter();
    let of_files = nodes.filter(|row| row["live"] == true && row["kind"] == 4);
    let of_files = of_files.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()]);
    ruin(&bed, &[pages_of(&bed, "Inodes:0"), of_files.collect()].concat());
    let broken = fs::read(bed.pool()).unwrap();
    let output = run(&mut repair(&bed));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = |asked: &Path| {
        let output = run(keepfs(["damage", "list", "--json"]).arg(asked));
        let list: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_as_promised("damage", &list);
        let list = list["damage"].as_array().unwrap().clone();
        list.into_iter()
            .filter(|entry| entry["done"] == "given up")
            .collect::<Vec<_>>()
    };
    let list = told(&bed.pool());
    let status = done(keepfs(["status"]).arg(bed.pool()));
    assert!(status.contains("a repair gave up"), "{status}");
    bed.mount("");
    assert_eq!(told(&bed.dir()), list);
    let status = done(keepfs(["status"]).arg(bed.dir()));
    assert!(
        status.contains("DEGRADED") && status.contains("a repair gave up"),
        "{status}"
    );
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert!(events.contains("gave up"), "{events}");
    // Not by reading: some pages of what is left are lost.
    let is_there = |path: &Path| fs::symlink_metadata(bed.dir().join(path)).is_ok();
    let missing: Vec<&PathBuf> = was.keys().filter(|path| !is_there(path)).collect();
    assert!(!missing.is_empty());
    let whole: Vec<&str> = list
        .iter()
        .filter(|entry| entry["length"] == 0)
        .map(|e| e["path"].as_str().unwrap())
        .collect();
    for path in missing {
        let path = path.to_str().unwrap().trim_start_matches('.');
        assert!(whole.contains(&path), "{path}: {list:#?}");
    }
    let is_part = |entry: &&Value| entry["length"] != 0 && entry["metablock"].is_null();
    let parts: Vec<&str> = list
        .iter()
        .filter(is_part)
        .map(|entry| entry["path"].as_str().unwrap())
        .collect();
    assert!(parts.contains(&"/deep/er/large"), "{list:#?}");
    // It is not whole because somebody writes there.
    for n in 0..20 {
        fs::write(bed.on(&format!("new{n}")), "new").unwrap();
    }
    assert_eq!(told(&bed.dir()), list);
    done(keepfs(["damage", "clear"]).arg(bed.dir()));
    let status = done(keepfs(["status"]).arg(bed.dir()));
    assert!(!status.contains("gave up"), "{status}");
    bed.unmount();
    assert_eq!(told(&bed.pool()), Vec::<Value>::new());
    // What is taken back was never given up.
    fs::write(bed.pool(), &broken).unwrap();
    fs::remove_file(bed.path("undo")).unwrap();
    run(&mut repair(&bed));
    done(keepfs(["check", "--undo"]).arg(bed.path("undo")).arg(bed.pool()));
    assert!(fs::read(bed.pool()).unwrap() == broken);
}

/// S-21.12: what a check finds, and what a repair does and gives up, has the paths of before.
#[test]
fn what_is_lost_is_named_before_it_is_given_up() {
    let Some((bed, _)) = grown() else { return };
    bed.mount("");
    // Where numbers are given away differs; of what lies below a directory that is lost nobody knows the path.
    let mut blocks: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
    for n in 3..40 {
        let name = format!("file{n}");
        let ino = fs::metadata(bed.on("many").join(&name)).unwrap().ino();
        blocks.entry(ino / 15).or_default().push((ino, name));
    }
    for dir in ["", "many"] {
        blocks.remove(&(fs::metadata(bed.on(dir)).unwrap().ino() / 15));
    }
    bed.unmount();
    let (block, names) = blocks.into_iter().max_by_key(|(_, names)| names.len()).unwrap();
    let (ino, name) = &names[0];
    ruin(&bed, &pages_of(&bed, &format!("Inodes:{block}")));
    let checked = run(keepfs(["check", "--json"]).arg(bed.pool()));
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    is_as_promised("check", &checked);
    let is_it = |finding: &&Value| finding["code"] == "metablock-bad";
    let lost = checked["findings"].as_array().unwrap().iter().find(is_it).unwrap();
    let files = lost["files"].as_array().unwrap();
    let file = json!({"inode": ino, "path": format!("/many/{name}")});
    assert!(files.contains(&file) && files.len() > 4, "{lost:#}");
    let check = String::from_utf8(run(keepfs(["check"]).arg(bed.pool())).stdout).unwrap();
    assert!(
        check.contains("error: /") && check.contains(" more files: no copy of "),
        "{check}"
    );
    let removed = format!("/many/{name} (inode {ino}): name \"{name}\" of directory ");
    let planned = run(keepfs(["check", "--repair", "--dry-run"]).arg(bed.pool()));
    let planned = String::from_utf8(planned.stdout).unwrap();
    assert!(planned.contains(&removed), "{planned}");
    let repaired = answer(&run(&mut repair(&bed)));
    let done = repaired["actions"].as_array().unwrap();
    assert!(
        done.iter().any(|action| action.as_str().unwrap().starts_with(&removed)),
        "{repaired:#}"
    );
    let given_up = repaired["given_up"].as_array().unwrap();
    assert!(
        given_up.iter().any(|entry| entry["path"] == format!("/many/{name}")),
        "{repaired:#}"
    );
}

/// What lay where only root could look is not put where others can.
#[test]
fn a_lost_and_found_of_somebody_else_is_not_taken() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::create_dir(bed.on("lost+found")).unwrap();
    fs::set_permissions(bed.on("lost+found"), fs::Permissions::from_mode(0o777)).unwrap();
    std::os::unix::fs::chown(bed.on("lost+found"), Some(1000), Some(1000)).unwrap();
    fs::create_dir(bed.on("private")).unwrap();
    fs::write(bed.on("private/secret"), "secret").unwrap();
    bed.unmount();
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    // That of the root, which came first, and its own; what is empty has none.
    let [_, own] = &map["map"].as_array().unwrap()[..] else {
        panic!("{text}")
    };
    let pages = ["first", "second"].map(|copy| own[copy].as_u64().unwrap());
    ruin(&bed, &pages);
    let out = bed.path("out");
    let salvaged = run(keepfs(["salvage", "--json"]).arg(bed.pool()).arg(&out));
    let salvaged: Value = serde_json::from_slice(&salvaged.stdout).unwrap();
    assert_eq!(salvaged["nameless_dir"], "lost+found~", "{salvaged}");
    is_as_promised("salvage", &salvaged);
    let said = answer(&run(&mut repair(&bed)));
    assert!(said["actions"].to_string().contains("becomes lost+found~/#"), "{said}");
    bed.mount("");
    for top in [out, bed.dir()] {
        let made = fs::metadata(top.join("lost+found~")).unwrap();
        assert_eq!((made.uid(), made.mode() & 0o7777), (0, 0o700), "{}", top.display());
        assert_eq!(fs::read_dir(top.join("lost+found~")).unwrap().count(), 1);
        assert_eq!(fs::read_dir(top.join("lost+found")).unwrap().count(), 0);
    }
}

/// A file of this size with a little data here and there, and the pages of the root of its block map.
fn sparse(size: u64) -> Option<(Bed, Vec<u64>)> {
    let bed = Bed::mounted("")?;
    let file = File::create(bed.on("sparse")).unwrap();
    file.set_len(size).unwrap();
    for n in 0..20 {
        file.write_all_at(&[7; 5000], n * (size / 20)).unwrap();
    }
    fs::write(bed.on("beside"), [8; 9000]).unwrap();
    drop(file);
    bed.unmount();
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    let pool = File::open(bed.pool()).unwrap();
    // Kind 4 is that of block maps; the level stands at byte 5.
    let rows = map["map"].as_array().unwrap().iter().filter(|row| row["kind"] == 4);
    let level = |row: &&Value| {
        let mut level = [0];
        pool.read_exact_at(&mut level, row["first"].as_u64().unwrap() * PAGE + 5)
            .unwrap();
        level
    };
    let root = rows.max_by_key(level).unwrap();
    let pages = ["first", "second"].map(|copy| root[copy].as_u64().unwrap());
    Some((bed, pages.to_vec()))
}

/// More lost pages than a check lists are no errors (S-21.7).
#[test]
fn a_file_of_many_lost_pages_is_sound() {
    let Some((bed, root)) = sparse(1 << 30) else { return };
    ruin(&bed, &root);
    let output = run(&mut repair(&bed));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = answer(&output);
    assert_eq!(said["errors_after"], 0, "{said}");
    assert!(said["actions"].to_string().contains("262144 pages of inode"), "{said}");
    let output = run(keepfs(["check", "--json"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    is_as_promised("check", &checked);
    assert_eq!(
        (&checked["dropped"], &checked["dropped_errors"]),
        (&252_144.into(), &0.into())
    );
    let told = done(keepfs(["check"]).arg(bed.pool()));
    assert!(told.contains("and 252144 warnings and notes more"), "{told}");
    // A line for those of one file.
    assert_eq!(told.matches("[data-lost]").count(), 1, "{told}");
    assert!(told.contains("10000 pages of /sparse"), "{told}");
    let output = run(&mut repair(&bed));
    assert_eq!((output.status.code(), &answer(&output)["pages"]), (Some(0), &0.into()));
    bed.mount("");
    assert_eq!(fs::read(bed.on("beside")).unwrap(), [8; 9000]);
    let file = File::open(bed.on("sparse")).unwrap();
    assert!(file.read_at(&mut [0; 100], 0).is_err() && file.metadata().unwrap().len() == 1 << 30);
    drop(file);
    fs::remove_file(bed.on("sparse")).unwrap();
    bed.unmount();
    bed.check();
}

/// The bad one of two copies is written anew, and a repair of what was repaired has nothing to do.
#[test]
fn a_bad_copy_beside_a_good_one_is_written_anew() {
    let Some((bed, was)) = grown() else { return };
    let slots: Vec<u64> = (0..4).map(|slot| slot * (64 << 20) / PAGE / 4).collect();
    // One slot of the newest superblock, whichever that is, and one copy of inodes and of a map page.
    let [inodes, _] = pages_of(&bed, "Inodes:0")[..] else {
        panic!()
    };
    let text = done(keepfs(["check"]).arg(bed.pool()));
    assert!(!text.contains("warning"), "{text}");
    let slot = slots.iter().find(|slot| {
        let image = fs::read(bed.pool()).unwrap();
        ruin(&bed, &[**slot]);
        let is_copy = done(keepfs(["check"]).arg(bed.pool())).contains("[superblock-copy]");
        if !is_copy {
            fs::write(bed.pool(), image).unwrap();
        }
        is_copy
    });
    assert!(slot.is_some());
    ruin(&bed, &[inodes, map_of(&bed)[0]]);
    let text = done(keepfs(["check"]).arg(bed.pool()));
    assert_eq!(text.matches("[metablock-copy]").count(), 2, "{text}");
    let output = run(keepfs(["check", "--repair", "--dry-run", "--json"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = answer(&output)["actions"].to_string();
    assert!(
        said.contains("metablock Inodes:0 is written anew from its good copy") && said.contains("superblock slot"),
        "{said}"
    );
    same(&was, &repaired(&bed));
    let text = done(keepfs(["check"]).arg(bed.pool()));
    assert!(!text.contains("warning"), "{text}");
    fs::remove_file(bed.path("undo")).unwrap();
    let output = run(&mut repair(&bed));
    assert_eq!((output.status.code(), &answer(&output)["pages"]), (Some(0), &0.into()));
}

fn slots_of(bed: &Bed) -> Vec<u64> {
    let pages = fs::metadata(bed.pool()).unwrap().len() / PAGE;
    (0..4).map(|slot| slot * pages / 4).collect()
}

/// What a check warns of, but for what the pool's own list has of an earlier repair (S-21.11).
fn warnings(bed: &Bed) -> Vec<String> {
    let text = done(keepfs(["check"]).arg(bed.pool()));
    let lines = text
        .lines()
        .filter(|line| line.starts_with("warning") && !line.ends_with("[known-damage]"));
    lines.map(str::to_owned).collect()
}

/// S-21.10: no sound pool looks as if a generation of superblocks were lost, however young it is, and wherever it was left.
#[test]
fn sound_pools_have_lost_no_superblock() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let create = |words: &[&str]| drop(done(keepfs(["create"]).args(words).arg(bed.pool())));
    create(&["--size", "64M"]);
    for round in 0..2 {
        for n in 0..10 {
            assert!(warnings(&bed).is_empty(), "round {round}, {n} mounts");
            let mounted = run(&mut bed.mounting("keeper=off,commit=3600"));
            assert!(mounted.status.success() && mounted.stderr.is_empty(), "{mounted:?}");
            fs::write(bed.on("file"), vec![n; 5000]).unwrap();
            done(Command::new("sync").arg("-f").arg(bed.dir()));
            match n % 3 {
                1 => {
                    bed.end_server(Signal::KILL);
                    bed.unmount_dead();
                }
                _ => bed.unmount(),
            }
        }
        done(keepfs(["set", "label=other"]).arg(bed.pool()));
        assert!(warnings(&bed).is_empty());
        done(keepfs(["grow", "--size", "96M"]).arg(bed.pool()));
        assert!(warnings(&bed).is_empty());
        create(&["--force", "--size", "64M"]);
    }
    // One that has grown first of all.
    done(keepfs(["grow", "--size", "128M"]).arg(bed.pool()));
    assert!(warnings(&bed).is_empty());
}

/// S-21.22: each mount that changes nothing does, in one sentence and as an event.
fn a_mount_warns_of_it(bed: &Bed) {
    for _ in 0..2 {
        let mounted = run(&mut bed.mounting("ro"));
        assert!(mounted.status.success(), "{mounted:?}");
        let said = String::from_utf8(mounted.stderr).unwrap();
        assert!(said.contains("generation of superblocks"), "{said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
        let events = done(keepfs(["events"]).arg(bed.dir()));
        assert!(events.contains("generation of superblocks"), "{events}");
        bed.unmount();
    }
}

/// S-21.3, S-21.10: it may have been the older or the newer one; a check warns, a repair says so and leaves two behind.
#[test]
fn a_generation_of_superblocks_that_is_lost_is_told() {
    let Some((bed, _)) = grown() else { return };
    let image = fs::read(bed.pool()).unwrap();
    let slots = slots_of(&bed);
    for zeros in [false, true] {
        for lost in [[slots[0], slots[2]], [slots[1], slots[3]]] {
            fs::write(bed.pool(), &image).unwrap();
            match zeros {
                false => ruin(&bed, &lost),
                true => {
                    let file = File::options().write(true).open(bed.pool()).unwrap();
                    lost.iter()
                        .for_each(|page| file.write_all_at(&[0; PAGE as usize], page * PAGE).unwrap());
                }
            }
            if possible() {
                a_mount_warns_of_it(&bed);
            }
            let warned = warnings(&bed);
            let [warning] = &warned[..] else { panic!("{warned:?}") };
            assert!(
                warning.contains("[superblock-beside]") || warning.contains("[superblock-newer]"),
                "{warning}"
            );
            let output = run(&mut repair(&bed));
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let said = answer(&output);
            let actions = said["actions"].to_string();
            assert!(
                actions.contains("get one") || actions.contains("goes back to generation"),
                "{actions}"
            );
            assert!(warnings(&bed).is_empty());
            fs::remove_file(bed.path("undo")).unwrap();
            let output = run(&mut repair(&bed));
            assert_eq!((output.status.code(), &answer(&output)["pages"]), (Some(0), &0.into()));
            bed.mount("");
            bed.unmount();
            bed.check();
        }
    }
}

/// S-21.9, S-21.21: nothing but the superblocks is lost.
#[test]
fn a_superblock_is_made_where_none_is_left() {
    let Some((bed, was)) = grown() else { return };
    ruin(&bed, &slots_of(&bed));
    let broken = fs::read(bed.pool()).unwrap();
    let output = run(keepfs(["check", "--repair", "--dry-run", "--json"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = answer(&output);
    assert!(said["actions"].to_string().contains("a superblock is made"), "{said}");
    assert!(fs::read(bed.pool()).unwrap() == broken);
    let output = run(&mut repair(&bed));
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    // There are two generations again.
    let warned = warnings(&bed);
    assert!(!warned.iter().any(|line| line.contains("superblock")), "{warned:?}");
    let repaired_bytes = fs::read(bed.pool()).unwrap();
    let slots = slots_of(&bed);
    // It can be taken back, also if it was cut short before its superblocks, or between them.
    for cut in [&[][..], &slots, &[slots[0], slots[2]], &[slots[1], slots[3]]] {
        fs::write(bed.pool(), &repaired_bytes).unwrap();
        ruin(&bed, cut);
        done(keepfs(["check", "--undo"]).arg(bed.path("undo")).arg(bed.pool()));
        assert!(fs::read(bed.pool()).unwrap() == broken);
    }
    fs::remove_file(bed.path("undo")).unwrap();
    let other = other(&was, &repaired(&bed));
    assert!(other.is_empty(), "{other:?}");
    fs::remove_file(bed.path("undo")).unwrap();
    let output = run(&mut repair(&bed));
    assert_eq!((output.status.code(), &answer(&output)["pages"]), (Some(0), &0.into()));
}

/// Where nothing tells the size, or another format has come, none is made.
#[test]
fn a_superblock_is_not_made_of_remains() {
    let Some((bed, _)) = grown() else { return };
    ruin(&bed, &slots_of(&bed));
    let file = File::options().write(true).open(bed.pool()).unwrap();
    // ext4 tells itself at 1080.
    file.write_all_at(&[0x53, 0xef], 1080).unwrap();
    let broken = fs::read(bed.pool()).unwrap();
    let (code, said) = fails(&mut repair(&bed));
    assert!(code == 8 && said.contains("begins as ext"), "{said}");
    assert!(fs::read(bed.pool()).unwrap() == broken);
    file.write_all_at(&[0, 0], 1080).unwrap();
    file.set_len(100 << 20).unwrap();
    let output = run(&mut repair(&bed));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(answer(&output)["refused"].to_string().contains("keepfs salvage"));
}

/// One file does not keep a pool from being repaired, whatever its size.
#[test]
fn a_file_too_large_to_be_marked_is_cut() {
    let Some((bed, root)) = sparse(1 << 40) else { return };
    ruin(&bed, &[root, pages_of(&bed, "Pages")].concat());
    let found = repaired(&bed);
    assert_eq!(found[Path::new("./beside")].content, [8; 9000]);
    assert!(found[Path::new("./sparse")].content.is_empty());
}

#[test]
fn what_the_log_alone_has_is_kept() {
    let Some((cut, content)) = staged(5000) else { return };
    ruin(&cut, &pages_of(&cut, "Pages"));
    assert!(repaired(&cut)[Path::new("./file")].content == content);
}

#[test]
fn it_is_said_first_and_can_be_taken_back() {
    let Some((bed, _)) = grown() else { return };
    ruin(&bed, &[pages_of(&bed, "Pages"), pages_of(&bed, "Inodes:0")].concat());
    let broken = fs::read(bed.pool()).unwrap();
    let output = run(keepfs(["check", "--repair", "--dry-run", "--json"]).arg(bed.pool()));
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let said = answer(&output);
    assert!(
        said["actions"].to_string().contains("Pages:0 is computed anew"),
        "{said}"
    );
    assert!(fs::read(bed.pool()).unwrap() == broken);
    let done_now = run(&mut repair(&bed));
    assert_eq!(answer(&done_now)["actions"], said["actions"]);
    // The file is not written over.
    let (code, said) = fails(&mut repair_of_broken(&bed, &broken));
    assert!(code == 8 && said.contains("--undo-file"), "{said}");
    run(keepfs(["check", "--undo"]).arg(bed.path("undo")).arg(bed.pool()));
    assert!(fs::read(bed.pool()).unwrap() == broken);
    // Of a pool that was used since, it is refused.
    fs::remove_file(bed.path("undo")).unwrap();
    repaired(&bed);
    let used = fs::read(bed.pool()).unwrap();
    let (code, said) = fails(keepfs(["check", "--undo"]).arg(bed.path("undo")).arg(bed.pool()));
    assert!(code == 8 && said.contains("since it was repaired"), "{said}");
    assert!(fs::read(bed.pool()).unwrap() == used);
}

/// A repair of another pool, which is broken, with the same undo file; that pool stays as it is.
fn repair_of_broken(bed: &Bed, broken: &[u8]) -> Command {
    fs::write(bed.path("other"), broken).unwrap();
    let mut command = keepfs(["check", "--repair", "--undo-file"]);
    command.arg(bed.path("undo")).arg(bed.path("other"));
    command
}

#[test]
fn a_pool_that_is_whole_and_one_in_use_are_left_alone() {
    let Some((bed, _)) = grown() else { return };
    let whole = fs::read(bed.pool()).unwrap();
    let output = run(&mut repair(&bed));
    assert_eq!(
        (output.status.code(), &answer(&output)["repaired"]),
        (Some(0), &Value::Bool(false))
    );
    assert!(fs::read(bed.pool()).unwrap() == whole && !bed.path("undo").exists());
    bed.mount("");
    let (code, said) = fails(&mut repair(&bed));
    assert!(code == 8 && said.contains("in use"), "{said}");
    bed.unmount();
    fs::write(bed.path("none"), vec![0; 4 << 20]).unwrap();
    let output = run(keepfs(["check", "--repair", "--json"]).arg(bed.path("none")));
    assert_eq!(output.status.code(), Some(4));
    assert!(answer(&output)["refused"].to_string().contains("keepfs salvage"));
}

/// The slots of the greatest generation.
fn newest_slots(bed: &Bed) -> Vec<u64> {
    let file = File::open(bed.pool()).unwrap();
    let generation = |page: u64| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, page * PAGE + 104).unwrap();
        u64::from_le_bytes(bytes)
    };
    let slots = slots_of(bed);
    let newest = slots.iter().map(|page| generation(*page)).max();
    slots
        .into_iter()
        .filter(|page| Some(generation(*page)) == newest)
        .collect()
}

/// What the slots of a lost superblock hold.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Stale,
    Bits,
    Zeros,
}

fn lose(image: &mut [u8], older: &[u8], page: u64, how: Slot) {
    let bytes = (page * PAGE) as usize..((page + 1) * PAGE) as usize;
    match how {
        Slot::Stale => image[bytes.clone()].copy_from_slice(&older[bytes]),
        // More than a slot is read without (S-2.27).
        Slot::Bits => [100, 102].into_iter().for_each(|at| image[bytes.start + at] ^= 4),
        Slot::Zeros => image[bytes].fill(0),
    }
}

/// A file that holds its name is made and synced.
fn write_synced(bed: &Bed, name: &str) {
    fs::write(bed.on(name), name).unwrap();
    File::open(bed.on(name)).unwrap().sync_all().unwrap();
}

/// The pool goes on from what it had `before`, over mounts.
fn goes_on(bed: &Bed, what: &str) {
    for name in ["one", "two"] {
        bed.mount("keeper=off");
        write_synced(bed, name);
        bed.unmount();
    }
    bed.check();
    bed.mount("ro,keeper=off");
    let has = |name: &&str| bed.on(name).exists();
    assert!(["before", "one", "two"].iter().all(has), "{what}");
    bed.unmount();
}

/// S-9.12, S-21.10, S-21.24: a device dropped the writes of the newest superblock, and its slots hold an older one. Check, salvage and
/// repair call that no more whole than the mount does, and a repair of it goes on from the one before, with bad metablocks, too.
#[test]
fn a_stale_newest_superblock_is_a_lost_one() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "16M"]).arg(bed.pool()));
    let write = |name: &str| write_synced(&bed, name);
    bed.mount("keeper=off");
    write("before");
    bed.unmount();
    let older = fs::read(bed.pool()).unwrap();
    bed.mount("keeper=off,commit=3600");
    (0..2).for_each(|n| write(&format!("lost{n}")));
    bed.end_server(Signal::KILL);
    bed.unmount_dead();
    let whole = fs::read(bed.pool()).unwrap();
    let (newest, all) = (newest_slots(&bed), slots_of(&bed));
    let metablocks = ["Pages", "Totals", "Homes"];
    let two = |first, second| vec![(newest[0], first), (newest[1], second)];
    let cases = [
        (two(Slot::Stale, Slot::Stale), &[][..]),
        (two(Slot::Stale, Slot::Bits), &[]),
        (two(Slot::Zeros, Slot::Stale), &[]),
        (all.iter().map(|page| (*page, Slot::Stale)).collect(), &[]),
        (two(Slot::Stale, Slot::Stale), &metablocks),
    ];
    for (slots, bad) in cases {
        let what = format!("{slots:?}, {bad:?} bad");
        let mut image = whole.clone();
        slots
            .iter()
            .for_each(|(page, how)| lose(&mut image, &older, *page, *how));
        fs::write(bed.pool(), &image).unwrap();
        let pages: Vec<u64> = bad.iter().flat_map(|space| pages_of(&bed, space)).collect();
        ruin(&bed, &pages);
        let output = run(keepfs(["check"]).arg(bed.pool()));
        let said = String::from_utf8_lossy(&output.stdout);
        let is_told =
            said.contains("superblock-newer") && !said.contains("no errors") && !said.contains("closed properly");
        assert!(output.status.code() == Some(4) && is_told, "{what}: {said}");
        let output = run(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.code() == Some(3) && !said.contains("everything was copied"),
            "{what}: {said}"
        );
        assert_eq!(fs::read(bed.path("out/before")).unwrap(), b"before", "{what}");
        fs::remove_dir_all(bed.path("out")).unwrap();
        let (_, said) = fails(keepfs(["mount"]).args([bed.pool(), bed.dir()]));
        assert!(!bad.is_empty() || said.contains("newest superblock"), "{what}: {said}");
        let output = run(&mut repair(&bed));
        assert_eq!(output.status.code(), Some(1), "{what}: {output:?}");
        fs::remove_file(bed.path("undo")).unwrap();
        goes_on(&bed, &what);
    }
}

/// S-9.12: behind a crash both slots of the newest superblock are lost. Nothing of it is passed over in silence, and whoever goes on from
/// the one before is not refused later.
#[test]
fn the_newest_superblock_is_lost_behind_a_crash() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M"]).arg(bed.pool()));
    let write = |name: &str| write_synced(&bed, name);
    bed.mount("keeper=off,commit=3600");
    write("before");
    bed.unmount();
    bed.mount("keeper=off,commit=3600");
    (0..20).for_each(|n| write(&format!("lost{n}")));
    bed.end_server(Signal::KILL);
    bed.unmount_dead();
    ruin(&bed, &newest_slots(&bed));
    let image = fs::read(bed.pool()).unwrap();
    let output = run(keepfs(["check"]).arg(bed.pool()));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.code() == Some(4) && said.contains("superblock-newer"),
        "{output:?}"
    );
    let (_, said) = fails(keepfs(["mount"]).args([bed.pool(), bed.dir()]));
    assert!(
        said.contains("newest superblock") && said.contains("-o cut-log"),
        "{said}"
    );
    bed.mount("ro,keeper=off");
    assert!(bed.on("before").exists() && !bed.on("lost0").exists());
    bed.unmount();
    for repairs in [false, true] {
        fs::write(bed.pool(), &image).unwrap();
        match repairs {
            true => assert_eq!(run(&mut repair(&bed)).status.code(), Some(1)),
            false => {
                bed.mount("cut-log,keeper=off");
                bed.unmount();
            }
        }
        goes_on(&bed, if repairs { "repaired" } else { "cut" });
    }
}
