//! Which superblock holds, and whether the other slots are as they must be (SPEC section 2).

mod flipped;
mod searched;

use crate::finding::Finding;
use crate::report::Sink;
use crate::{Image, is_zero};
use flipped::Sealed;
use keepfs_format::superblock::{
    CLEAN, INCOMPAT_HISTORY, INCOMPAT_KNOWN, INCOMPAT_PROTECT, MAGIC, OPEN, PAGES_MAX, PAGES_MIN, RO_COMPAT_KNOWN,
    RO_COMPAT_MMP, SLOTS, Superblock, VERSION, slot_page, slots_of,
};
use keepfs_format::{FromBytes, IntoBytes, PAGE, history, map};

/// Greatest number of a protection (S-2.6).
const PROTECT_MAX: u8 = 5;

/// What a slot holds.
enum Content {
    /// Nothing was ever written.
    Empty,
    /// No superblock: other bytes, a torn one, or unreadable.
    None,
    /// One with a right CRC that breaks its own rules; the field.
    Broken(&'static str),
    /// A right one of this generation, which belongs to other slots (S-2.1).
    Misplaced(u64),
    /// One that says that the pool has so many pages, more than the device.
    Cut(u64),
    /// A valid one.
    Valid(Box<Superblock>),
}

struct Slot {
    slot: usize,
    page: u64,
    content: Content,
    /// What stands there with a right CRC.
    sealed: Option<Box<Sealed>>,
}

impl Slot {
    fn of_none(slot: usize, page: u64) -> Slot {
        Slot {
            slot,
            page,
            content: Content::None,
            sealed: None,
        }
    }

    /// The byte with the bit that is wrong, if there is one (S-2.27).
    fn wrong_byte(&self) -> Option<usize> {
        self.sealed.as_deref().and_then(|(_, byte)| *byte)
    }

    /// Whether something with a right CRC stands there that says itself that `pages` place the slots; where those of another version
    /// lie nobody knows here.
    fn is_placed(&self, pages: u64) -> bool {
        let is_by = |sb: &Superblock| sb.version.get() != VERSION || sb.slots_by() == pages;
        self.sealed.as_deref().is_some_and(|(sb, _)| is_by(sb))
    }

