//! Reading the log: which groups there are, by chain and order alone (SPEC section 8, S-9.1, S-9.2).

mod newer;

use crate::carried;
use crate::finding::Finding;
use crate::is_zero;
use crate::pool::Pool;
use keepfs_codes::burst::Burst;
use keepfs_codes::crc64;
use keepfs_format::plog::{CRC_OFFSET, FLAG_DATA_FLUSHED, FLAG_LAST, MAGIC, PAYLOAD, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, PAGE};
use newer::End;

pub(crate) use newer::{LIVES, is_sound, newest};

/// A whole group (S-8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub number: u64,
    /// Sequence number of its first page.
    pub sequence: u64,
    /// Pages it takes.
    pub pages: u64,
    /// All its data was flushed before it (flag bit 1 of its last page).
    pub data_flushed: bool,
    /// Last committed transaction in it.
    pub seq: u64,
    pub payload: Vec<u8>,
}

/// The log as it was found.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub groups: Vec<Group>,
    /// Groups up to this number need no data check (S-9.2).
    pub durable: u64,
    /// Pages that were accepted, those of a dropped group too.
    pub seen: u64,
    /// Number that the next group has.
    pub next: u64,
}

/// What precedes a page in the bytes that its CRC covers (S-8.3): pool id, incarnation, the CRC before.
const SEED: usize = 32;

/// The CRC of a log page (S-8.3). Only bytes 0..4088 of `page` count.
pub(crate) fn page_crc(sb: &Superblock, chain: u64, page: &[u8; PAGE]) -> u64 {
    let mut covered = [0; SEED + CRC_OFFSET];
    covered[..16].copy_from_slice(&sb.pool);
    covered[16..24].copy_from_slice(&sb.incarnation.get().to_le_bytes());
    covered[24..SEED].copy_from_slice(&chain.to_le_bytes());
    covered[SEED..].copy_from_slice(&page[..CRC_OFFSET]);
    crc64::full(&covered)
}

/// Reads the log from the superblock's first page on.
pub(crate) fn read(pool: &mut Pool<'_>) -> Log {
    let mut scan = Scan {
        log: Log {
            groups: Vec::new(),
            durable: pool.sb.durable.get(),
            seen: 0,
            next: pool.sb.group.get(),
        },
        open: None,
        chain: pool.sb.chain.get(),
        group: pool.sb.group.get(),
        seq: pool.sb.seq.get(),
    };
    let first = pool.sb.log_seq.get();
    for sequence in first..first + pool.sb.log_pages.get() {
        if !scan.page(pool, sequence) && !scan.undone(pool, sequence) && !scan.made_again(pool, sequence) {
            let end = first + pool.sb.log_pages.get();
            pool.log_ends_in = scan.group;
            if !scan.is_led_on(pool, sequence, end) {
                scan.judge_end(pool, sequence, end);
            }
            scan.judge_carried(pool, sequence, end);
            break;
        }
    }
    if let Some(open) = scan.open {
        pool.sink.push(Finding::LogTorn {
            sequence: open.sequence + open.pages,
        });
    }
    pool.log_ends_in = scan.group;
    scan.log.next = scan.group;
    scan.log
}

/// Pages behind the end that may tell of groups which are gone (S-9.7).
const BEHIND: u64 = 8192;

/// Those that are looked at first behind a page that is as before, beside far ones (S-9.7).
const NEAR: u64 = 8;

/// From here on no other pool has a log page of the same number (S-8.13).
const OWN_NUMBERS: u64 = 1 << 40;

/// What the CRC of a page that tells far from the log's end covers in place of the CRC before it (S-8.15).
const FAR: u64 = 0x0152_4146_5045_454B;

/// Numbers behind page `sequence`, before `end`, whose place is one of the four of S-8.15.
fn far_places(sequence: u64, round: u64, end: u64) -> impl Iterator<Item = u64> {
    let quarter = round / 4;
    (0..4)
        .map(move |n| {
            let place = n * quarter;
            let behind = sequence + 1;
            behind - behind % round + place + if place < behind % round { round } else { 0 }
        })
        .filter(move |number| *number < end)
}

