//! Choosing the superblock that a pool is opened with (S-2.1, S-2.3): only the newest one will do, and nothing that a
//! slot holds is believed before it was checked (promise C-8).

mod flipped;

pub use flipped::Flipped;

use super::{history, protect};
use crate::error::Error;
use flipped::Whole;
use keepfs_codes::crc64;
use keepfs_format::map::{CHUNK_PAGES_MAX, HEIGHT_MAX};
use keepfs_format::mmp::page_of;
use keepfs_format::superblock::{
    self, CLEAN, CRC_OFFSET, INCOMPAT_KNOWN, MAGIC, OPEN, PAGES_MAX, PAGES_MIN, RO_COMPAT_KNOWN, RO_COMPAT_MMP, Root,
    SLOTS, Superblock, VERSION, slot_page, slots_of,
};
use keepfs_format::{FromBytes, PAGE};
use keepfs_media::signature;
use keepfs_media::{Device, PageNo};

/// Pages of a log, least and most.
pub const LOG_PAGES: core::ops::RangeInclusive<u64> = 32..=1 << 20;
/// The generation of the first superblock that is written.
const FIRST: u64 = 2;
/// Pages of a zone, least and most.
pub const ZONE_PAGES: core::ops::RangeInclusive<u64> = 16..=32_512;
/// Counters stay below this, so that sums of them never overflow.
pub const COUNT_MAX: u64 = 1 << 63;
/// A pool is written only while its counters are below this: what is left then is more than can be counted (S-2.3).
const WRITTEN_MAX: u64 = 1 << 62;

/// What a slot holds.
enum Content {
    /// Nothing, or something that is no superblock.
    None,
    /// A superblock with a wrong checksum: torn, damaged, or never whole.
    Damaged,
    /// It cannot be read.
    Unreadable(String),
    /// A superblock with a right checksum that must not be used.
    Refused { generation: u64, why: String },
    /// One that may be used.
    Valid,
}

/// A slot as it was found.
struct Slot {
    number: usize,
    page: u64,
    content: Content,
    /// What has a right checksum.
    whole: Option<Box<Whole>>,
}

impl Slot {
    /// The superblock there, if it may be used.
    fn valid(&self) -> Option<&Superblock> {
        let is_valid = matches!(self.content, Content::Valid);
        self.whole.as_ref().filter(|_| is_valid).map(|whole| &whole.sb)
    }

    /// Whether what stands there says itself that a pool of so many pages has its slots so. Where another version has its slots nobody
    /// knows here.
    fn is_placed_by(&self, pages: u64) -> bool {
        let is_by = |sb: &Superblock| sb.version.get() != VERSION || sb.slots_by() == pages;
        self.whole.as_ref().is_some_and(|whole| is_by(&whole.sb))
    }
}

/// The superblock that a pool is opened with, and what stands beside it.
#[derive(Debug)]
pub struct Taken {
    /// It.
    pub sb: Superblock,
    /// Both slots beside its own hold none though they were written: the older or the newer generation is lost (S-21.10).
    pub is_other_lost: bool,
    /// The slots of which a bit was undone.
    pub flipped: Vec<Flipped>,
}

/// The newest superblock (S-2.3). Errors: there is none, or it must not be used.
pub fn choose(device: &dyn Device) -> Result<Superblock, Error> {
    take(device).map(|taken| taken.sb)
}

/// The same with what one look at the slots tells. Errors: as [`choose`].
pub fn take(device: &dyn Device) -> Result<Taken, Error> {
    let (slots, is_placed) = placed_slots(device);
    let sb = newest(device, &slots, is_placed)?;
    Ok(Taken {
        sb,
        is_other_lost: is_other_lost(&slots, sb.generation.get()),
        flipped: flipped::of(slots),
    })
}