    fn valid(&self) -> Option<&Superblock> {
        match &self.content {
            Content::Valid(sb) => Some(sb),
            _ => None,
        }
    }
}

/// The newest superblock (S-2.3), with findings about all slots.
pub(crate) fn choose(image: &dyn Image, sink: &mut Sink) -> Option<Box<Superblock>> {
    let slots = read_slots(image);
    let newest = newest(&slots);
    let generation = newest.map_or(0, |sb| sb.generation.get());
    for slot in &slots {
        let (number, page) = (slot.slot, slot.page);
        match slot.content {
            Content::Broken(field) => sink.push(Finding::SuperblockField {
                slot: number,
                page,
                field,
            }),
            Content::Misplaced(_) if newest.is_none() => sink.push(Finding::SuperblockField {
                slot: number,
                page,
                field: "generation (it belongs to other slots)",
            }),
            Content::Misplaced(newer) if newer > generation => sink.push(Finding::SuperblockPlace {
                slot: number,
                page,
                generation: newer,
            }),
            Content::Cut(pages) => sink.push(Finding::SuperblockCut {
                slot: number,
                page,
                pages,
                device: image.pages(),
            }),
            _ => {}
        }
    }
    let Some(newest) = newest else {
        // One that the device is too short for is one.
        if !slots.iter().any(|slot| matches!(slot.content, Content::Cut(_))) {
            sink.push(Finding::NoSuperblock {});
        }
        return None;
    };
    let features = newest.ro_compat.get() & !RO_COMPAT_KNOWN;
    if features != 0 {
        sink.push(Finding::SuperblockFeatures { features });
    }
    if !tells_slots(image, newest) {
        sink.push(Finding::SuperblockFirst {});
    }
    judge(&slots, newest, sink);
    Some(Box::new(*newest))
}

/// The valid one of the greatest generation.
fn newest(slots: &[Slot]) -> Option<&Superblock> {
    let valid = slots.iter().filter_map(|slot| Some((slot.slot, slot.valid()?)));
    let newest = valid.max_by_key(|(slot, sb)| (sb.generation.get(), core::cmp::Reverse(*slot)));
    newest.map(|(_, sb)| sb)
}

/// Reads the four slots where a superblock stands in its place: where a mount looks, or by a search (S-2.25).
fn read_slots(image: &dyn Image) -> Vec<Slot> {
    let mut found = Vec::new();
    for pages in numbers(image) {
        let slots = read_all(image, pages);
        if slots.iter().any(|slot| slot.is_placed(pages)) {
            return slots;
        }
        if found.is_empty() {
            found = slots;
        }
    }
    searched::slots_by(image).map_or(found, |pages| read_all(image, pages))
}

/// The numbers of pages by which a mount looks for the slots, in its order: the one that page 0 tells, torn or not, the device's size,
/// and what a damaged page 0 would tell if one bit of it were the other way (S-2.26).
fn numbers(image: &dyn Image) -> Vec<u64> {
    let device = image.pages();
    let first = First::of(image);
    let mut numbers: Vec<u64> = first.as_ref().map(First::slots_by).into_iter().collect();
    numbers.push(device);
    if let Some(damaged) = first.filter(|first| !first.is_whole) {
        numbers.extend(damaged.with_one_bit_turned().filter(|pages| *pages <= device));
    }
    numbers.retain(|pages| (PAGES_MIN..=PAGES_MAX).contains(pages));
    numbers
}

/// Page 0, if it begins as a superblock but for one bit at most.
struct First {
    sb: Superblock,
    is_whole: bool,
}

impl First {
    fn of(image: &dyn Image) -> Option<First> {
        let mut bytes = [0; PAGE];
        image.read(0, &mut bytes).ok()?;
        let sealed = flipped::sealed(&bytes).map(|(sb, _)| sb);
        let is_whole = sealed.is_some();
        let sb = sealed.or_else(|| Superblock::read_from_bytes(&bytes).ok())?;
        (flipped::unlike(&bytes) <= 1).then_some(First { sb, is_whole })
    }

    fn slots_by(&self) -> u64 {
        self.sb.slots_by()
    }

