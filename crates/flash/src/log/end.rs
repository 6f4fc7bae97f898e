//! Why a log ends where it does: nothing was written behind, or a page is bad and groups that were flushed are gone (S-9.7, S-9.18,
//! S-9.19, S-9.27), or the superblock that led on is (S-9.12).

use super::{
    AHEAD, Before, CRC_OFFSET, FLAG_DATA_FLUSHED, FLAG_LAST, Head, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead, Pages,
    far, held,
};
use crate::error::Error;
use core::ops::Range;
use keepfs_format::FromBytes;
use keepfs_pool::log::OWN_NUMBERS;

/// Pages behind the end that are looked at: three groups of the greatest length (S-8.10), and some.
pub(super) const BEHIND: u64 = 8192;

/// Pages behind one that is as before that are looked at first.
const NEAR: u64 = 8;

/// Rounds of the ring by which the numbers of lives behind a lost superblock are greater: those of another pool's log are elsewhere (S-8.13).
const ROUNDS: u64 = 8;

/// What to do where a carried group is lost, for people.
const LEFT_OF_CARRIED: &str = "restore it from a backup, or mount it with -o ro,cut-log to look at what is left, or with -o cut-log to \
                               go on from there: some files have older bytes, or zeros";

/// A page at which a log is cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cut {
    /// Its page of the device.
    pub page: u64,
    /// The group that it is of.
    pub group: u64,
    /// It cannot be read; else it is not what was written.
    pub unreadable: bool,
    /// A later page tells that the group had been flushed.
    pub proved: bool,
    /// The group may be the carried one: without it the checkpoint's state cannot be had (S-9.17).
    pub carried: bool,
    /// What ends it is that a newer superblock is lost (S-9.12).
    pub superblock: Option<LostSuperblock>,
}

/// A superblock that a page of the log tells of, newer than the one taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostSuperblock {
    /// Its generation.
    pub generation: u64,
    /// Number of the page that tells.
    pub told_at: u64,
}

impl Cut {
    /// What is lost by it, for people.
    pub fn loss(&self) -> &'static str {
        match self.proved {
            true if self.superblock.is_some() && self.carried => {
                "the newest superblock is lost, and what was written or synced since, and small writes from before the checkpoint before: \
                 of which files is not known"
            }
            true if self.superblock.is_some() => {
                "the newest superblock is lost, and what was written or synced since: files are as they were before"
            }
            true if self.carried => {
                "small writes from before the last checkpoint are lost, and of which files is not known: these have older bytes, or zeros"
            }
            true => "what was synced behind it is lost: files are as they were before, or before the checkpoint",
            false => "the log ends before it: a sync that was answered in the moment before the crash may be lost",
        }
    }

    /// Why the pool is not opened for writing.
    pub fn refusal(&self) -> Error {
        if let Some(lost) = self.superblock {
            if self.carried {
                return Error::BadPool(format!(
                    "its newest superblock (generation {} or later) is lost, of which page {} of its log tells, and with it what was \
                     written or synced since, and small writes that were synced before the checkpoint before it are lost, too, of which \
                     files is not known; {LEFT_OF_CARRIED}",
                    lost.generation, self.page
                ));
            }
            return Error::BadPool(format!(
                "its newest superblock (generation {} or later) is lost, of which page {} of its log tells, and with it what was \
                 written or synced since; mount it read-only (-o ro) to see it as it was before, mount it with -o cut-log to go on \
                 from there, or restore it from a backup",
                lost.generation, self.page
            ));
        }
        let what = if self.unreadable {
            "cannot be read"
        } else {
            "is not what was written"
        };
        if self.carried {
            return Error::BadPool(format!(
                "page {}, of group {} of its log, {what}, and small writes that were synced before its last checkpoint are lost, of \
                 which files is not known; {LEFT_OF_CARRIED}",
                self.page, self.group
            ));
        }
        Error::BadPool(format!(
            "page {}, of group {} of its log, {what}, and what was synced behind it is lost; mount it read-only (-o ro) to see it as \
             it was before, mount it with -o cut-log to go on from there, or restore it from a backup",
            self.page, self.group
        ))
    }
}

/// Judges the page, `None` if it cannot be read, that does not continue the log at `expected`; `end` is the ring's. Returns the
/// greatest group, too, that a page behind tells as durable, 0 without one (S-9.2).
pub(super) fn judge(
    page: Option<&[u8]>,
    expected: &Head,
    before: &Before,
    pages: &mut Pages<'_>,
    end: u64,
) -> Result<(Option<Cut>, u64), Error> {
    let q = expected.sequence;
    let (first, ring_end) = (end - pages.region.pages, end);
    let end = end.min(q + 1 + BEHIND);
    let mut behind = Behind {
        expected,
        before,
        pages,
        first,
        end,
        told_anew: 0,
    };
    let is_older = page.is_some_and(|page| is_older(page, expected, behind.pages.region.pages));
    let goes_on = !is_older || behind.goes_on()?;
    if let Some(lost) = behind.lost_superblock(page, goes_on)? {
        let cut = Cut {
            page: behind.pages.region.page(lost.told_at),
            group: expected.group,
            unreadable: false,
            proved: true,
            carried: false,
            superblock: Some(lost),
        };
        return Ok((Some(cut), 0));
    }
    // The group of staged pages that a checkpoint carried over is told by its superblock (S-10.3).
    let is_looked_at = before.durable < expected.group && goes_on;
    let near = if is_looked_at { behind.told(page)? } else { 0 };
    let near = near.max(behind.told_anew);
    let (device, region) = (behind.pages.device, behind.pages.region);
    let told = near.max(far::told(device, region, expected, before, ring_end)?);
    let proved = before.durable.max(told) >= expected.group;
    let cut = Cut {
        page: behind.pages.region.page(q),
        group: expected.group,
        unreadable: page.is_none(),
        proved,
        carried: false,
        superblock: None,
    };
    Ok(((cut.unreadable || proved).then_some(cut), told))
}