fn newest(device: &dyn Device, slots: &[Slot], is_placed: bool) -> Result<Superblock, Error> {
    let newest = slots.iter().filter_map(|slot| Some((slot, slot.valid()?)));
    let newest = newest.max_by_key(|(slot, sb)| (sb.generation.get(), core::cmp::Reverse(slot.number)));
    let refused = slots.iter().filter_map(|slot| match &slot.content {
        Content::Refused { generation, why } => Some((*generation, slot, why)),
        _ => None,
    });
    let refused = refused.max_by_key(|(generation, slot, _)| (*generation, core::cmp::Reverse(slot.number)));
    match (newest, refused) {
        // Older superblocks are evidence, never a way around a newer one.
        (Some((_, sb)), Some((generation, slot, why))) if generation > sb.generation.get() => {
            Err(Error::BadPool(place(slot, why)))
        }
        (None, Some((_, slot, why))) if is_placed => Err(Error::BadPool(place(slot, why))),
        (None, Some((_, slot, _))) => Err(Error::BadPool(format!(
            "page {} holds a superblock of a pool of another size, whose page 0 is damaged, so that its superblocks are not \
             found; `keepfs check --repair` looks for them",
            slot.page
        ))),
        (None, None) => Err(Error::BadPool(nothing(device, slots))),
        (Some((slot, sb)), _) => alone(slots, slot, sb),
    }
}

/// See [`Taken::is_other_lost`]. Of a pool that was only begun to be made there is no other.
fn is_other_lost(slots: &[Slot], generation: u64) -> bool {
    let holds_none = |slot: &Slot| !matches!(slot.content, Content::Valid | Content::Refused { .. });
    let mut others = slots.iter().filter(|slot| !slots_of(generation).contains(&slot.number));
    generation > FIRST && others.all(holds_none)
}

/// The superblocks in all slots that may be used, for who knows which one it wants.
pub fn superblocks(device: &dyn Device) -> Vec<Superblock> {
    let (slots, _) = placed_slots(device);
    slots.iter().filter_map(Slot::valid).copied().collect()
}

/// Whether a pool may be written (S-2.19, S-2.5). Errors: it has features whose structures this Keepfs would not keep right,
/// or a counter that would come to its end.
pub fn may_write(sb: &Superblock) -> Result<(), Error> {
    let unknown = sb.ro_compat.get() & !RO_COMPAT_KNOWN;
    if unknown != 0 {
        return Err(Error::BadPool(format!(
            "it has features that this Keepfs does not know (ro_compat {unknown:#x}) and would break by writing; mount it \
             read-only (-o ro), or use a newer Keepfs"
        )));
    }
    let counters = [
        ("generation", sb.generation),
        ("log_seq", sb.log_seq),
        ("group", sb.group),
        ("seq", sb.seq),
        ("incarnation", sb.incarnation),
        ("durable", sb.durable),
    ];
    counters
        .into_iter()
        .try_for_each(|(field, count)| may_count(field, count.get()))
}

/// Whether a pool with this counter may be written (S-2.19). Errors: it would come to its end.
pub fn may_count(field: &str, count: u64) -> Result<(), Error> {
    match count < WRITTEN_MAX {
        true => Ok(()),
        false => Err(Error::BadPool(format!(
            "its {field} ({count}) is greater than any pool in use can have, so it was damaged or made up; mount it read-only \
             (-o ro), and restore it from a backup"
        ))),
    }
}

fn place(slot: &Slot, why: &str) -> String {
    format!("superblock slot {} (page {}) {why}", slot.number, slot.page)
}

/// The newest one, unless another slot has a different one of the same generation.
fn alone(slots: &[Slot], newest: &Slot, sb: &Superblock) -> Result<Superblock, Error> {
    let differs = |other: &Superblock| other.generation == sb.generation && other != sb;
    match slots.iter().find(|slot| slot.valid().is_some_and(differs)) {
        None => Ok(*sb),
        Some(slot) => Err(Error::BadPool(format!(
            "superblock slots {} (page {}) and {} (page {}) of generation {} differ, and nobody can say which \
             is the true one; restore the pool from a backup",
            newest.number, newest.page, slot.number, slot.page, sb.generation
        ))),
    }
}

