//! Staged pages as a checkpoint carries them over into the new log (S-10.3).

use super::slots::{self, Found, checksum};
use super::{Key, Placed, StagedDamage, Table};
use crate::segment::Segment;
use keepfs_format::PAGE;
use keepfs_format::plog::Record;

/// A page as it stood at the barrier. Its slot is not filled again before [`Table::carry_done`].
pub struct Carried {
    /// Inode and index.
    pub key: Key,
    /// What the heap knew of it.
    pub placed: Placed,
    version: u32,
    /// What CRC-32C it must have; `None`: it was damaged at the barrier.
    pub crc: Option<u32>,
}

impl Table {
    /// Every staged page, whole, for the group that carries them over a checkpoint (S-10.3). From here on they
    /// have no base that the log names.
    pub fn carry(&mut self) -> Vec<Carried> {
        self.slots.carry(self.stamp);
        self.seen_by_checkpoint = self.stamp;
        let carried = |(key, placed): (&Key, &Placed)| {
            let found = match self.slots.found(placed.slot) {
                Found::Page(head, crc) if head.key == *key => Some((head, crc)),
                _ => None,
            };
            Carried {
                key: *key,
                placed: *placed,
                version: found.map_or(0, |(head, _)| head.version),
                crc: found.filter(|(head, _)| !head.damaged).map(|(_, crc)| crc),
            }
        };
        self.pages.iter().map(carried).collect()
    }

    /// A page that could not be carried over is lost, unless it was dropped since.
    pub fn lose_carried(&mut self, carried: &Carried) -> bool {
        let (ino, index) = carried.key;
        let is_same = |placed: &Placed| placed.first == carried.placed.first;
        self.pages.get(&carried.key).is_some_and(is_same) && self.lose(ino, index)
    }

    /// What was carried over is written.
    pub fn carry_done(&mut self) {
        self.slots.carry_done();
    }

    /// All that is staged, a record each of the whole page, or that it is lost. Errors: one is not what was staged.
    pub fn whole(&self) -> Result<Vec<Record>, StagedDamage> {
        let record = |(key, placed): (&Key, &Placed)| {
            let ((ino, index), mut page) = (*key, [0; PAGE]);
            if placed.lost {
                return Ok(Record::Lost { ino, index });
            }
            let head = slots::load(self.slots.segment(), *key, placed, &mut page);
            let head = head.ok_or(StagedDamage { ino, index })?;
            Ok(Record::Tail {
                ino,
                index,
                version: head.version,
                base: 0,
                base_crc: 0,
                offset: 0,
                bytes: page.to_vec(),
            })
        };
        self.pages.iter().map(record).collect()
    }
}

impl Carried {
    /// The page as one record: everything up to its last byte that is not zero, or that it is lost if it is not what was
    /// staged (S-10.3).
    pub fn record(&self, segment: &Segment) -> Record {
        let (ino, index) = self.key;
        let mut page = [0; PAGE];
        segment.load_page(self.placed.slot, &mut page);
        match self.crc == Some(checksum(segment, self.placed.slot, &page)) {
            true => self.record_of(&page, self.version),
            false => Record::Lost { ino, index },
        }
    }

    /// The record of these bytes.
    pub fn record_of(&self, page: &[u8; PAGE], version: u32) -> Record {
        let (ino, index) = self.key;
        let len = page.iter().rposition(|b| *b != 0).map_or(0, |i| i + 1);
        Record::Tail {
            ino,
            index,
            version,
            base: 0,
            base_crc: 0,
            offset: 0,
            bytes: page[..len].to_vec(),
        }
    }
}
