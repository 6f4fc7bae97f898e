//! A staged page as log and redo tell it, over the device page that they name: its witness (S-14.11).

use super::{Key, Patch, Staging, staging};
use keepfs_format::plog::Record;
use keepfs_format::{PAGE, Space};

/// What lies under the bytes that records bring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beneath {
    Zeros,
    /// A device page with this CRC-32C.
    Page(u64, u32),
    /// A log says that it is lost.
    Unknown,
}

/// A page as the records so far make it.
pub struct Past {
    key: Key,
    is_staged: bool,
    beneath: Beneath,
    version: u32,
    page: Box<[u8; PAGE]>,
    /// Which bytes of `page` records brought.
    set: Box<[u64; PAGE / 64]>,
}

/// A page as its witness tells it.
pub struct Told {
    /// Its bytes.
    pub page: Box<[u8; PAGE]>,
    /// Version of the inode when it was last staged.
    pub version: u32,
}

impl Past {
    /// Before any record.
    pub fn of(key: Key) -> Past {
        Past {
            key,
            is_staged: false,
            beneath: Beneath::Zeros,
            version: 0,
            page: Box::new([0; PAGE]),
            set: Box::new([0; PAGE / 64]),
        }
    }

    /// Follows a record as [`super::Table::apply`] does.
    pub fn apply(&mut self, record: &Record) {
        if let Some((staging, patch)) = staging(record) {
            if staging.key == self.key {
                self.stage(&staging, &patch);
            }
            return;
        }
        let (own, at) = self.key;
        match record {
            Record::MapEntry { ino, index, count, .. } => {
                let brought = *index..index.saturating_add(u64::from(*count));
                self.drop_if(*ino == own && brought.contains(&at));
            }
            Record::Truncate { ino, size } if *ino == own => self.truncate(*size),
            Record::Lost { ino, index } if (*ino, *index) == self.key => {
                self.begin(Beneath::Unknown);
            }
            Record::Create { ino, .. } => self.drop_if(*ino == own),
            Record::Free {
                space: Space::InodeNumbers,
                run,
            } => self.drop_if(run.start == own),
            _ => {}
        }
    }

    fn begin(&mut self, beneath: Beneath) {
        self.is_staged = true;
        self.beneath = beneath;
        self.page.fill(0);
        self.set.fill(0);
    }

    fn drop_if(&mut self, is_dropped: bool) {
        self.is_staged &= !is_dropped;
    }

    fn stage(&mut self, staging: &Staging, patch: &Patch<'_>) {
        match (self.is_staged, staging.base) {
            (true, _) => {}
            (false, 0) => self.begin(Beneath::Zeros),
            (false, base) => self.begin(Beneath::Page(base, staging.base_crc)),
        }
        self.version = staging.version;
        self.put(patch);
    }

    fn put(&mut self, patch: &Patch<'_>) {
        patch.to(&mut self.page);
        patch.mark(&mut self.set);
    }

    fn truncate(&mut self, size: u64) {
        self.drop_if(self.key.1 >= size.div_ceil(PAGE as u64));
        let cut = (size % PAGE as u64) as usize;
        if self.is_staged && cut != 0 && self.key.1 == size / PAGE as u64 {
            self.put(&Patch {
                offset: cut,
                len: PAGE - cut,
                bytes: None,
            });
        }
    }

    /// The page. `read` gives a device page if it has that CRC; it is asked for one only if a byte of it counts. `None`: it is
    /// not staged, or not all of it is known.
    pub fn told(self, read: impl FnOnce(u64, u32, &mut [u8; PAGE]) -> bool) -> Option<Told> {
        let Past { mut page, set, .. } = self;
        let is_set = |i: usize| set[i / 64] & (1 << (i % 64)) != 0;
        match self.beneath {
            _ if !self.is_staged => return None,
            _ if set.iter().all(|part| *part == u64::MAX) => {}
            Beneath::Zeros => {}
            Beneath::Unknown => return None,
            Beneath::Page(base, crc) => {
                let mut under = Box::new([0; PAGE]);
                if !read(base, crc, &mut under) {
                    return None;
                }
                (0..PAGE).filter(|i| !is_set(*i)).for_each(|i| page[i] = under[i]);
            }
        }
        Some(Told {
            page,
            version: self.version,
        })
    }
}
