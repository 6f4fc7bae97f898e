//! The staged table as a killed server left it (S-14.8).

use super::slots::{self, Found, Slots};
use super::{Bases, Key, Placed, Table, Under, Weight};
use crate::error::Error;
use crate::redo::TxnRedo;
use crate::segment::{Segment, Word};
use keepfs_format::PAGE;
use keepfs_format::plog::Record;
use keepfs_frames::ids::IdMap;
use keepfs_pool::BadData;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reads the heads back and applies what a transaction in `redo` committed and the killed server had not applied
/// whole. `read` gives a base: device page, its CRC-32C, where to; a page whose base it does not give is lost. Errors:
/// `Damaged` if a head is not right: the segment must not be used.
pub fn rebuild(
    segment: Arc<Segment>,
    redo: &[TxnRedo],
    mut read: impl FnMut(u64, u32, &mut [u8; PAGE]) -> Result<(), BadData>,
) -> Result<Table, Error> {
    let mut table = from_heads(segment.clone())?;
    // What is applied again comes to the same.
    let followed = segment.word(Word::Followed).unwrap_or(0);
    for txn in redo.iter().filter(|t| t.seq > followed) {
        for record in &txn.records {
            let (mut bases, mut lost) = (Bases::default(), None);
            if let Some((key, base, crc)) = base_of(record).filter(|(key, ..)| !table.pages.contains_key(key)) {
                let mut page = Box::new([0; PAGE]);
                lost = read(base, crc, &mut page).err().map(|_| key);
                bases.insert(key, page);
            }
            table.apply(record, &mut Under::Bases(&mut bases))?;
            if let Some((ino, index)) = lost {
                table.lose(ino, index);
            }
        }
        segment.set_word(Word::Followed, txn.seq);
    }
    Ok(table)
}

fn base_of(record: &Record) -> Option<(Key, u64, u32)> {
    match record {
        Record::Tail {
            ino,
            index,
            base,
            base_crc,
            ..
        }
        | Record::Zero {
            ino,
            index,
            base,
            base_crc,
            ..
        } if *base != 0 => Some(((*ino, *index), *base, *base_crc)),
        _ => None,
    }
}

/// The index that the heads tell. Of two slots with one page the one that was about to be given up becomes free.
fn from_heads(segment: Arc<Segment>) -> Result<Table, Error> {
    let (mut free, mut outdated) = (Vec::new(), Vec::new());
    let mut pages: BTreeMap<Key, Placed> = BTreeMap::new();
    let mut stamp = 0;
    for slot in (0..segment.slots()).rev() {
        match slots::found(&segment, slot) {
            Found::Free => free.push(slot),
            Found::Damaged => {
                return Err(Error::Damaged(format!("staged slot {slot} was changed in memory")));
            }
            Found::Page(head, _) => {
                stamp = stamp.max(head.stamp);
                let now = Placed::of(slot, &head, segment.is_small(slot));
                match pages.get(&head.key).copied() {
                    Some(other) if other.stamp > now.stamp => outdated.push(now),
                    _ => outdated.extend(pages.insert(head.key, now)),
                }
            }
        }
    }
    let mut slots = Slots::new(segment, free.into_iter());
    outdated.iter().for_each(|o| slots.free(o.slot, o.stamp));
    Ok(Table {
        lost: pages.values().filter(|p| p.lost).count(),
        promised: pages.values().filter(|p| !p.based).count() as u64,
        quarters: pages.values().map(|p| p.quarters()).sum(),
        weight: Weight::default(),
        coming: 0,
        slots,
        pages,
        patches: IdMap::default(),
        stamp,
        // The checkpoint that follows a restart makes it known again.
        seen_by_checkpoint: 0,
    })
}
