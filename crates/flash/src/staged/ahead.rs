//! The next content of a page that a transaction stages, put into a free slot before the transaction commits, outside of
//! all locks of the store (S-14.6; decision 0667).
//!
//! A slot without a head is free whatever bytes are in it, so nothing of this outlives a server that dies here, and nothing
//! has to be taken back.

use super::slots::{self, Head, Stored};
use super::{Bases, Key, Placed, Table, staging};
use crate::error::Room;
use crate::segment::Segment;
use keepfs_format::plog::Record;
use keepfs_frames::scratch::with_page;

/// What a transaction holds of the table until it is committed, besides its bases.
#[derive(Default)]
pub struct Coming {
    /// What it may still take.
    room: Room,
    /// Slots for the page that it stages, if that is one.
    ahead: Option<Ahead>,
}

impl Coming {
    /// Whether nothing is taken.
    pub fn is_nothing(&self) -> bool {
        self.room == Room::default() && self.ahead.is_none()
    }

    /// Makes what can be made before the commit, once the transaction changes nothing any more. The caller holds what protects
    /// its pages from others, and not the table. Errors, with its address: a base is not what was read (S-13.17).
    pub fn make(&mut self, segment: &Segment, records: &[Record], bases: &Bases) -> Result<(), usize> {
        match self.ahead.as_mut().zip(only_one(records)) {
            Some((ahead, record)) => ahead.make(segment, record, bases),
            None => Ok(()),
        }
    }
}

impl Coming {
    /// The page whose old content did not read when the new one was to be made of it.
    pub fn unread(&self) -> Option<Key> {
        let unread = self
            .ahead
            .as_ref()
            .filter(|ahead| ahead.made.is_none() && ahead.was.is_some());
        unread.map(|ahead| ahead.key)
    }
}

/// Slots for one page; nobody else has them.
#[derive(Debug)]
pub struct Ahead {
    key: Key,
    /// What is staged of the page now.
    was: Option<Placed>,
    small: Option<u32>,
    whole: u32,
    made: Option<Made>,
}

/// The content is there.
#[derive(Debug)]
struct Made {
    stored: Stored,
    /// The head of what it replaces.
    old: Option<Head>,
}

impl Ahead {
    /// Puts the content that `record` makes into a slot. What cannot be made here, because the old content is damaged, is left
    /// to [`Table::apply`].
    fn make(&mut self, segment: &Segment, record: &Record, bases: &Bases) -> Result<(), usize> {
        let Some((staging, patch)) = staging(record) else {
            return Ok(());
        };
        let base = bases.get(&self.key);
        self.made = with_page(|page| {
            let mut old = None;
            match self.was {
                Some(placed) => {
                    old = slots::load(segment, self.key, &placed, page);
                    if old.is_none() {
                        return Ok(None);
                    }
                }
                None if !staging.has_base(base.map(|base| &**base), page) => {
                    return Err(base.map_or(0, |base| base.as_ptr().addr()));
                }
                None => {}
            }
            patch.to(page);
            let small = self.small.filter(|_| slots::is_small(page));
            let stored = slots::store(segment, small.unwrap_or(self.whole), page);
            Ok(Some(Made { stored, old }))
        })?;
        Ok(())
    }
}

/// The one record that the table follows, if it is one that stages.
pub fn only_one(records: &[Record]) -> Option<&Record> {
    let mut followed = records.iter().filter(|record| Table::follows(record));
    let only = followed.next()?;
    (followed.next().is_none() && staging(only).is_some()).then_some(only)
}

impl Table {
    /// Takes what a transaction with these records needs (S-14.7): room and, if it stages one page, slots for that. `Err`:
    /// there is not as much.
    pub fn expect(&mut self, records: &[Record]) -> Result<Coming, Room> {
        let mut room = self.room_for(records);
        if !self.take_room(room) {
            return Err(room);
        }
        let key = only_one(records).and_then(staging).map(|(staging, _)| staging.key);
        let ahead = key.and_then(|key| {
            let (small, whole) = self.slots.take_ahead()?;
            room.slots -= 1;
            Some(Ahead {
                key,
                was: self.pages.get(&key).copied(),
                small,
                whole,
                made: None,
            })
        });
        Ok(Coming { room, ahead })
    }

    /// What was taken and not used goes back.
    pub fn give_up(&mut self, coming: Coming) {
        self.give_room(coming.room);
        if let Some(ahead) = coming.ahead {
            self.leave(ahead.small);
            self.leave(Some(ahead.whole));
        }
    }

    fn leave(&mut self, slot: Option<u32>) {
        if let Some(slot) = slot {
            self.slots.give_back(slot);
        }
    }

    /// The transaction is committed: what was made ahead counts from here on. Else its records are still to be applied.
    pub fn apply_ahead(&mut self, coming: &mut Coming, records: &[Record]) -> bool {
        let Some(ahead) = coming.ahead.take() else { return false };
        let staging = only_one(records).and_then(staging);
        let same = self.pages.get(&ahead.key) == ahead.was.as_ref();
        let (Some((staging, _)), Some(made), true) = (staging, &ahead.made, same) else {
            coming.ahead = Some(ahead);
            self.give_up(core::mem::take(coming));
            return false;
        };
        self.stamp += 1;
        let new = staging.head(self.stamp);
        let head = made.old.map_or(new, |old| Head {
            version: staging.version,
            stamp: self.stamp,
            ..old
        });
        self.slots.name(&head, &made.stored);
        let slot = made.stored.slot;
        self.leave(ahead.small.filter(|small| *small != slot));
        self.leave(Some(ahead.whole).filter(|whole| *whole != slot));
        self.placed(ahead.was, &head, &made.stored);
        true
    }
}

#[cfg(test)]
mod tests;
