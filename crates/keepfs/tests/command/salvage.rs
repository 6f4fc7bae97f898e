//! `keepfs salvage`: what comes out of pools that are whole, and of such as no mount would take (S-21.1, S-21.2).

use super::bed::{Bed, done, fails, keepfs, run};
use super::json::is_as_promised;
use rustix::fs::{CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Output;

const PAGE: u64 = 4096;

/// What can be seen of a file, but for what a copy cannot have: number, blocks and time of change.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    mode: u32,
    owner: (u32, u32),
    links: u64,
    device: u64,
    modified: (i64, i64),
    content: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Everything below a directory, by path; the directory itself is ".".
fn tree(top: &Path) -> BTreeMap<PathBuf, Seen> {
    let (mut seen, mut left) = (BTreeMap::new(), vec![PathBuf::from(".")]);
    while let Some(path) = left.pop() {
        let full = top.join(&path);
        let meta = fs::symlink_metadata(&full).unwrap();
        if meta.is_dir() {
            left.extend(
                fs::read_dir(&full)
                    .unwrap()
                    .map(|entry| path.join(entry.unwrap().file_name())),
            );
        }
        seen.insert(path, look(&full, &meta));
    }
    seen
}

fn look(path: &Path, meta: &fs::Metadata) -> Seen {
    let content = if meta.is_symlink() {
        fs::read_link(path).unwrap().into_os_string().into_encoded_bytes()
    } else if meta.is_file() {
        fs::read(path).unwrap()
    } else {
        Vec::new()
    };
    Seen {
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        links: if meta.is_dir() { 0 } else { meta.nlink() },
        device: meta.rdev(),
        modified: (meta.mtime(), meta.mtime_nsec()),
        content,
        attributes: attributes(path),
    }
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = vec![0; 65536];
    let n = rustix::fs::llistxattr(path, &mut names[..]).unwrap();
    let names = names[..n].split(|b| *b == 0).filter(|name| !name.is_empty());
    let value = |name: &[u8]| {
        let mut value = vec![0; 65536];
        let n = rustix::fs::lgetxattr(path, name, &mut value[..]).unwrap();
        value.truncate(n);
        value
    };
    names.map(|name| (name.to_vec(), value(name))).collect()
}

/// A tree with one of each: 40 small files, a large one with holes, links, attributes, a FIFO, a device.
fn plant(top: &Path) {
    for dir in ["many", "deep/er", "empty"] {
        fs::create_dir_all(top.join(dir)).unwrap();
    }
    for n in 0..40 {
        fs::write(top.join(format!("many/file{n}")), vec![n as u8 + 1; 3000 + 1000 * n]).unwrap();
    }
    let large = File::create(top.join("deep/er/large")).unwrap();
    large.set_len(40 << 20).unwrap();
    for at in [0, 5 << 20, 39 << 20] {
        large.write_all_at(&[0x5c; 10_000], at).unwrap();
    }
    fs::write(top.join("inline"), "a few bytes").unwrap();
    fs::hard_link(top.join("inline"), top.join("deep/second name")).unwrap();
    symlink("../inline", top.join("deep/short")).unwrap();
    symlink("x".repeat(300), top.join("deep/long")).unwrap();
    let special = |name: &str, kind, device| {
        rustix::fs::mknodat(CWD, top.join(name), kind, Mode::RUSR, device).unwrap();
    };
    special("fifo", FileType::Fifo, 0);
    special("null", FileType::CharacterDevice, rustix::fs::makedev(1, 3));
    let set = |name: &str, attribute: &str, value: &[u8]| {
        rustix::fs::setxattr(top.join(name), attribute, value, XattrFlags::empty()).unwrap();
    };
    set("inline", "user.short", b"1");
    set("many/file3", "user.long", &[7; 2000]);
    set("many", "trusted.told", b"directory");
    rustix::fs::chown(
        top.join("many/file4"),
        Some(Uid::from_raw(1234)),
        Some(Gid::from_raw(99)),
    )
    .unwrap();
    rustix::fs::chmod(top.join("many/file4"), Mode::from_raw_mode(0o4751)).unwrap();
    let then = Timespec {
        tv_sec: 1_000_000_000,
        tv_nsec: 123_456_789,
    };
    let times = Timestamps {
        last_access: then,
        last_modification: then,
    };
    for name in ["many/file5", "many"] {
        rustix::fs::utimensat(CWD, top.join(name), &times, rustix::fs::AtFlags::empty()).unwrap();
    }
}

/// A pool with the tree in it, unmounted, and the tree as it was.
fn planted() -> Option<(Bed, BTreeMap<PathBuf, Seen>)> {
    let bed = Bed::mounted("")?;
    plant(&bed.dir());
    let was = tree(&bed.dir());
    bed.unmount();
    Some((bed, was))
}

fn salvage(bed: &Bed) -> Output {
    let before = fs::read(bed.pool()).unwrap();
    let output = run(keepfs(["salvage", "--json"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(fs::read(bed.pool()).unwrap() == before, "the pool was written to");
    output
}

fn answer(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    is_as_promised("salvage", &answer);
    answer
}

/// Pages where metablocks are, both copies.
fn pages_of(bed: &Bed, id: &str) -> Vec<u64> {
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", id]));
    let value: Value = serde_json::from_str(&text).unwrap();
    let rows = value["map"].as_array().unwrap().iter();
    let live = rows.filter(|row| row["live"] == true);
    live.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()])
        .collect()
}

fn ruin(bed: &Bed, pages: &[u64]) {
    let file = File::options().write(true).open(bed.pool()).unwrap();
    for page in pages {
        file.write_all_at(&[0x6e; PAGE as usize], page * PAGE).unwrap();
    }
}

/// What of `was` is not under `found`, by content and what belongs to it; directories and further names aside.
fn lost<'w>(was: &'w BTreeMap<PathBuf, Seen>, found: &BTreeMap<PathBuf, Seen>) -> Vec<&'w PathBuf> {
    let alone = |seen: &Seen| Seen {
        links: 1,
        ..seen.clone()
    };
    let all: Vec<Seen> = found.values().map(alone).collect();
    let files = was.iter().filter(|(_, seen)| seen.mode >> 12 != 4);
    let gone = files.filter(|(_, seen)| !all.contains(&alone(seen)));
    gone.map(|(path, _)| path).collect()
}

