//! The witness of a frame: what device, log and redo tell, with the records of open transactions over it (S-15.16).

use super::past::{Past, Untold, told};
use crate::{Flash, Store};
use keepfs_codes::crc64;
use keepfs_codes::line::{self, LINE, LINES};
use keepfs_format::{FromBytes, Header, MetaId, PAGE, Space};
use keepfs_vault::arena;
use keepfs_vault::arena::FrameNo;
use keepfs_vault::planted::{self, Rung};
use keepfs_vault::undo::{Kept, Undo};

/// Most contents that are possible because changes are in flight.
const POSSIBLE_MAX: usize = 64;

/// What a frame may hold.
pub(crate) struct Evidence {
    /// Contents that are possible; more than one if changes are in flight.
    possible: Vec<arena::Copy>,
    /// All changes of it are ranges in the log, so the witness alone tells the content (S-8.5). Else a sum must agree.
    is_whole: bool,
}

impl Evidence {
    /// What is right in a frame whose bytes are `live` and whose lines should have `sums`: a content that has all of them;
    /// else the lines of `live` that have theirs, and for the others those of a content that has these, if the whole
    /// `agrees` with what else is known; else the witness, if all changes are its ranges and it tells one content only.
    pub fn judge(
        mut self,
        live: &[u8; PAGE],
        sums: &[u64; LINES],
        agrees: impl Fn(&[u8; PAGE]) -> bool,
    ) -> Option<arena::Copy> {
        if let Some(at) = self.possible.iter().position(|bytes| line::sums(bytes) == *sums) {
            return Some(self.possible.swap_remove(at));
        }
        let found = line::sums(live);
        let mended = self.possible.iter().filter_map(|bytes| {
            let mut mended = bytes.clone();
            let lines = mended
                .as_chunks_mut::<LINE>()
                .0
                .iter_mut()
                .zip(live.as_chunks::<LINE>().0);
            let right = lines.enumerate().filter(|(number, _)| found[*number] == sums[*number]);
            right.for_each(|(_, (line, live))| *line = *live);
            (line::sums(&mended) == *sums && agrees(&mended)).then_some(mended)
        });
        let mended: Option<arena::Copy> = { mended }.next();
        let is_only = self.is_whole && self.possible.len() == 1;
        mended.or_else(|| is_only.then(|| self.possible.swap_remove(0)))
    }

    /// The content that has this sum.
    pub fn with_sum(mut self, sum: u64) -> Option<arena::Copy> {
        let at = self.possible.iter().position(|bytes| crc64::full(&**bytes) == sum)?;
        Some(self.possible.swap_remove(at))
    }

    /// The only content, where no sum need agree.
    pub fn only(mut self) -> Option<arena::Copy> {
        (self.is_whole && self.possible.len() == 1).then(|| self.possible.swap_remove(0))
    }
}

/// Records of one open transaction for one frame.
struct Part {
    records: Vec<Kept>,
    /// The change of the last one may not be made, or may be taken back.
    in_flight: bool,
}

impl Store {
    /// A node that an open transaction has made: only its frame has the header, which its sum must confirm.
    fn unborn(&self, id: MetaId, live: &[u8; PAGE]) -> Option<arena::Copy> {
        let (header, _) = Header::read_from_prefix(&live[..]).ok()?;
        (header.id.get() == id.0 && id.space() == Some(Space::Nodes)).then(|| crate::newborn::newborn(&header))
    }

    /// What open transactions have recorded for the frame. `None`: a slot is damaged.
    fn parts(&self, frame: FrameNo) -> Option<Vec<Part>> {
        let mut parts = Vec::new();
        for slot in self.txns.undo.slots() {
            let (records, in_flight) = self.txns.undo.open_records(slot, frame)?;
            if !records.is_empty() {
                parts.push(Part { records, in_flight });
            }
        }
        Some(parts)
    }
}

