//! Staged data: file pages whose newest bytes are durable by the log only (SPEC S-8.8, PROTOCOLS section 7).
//!
//! The same function follows the records at commit and at replay, so memory and log cannot disagree.

use crate::cache::IdMap;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One staged page.
pub struct Staged {
    /// The page's bytes.
    content: Arc<[u8; PAGE]>,
    /// CRC-32C of the content, checked whenever it is used.
    crc: u32,
    /// Version of the inode when it was last staged.
    pub version: u32,
    /// Device page that lies under it, 0 = none.
    pub base: u64,
    /// CRC-32C of that page.
    pub base_crc: u32,
    /// Set while replaying a log: the base is read when the whole log is applied.
    patches: Option<Box<[u64; PAGE / 64]>>,
    /// Counts up; smaller = staged for longer.
    stamp: u64,
}

/// A page as it must stand in a carried-over group (S-10.3).
pub struct Carried {
    /// Inode and index.
    pub key: (u64, u64),
    /// Version of the inode.
    pub version: u32,
    /// Its bytes; shared with the table until one of the two changes.
    pub content: Arc<[u8; PAGE]>,
    /// What CRC-32C they must have.
    pub crc: u32,
}

/// Damage found in a staged page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StagedDamage {
    /// Inode.
    pub ino: u64,
    /// Page of the file.
    pub index: u64,
}

/// All staged pages, by (inode, index).
#[derive(Default)]
pub struct Table {
    pages: BTreeMap<(u64, u64), Staged>,
    stamp: u64,
    /// Staged pages that have no device page under them: each is promised one.
    pub promised: u64,
}

/// Content of the base of pages that a transaction stages for the first time.
pub type Bases = IdMap<(u64, u64), Box<[u8; PAGE]>>;

impl Table {
    /// Number of staged pages.
    pub fn len(&self) -> usize {
        self.pages.len()
    }

    /// Whether a page is staged.
    pub fn has(&self, ino: u64, index: u64) -> bool {
        self.pages.contains_key(&(ino, index))
    }

    /// Copies a staged page. `Ok(false)` if it is not staged.
    pub fn read(&self, ino: u64, index: u64, page: &mut [u8; PAGE]) -> Result<bool, StagedDamage> {
        let Some(staged) = self.pages.get(&(ino, index)) else {
            return Ok(false);
        };
        page.copy_from_slice(&*staged.content);
        if crc32c::of(page) != staged.crc {
            return Err(StagedDamage { ino, index });
        }
        Ok(true)
    }

    /// The indices of an inode's staged pages, ascending.
    pub fn of(&self, ino: u64) -> Vec<u64> {
        self.pages
            .range((ino, 0)..=(ino, u64::MAX))
            .map(|((_, i), _)| *i)
            .collect()
    }

    /// Up to `limit` inodes with staged pages, the longest staged first.
    pub fn inodes(&self, limit: usize) -> Vec<u64> {
        let mut oldest: BTreeMap<u64, u64> = BTreeMap::new();
        for ((ino, _), staged) in &self.pages {
            let stamp = oldest.entry(*ino).or_insert(staged.stamp);
            *stamp = (*stamp).min(staged.stamp);
        }
        let mut inodes: Vec<_> = oldest.into_iter().map(|(ino, stamp)| (stamp, ino)).collect();
        inodes.sort_unstable();
        inodes.into_iter().take(limit).map(|(_, ino)| ino).collect()
    }

    /// Follows one record of a committed transaction. `bases` is `None` at replay.
    pub fn apply(&mut self, record: &Record, bases: Option<&mut Bases>) {
        match record {
            Record::Tail {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                bytes,
            } => {
                self.patch(
                    (*ino, *index),
                    *version,
                    (*base, *base_crc),
                    usize::from(*offset),
                    Some(bytes),
                    bytes.len(),
                    bases,
                );
            }
            Record::Zero {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                len,
            } => {
                self.patch(
                    (*ino, *index),
                    *version,
                    (*base, *base_crc),
                    usize::from(*offset),
                    None,
                    usize::from(*len),
                    bases,
                );
            }
            Record::MapEntry { ino, index, count, .. } => {
                self.drop_range(*ino, *index, index.saturating_add(u64::from(*count)));
            }
            Record::Truncate { ino, size } => self.truncate(*ino, *size),
            Record::Create { ino, .. } => self.drop_range(*ino, 0, u64::MAX),
            _ => {}
        }
    }