/// Why there is nothing to open, in words that say what to do.
fn nothing(device: &dyn Device, slots: &[Slot]) -> String {
    let pages: Vec<String> = slots.iter().map(|slot| slot.page.to_string()).collect();
    let pages = pages.join(", ");
    let unreadable = slots.iter().find_map(|slot| match &slot.content {
        Content::Unreadable(why) => Some(why),
        _ => None,
    });
    if let Some(why) = unreadable {
        return format!("no superblock can be read at pages {pages} ({why})");
    }
    if slots.iter().any(|slot| matches!(slot.content, Content::Damaged)) {
        return format!(
            "every superblock is damaged (wrong checksums at pages {pages}); `keepfs check --repair` may make one, and \
             `keepfs salvage` copies out what can be read"
        );
    }
    match signature::detect(device) {
        Ok(Some(found)) if found.name != signature::KEEPFS => {
            format!("it holds {found} and no Keepfs superblock; check the path")
        }
        _ if device.pages() < PAGES_MIN => format!(
            "it has only {} KiB and no Keepfs superblock; check the path, or make a pool with `keepfs create`",
            device.pages() * 4
        ),
        _ => {
            format!(
                "it has no Keepfs superblock (pages {pages}); check the path; if a pool was there, `keepfs check` looks for what is \
                 left of it, else make one with `keepfs create`"
            )
        }
    }
}

/// The four slots, where a number of pages puts them by which a superblock stands in its place (S-2.26), and whether there is such
/// a number.
fn placed_slots(device: &dyn Device) -> (Vec<Slot>, bool) {
    let mut first = None;
    for pages in places(device) {
        let slots = slots_by(device, pages);
        if slots.iter().any(|slot| slot.is_placed_by(pages)) {
            return (slots, true);
        }
        first.get_or_insert(slots);
    }
    (first.unwrap_or_default(), false)
}

/// The four slots of a pool that was made with so many pages.
fn slots_by(device: &dyn Device, pages: u64) -> Vec<Slot> {
    let slots = (0..SLOTS).map(|slot| read_slot(device, slot, pages));
    let mut slots: Vec<Slot> = slots.collect();
    flipped::drop_denied(&mut slots);
    slots
}

/// The numbers of pages that may place the slots: the one that page 0 tells, the device's, and if page 0 is damaged those that it
/// would tell with one bit turned round (S-2.26).
fn places(device: &dyn Device) -> impl Iterator<Item = u64> {
    let size = device.pages();
    let first = first_page(device);
    let is_damaged = first.is_some_and(|(_, is_whole)| !is_whole);
    let told = first.map(|(sb, _)| sb.slots_by());
    let turned = first.filter(|_| is_damaged).into_iter().flat_map(|(sb, _)| {
        let (pages, made) = (sb.pages.get(), sb.made_pages.get());
        let of = move |pages: u64, made: u32| if made == 0 { pages } else { u64::from(made) };
        let by_made = (0..u32::BITS).map(move |bit| of(pages, made ^ 1 << bit));
        by_made.chain((0..u64::BITS).map(move |bit| of(pages ^ 1 << bit, made)))
    });
    let all = told.into_iter().chain([size]).chain(turned);
    all.enumerate()
        .filter(move |(at, pages)| *at < 2 || *pages <= size)
        .map(|(_, pages)| pages)
        .filter(|pages| (PAGES_MIN..=PAGES_MAX).contains(pages))
}

/// The pages on which valid superblocks of a pool stand that has, or had, the whole device.
pub fn whole_superblocks(device: &dyn Device) -> Vec<u64> {
    let slots = slots_by(device, device.pages()).into_iter();
    slots
        .filter(|slot| slot.valid().is_some())
        .map(|slot| slot.page)
        .collect()
}