#[test]
fn all_of_a_pool_that_is_whole_is_copied() {
    let Some((bed, was)) = planted() else { return };
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer = answer(&output);
    assert_eq!(answer["whole"], true);
    let found = tree(&bed.path("out"));
    for (path, seen) in &was {
        assert!(found.get(path) == Some(seen), "{path:?} is another");
    }
    assert_eq!(found.len(), was.len());
    let large = fs::metadata(bed.path("out/deep/er/large")).unwrap();
    assert!(large.blocks() * 512 < 1 << 20, "its holes are kept: {}", large.blocks());
    let first = fs::metadata(bed.path("out/inline")).unwrap().ino();
    assert_eq!(fs::metadata(bed.path("out/deep/second name")).unwrap().ino(), first);
}

#[test]
fn what_the_log_alone_has_is_copied() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), [1; 5000]).unwrap();
    bed.unmount();
    bed.mount("");
    let file = File::options().write(true).open(bed.on("file")).unwrap();
    file.write_all_at(b"small", 4500).unwrap();
    file.sync_all().unwrap();
    let cut = Bed::empty();
    fs::copy(bed.pool(), cut.pool()).unwrap();
    assert_eq!(salvage(&cut).status.code(), Some(0));
    let mut content = vec![1; 5000];
    content[4500..4505].copy_from_slice(b"small");
    assert!(fs::read(cut.path("out/file")).unwrap() == content);
}

#[test]
fn a_bad_page_of_data_is_a_hole_and_named() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["dir", "/many"]));
    let entries: Value = serde_json::from_str(&text).unwrap();
    let entries = entries["entries"].as_array().unwrap();
    let ino = &entries.iter().find(|entry| entry["name"] == "file9").unwrap()["ino"];
    let text = done(
        keepfs(["dump", "--json"])
            .arg(bed.pool())
            .args(["inode", &ino.to_string()]),
    );
    let inode: Value = serde_json::from_str(&text).unwrap();
    ruin(&bed, &[inode["direct"][1]["page"].as_u64().unwrap()]);
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let damaged = &answer(&output)["damaged"];
    assert_eq!(damaged.as_array().unwrap().len(), 1, "{damaged}");
    assert_eq!(damaged[0]["path"], "/many/file9");
    assert_eq!(
        damaged[0]["missing"],
        serde_json::json!([{"offset": PAGE, "length": PAGE}])
    );
    let mut expected = was[Path::new("./many/file9")].content.clone();
    expected[PAGE as usize..2 * PAGE as usize].fill(0);
    assert!(fs::read(bed.path("out/many/file9")).unwrap() == expected);
}