/// Numbers behind page `sequence`, before `end`, that S-9.15 looks at first.
fn looked_at(sequence: u64, end: u64) -> impl Iterator<Item = u64> {
    let far = core::iter::successors(Some(NEAR), |far| Some(2 * far)).take_while(|far| *far <= BEHIND);
    let later = (1..NEAR).chain(far).map(move |distance| sequence + distance);
    later.take_while(move |number| *number < end)
}

fn head_of(bytes: &[u8; PAGE]) -> Option<PageHead> {
    let (head, _) = PageHead::read_from_prefix(bytes).ok()?;
    (head.magic.get() == MAGIC).then_some(head)
}

/// The CRC that a page says it has.
fn stored(bytes: &[u8; PAGE]) -> u64 {
    u64::from_le_bytes(bytes[CRC_OFFSET..].try_into().unwrap_or_default())
}

/// The group that the page tells as durable, if its base generation is one of S-9.1.
fn tells(sb: &Superblock, head: &PageHead) -> Option<u64> {
    let (generation, durable) = (sb.generation.get(), head.durable.get());
    let is_of_it = (generation - 1..=generation).contains(&head.base.get()) && durable < head.group.get();
    is_of_it.then_some(durable)
}

/// Where the page with this number lies (S-8.1).
fn page_of(pool: &Pool<'_>, sequence: u64) -> u64 {
    pool.sb.log_start.get() + sequence % pool.sb.log_pages.get()
}

struct Scan {
    log: Log,
    /// The group whose last page has not come yet.
    open: Option<Group>,
    chain: u64,
    /// Number that the next page's group must have.
    group: u64,
    seq: u64,
}

impl Scan {
    /// Takes the page (where S-8.1 says); false if the log ends before it.
    fn page(&mut self, pool: &mut Pool<'_>, sequence: u64) -> bool {
        let mut bytes = [0; PAGE];
        let at = page_of(pool, sequence);
        pool.image.read(at, &mut bytes).is_ok() && self.accept(pool, sequence, &bytes)
    }

    /// S-9.24: takes the page without the few wrong bits that its CRC tells, if it is the one expected then.
    fn undone(&mut self, pool: &mut Pool<'_>, sequence: u64) -> bool {
        let (mut bytes, page) = ([0; PAGE], page_of(pool, sequence));
        if pool.image.read(page, &mut bytes).is_err() {
            return false;
        }
        let Some(burst) = Burst::find(stored(&bytes) ^ page_crc(&pool.sb, self.chain, &bytes), PAGE) else {
            return false;
        };
        burst.flip(&mut bytes);
        let generation = pool.sb.generation.get();
        let is_it = head_of(&bytes).is_some_and(|head| {
            head.sequence.get() == sequence
                && head.group.get() == self.group
                && (generation - 1..=generation).contains(&head.base.get())
                && self.broken(&head).next().is_none()
        });
        let undone = is_it && self.accept(pool, sequence, &bytes);
        if undone {
            pool.sink.push(Finding::LogFlipped {
                sequence,
                page,
                byte: burst.first / 8,
                bits: burst.wrong.count_ones(),
            });
        }
        undone
    }

    /// S-9.11: takes the page as the others of its group tell it.
    fn made_again(&mut self, pool: &mut Pool<'_>, sequence: u64) -> bool {
        let again = carried::again(pool, self.group, self.chain, sequence);
        let made = again.is_some_and(|bytes| self.accept(pool, sequence, &bytes));
        if made {
            let page = page_of(pool, sequence);
            pool.sink.push(Finding::LogMended { sequence, page });
        }
        made
    }

    fn accept(&mut self, pool: &mut Pool<'_>, sequence: u64, bytes: &[u8; PAGE]) -> bool {
        let Ok((head, _)) = PageHead::read_from_prefix(bytes) else {
            return false;
        };
        let stored = stored(bytes);
        if head.magic.get() != MAGIC
            || head.sequence.get() != sequence
            || stored != page_crc(&pool.sb, self.chain, bytes)
        {
            return false;
        }
        let (base, generation) = (head.base.get(), pool.sb.generation.get());
        if base > generation {
            pool.sink.push(Finding::SuperblockLost { sequence, base });
        }
        if head.group.get() != self.group || base > generation || base < generation - 1 {
            return false;
        }
        self.judge(pool, sequence, &head);
        self.chain = stored;
        self.log.seen += 1;
        self.take(sequence, &head, bytes);
        true
    }