/// What page 0 holds if that begins as a superblock (one bit may be turned round), and whether its checksum is right. The number of pages by which the slots are
/// placed is the same in every superblock of a pool and told in one sector, so that a torn one tells it too (S-2.26, S-2.15).
fn first_page(device: &dyn Device) -> Option<(Superblock, bool)> {
    let mut bytes = [0; PAGE];
    device.read(PageNo(0), &mut bytes).ok()?;
    if !flipped::begins(&bytes) {
        return None;
    }
    match Whole::of(&bytes) {
        Some(whole) => Some((whole.sb, true)),
        None => Superblock::read_from_bytes(&bytes).ok().map(|sb| (sb, false)),
    }
}

fn read_slot(device: &dyn Device, number: usize, pages: u64) -> Slot {
    let page = slot_page(number, pages);
    let mut bytes = [0; PAGE];
    let (content, whole) = if page >= device.pages() {
        (Content::None, None)
    } else {
        match device.read(PageNo(page), &mut bytes) {
            Ok(()) if !flipped::begins(&bytes) => (Content::None, None),
            Ok(()) => match Whole::of(&bytes) {
                Some(whole) => (judge(&whole.sb, number, page, device.pages()), Some(whole)),
                None => (Content::Damaged, None),
            },
            Err(e) => (Content::Unreadable(e.to_string()), None),
        }
    };
    Slot {
        number,
        page,
        content,
        whole,
    }
}

/// What a superblock with a right checksum is worth. The places of magic, version, generation and checksum are those of every
/// version (S-2.3).
fn judge(sb: &Superblock, slot: usize, page: u64, device_pages: u64) -> Content {
    match refuse(sb, slot, page, device_pages) {
        Some(why) => Content::Refused {
            generation: sb.generation.get(),
            why,
        },
        None => Content::Valid,
    }
}

/// Why a superblock with a right checksum cannot be used; `None` if it can.
fn refuse(sb: &Superblock, slot: usize, page: u64, device_pages: u64) -> Option<String> {
    let pages = sb.pages.get();
    if sb.magic != MAGIC || sb.version.get() != VERSION {
        return Some(format!(
            "is of format version {}, this Keepfs knows version {VERSION}; use the Keepfs that made it",
            sb.version
        ));
    }
    let unknown = sb.incompat.get() & !INCOMPAT_KNOWN;
    if unknown != 0 {
        return Some(format!(
            "names features that this Keepfs does not know (incompat {unknown:#x}); use a newer Keepfs"
        ));
    }
    if (PAGES_MIN..=PAGES_MAX).contains(&pages) && pages > device_pages {
        return Some(format!(
            "says that the pool has {pages} pages, but the device has only {device_pages}: it was cut; give it its \
             length back or restore it"
        ));
    }
    if let Some((field, value)) = broken(sb) {
        return Some(format!(
            "has a right checksum, but its {field} ({value}) is not allowed; run `keepfs check` on it, and restore the pool \
             from a backup"
        ));
    }
    if sb.slot_page(slot) != page || !slots_of(sb.generation.get()).contains(&slot) {
        return Some(format!(
            "holds a superblock of generation {}, which belongs to slots {:?} of {pages} pages: it was written there by mistake, and the \
             slots that it belongs to have lost it; `keepfs check --repair` goes on with the one before, `keepfs salvage` copies out \
             what that has",
            sb.generation,
            slots_of(sb.generation.get())
        ));
    }
    None
}