#[test]
fn bitmaps_totals_and_homes_are_not_needed() {
    let Some((bed, was)) = planted() else { return };
    for space in ["Pages", "Totals", "Homes", "InodeNumbers", "NodeNumbers"] {
        ruin(&bed, &pages_of(&bed, space));
    }
    assert_eq!(salvage(&bed).status.code(), Some(0));
    assert!(tree(&bed.path("out")) == was);
}

#[test]
fn without_its_root_directory_a_tree_has_all_its_names() {
    let Some((bed, was)) = planted() else { return };
    // The first metablock of inodes has the root and the first 13 files.
    ruin(&bed, &pages_of(&bed, "Inodes:0"));
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found = tree(&bed.path("out"));
    let missing = lost(&was, &found);
    assert!(missing.len() <= 13, "{missing:?}");
    assert!(found.contains_key(Path::new("./deep/er/large")), "{output:?}");
}

#[test]
fn without_any_directory_files_are_found_by_number() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    let nodes = map["map"].as_array().unwrap().iter();
    // Kinds 2 and 3 are nodes of directories.
    let of_directories = nodes.filter(|row| row["live"] == true && [2, 3].contains(&row["kind"].as_u64().unwrap()));
    let pages = of_directories.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()]);
    ruin(&bed, &pages.collect::<Vec<_>>());
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found = tree(&bed.path("out"));
    assert!(lost(&was, &found).is_empty(), "{:?}", lost(&was, &found));
    assert!(
        found.keys().all(|path| path.components().count() <= 3),
        "{:?}",
        found.keys()
    );
}

#[test]
fn one_superblock_is_enough() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let (pages, generation) = (sb["pages"].as_u64().unwrap(), sb["generation"].as_u64().unwrap());
    // The copy of the newest one is in slot 2 or 3 (S-2.1).
    let kept = (2 + generation % 2) * pages / 4;
    let slots: Vec<u64> = (0..4)
        .map(|slot| slot * pages / 4)
        .filter(|page| *page != kept)
        .collect();
    ruin(&bed, &slots);
    assert_eq!(salvage(&bed).status.code(), Some(0));
    assert!(tree(&bed.path("out")) == was);
}

/// The uppermost map pages of all spaces, both copies: in a small pool, the whole map.
fn map_of(bed: &Bed) -> Vec<u64> {
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let roots = sb["roots"].as_array().unwrap().iter();
    let live = roots.filter(|root| root["height"] != 0).map(|root| &root["entry"]);
    live.flat_map(|entry| [entry["first"].as_u64().unwrap(), entry["second"].as_u64().unwrap()])
        .collect()
}

/// A pool that has had more than one checkpoint, so that old metablocks stand about.
fn grown() -> Option<(Bed, BTreeMap<PathBuf, Seen>)> {
    let (bed, _) = planted()?;
    bed.mount("");
    fs::remove_file(bed.on("many/file1")).unwrap();
    fs::rename(bed.on("many/file2"), bed.on("deep/moved")).unwrap();
    fs::write(bed.on("many/file30"), [3; 9999]).unwrap();
    let was = tree(&bed.dir());
    bed.unmount();
    Some((bed, was))
}

#[test]
fn without_its_map_a_pool_is_found_by_headers() {
    let Some((bed, was)) = grown() else { return };
    ruin(&bed, &map_of(&bed));
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        answer(&output)["findings"]
            .to_string()
            .contains("found by their headers")
    );
    assert!(tree(&bed.path("out")) == was);
}

#[test]
fn without_any_superblock_a_pool_is_found_by_headers() {
    let Some((bed, was)) = grown() else { return };
    let pages = fs::metadata(bed.pool()).unwrap().len() / PAGE;
    ruin(&bed, &[0, pages / 4, pages / 2, 3 * pages / 4]);
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(tree(&bed.path("out")) == was);
}

#[test]
fn a_place_with_something_in_it_and_a_pool_in_use_are_refused() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "x").unwrap();
    let (code, said) = fails(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(code == 1 && said.contains("in use"), "{said}");
    bed.unmount();
    fs::create_dir_all(bed.path("out/there")).unwrap();
    let (code, said) = fails(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(code == 2 && said.contains("is not empty"), "{said}");
    fs::remove_dir(bed.path("out/there")).unwrap();
    done(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert_eq!(fs::read(bed.path("out/file")).unwrap(), b"x");
}