/// The group that a page behind the log's end tells as durable, if its base generation is one of S-9.1.
pub(super) fn durable(head: &PageHead, before: &Before) -> Option<u64> {
    let durable = head.durable.get();
    (before.bases.contains(&head.base.get()) && durable < head.group.get()).then_some(durable)
}

/// The pages behind the one at which the log ends.
struct Behind<'a, 'd> {
    expected: &'a Head,
    before: &'a Before,
    pages: &'a mut Pages<'d>,
    /// Number of the log's first page.
    first: u64,
    end: u64,
    /// The greatest group that pages of a chain which begins anew tell as durable (S-10.7, S-9.2): they stand where the log ends.
    told_anew: u64,
}

impl Behind<'_, '_> {
    /// The page of sequence number `q`, `None` if it cannot be read.
    fn get(&mut self, q: u64) -> Result<Option<&[u8]>, Error> {
        match self.pages.get(q, self.end) {
            Err(error) if error.is_device_io() => Ok(None),
            bytes => bytes.map(Some),
        }
    }

    /// The superblock that led on from here, if it is lost (S-9.20). `page` is the one at which the log ends; it may go on behind.
    fn lost_superblock(&mut self, page: Option<&[u8]>, goes_on: bool) -> Result<Option<LostSuperblock>, Error> {
        let (q, newer) = (self.expected.sequence, self.before.bases.end);
        let (device, region) = (self.pages.device, *self.pages.region);
        let (log, group) = (self.before, self.expected.group);
        let is_next = |head: &PageHead, page: &[u8]| {
            let crc = region.crc(self.before.incarnation, self.expected.chain, page);
            head.base.get() >= newer && head.group.get() == self.expected.group && stored(page) == Some(crc)
        };
        if let Some(head) = page.and_then(|page| head(page, q).filter(|head| is_next(head, page))) {
            return Ok(Some(LostSuperblock {
                generation: head.base.get(),
                told_at: q,
            }));
        }
        if let Some(told) = self.begun_anew()? {
            return Ok(Some(told));
        }
        for first in [q, q + 1] {
            let mut before = None;
            for place in first..self.end {
                let of_later_life = |head: &PageHead| {
                    let number = head.sequence.get();
                    number > place.max(OWN_NUMBERS)
                        && number <= place + ROUNDS * region.pages
                        && number % region.pages == place % region.pages
                        && before.is_none_or(|before| number == before + 1)
                };
                let of_it = |page| any_head(page).filter(of_later_life).map(|head| (head, page));
                let Some((head, page)) = self.get(place)?.and_then(of_it) else {
                    break;
                };
                if let Some(generation) = held::told(device, &region, log, group, &head, page)? {
                    return Ok(Some(LostSuperblock {
                        generation,
                        told_at: head.sequence.get(),
                    }));
                }
                before = Some(head.sequence.get());
            }
        }
        match self.before.is_other_lost {
            true => self.told_anywhere(self.first..self.first + region.pages, group),
            false if goes_on => self.told_anywhere(q..self.end, u64::MAX),
            false => Ok(None),
        }
    }

    /// The same, whatever page of `places` tells, however bad those at the end are: a whole one (S-9.29), or of a group behind `group`,
    /// where no slot of the other parity holds a superblock.
    fn told_anywhere(&self, places: Range<u64>, group: u64) -> Result<Option<LostSuperblock>, Error> {
        let (device, region, first) = (self.pages.device, self.pages.region, self.first);
        let round = region.pages;
        let mut told: Option<LostSuperblock> = None;
        let mut pages = Pages::new(device, region);
        for place in places.clone() {
            let bytes = match pages.get(place, places.end) {
                Err(error) if error.is_device_io() => continue,
                bytes => bytes?,
            };
            let may_tell = |head: &PageHead| {
                let number = head.sequence.get();
                (place.max(OWN_NUMBERS)..first + ROUNDS * round).contains(&number)
                    && number % round == place % round
                    && is_sound(head)
            };
            let Some(head) = any_head(bytes).filter(may_tell) else {
                continue;
            };
            let Some(generation) = held::told(device, region, self.before, group, &head, bytes)? else {
                continue;
            };
            let before = told.unwrap_or(LostSuperblock {
                generation: 0,
                told_at: 0,
            });
            told = Some(LostSuperblock {
                generation: before.generation.max(generation),
                told_at: before.told_at.max(head.sequence.get()),
            });
        }
        Ok(told)
    }

