//! A pool with files: wrong values through the door, planted logic bugs, rotten pages of files.

use super::Dice;
use super::fault::Class;
use super::lines::{self, Change, Served};
use super::subject::failed;
use core::mem::offset_of;
use keepfs_codes::Protection;
use keepfs_format::PAGE;
use keepfs_format::inode::{Inode, offset_of as slot_of};
use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class as Traffic, Device, PageNo};
use keepfs_store::{Abort, Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions, Txn};
use keepfs_vfs::{Direct, FileKind, Ino, NewInode, Vfs, WriteHow};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Directories and files of a pool.
const FILES: usize = 40;
/// Pages of a file.
const FILE_PAGES: usize = 6;
/// Fields of an inode that equations speak of, with their lengths, and whether files have them: what SPEC section 17 says
/// nothing of (times, mode, owner) is left to the replay of the operation log.
const FIELDS: [(usize, usize, bool); 7] = [
    (offset_of!(Inode, state), 4, true),
    (offset_of!(Inode, nlink), 4, true),
    (offset_of!(Inode, pages), 8, true),
    (offset_of!(Inode, born), 8, true),
    (offset_of!(Inode, cur), 8, true),
    (offset_of!(Inode, parent), 8, false),
    (offset_of!(Inode, entries), 8, false),
];

/// A pool with files, all equations on.
pub struct Mount {
    pub(super) volume: Arc<Volume>,
    pub(super) device: Arc<RamDevice>,
    /// Its code.
    pub code: Protection,
    /// Inodes, and whether they are directories.
    pub(super) inodes: Vec<(u64, bool)>,
    heard: u64,
    /// Pages of files that were damaged: each is told once.
    damaged: BTreeSet<(u64, u64)>,
}

impl Mount {
    /// A new one. Errors: as text.
    pub fn new(code: Protection) -> Result<Mount, String> {
        let device = Arc::new(RamDevice::new(8192));
        let format = FormatOptions {
            protect: code,
            test: true,
            ..FormatOptions::default()
        };
        Volume::format(device.clone(), &format).map_err(failed)?;
        let options = VolumeOptions {
            background: false,
            store: StoreOptions {
                background: false,
                tiny_arena: true,
                arena_bytes: 4 << 20,
                ..StoreOptions::default()
            },
            ..VolumeOptions::default()
        };
        let volume = Volume::open(device.clone(), &options).map_err(failed)?;
        let inodes = (0..FILES).map(|n| made(&volume, n)).collect::<Result<_, _>>()?;
        volume.settle().map_err(failed)?;
        Ok(Mount {
            volume,
            device,
            code,
            inodes,
            heard: 0,
            damaged: BTreeSet::new(),
        })
    }

    pub(super) fn store(&self) -> &Store {
        self.volume.store()
    }

    /// What the pool told since it was asked last, as lines of `number`.
    pub fn heard(&mut self, number: u64) -> Vec<String> {
        let events = self.store().history().events(self.heard);
        self.heard = events.last().map_or(self.heard, |event| event.number);
        events.iter().map(|event| lines::told(number, event)).collect()
    }

    /// One fault of a class that needs files: what it changed at rest, and what a reader got.
    pub fn inject(&mut self, class: Class, dice: &mut Dice) -> Result<(Change, Served), String> {
        match class {
            Class::Data => self.rotten(dice),
            _ => self.wrong_value(dice).map(|served| (Change::default(), served)),
        }
    }