/// The first field that breaks the superblock's own rules (S-2.3), and its value.
fn broken(sb: &Superblock) -> Option<(&'static str, u64)> {
    let pages = sb.pages.get();
    let (log_start, log_pages) = (sb.log_start.get(), sb.log_pages.get());
    let log_end = log_start.checked_add(log_pages).filter(|end| *end <= pages);
    let zone_pages = sb.zone_pages.get();
    let zones = pages.div_ceil(zone_pages.max(1));
    let over_slot = |end: u64| (0..SLOTS).any(|slot| (log_start..end).contains(&sb.slot_page(slot)));
    let count = |n: u64| n < COUNT_MAX;
    let roots = || sb.roots.iter();
    let rules: [(bool, &'static str, u64); 25] = [
        ((PAGES_MIN..=PAGES_MAX).contains(&pages), "number of pages", pages),
        (
            matches!(sb.meta_copies.get(), 1 | 2),
            "meta_copies",
            sb.meta_copies.get().into(),
        ),
        (LOG_PAGES.contains(&log_pages), "log_pages", log_pages),
        (log_end.is_some_and(|end| !over_slot(end)), "log_start", log_start),
        (ZONE_PAGES.contains(&zone_pages), "zone_pages", zone_pages),
        (sb.zone_current.get() < zones, "zone_current", sb.zone_current.get()),
        (sb.zone_next.get() < zones, "zone_next", sb.zone_next.get()),
        (
            (1..=CHUNK_PAGES_MAX).contains(&sb.chunk_pages.get()),
            "chunk_pages",
            sb.chunk_pages.get().into(),
        ),
        (matches!(sb.state.get(), CLEAN | OPEN), "state", sb.state.get().into()),
        (
            count(sb.generation.get()) && sb.generation.get() > 0,
            "generation",
            sb.generation.get(),
        ),
        (
            count(sb.log_seq.get().saturating_add(log_pages)),
            "log_seq",
            sb.log_seq.get(),
        ),
        (count(sb.group.get()) && sb.group.get() > 0, "group", sb.group.get()),
        (count(sb.seq.get()), "seq", sb.seq.get()),
        (count(sb.incarnation.get()), "incarnation", sb.incarnation.get()),
        (count(sb.durable.get()), "durable", sb.durable.get()),
        (
            sb.created_nsec.get() < 1_000_000_000,
            "created nanoseconds",
            sb.created_nsec.get().into(),
        ),
        (
            sb.growth_is_right(),
            "number of pages when it was made (and its feature)",
            sb.made_pages.get().into(),
        ),
        (
            sb.reserved1 == [0; _],
            "reserved byte behind the roots",
            sb.reserved1.iter().copied().find(|b| *b != 0).unwrap_or(0).into(),
        ),
        (
            sb.reserved2 == [0; _],
            "reserved byte behind the history",
            sb.reserved2.iter().copied().find(|b| *b != 0).unwrap_or(0).into(),
        ),
        (
            history::is_right(sb),
            "place of the history (and its feature)",
            sb.history_start.get(),
        ),
        (
            sb.ro_compat.get() & RO_COMPAT_MMP == 0 || page_of(sb).is_some(),
            "place of the block of multi-mount protection (behind the history)",
            sb.history_start.get(),
        ),
        (protect::is_right(sb), "protection (and its feature)", sb.protect.into()),
        (sb.roots[0] == Root::default(), "reserved root 0", 0),
        (
            roots().all(|r| r.height <= HEIGHT_MAX),
            "height of a root",
            roots().map(|r| r.height).max().unwrap_or(0).into(),
        ),
        (roots().all(|r| r.reserved == [0; 7]), "reserved bytes of a root", 0),
    ];
    let wrong = rules.into_iter().find(|(holds, _, _)| !holds);
    wrong.map(|(_, field, value)| (field, value))
}

/// The superblock's bytes with its CRC.
pub fn superblock_bytes(sb: &Superblock) -> Box<[u8; PAGE]> {
    use keepfs_format::IntoBytes;
    let mut bytes = Box::new([0; PAGE]);
    bytes.copy_from_slice(sb.as_bytes());
    let crc = crc64::full(&bytes[..superblock::CRC_OFFSET]);
    bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests;