    /// The same where the log of the lost superblock goes on from no page (S-10.7): it begins with what its checkpoint carried over,
    /// which was written before that superblock, and goes on with pages that tell of it.
    fn begun_anew(&mut self) -> Result<Option<LostSuperblock>, Error> {
        let (region, newer) = (*self.pages.region, self.before.bases.end);
        let incarnation = self.before.incarnation;
        let mut chain = super::begun_anew(self.expected.chain, newer);
        for q in self.expected.sequence..self.end {
            let of_it = |page: &&[u8]| stored(page) == Some(region.crc(incarnation, chain, page));
            let Some(page) = self.get(q)?.filter(of_it) else {
                break;
            };
            let Some(head) = head(page, q) else {
                break;
            };
            if head.base.get() >= newer {
                return Ok(Some(LostSuperblock {
                    generation: head.base.get(),
                    told_at: q,
                }));
            }
            chain = region.crc(incarnation, chain, page);
            self.told_anew = self.told_anew.max(durable(&head, self.before).unwrap_or(0));
        }
        Ok(None)
    }

    /// Whether the log was written on behind a page that is as before: the pages next to it tell, and some far ones (S-9.15).
    fn goes_on(&mut self) -> Result<bool, Error> {
        let (q, end, round) = (self.expected.sequence, self.end, self.pages.region.pages);
        let far = core::iter::successors(Some(NEAR), |far| Some(2 * far)).take_while(|far| *far <= BEHIND);
        let later = (1..NEAR).chain(far).map(|distance| q + distance);
        for later in later.take_while(|later| *later < end) {
            if later >= q + NEAR {
                self.pages.ahead = 1;
            }
            let is_later = |bytes: &[u8]| {
                let more = any_head(bytes).and_then(|head| head.sequence.get().checked_sub(later));
                more.is_some_and(|more| more % round == 0)
            };
            if self.get(later)?.is_none_or(is_later) {
                self.pages.ahead = AHEAD.start;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The greatest group that a later page tells as durable, 0 without one, as far as one that proves a loss. `page` is the one at
    /// which the log ends.
    fn told(&mut self, page: Option<&[u8]>) -> Result<u64, Error> {
        let q = self.expected.sequence;
        let region = *self.pages.region;
        let has_own_numbers = q >= OWN_NUMBERS;
        // What a page is chained to is known if the one before is of this log; what the bad one says is not believed.
        let mut chain = page
            .filter(|page| !has_own_numbers && head(page, q).is_some())
            .and_then(stored);
        let mut told = 0;
        for later in q + 1..self.end {
            if told >= self.expected.group {
                break;
            }
            let (before, found) = (self.before, self.get(later)?);
            let Some((bytes, head)) = found.and_then(|bytes| Some((bytes, head(bytes, later)?))) else {
                chain = None;
                continue;
            };
            let is_ours = chain.map_or(has_own_numbers || later == q + 1, |chain| {
                stored(bytes) == Some(region.crc(before.incarnation, chain, bytes))
            });
            told = told.max(durable(&head, before).filter(|_| is_ours).unwrap_or(0));
            chain = stored(bytes);
        }
        Ok(told)
    }
}

/// Whether a page is what stood there before the log came to it: zeros, or a page of an earlier round.
fn is_older(page: &[u8], expected: &Head, round: u64) -> bool {
    let of_earlier_round = |head: PageHead| {
        let (q, now) = (head.sequence.get(), expected.sequence);
        q < now && q % round == now % round && head.group.get() < expected.group
    };
    page.iter().all(|byte| *byte == 0) || any_head(page).is_some_and(of_earlier_round)
}

/// Whether a head keeps the rules of S-8.2.
fn is_sound(head: &PageHead) -> bool {
    let counts = [head.sequence, head.group, head.durable, head.base, head.seq];
    usize::from(head.used.get()) <= PAYLOAD
        && head.flags & !(FLAG_LAST | FLAG_DATA_FLUSHED) == 0
        && head.reserved == 0
        && head.durable < head.group
        && counts.iter().all(|count| count.get() < 1 << 62)
}

/// The head of a page of the log.
fn any_head(page: &[u8]) -> Option<PageHead> {
    let head = PageHead::read_from_bytes(&page[..PAYLOAD_OFFSET]).ok()?;
    (head.magic.get() == MAGIC).then_some(head)
}

/// The head of a page, if it has sequence number `q`.
pub(super) fn head(page: &[u8], q: u64) -> Option<PageHead> {
    any_head(page).filter(|head| head.sequence.get() == q)
}

/// The CRC that a page says it has.
pub(super) fn stored(page: &[u8]) -> Option<u64> {
    page[CRC_OFFSET..].first_chunk().map(|crc| u64::from_le_bytes(*crc))
}

#[cfg(test)]
mod tests;
