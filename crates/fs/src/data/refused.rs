//! A device that refuses to write data: the same bytes go to other pages (S-7.8).
//!
//! Invariants: (1) a page is taken out of use only if its bytes were taken at another one: a device that refuses
//! everything says nothing about single pages; (2) nothing is named before all of its bytes were taken.

use super::place::Fresh;
use crate::Volume;
use crate::errors::{Error, Result};
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use keepfs_store::{Near, Purpose};

/// How often what was refused is tried at other pages, 8 to the power of the round further on.
const ROUNDS: u32 = 4;
/// So many refusals without one success between them end a round: what was not tried is refused too.
const STREAK_MAX: u32 = 16;

/// What one write of a step came to, page by page.
struct Attempt<'v> {
    volume: &'v Volume,
    /// Refusals since the last success.
    streak: u32,
    /// Numbers of the pages within the step that are still to be written, with whether each was refused by itself.
    left: Vec<(usize, bool)>,
    /// The last refusal.
    error: Option<Error>,
}

impl Attempt<'_> {
    /// Writes neighbouring pages; on a refusal halves, so that the pages refused are known one by one.
    fn write(&mut self, first: usize, page: u64, bytes: &[u8]) -> Result<()> {
        let count = bytes.len() / PAGE;
        if self.streak >= STREAK_MAX {
            self.left.extend((first..first + count).map(|i| (i, false)));
            return Ok(());
        }
        match self.volume.store.write_data(page, bytes) {
            Ok(()) => self.streak = 0,
            Err(error) if error.is_device_io() => {
                self.streak += 1;
                self.error = Some(Error::Refused(error));
                if count == 1 {
                    self.left.push((first, true));
                    return Ok(());
                }
                let half = count / 2;
                let (low, high) = bytes.split_at(half * PAGE);
                self.write(first, page, low)?;
                self.write(first + half, page + half as u64, high)?;
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Writes pages in as few runs as their places make.
    fn write_part(&mut self, first: usize, places: &[u64], bytes: &[u8]) -> Result<()> {
        let mut at = 0;
        while at < places.len() {
            let follows = |(i, p): &(usize, &u64)| **p == places[at] + *i as u64;
            let run = places[at..].iter().enumerate().take_while(follows).count();
            self.write(first + at, places[at], &bytes[at * PAGE..(at + run) * PAGE])?;
            at += run;
        }
        Ok(())
    }
}

impl Volume {
    /// Writes `parts`, one behind the other, to `pages`; what is refused goes to others, and `pages` and `fresh` follow.
    /// Returns the CRC-32C of each. Errors: [`Error::Refused`] if the device took it nowhere.
    pub(super) fn write_to<'s>(
        &'s self,
        pages: &mut [u64],
        parts: &[&[u8]],
        purpose: Purpose,
        fresh: &mut Fresh<'s>,
    ) -> Result<Vec<u32>> {
        let bytes: Vec<&[u8]> = parts.iter().flat_map(|part| part.chunks_exact(PAGE)).collect();
        let crcs = bytes.iter().map(|page| crc32c::of(page)).collect();
        let mut attempt = Attempt {
            volume: self,
            streak: 0,
            left: Vec::new(),
            error: None,
        };
        let mut at = 0;
        for part in parts {
            let count = part.len() / PAGE;
            attempt.write_part(at, &pages[at..at + count], part)?;
            at += count;
        }
        if attempt.left.is_empty() {
            return Ok(crcs);
        }
        let left = self.write_elsewhere(attempt, pages, &bytes, purpose, fresh)?;
        for (page, refused) in left {
            if !fresh.leave(page, refused) && refused {
                self.store.refuse(page);
            }
        }
        Ok(crcs)
    }

    /// So many free pages, further away each round, for what is bad may be a region; `None` if there are no more.
    fn other_places<'s>(
        &'s self,
        count: usize,
        round: u32,
        purpose: Purpose,
        fresh: &mut Fresh<'s>,
    ) -> Result<Option<Vec<u64>>> {
        let most = self.store.pool().zone_pages as usize / 4;
        for skipped in [8usize.pow(round).min(most), 0] {
            match self.reserve((count + skipped) as u32, purpose, Near::Current) {
                Ok(reservation) => {
                    let mut places = fresh.add(reservation);
                    let used = places.split_off(skipped);
                    for page in places {
                        fresh.leave(page, false);
                    }
                    return Ok(Some(used));
                }
                Err(error) if error.is_no_space() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// Writes what an attempt left over to other pages. Returns the pages left, and whether each was refused by itself.
    fn write_elsewhere<'s>(
        &'s self,
        mut attempt: Attempt<'s>,
        pages: &mut [u64],
        bytes: &[&[u8]],
        purpose: Purpose,
        fresh: &mut Fresh<'s>,
    ) -> Result<Vec<(u64, bool)>> {
        let mut gone = Vec::new();
        for round in 0..ROUNDS {
            let left = core::mem::take(&mut attempt.left);
            let Some(places) = self.other_places(left.len(), round, purpose, fresh)? else {
                break;
            };
            attempt.streak = 0;
            for ((i, refused), place) in left.into_iter().zip(places) {
                gone.push((core::mem::replace(&mut pages[i], place), refused));
                attempt.write(i, place, bytes[i])?;
            }
            if attempt.left.is_empty() {
                return Ok(gone);
            }
        }
        Err(attempt.error.unwrap_or(Error::Store(keepfs_store::Error::NoSpace)))
    }
}
