//! A superblock for a pool of which none is left (S-21.9, S-21.21): what is not known of it is told by what lies where, or may be anything.

use crate::image::Image;
use crate::pool::header;
use crate::report::Sink;
use crate::{Page, scan, superblock};
use keepfs_codes::crc64;
use keepfs_format::history::PAGES;
use keepfs_format::metablock::MAGIC;
use keepfs_format::plog::{self, PageHead};
use keepfs_format::superblock::{
    CLEAN, INCOMPAT_HISTORY, INCOMPAT_PROTECT, INCOMPAT_STRIPES, PAGES_MAX, RO_COMPAT_MMP, RO_COMPAT_MMP_ON,
    Superblock, slot_page,
};
use keepfs_format::{FromBytes, IntoBytes, PAGE, mmp};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};

/// pcrc (S-2.6), what a pool has unless it is told.
const PROTECT: u8 = 2;
/// Counters that log pages tell are below this, or the page is garbage.
const COUNTERS: u64 = 1 << 61;
/// The generation is so much greater than any that is told: a slot that can be read again some day is older.
const AHEAD: u64 = 1 << 20;

/// What is found on the device besides.
#[derive(Default)]
struct Seen {
    /// Content of metablocks, and how often it stands there.
    contents: BTreeMap<(u64, u64), u64>,
    /// Log pages that stand where they belong, and those that do not.
    log: u64,
    strays: u64,
    /// Metablocks where the log should be.
    inside: u64,
    sequence: u64,
    group: u64,
    generation: u64,
    seq: u64,
}

/// The superblock; None if what it needs is not there: the block of multi-mount protection and the log, where a pool of the
/// device's size has them.
pub(super) fn superblock(image: &dyn Image) -> Option<Box<Superblock>> {
    let mut sb = scan::superblock_of(image, &mut Sink::new(0))?;
    let pages = image.pages().min(PAGES_MAX);
    sb.pages = pages.into();
    sb.history_start = (slot_page(1, pages) + 1).into();
    let (count, block) = block(image, &sb)?;
    sb.history_pages = count.into();
    sb.pool = block.pool;
    sb.ro_compat = match block.state.get() {
        mmp::OFF => RO_COMPAT_MMP,
        _ => RO_COMPAT_MMP | RO_COMPAT_MMP_ON,
    }
    .into();
    sb.log_start = 1.into();
    sb.log_pages = (pages / 32).clamp(32, 65_536).into();
    let seen = look(image, &sb);
    if seen.log <= seen.strays || seen.inside > 0 {
        return None;
    }
    let twice = seen.contents.values().filter(|number| **number > 1).count();
    sb.meta_copies = if 2 * twice > seen.contents.len() { 2 } else { 1 }.into();
    sb.generation = (seen.generation + AHEAD).into();
    sb.log_seq = seen.sequence.into();
    sb.group = (seen.group + 1).into();
    sb.durable = seen.group.into();
    sb.seq = seen.seq.into();
    sb.incarnation = (random() >> 2).into();
    sb.chain = random().into();
    sb.name_seed = [random().into(), random().into()];
    sb.zone_pages = (pages / 8).clamp(16, 32_512).into();
    sb.zone_next = 1.into();
    sb.chunk_pages = ((pages / 64).clamp(16, 256) as u32).into();
    sb.protect = PROTECT;
    sb.incompat = (INCOMPAT_PROTECT | INCOMPAT_HISTORY | INCOMPAT_STRIPES).into();
    sb.state = CLEAN.into();
    superblock::broken(&sb).is_none().then_some(sb)
}

/// The block of S-2.12 behind a history of whatever length: pages of the history, and the block, which has the pool's whole id. So N
/// is right, too: it tells where the history begins.
fn block(image: &dyn Image, sb: &Superblock) -> Option<(u32, mmp::Block)> {
    let tag = &sb.pool[..4];
    PAGES.step_by(2).find_map(|count| {
        let bytes = read(image, sb.history_start.get() + u64::from(count))?;
        let (block, _) = mmp::Block::read_from_prefix(&bytes).ok()?;
        let crc = crc64::full(&block.as_bytes()[..mmp::COVERED]);
        (block.magic == mmp::MAGIC && block.crc.get() == crc && block.pool[..4] == *tag).then_some((count, block))
    })
}

fn read(image: &dyn Image, page: u64) -> Option<Page> {
    let mut bytes = [0; PAGE];
    (page < image.pages() && image.read(page, &mut bytes).is_ok()).then_some(bytes)
}

fn look(image: &dyn Image, sb: &Superblock) -> Seen {
    let mut seen = Seen::default();
    let (start, length) = (sb.log_start.get(), sb.log_pages.get());
    for page in 1..sb.pages.get() {
        let Some(bytes) = read(image, page) else { continue };
        let is_of_log = (start..start + length).contains(&page);
        let head = header(&bytes);
        if head.magic.get() == MAGIC && head.pool.get().to_le_bytes() == sb.pool[..4] {
            *seen.contents.entry((head.id.get(), crc64::full(&bytes))).or_default() += 1;
            seen.inside += u64::from(is_of_log);
        } else if is_of_log {
            seen.log_page(&bytes, page - start, length);
        }
    }
    seen
}

impl Seen {
    /// S-8.1: the number of a log page tells its place in a log of this length.
    fn log_page(&mut self, bytes: &Page, place: u64, length: u64) {
        let Ok((head, _)) = PageHead::read_from_prefix(bytes) else {
            return;
        };
        if head.magic.get() != plog::MAGIC {
            return;
        }
        let counters = [head.sequence, head.group, head.base, head.seq].map(|counter| counter.get());
        if counters.iter().any(|counter| *counter >= COUNTERS) || head.sequence.get() % length != place {
            self.strays += 1;
            return;
        }
        self.log += 1;
        self.sequence = self.sequence.max(counters[0]);
        self.group = self.group.max(counters[1]);
        self.generation = self.generation.max(counters[2]);
        self.seq = self.seq.max(counters[3]);
    }
}

/// 64 bits that nobody can guess.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
