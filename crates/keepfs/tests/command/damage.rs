//! Trees of files to compare, and pools to damage.

use super::bed::{Bed, done, keepfs};
use rustix::fs::{CWD, FileType, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

pub const PAGE: u64 = 4096;

/// A pool as after a power cut, in which the log alone has a small write to `file` of so many bytes; and what the file holds.
pub fn staged(bytes: usize) -> Option<(Bed, Vec<u8>)> {
    let bed = Bed::mounted("")?;
    let mut content = vec![1; bytes];
    fs::write(bed.on("file"), &content).unwrap();
    bed.unmount();
    bed.mount("");
    let file = File::options().write(true).open(bed.on("file")).unwrap();
    file.write_all_at(b"small", 4500).unwrap();
    file.sync_all().unwrap();
    let cut = Bed::empty();
    fs::copy(bed.pool(), cut.pool()).unwrap();
    content[4500..4505].copy_from_slice(b"small");
    Some((cut, content))
}

/// A pool with 40 synced files of which no write to metadata arrived but superblock, log and HOMES; the others hold what was there
/// before.
pub fn forgotten() -> Option<Bed> {
    const MAGIC: &[u8] = b"KMB1";
    let bed = Bed::mounted("")?;
    bed.unmount();
    let before = fs::read(bed.pool()).unwrap();
    bed.mount("");
    for n in 0..40 {
        let file = File::create(bed.on(&format!("synced{n}"))).unwrap();
        file.write_all_at(&[n; 1500], 0).unwrap();
        file.sync_all().unwrap();
    }
    bed.unmount();
    let mut kept = pages_of(&bed, "Homes");
    kept.extend(roots_of(&bed, &|space| space == "Homes"));
    let mut after = fs::read(bed.pool()).unwrap();
    let size = PAGE as usize;
    for (page, (new, old)) in after.chunks_exact_mut(size).zip(before.chunks_exact(size)).enumerate() {
        if new.starts_with(MAGIC) && !kept.contains(&(page as u64)) {
            new.copy_from_slice(old);
        }
    }
    fs::write(bed.pool(), after).unwrap();
    Some(bed)
}

/// What can be seen of a file, but for what a copy cannot have: number, blocks and time of change.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub mode: u32,
    owner: (u32, u32),
    pub links: u64,
    device: u64,
    modified: (i64, i64),
    pub content: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Everything below a directory, by path; the directory itself is ".".
pub fn tree(top: &Path) -> BTreeMap<PathBuf, Seen> {
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
pub fn planted() -> Option<(Bed, BTreeMap<PathBuf, Seen>)> {
    let bed = Bed::mounted("")?;
    plant(&bed.dir());
    let was = tree(&bed.dir());
    bed.unmount();
    Some((bed, was))
}

/// Pages where metablocks are, both copies.
pub fn pages_of(bed: &Bed, id: &str) -> Vec<u64> {
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", id]));
    let value: Value = serde_json::from_str(&text).unwrap();
    let rows = value["map"].as_array().unwrap().iter();
    let live = rows.filter(|row| row["live"] == true);
    live.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()])
        .collect()
}

pub fn ruin(bed: &Bed, pages: &[u64]) {
    let file = File::options().write(true).open(bed.pool()).unwrap();
    for page in pages {
        file.write_all_at(&[0x6e; PAGE as usize], page * PAGE).unwrap();
    }
}

/// What is under one of them and not the same under the other, but for `lost+found`: where the map and HOMES are lost, a removed file
/// may come back there (FAULTS.md).
pub fn other(was: &BTreeMap<PathBuf, Seen>, found: &BTreeMap<PathBuf, Seen>) -> Vec<PathBuf> {
    let may_differ = |path: &PathBuf| path == Path::new(".") || path.starts_with("./lost+found");
    let differs = |path: &&PathBuf| !may_differ(path) && found.get(*path) != was.get(*path);
    was.keys().chain(found.keys()).filter(differs).cloned().collect()
}

/// What of `was` is not under `found`, by content and what belongs to it; directories and further names aside.
pub fn lost<'w>(was: &'w BTreeMap<PathBuf, Seen>, found: &BTreeMap<PathBuf, Seen>) -> Vec<&'w PathBuf> {
    let alone = |seen: &Seen| Seen {
        links: 1,
        ..seen.clone()
    };
    let all: Vec<Seen> = found.values().map(alone).collect();
    let files = was.iter().filter(|(_, seen)| seen.mode >> 12 != 4);
    let gone = files.filter(|(_, seen)| !all.contains(&alone(seen)));
    gone.map(|(path, _)| path).collect()
}

/// The uppermost map pages of all spaces, both copies: in a small pool, the whole map.
pub fn map_of(bed: &Bed) -> Vec<u64> {
    roots_of(bed, &|_| true)
}

/// The same of the spaces whose name is chosen.
fn roots_of(bed: &Bed, is_chosen: &dyn Fn(&str) -> bool) -> Vec<u64> {
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let roots = sb["roots"].as_array().unwrap().iter();
    let live = roots.filter(|root| root["height"] != 0 && is_chosen(root["space"].as_str().unwrap()));
    let live = live.map(|root| &root["entry"]);
    live.flat_map(|entry| [entry["first"].as_u64().unwrap(), entry["second"].as_u64().unwrap()])
        .collect()
}

/// A pool that has had more than one checkpoint, so that old metablocks stand about.
pub fn grown() -> Option<(Bed, BTreeMap<PathBuf, Seen>)> {
    let (bed, _) = planted()?;
    bed.mount("");
    fs::remove_file(bed.on("many/file1")).unwrap();
    fs::rename(bed.on("many/file2"), bed.on("deep/moved")).unwrap();
    fs::write(bed.on("many/file30"), [3; 9999]).unwrap();
    let was = tree(&bed.dir());
    bed.unmount();
    Some((bed, was))
}
