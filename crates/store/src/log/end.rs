//! Why a log ends where it does: nothing was written behind, or a page is bad and groups that were flushed are gone (S-9.7).

use super::{Before, CRC_OFFSET, Head, MAGIC, PAYLOAD_OFFSET, PageHead, Pages};
use crate::error::Error;
use keepfs_format::FromBytes;

/// Pages behind the end that are looked at: three groups of the greatest length (S-8.10), and some.
const BEHIND: u64 = 8192;

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
}

impl Cut {
    /// What is lost by it, for people.
    pub fn loss(&self) -> &'static str {
        match self.proved {
            true => "what was synced behind it is lost: files are as they were before, or before the checkpoint",
            false => "the log ends before it: a sync that was answered in the moment before the crash may be lost",
        }
    }

    /// Why the pool is not opened for writing.
    pub fn refusal(&self) -> Error {
        let what = if self.unreadable {
            "cannot be read"
        } else {
            "is not what was written"
        };
        Error::BadPool(format!(
            "page {}, of group {} of its log, {what}, and what was synced behind it is lost; mount it read-only (-o ro) to see it as \
             it was before, mount it with -o cut-log to go on from there, or restore it from a backup",
            self.page, self.group
        ))
    }
}

/// Judges the page, `None` if it cannot be read, that does not continue the log at `expected`; `end` is the ring's.
pub(super) fn judge(
    page: Option<&[u8]>,
    expected: &Head,
    before: &Before,
    pages: &mut Pages<'_>,
    end: u64,
) -> Result<Option<Cut>, Error> {
    // The group of staged pages that a checkpoint carried over is told by its superblock (S-10.3).
    let mut proved = before.durable >= expected.group;
    if !proved && page.is_some_and(|page| is_older(page, expected, pages.region.pages)) {
        return Ok(None);
    }
    let q = expected.sequence;
    let region = *pages.region;
    let mut chain = page.and_then(stored);
    for later in q + 1..end.min(q + 1 + BEHIND) {
        if proved {
            break;
        }
        let bytes = match pages.get(later, end) {
            Err(error) if error.is_device_io() => {
                chain = None;
                continue;
            }
            bytes => bytes?,
        };
        let tells = head(bytes).is_some_and(|head| {
            head.sequence.get() == later
                && before.bases.contains(&head.base.get())
                && head.durable.get() >= expected.group
        });
        // The page behind one that cannot be read is chained to what nobody knows.
        let is_ours = |chain: Option<u64>| {
            chain.map_or(later == q + 1, |chain| {
                stored(bytes) == Some(region.crc(before.incarnation, chain, bytes))
            })
        };
        if tells && is_ours(chain) {
            proved = true;
        }
        chain = stored(bytes);
    }
    let cut = Cut {
        page: region.page(q),
        group: expected.group,
        unreadable: page.is_none(),
        proved,
    };
    Ok((cut.unreadable || proved).then_some(cut))
}

/// Whether a page is what stood there before the log came to it: zeros, or a page of an earlier round.
fn is_older(page: &[u8], expected: &Head, round: u64) -> bool {
    let of_earlier_round = |head: PageHead| {
        let (q, now) = (head.sequence.get(), expected.sequence);
        q < now && q % round == now % round && head.group.get() < expected.group
    };
    page.iter().all(|byte| *byte == 0) || head(page).is_some_and(of_earlier_round)
}

fn head(page: &[u8]) -> Option<PageHead> {
    let head = PageHead::read_from_bytes(&page[..PAYLOAD_OFFSET]).ok()?;
    (head.magic.get() == MAGIC).then_some(head)
}

/// The CRC that a page says it has.
fn stored(page: &[u8]) -> Option<u64> {
    page[CRC_OFFSET..].first_chunk().map(|crc| u64::from_le_bytes(*crc))
}