impl Flash {
    /// What the frame of `id`, which the caller holds, may contain.
    pub(crate) fn evidence(
        &self,
        store: &Store,
        id: MetaId,
        frame: FrameNo,
        mut past: Past,
        live: &[u8; PAGE],
    ) -> Result<Evidence, Untold> {
        // While this is locked nobody commits: a transaction's records are in its slot, or in the redo, or in the past.
        let redo = self.log.redo.lock();
        let mut since = match id.space() {
            // No record tells a stripe.
            Some(Space::Totals) => {
                past.content = Some(store.txns.known.content(id));
                Vec::new()
            }
            _ => {
                let since = redo.beyond(past.seq).ok_or(Untold::Moved)?;
                since.read(&self.log.segment).map_err(|_| Untold::Nothing)?
            }
        };
        let mut parts = store.parts(frame).ok_or(Untold::Nothing)?;
        drop(redo);
        if planted::ignores(Rung::RedoIgnored) {
            since.clear();
        }
        if planted::ignores(Rung::OpenIgnored) {
            parts.clear();
        }
        for record in since.iter().flat_map(|txn| &txn.records) {
            past.apply(store.pool.tag, id, record);
        }
        let is_known = past.content.is_some();
        let first = past.content.or_else(|| store.unborn(id, live));
        let mut possible = vec![first.ok_or(Untold::Nothing)?];
        for part in &parts {
            part.add_to(&mut possible).ok_or(Untold::Nothing)?;
        }
        possible.dedup();
        Ok(Evidence {
            possible,
            is_whole: is_known && matches!(id.space(), Some(Space::Nodes | Space::Inodes)),
        })
    }

    /// What device, log and the redo before the first entry that is damaged tell of a metablock behind transaction `up_to`, and
    /// the last transaction that they have.
    pub(crate) fn told_content(&self, store: &Store, id: MetaId, up_to: u64) -> Option<(arena::Copy, u64)> {
        told(|| {
            let mut past = self.past_until(store, id, up_to)?;
            let mut since = Vec::new();
            // Redo that the log has may be given up.
            if past.seq < up_to {
                let redo = self.log.redo.lock();
                since = redo
                    .beyond(past.seq)
                    .ok_or(Untold::Moved)?
                    .read_whole(&self.log.segment);
                since.retain(|txn| txn.seq <= up_to);
            }
            for record in since.iter().flat_map(|txn| &txn.records) {
                past.apply(store.pool.tag, id, record);
            }
            let last = since.last().map_or(past.seq, |txn| txn.seq);
            Ok((past.content.ok_or(Untold::Nothing)?, last))
        })
    }
}

impl Part {
    /// Each content that is possible with the changes of this transaction over it.
    fn add_to(&self, possible: &mut Vec<arena::Copy>) -> Option<()> {
        let (last, sure) = match self.in_flight {
            true => self.records.split_last().map(|(last, sure)| (Some(last), sure))?,
            false => (None, &self.records[..]),
        };
        possible
            .iter_mut()
            .for_each(|bytes| sure.iter().for_each(|kept| put(bytes, kept)));
        if let Some(last) = last {
            let mut with = possible.clone();
            with.iter_mut().for_each(|bytes| put(bytes, last));
            possible.extend(with);
        }
        (possible.len() <= POSSIBLE_MAX).then_some(())
    }
}

/// Makes a recorded change.
fn put(bytes: &mut [u8; PAGE], kept: &Kept) {
    let Some(to) = bytes.get_mut(kept.offset..kept.offset + kept.new.len()) else {
        return;
    };
    match kept.undo {
        Undo::Bytes => to.copy_from_slice(&kept.new),
        Undo::Bits => {
            let changed = kept.old.iter().zip(&kept.new);
            to.iter_mut()
                .zip(changed)
                .for_each(|(to, (old, new))| *to = *to & !(old ^ new) | new & (old ^ new));
        }
    }
}