    /// S-9.12: whether a superblock that is lost led on from before page `sequence`.
    fn is_led_on(&self, pool: &mut Pool<'_>, sequence: u64, end: u64) -> bool {
        let is_known = |finding: &Finding| matches!(finding, Finding::SuperblockLost { .. });
        if pool.sink.findings.iter().any(is_known) {
            return true;
        }
        let end = End {
            sequence,
            chain: self.chain,
            stop: end.min(sequence + 1 + BEHIND),
            goes_on: self.goes_on(pool, sequence, end),
        };
        let told = newer::told(pool, end);
        let generation = pool.sb.generation.get();
        let newer = told.map(|base| Finding::SuperblockNewer { generation, base });
        newer.map(|finding| pool.sink.push(finding)).is_some()
    }

    /// S-9.15: whether the log may go on behind page `sequence`. Behind one that is as before nothing is looked for unless it was written
    /// on there.
    fn goes_on(&self, pool: &Pool<'_>, sequence: u64, end: u64) -> bool {
        let round = pool.sb.log_pages.get();
        let page = |sequence: u64| {
            let mut bytes = [0; PAGE];
            pool.image.read(page_of(pool, sequence), &mut bytes).ok()?;
            Some(bytes)
        };
        let is_as_before = |bytes: [u8; PAGE]| is_zero(&bytes) || self.is_earlier(&bytes, sequence, round);
        let is_later = |bytes: [u8; PAGE], place: u64| {
            head_of(&bytes)
                .is_some_and(|head| head.sequence.get() >= place && head.sequence.get() % round == place % round)
        };
        !page(sequence).is_some_and(is_as_before)
            || looked_at(sequence, end).any(|later| page(later).is_none_or(|bytes| is_later(bytes, later)))
    }

    /// S-9.7: why the log ends before page `sequence`; the ring ends before `end`. What pages behind tell as durable is so (S-9.2).
    fn judge_end(&mut self, pool: &mut Pool<'_>, sequence: u64, end: u64) {
        let (start, round) = (pool.sb.log_start.get(), pool.sb.log_pages.get());
        let image = pool.image;
        let page = |sequence: u64| {
            let mut bytes = [0; PAGE];
            image.read(start + sequence % round, &mut bytes).ok()?;
            Some(bytes)
        };
        let bad = page(sequence);
        let far = far_places(sequence, round, end).filter_map(|later| Self::tells_far(&pool.sb, later, &page(later)?));
        let anew = self.told_anew(&pool.sb, sequence..end, page);
        let mut told = far.max().unwrap_or(0).max(pool.sb.durable.get()).max(anew);
        let end = end.min(sequence + 1 + BEHIND);
        let is_of = |bytes: &[u8; PAGE], sequence| head_of(bytes).is_some_and(|head| head.sequence.get() == sequence);
        // The superblock tells of the group that its checkpoint carried over (S-10.3).
        if told < self.group && !self.goes_on(pool, sequence, end) {
            self.log.durable = self.log.durable.max(told);
            return;
        }
        let own_numbers = sequence >= OWN_NUMBERS;
        let mut before = bad
            .filter(|bytes| is_of(bytes, sequence) && !own_numbers)
            .as_ref()
            .map(stored);
        for later in sequence + 1..end {
            if told >= self.group {
                break;
            }
            let Some(bytes) = page(later).filter(|bytes| is_of(bytes, later)) else {
                before = None;
                continue;
            };
            let tells = head_of(&bytes).and_then(|head| tells(&pool.sb, &head));
            let is_of_this_log = || match before {
                Some(chain) => page_crc(&pool.sb, chain, &bytes) == stored(&bytes),
                None => own_numbers || later == sequence + 1,
            };
            told = told.max(tells.filter(|_| is_of_this_log()).unwrap_or(0));
            before = Some(stored(&bytes));
        }
        self.log.durable = self.log.durable.max(told);
        let (page, group) = (start + sequence % round, self.group);
        if told >= group {
            pool.sink.push(Finding::LogGone { sequence, page, group });
        } else if bad.is_none() {
            pool.sink.push(Finding::LogUnreadable { sequence, page });
        }
    }

