//! What a frame may hold, by a witness that takes nothing from the frame (S-15.16).

use keepfs_codes::crc64;
use keepfs_codes::line::{self, LINE, LINES};
use keepfs_format::PAGE;
use keepfs_vault::arena;
use keepfs_vault::undo::{Kept, Undo};
use std::time::Duration;

/// Why the witness tells nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Untold {
    /// A part of it is damaged or missing.
    Nothing,
    /// What it is read from moved on meanwhile: a checkpoint came, a group was being written, redo was given up.
    Moved,
}

/// How often the witness is asked if what it is read from moves on, and how long the log gets for the group that it is writing.
const ASKED: u32 = 16;
const GROUP: Duration = Duration::from_millis(1);

/// What the witness tells, asked until it is read from what stands still (S-15.16).
pub fn told<T>(mut ask: impl FnMut() -> Result<T, Untold>) -> Option<T> {
    for _ in 0..ASKED {
        match ask() {
            Ok(told) => return Some(told),
            Err(Untold::Nothing) => return None,
            Err(Untold::Moved) => std::thread::sleep(GROUP),
        }
    }
    None
}

/// Most contents that are possible because changes are in flight.
const POSSIBLE_MAX: usize = 64;

/// What a frame may hold.
pub struct Evidence {
    /// Contents that are possible; more than one if changes are in flight.
    possible: Vec<arena::Copy>,
    /// All changes of it are ranges in the log, so the witness alone tells the content (S-8.5). Else a sum must agree.
    is_whole: bool,
}

impl Evidence {
    /// Of a frame that held `first` before these transactions began. `is_whole`: all changes of it are ranges in the log. `None`: too
    /// much is in flight to tell.
    pub fn of(first: arena::Copy, parts: &[Part], is_whole: bool) -> Option<Evidence> {
        let mut possible = vec![first];
        for part in parts {
            part.add_to(&mut possible)?;
        }
        possible.dedup();
        Some(Evidence { possible, is_whole })
    }

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
pub struct Part {
    /// They, in their order.
    pub records: Vec<Kept>,
    /// The change of the last one may not be made, or may be taken back.
    pub in_flight: bool,
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