    /// One wrong value in a transaction that else changes nothing.
    pub fn wrong_value(&self, dice: &mut Dice) -> Result<Served, String> {
        let (r, at, len) = self.victim(dice);
        let wrong = 1 + dice.below(250) as u8;
        let place = dice.below(len.min(2));
        let change = |txn: &mut Txn<'_>| -> Result<(), Abort<Error>> {
            let mut bytes = vec![0; len];
            txn.read(r, at, &mut bytes)?;
            bytes[place] ^= wrong;
            Ok(txn.put(r, at, &bytes, Meaning::Inode)?)
        };
        let read = || {
            let mut buf = vec![0; len];
            self.store().view().read(r, at, &mut buf).map_err(failed)?;
            Ok::<_, String>(buf)
        };
        let before = read()?;
        let done = self.store().transact::<_, Error>(change);
        Ok(match (done, read()? == before) {
            (Err(Error::Unbalanced(_)), true) => Served::Right,
            _ => Served::Wrong,
        })
    }

    /// A field that equations speak of.
    pub(super) fn victim(&self, dice: &mut Dice) -> (Ref, usize, usize) {
        let (ino, is_dir) = *dice.one_of(&self.inodes);
        loop {
            let (field, len, of_files) = *dice.one_of(&FIELDS);
            if is_dir || of_files {
                return (Ref::inode_block(ino), slot_of(ino) + field, len);
            }
        }
    }

    /// A page of a file on the device: reading it is an error, and the file is whole when the page is.
    fn rotten(&mut self, dice: &mut Dice) -> Result<(Change, Served), String> {
        let (ino, index) = loop {
            let (ino, is_dir) = *dice.one_of(&self.inodes);
            let index = dice.below(FILE_PAGES) as u64;
            if !is_dir && self.damaged.insert((ino, index)) {
                break (ino, index);
            }
        };
        let page = self.volume.data_page_of(ino, index).map_err(failed)?;
        let page = PageNo(page.ok_or("a file has no page")?);
        let mut right = [0; PAGE];
        self.device.read(page, &mut right).map_err(failed)?;
        let mut bytes = right;
        let class = *dice.one_of(&[Class::RestFlip, Class::RestFew]);
        super::fault::damage(class, &mut bytes, &right, dice);
        self.device.write(page, &bytes, Traffic::Data).map_err(failed)?;
        let mut found = [0; PAGE];
        let read = |buf: &mut [u8]| self.volume.read(Ino(ino), index * PAGE as u64, buf);
        let served = match read(&mut found) {
            Err(_) => Served::Error,
            Ok(_) if found == right => Served::Right,
            Ok(_) => Served::Wrong,
        };
        self.device.write(page, &right, Traffic::Data).map_err(failed)?;
        match read(&mut found).is_ok() && found == right {
            true => Ok((Change::between(&right, &bytes), served)),
            false => Err(format!("page {index} of inode {ino} did not come back")),
        }
    }
}

fn made(volume: &Volume, n: usize) -> Result<(u64, bool), String> {
    let is_dir = n.is_multiple_of(4);
    let kind = if is_dir { FileKind::Dir } else { FileKind::File };
    let new = NewInode::by_root(kind.type_bits() | 0o755);
    let made = volume.mknod(Ino::ROOT, format!("file{n}").as_bytes(), &new);
    let ino = made.map_err(failed)?.attr.ino;
    if !is_dir {
        let data: Vec<u8> = (0..FILE_PAGES * PAGE).map(|at| (at / 7 + n) as u8).collect();
        volume.write(ino, 0, &data, WriteHow::default()).map_err(failed)?;
    }
    Ok((ino.0, is_dir))
}

/// Plants a logic bug and goes through all changes: what the pool told, and whether it is sound behind it.
#[cfg(feature = "planted")]
pub fn planted(number: u64, dice: &mut Dice) -> Result<(Vec<String>, Served), String> {
    use crate::audits::matrix::try_bug;
    use keepfs_store::Equations;
    use keepfs_store::planted::Logic;
    // One that writes past the door is no logic bug to whoever sees the frames: it is told as a stray write.
    let by_equation = |bug: &&Logic| bug.word().starts_with("E-");
    let bugs: Vec<Logic> = Logic::ALL.iter().filter(by_equation).copied().collect();
    let caught = try_bug(Some(*dice.one_of(&bugs)), Equations::ALL)?;
    let served = match caught.findings.is_empty() && !caught.refused.is_empty() {
        true => Served::Right,
        false => Served::Wrong,
    };
    let told = caught.events.iter().map(|event| lines::told(number, event));
    Ok((told.collect(), served))
}

/// This build has no bugs to plant.
#[cfg(not(feature = "planted"))]
pub fn planted(_number: u64, _dice: &mut Dice) -> Result<(Vec<String>, Served), String> {
    Err("this build has no planted bugs; add --features planted".into())
}