    /// S-9.17: whether the group at which the log ends, before page `sequence`, may be the one that the checkpoint carried over.
    fn judge_carried(&self, pool: &mut Pool<'_>, sequence: u64, end: u64) {
        let (group, durable) = (pool.sb.group.get(), pool.sb.durable.get());
        let may_be = self.group == group && durable >= group && self.seq <= pool.sb.seq.get();
        if may_be && !carried::brings_transactions(pool, sequence..end.min(sequence + 1 + BEHIND)) {
            pool.sink.push(Finding::LogCarried { sequence, group });
        }
    }

    /// S-9.27: the group that the page tells as durable, if it is one that tells it far from the log's end.
    fn tells_far(sb: &Superblock, sequence: u64, bytes: &[u8; PAGE]) -> Option<u64> {
        let is_far = |head: &PageHead| head.sequence.get() == sequence && stored(bytes) == page_crc(sb, FAR, bytes);
        head_of(bytes).filter(is_far).and_then(|head| tells(sb, &head))
    }

    /// The greatest group that pages tell as durable in the chain of a log which begins anew where this one ends (S-10.7), 0 without one.
    fn told_anew(
        &self,
        sb: &Superblock,
        places: core::ops::Range<u64>,
        page: impl Fn(u64) -> Option<[u8; PAGE]>,
    ) -> u64 {
        let mut seed = [0; 16];
        seed[..8].copy_from_slice(&self.chain.to_le_bytes());
        seed[8..].copy_from_slice(&(sb.generation.get() + 1).to_le_bytes());
        let (mut chain, mut told) = (crc64::full(&seed), 0);
        for sequence in places {
            let bytes = page(sequence).filter(|bytes| stored(bytes) == page_crc(sb, chain, bytes));
            let head = bytes.as_ref().and_then(head_of);
            let (Some(bytes), Some(head)) = (bytes, head.filter(|head| head.sequence.get() == sequence)) else {
                break;
            };
            told = told.max(tells(sb, &head).unwrap_or(0));
            chain = stored(&bytes);
        }
        told
    }

    /// Whether a page stood there before the log came to it.
    fn is_earlier(&self, bytes: &[u8; PAGE], sequence: u64, round: u64) -> bool {
        head_of(bytes).is_some_and(|head| {
            let was = head.sequence.get();
            was < sequence && was % round == sequence % round && head.group.get() < self.group
        })
    }

    /// Tells the fields that are wrong although the page is whole.
    fn judge(&mut self, pool: &mut Pool<'_>, sequence: u64, head: &PageHead) {
        for field in self.broken(head) {
            pool.sink.push(Finding::LogPage { sequence, field });
        }
        self.seq = self.seq.max(head.seq.get());
    }

    /// Fields that break a rule of S-8.2.
    fn broken(&self, head: &PageHead) -> impl Iterator<Item = &'static str> {
        let rules = [
            (usize::from(head.used.get()) <= PAYLOAD, "used"),
            (head.flags & !(FLAG_LAST | FLAG_DATA_FLUSHED) == 0, "flags"),
            (head.reserved == 0, "reserved"),
            (head.durable.get() < head.group.get(), "durable"),
            (head.seq.get() >= self.seq, "seq"),
        ];
        rules.into_iter().filter(|(holds, _)| !holds).map(|(_, field)| field)
    }

    fn take(&mut self, sequence: u64, head: &PageHead, bytes: &[u8; PAGE]) {
        self.log.durable = self.log.durable.max(head.durable.get());
        let mut group = self.open.take().unwrap_or(Group {
            number: self.group,
            sequence,
            pages: 0,
            data_flushed: false,
            seq: 0,
            payload: Vec::new(),
        });
        let used = usize::from(head.used.get()).min(PAYLOAD);
        group.pages += 1;
        group.seq = head.seq.get();
        group
            .payload
            .extend_from_slice(&bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used]);
        if head.flags & FLAG_LAST == 0 {
            self.open = Some(group);
            return;
        }
        group.data_flushed = head.flags & FLAG_DATA_FLUSHED != 0;
        self.group += 1;
        self.log.groups.push(group);
    }
}

#[cfg(test)]
mod tests;