    /// What it would tell if one bit of either number were the other way.
    fn with_one_bit_turned(self) -> impl Iterator<Item = u64> {
        (0..64).flat_map(move |bit| {
            let (mut made, mut pages) = (self.sb, self.sb);
            pages.pages = (pages.pages.get() ^ 1 << bit).into();
            if bit < 32 {
                made.made_pages = (made.made_pages.get() ^ 1 << bit).into();
            }
            [made.slots_by(), pages.slots_by()]
        })
    }
}

/// The four slots of a pool that was made with so many pages.
fn read_all(image: &dyn Image, pages: u64) -> Vec<Slot> {
    let slots = (0..SLOTS).map(|slot| read_slot(image, image.pages(), slot, pages));
    flipped::without_doubtful(slots.collect())
}

/// Whether a mount finds the slots (S-2.25).
pub(crate) fn tells_slots(image: &dyn Image, sb: &Superblock) -> bool {
    numbers(image).contains(&sb.slots_by())
}

fn read_slot(image: &dyn Image, device: u64, slot: usize, pages: u64) -> Slot {
    let page = slot_page(slot, pages);
    let mut bytes = [0; PAGE];
    let is_read = image.read(page, &mut bytes).is_ok();
    match flipped::sealed(&bytes).filter(|_| is_read) {
        Some(sealed) => Slot {
            slot,
            page,
            content: parse(&sealed.0, slot, page, device),
            sealed: Some(Box::new(sealed)),
        },
        None if is_read && is_zero(&bytes) => Slot {
            content: Content::Empty,
            ..Slot::of_none(slot, page)
        },
        None => Slot::of_none(slot, page),
    }
}

fn parse(sb: &Superblock, slot: usize, page: u64, device: u64) -> Content {
    let pages = sb.pages.get();
    if pages > device && pages <= PAGES_MAX && sb.version.get() == VERSION {
        return Content::Cut(pages);
    }
    if let Some(field) = broken(sb) {
        return Content::Broken(field);
    }
    if sb.slot_page(slot) != page || !slots_of(sb.generation.get()).contains(&slot) {
        return Content::Misplaced(sb.generation.get());
    }
    Content::Valid(Box::new(*sb))
}

/// The first field that breaks the superblock's own rules (S-1.1, S-1.3, S-2.2).
pub(crate) fn broken(sb: &Superblock) -> Option<&'static str> {
    let pages = sb.pages.get();
    let (log_start, log_pages) = (sb.log_start.get(), sb.log_pages.get());
    let log_end = log_start.checked_add(log_pages).filter(|end| *end <= pages);
    let zones = pages.checked_div(sb.zone_pages.get()).map(|whole| whole + 1);
    let in_zone = |zone: u64| zones.is_some() && zone.checked_mul(sb.zone_pages.get()).is_some_and(|p| p < pages);
    let small = |n: u64| n < 1 << 63;
    let rules: [(bool, &'static str); 21] = [
        (sb.magic == MAGIC && sb.version.get() == VERSION, "version"),
        ((PAGES_MIN..=PAGES_MAX).contains(&pages), "pages"),
        (matches!(sb.meta_copies.get(), 1 | 2), "meta_copies"),
        (sb.generation.get() >= 1 && small(sb.generation.get()), "generation"),
        ((32..=1 << 20).contains(&log_pages) && log_end.is_some(), "log region"),
        (
            log_end.is_none_or(|end| !slot_within(log_start, end, sb.slots_by())),
            "log region over a slot",
        ),
        (small(sb.log_seq.get().saturating_add(log_pages)), "log_seq"),
        (small(sb.group.get()) && sb.group.get() >= 1, "group"),
        (
            [sb.seq, sb.incarnation, sb.durable].iter().all(|n| small(n.get())),
            "seq, incarnation or durable",
        ),
        ((16..=32_512).contains(&sb.zone_pages.get()), "zone_pages"),
        (in_zone(sb.zone_current.get()), "zone_current"),
        (in_zone(sb.zone_next.get()), "zone_next"),
        (
            (1..=map::CHUNK_PAGES_MAX).contains(&sb.chunk_pages.get()),
            "chunk_pages",
        ),
        (matches!(sb.state.get(), CLEAN | OPEN), "state"),
        (
            sb.created_nsec.get() < 1_000_000_000 && sb.growth_is_right(),
            "time of creation",
        ),
        (sb.incompat.get() & !INCOMPAT_KNOWN == 0, "features"),
        (history_fits(sb), "history"),
        (
            sb.ro_compat.get() & RO_COMPAT_MMP == 0 || mmp_fits(sb),
            "multi-mount protection",
        ),
        (
            sb.protect <= PROTECT_MAX && (sb.protect != 0) == (sb.incompat.get() & INCOMPAT_PROTECT != 0),
            "protection",
        ),
        (
            sb.roots
                .iter()
                .all(|r| r.height <= map::HEIGHT_MAX && r.reserved == [0; 7]),
            "height of a root",
        ),
        (
            sb.reserved1.iter().chain(&sb.reserved2).all(|b| *b == 0) && sb.roots[0].as_bytes().iter().all(|b| *b == 0),
            "reserved bytes",
        ),
    ];
    rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
}

/// The history lies in the pool, over no slot and not over the log, or there is none (S-2.7).
fn history_fits(sb: &Superblock) -> bool {
    let (start, count) = (sb.history_start.get(), sb.history_pages.get());
    let told = sb.incompat.get() & INCOMPAT_HISTORY != 0;
    if count == 0 || !told {
        return start == 0 && count == 0 && !told;
    }
    let Some(end) = start.checked_add(u64::from(count)) else {
        return false;
    };
    let log = sb.log_start.get()..sb.log_start.get().saturating_add(sb.log_pages.get());
    history::PAGES.contains(&count)
        && count.is_multiple_of(2)
        && end <= sb.pages.get()
        && !slot_within(start, end, sb.slots_by())
        && (end <= log.start || start >= log.end)
}

/// There is a page for the block behind the history: in the pool, no slot, not of the log (S-2.12).
fn mmp_fits(sb: &Superblock) -> bool {
    let count = u64::from(sb.history_pages.get());
    let Some(page) = sb.history_start.get().checked_add(count) else {
        return false;
    };
    let log = sb.log_start.get()..sb.log_start.get().saturating_add(sb.log_pages.get());
    count != 0 && page < sb.pages.get() && !slot_within(page, page + 1, sb.slots_by()) && !log.contains(&page)
}

/// The page of multi-mount protection, behind the history (S-2.12), of a superblock that holds.
pub(crate) fn mmp_page(sb: &Superblock) -> Option<u64> {
    let behind = sb.history_start.get() + u64::from(sb.history_pages.get());
    (sb.ro_compat.get() & RO_COMPAT_MMP != 0).then_some(behind)
}

fn slot_within(start: u64, end: u64, pages: u64) -> bool {
    (0..SLOTS).any(|slot| (start..end).contains(&slot_page(slot, pages)))
}

/// Whether a superblock of the other parity of generation is lost, the older or the newer one: its slots hold none, though they were
/// written. That they were is known from generation 2 on, before it by what stands there: a crash tears one of two slots at most.
pub(crate) fn is_other_lost(image: &dyn Image, newest: &Superblock) -> bool {
    let own = slots_of(newest.generation.get());
    let slots = read_slots(image);
    let mut others = slots.iter().filter(|slot| !own.contains(&slot.slot));
    let was_written = newest.generation.get() > 1 || others.clone().all(|slot| !matches!(slot.content, Content::Empty));
    was_written && others.all(|slot| slot.valid().is_none())
}

/// The slots of a superblock that do not hold it, bit by bit.
pub(crate) fn lacking_slots(image: &dyn Image, sb: &Superblock) -> Vec<usize> {
    let own = slots_of(sb.generation.get());
    let slots = read_all(image, sb.slots_by()).into_iter();
    let lacks = |slot: &Slot| slot.wrong_byte().is_some() || slot.valid() != Some(sb);
    let lacking = slots.filter(|slot| own.contains(&slot.slot) && lacks(slot));
    lacking.map(|slot| slot.slot).collect()
}

/// Findings about the slots beside the newest superblock.
fn judge(slots: &[Slot], newest: &Superblock, sink: &mut Sink) {
    let generation = newest.generation.get();
    let own = slots_of(generation);
    let same = slots
        .iter()
        .filter_map(Slot::valid)
        .filter(|sb| sb.generation.get() == generation);
    if same.clone().any(|sb| sb.as_bytes() != newest.as_bytes()) {
        sink.push(Finding::SuperblockSplit { generation });
        return;
    }
    // What was closed behind two superblocks or more has written all slots since any crash; that both beside it are lost is told
    // where they are judged (S-21.10).
    let has_other = slots
        .iter()
        .any(|slot| !own.contains(&slot.slot) && slot.valid().is_some());
    let was_written = generation > 2 && newest.state.get() == CLEAN && has_other;
    for slot in slots {
        let (number, page) = (slot.slot, slot.page);
        let held = slot.valid().is_some_and(|sb| sb.generation.get() == generation);
        let is_told = match slot.content {
            Content::Broken(_) | Content::Cut(_) => true,
            Content::Misplaced(newer) => newer > generation,
            _ => false,
        };
        if is_told {
            continue;
        }
        if let Some(byte) = slot.wrong_byte() {
            sink.push(Finding::SuperblockFlipped {
                slot: number,
                page,
                byte,
            });
        }
        if own.contains(&number) && !held {
            sink.push(Finding::SuperblockCopy { slot: number, page });
        }
        match slot.content {
            Content::None | Content::Misplaced(_) | Content::Empty if !own.contains(&number) && was_written => {
                sink.push(Finding::SuperblockOlder { slot: number, page });
            }
            Content::None | Content::Misplaced(_) if !own.contains(&number) => {
                sink.push(Finding::SuperblockOld { slot: number, page })
            }
            _ => {}
        }
    }
}