    /// Forgets all pages of an inode whose number is freed.
    pub fn forget(&mut self, ino: u64) {
        self.drop_range(ino, 0, u64::MAX);
    }

    #[allow(clippy::too_many_arguments)] // The fields of a tail record.
    fn patch(
        &mut self,
        key: (u64, u64),
        version: u32,
        base: (u64, u32),
        offset: usize,
        bytes: Option<&[u8]>,
        len: usize,
        bases: Option<&mut Bases>,
    ) {
        self.stamp += 1;
        let stamp = self.stamp;
        let replay = bases.is_none();
        let promised = &mut self.promised;
        let staged = self.pages.entry(key).or_insert_with(|| {
            if base.0 == 0 {
                *promised += 1;
            }
            Staged {
                content: bases
                    .and_then(|b| b.remove(&key))
                    .map_or_else(|| Arc::new([0; PAGE]), Arc::from),
                crc: 0,
                version,
                base: base.0,
                base_crc: base.1,
                patches: (replay && base.0 != 0).then(|| Box::new([0; PAGE / 64])),
                stamp,
            }
        });
        staged.version = version;
        let to = &mut Arc::make_mut(&mut staged.content)[offset..offset + len];
        match bytes {
            Some(bytes) => to.copy_from_slice(bytes),
            None => to.fill(0),
        }
        if let Some(patches) = &mut staged.patches {
            (offset..offset + len).for_each(|i| patches[i / 64] |= 1 << (i % 64));
        }
        staged.crc = crc32c::of(&*staged.content);
    }

    fn remove(&mut self, key: (u64, u64)) {
        if let Some(gone) = self.pages.remove(&key) {
            self.promised -= u64::from(gone.base == 0);
        }
    }

    fn drop_range(&mut self, ino: u64, from: u64, to: u64) {
        let keys: Vec<_> = self.pages.range((ino, from)..(ino, to)).map(|(k, _)| *k).collect();
        keys.into_iter().for_each(|k| self.remove(k));
    }

    fn truncate(&mut self, ino: u64, size: u64) {
        self.drop_range(ino, size.div_ceil(PAGE as u64), u64::MAX);
        let cut = (size % PAGE as u64) as usize;
        if cut == 0 {
            return;
        }
        if let Some(staged) = self.pages.get_mut(&(ino, size / PAGE as u64)) {
            Arc::make_mut(&mut staged.content)[cut..].fill(0);
            if let Some(patches) = &mut staged.patches {
                (cut..PAGE).for_each(|i| patches[i / 64] |= 1 << (i % 64));
            }
            staged.crc = crc32c::of(&*staged.content);
        }
    }

    /// After a replay: puts the bases under the pages staged over one. `read` gives a device page.
    pub fn settle<E>(&mut self, mut read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), E>) -> Result<(), E> {
        for staged in self.pages.values_mut() {
            let Some(patches) = staged.patches.take() else { continue };
            let mut page = [0; PAGE];
            read(staged.base, staged.base_crc, &mut page)?;
            let content = Arc::make_mut(&mut staged.content);
            for (i, byte) in page.iter().enumerate() {
                if patches[i / 64] & (1 << (i % 64)) == 0 {
                    content[i] = *byte;
                }
            }
            staged.crc = crc32c::of(&*staged.content);
        }
        Ok(())
    }

    /// Every staged page, whole, for the group that carries them over a checkpoint (S-10.3). From here on they
    /// have no base that the log names.
    pub fn carry(&self) -> Vec<Carried> {
        let carried = |(key, staged): (&(u64, u64), &Staged)| Carried {
            key: *key,
            version: staged.version,
            content: staged.content.clone(),
            crc: staged.crc,
        };
        self.pages.iter().map(carried).collect()
    }
}

impl Carried {
    /// Whether the bytes are still what was staged.
    pub fn check(&self) -> Result<(), StagedDamage> {
        match crc32c::of(&*self.content) == self.crc {
            true => Ok(()),
            false => Err(StagedDamage {
                ino: self.key.0,
                index: self.key.1,
            }),
        }
    }
}
