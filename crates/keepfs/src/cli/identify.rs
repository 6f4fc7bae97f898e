//! `keepfs probe`, and LABEL= and UUID= in place of a device: which block device holds which pool.
//!
//! libblkid has no place for other people's formats, so udev asks this program (`60-keepfs.rules`) and makes the links
//! /dev/disk/by-label and by-uuid, by which mount(8) and fstab(5) find a pool; without udev we look at the devices ourselves.

use super::args::Probe;
use super::tell::say;
use keepfs_check::Image;
use keepfs_check::read::superblock_of;
use keepfs_format::superblock::MAGIC;
use keepfs_format::{PAGE, PoolId};
use keepfs_server::image::DeviceImage;
use keepfs_server::visible::Shown;
use keepfs_server::visible::{self, one_line};
use keepfs_server::{Failure, Outcome};
use keepfs_store::Pool;
use std::fs;
use std::path::{Path, PathBuf};

/// Exit code: there is no pool, as blkid(8) says it.
const NOTHING: u8 = 2;
/// Bytes of the magic that all versions have (S-2.3).
const SAME: usize = 6;

/// Tells of the devices that hold pools.
pub fn run(args: &Probe) -> Outcome {
    let devices = match args.devices.is_empty() {
        true => block_devices(),
        false => args.devices.clone(),
    };
    let (mut code, mut is_any_open, mut closed) = (NOTHING, false, None);
    for path in devices {
        let found = match at(&path) {
            // What cannot be opened says nothing unless somebody named it.
            Err(failure) if args.devices.is_empty() => {
                closed.get_or_insert(failure);
                continue;
            }
            other => other?,
        };
        is_any_open = true;
        let Some(pool) = found else { continue };
        code = 0;
        match args.udev {
            true => print!("{}", for_udev(&pool)),
            false => {
                let label = label_words(&pool.label);
                say!("{}: {label}UUID=\"{}\" TYPE=\"keepfs\"", visible::path(&path), pool.id);
            }
        }
    }
    match closed {
        Some(failure) if !is_any_open => Err(Failure::Other(format!("no block device can be opened: {failure}"))),
        _ => Ok(code),
    }
}

fn label_words(label: &str) -> String {
    match label.is_empty() {
        true => String::new(),
        false => format!("LABEL=\"{}\" ", one_line(label)),
    }
}

/// The pool on a device, in use or not: nothing is locked. `None`: page 0 does not begin as a pool does, whatever remains of one
/// behind it, or no superblock holds. Errors: it cannot be opened.
fn at(path: &Path) -> Result<Option<Pool>, Failure> {
    let image = DeviceImage::open_live(path)?;
    let mut first = [0; PAGE];
    let begins = image.pages() > 0 && image.read(0, &mut first).is_ok() && begins(&first);
    let superblock = begins.then(|| superblock_of(&image)).flatten();
    Ok(superblock.map(|superblock| Pool::of(&superblock)))
}

/// Whether a page begins as a superblock but for one bit, which is mended where one is read (S-2.27).
fn begins(page: &[u8; PAGE]) -> bool {
    let turned = page.iter().zip(&MAGIC[..SAME]).map(|(a, b)| (a ^ b).count_ones());
    turned.sum::<u32>() <= 1
}

/// Properties as udev(7) imports them. What stands on the device may be hostile: a label has no line of its own.
fn for_udev(pool: &Pool) -> String {
    let uuid = pool.id;
    let mut told = format!(
        "ID_FS_USAGE=filesystem\nID_FS_TYPE=keepfs\nID_FS_VERSION=1\nID_FS_UUID={uuid}\nID_FS_UUID_ENC={uuid}\n"
    );
    if !pool.label.is_empty() {
        let encoded = encoded(&pool.label);
        let safe: String = pool.label.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        told.push_str(&format!("ID_FS_LABEL={safe}\nID_FS_LABEL_ENC={encoded}\n"));
    }
    told
}

/// A label as names in /dev/disk/by-label have it (libblkid's `blkid_encode_string`).
fn encoded(label: &str) -> String {
    let mut name = String::new();
    for letter in label.chars() {
        if is_plain(letter) {
            name.push(letter);
            continue;
        }
        let mut bytes = [0; 4];
        name.extend(
            letter
                .encode_utf8(&mut bytes)
                .bytes()
                .map(|byte| format!("\\x{byte:02x}")),
        );
    }
    name
}

fn is_plain(letter: char) -> bool {
    let is_word = letter.is_ascii_alphanumeric() || "#+-.:=@_".contains(letter);
    is_word || !letter.is_ascii() && !letter.is_control()
}

/// What to mount: a path, or the device that LABEL= or UUID= names. Errors: there is none, or more than one.
pub fn resolve(source: &Path) -> Result<PathBuf, Failure> {
    let text = source.to_string_lossy();
    let Some((tag, value)) = text.split_once('=').filter(|(tag, _)| matches!(*tag, "LABEL" | "UUID")) else {
        return Ok(source.to_owned());
    };
    let value = value.trim_matches('"');
    let wanted = |pool: &Pool| match tag {
        "LABEL" => pool.label == value,
        _ => is_id(&pool.id, value),
    };
    let holds = |path: &PathBuf| at(path).is_ok_and(|pool| pool.is_some_and(|pool| wanted(&pool)));
    let mut found: Vec<PathBuf> = block_devices().into_iter().filter(holds).collect();
    match (found.pop(), found.is_empty()) {
        (Some(device), true) => Ok(device),
        (Some(device), false) => {
            found.push(device);
            let names: Vec<String> = found.iter().map(|device| device.shown()).collect();
            let names = names.join(", ");
            let why = format!("more than one device holds a pool with {tag}={value} ({names}); name one of them");
            Err(Failure::Other(why))
        }
        (None, _) => Err(Failure::Other(format!(
            "no block device holds a pool with {tag}={value} (`keepfs probe` shows those there are); a pool in a file is mounted by \
             its path"
        ))),
    }
}

/// Whether a text is this id, with or without dashes.
fn is_id(id: &PoolId, text: &str) -> bool {
    let plain = |text: &str| text.replace('-', "").to_ascii_lowercase();
    plain(&id.to_string()) == plain(text)
}

/// All block devices that nothing else is made of: of a device and the one that is mapped on it, the upper one.
fn block_devices() -> Vec<PathBuf> {
    let entries = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
    let is_empty = |entry: &fs::DirEntry| {
        let size = fs::read_to_string(entry.path().join("size")).unwrap_or_default();
        size.trim() == "0"
    };
    let is_held = |entry: &fs::DirEntry| {
        let holders = fs::read_dir(entry.path().join("holders"));
        holders.is_ok_and(|mut holders| holders.next().is_some())
    };
    let open = entries.filter(|entry| !is_empty(entry) && !is_held(entry));
    // The kernel writes a `/` in a device's name as `!`.
    let named = open.map(|entry| entry.file_name().to_string_lossy().replace('!', "/"));
    let mut devices: Vec<PathBuf> = named.map(|name| Path::new("/dev").join(name)).collect();
    devices.sort();
    devices
}

#[cfg(test)]
mod tests;
