//! A pool's history (SPEC section 18), whatever state the rest of the pool is in: reading it, and what a repair adds to it (S-21.11).

use crate::image::Image;
use crate::read::ReadError;
use crate::report::Sink;
use crate::{Finding, Page, superblock};
use keepfs_codes::crc64;
use keepfs_format::history::{
    self, DAMAGE, EVENTS, Event, GIVEN_UP, HEAD, HEAD_COVERED, Head, Lasting, MAGIC, REPAIR, Record,
};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, IntoBytes, PAGE};

/// What a pool's history holds.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct History {
    /// The last events, oldest first.
    pub events: Vec<Event>,
    /// The list of damages.
    pub damage: Vec<Lasting>,
}

/// The history of a pool; empty if it has none, or none that is right.
///
/// # Errors
/// [`ReadError::NoPool`].
pub fn of(image: &dyn Image) -> Result<History, ReadError> {
    let mut sink = Sink::new(1);
    let Some(sb) = superblock::choose(image, &mut sink) else {
        let first = sink.findings.into_iter().next();
        return Err(ReadError::NoPool(first.unwrap_or(Finding::NoSuperblock {})));
    };
    let (_, records) = newest(image, &sb).unwrap_or_default();
    let mut found = History::default();
    for (name, bytes) in records {
        match name.as_str() {
            EVENTS => found.events = Event::decode_all(&bytes).unwrap_or_default(),
            DAMAGE => found.damage = Lasting::decode_all(&bytes).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(found)
}

/// Generation and records of the half that counts (S-18.2).
fn newest(image: &dyn Image, sb: &Superblock) -> Option<(u64, Vec<Record>)> {
    let halves = [0, 1].into_iter().filter_map(|half| read(image, sb, half));
    halves.max_by_key(|(generation, _)| *generation)
}

/// The pages of the half that does not count, with all that the other one tells, an event, which gets its number, and damages
/// (S-21.11); none if the pool has no history.
pub(crate) fn with(image: &dyn Image, sb: &Superblock, event: Event, given: &[Lasting]) -> Vec<(u64, Box<Page>)> {
    let pages = u64::from(sb.history_pages.get() / 2);
    let Some(room) = (pages as usize * PAGE).checked_sub(HEAD).filter(|room| *room > 0) else {
        return Vec::new();
    };
    let (generation, mut records) = newest(image, sb).unwrap_or_default();
    let generation = generation + 1;
    let mut take = |name: &str| {
        let at = records.iter().position(|(other, _)| other == name);
        at.map_or_else(Vec::new, |at| records.swap_remove(at).1)
    };
    let damage = Lasting::decode_all(&take(DAMAGE)).unwrap_or_default();
    let mut events = Event::decode_all(&take(EVENTS)).unwrap_or_default();
    let number = events.last().map_or(0, |last| last.number) + 1;
    events.push(Event { number, ..event });
    // Both leave room for the heads of their records.
    let beside = 2 * history::NAME_MAX;
    records.push((DAMAGE.into(), listed(damage, given, room / 4 - beside)));
    records.push((EVENTS.into(), Event::encode_last(events.iter(), room / 2 - beside)));
    let content = history::encode(records.iter().map(|(name, bytes)| (&name[..], &bytes[..])));
    let mut head = Head {
        magic: MAGIC,
        pool: sb.pool,
        generation: generation.into(),
        length: (content.len() as u32).into(),
        reserved: [0; 20],
        crc: 0.into(),
    };
    let covered = [&head.as_bytes()[..HEAD_COVERED], &content].concat();
    head.crc = crc64::full(&covered).into();
    let mut half = [head.as_bytes(), &content].concat();
    half.resize(half.len().next_multiple_of(PAGE), 0);
    let first = sb.history_start.get() + generation % 2 * pages;
    let page = |bytes: &[u8]| {
        let mut page = Box::new([0; PAGE]);
        page.copy_from_slice(bytes);
        page
    };
    (first..).zip(half.chunks_exact(PAGE).map(page)).collect()
}

/// A list of damages with what a repair gave up. That takes half of the room at most: what is more is counted in one entry. Of the
/// others those go that were met longest ago.
fn listed(mut damage: Vec<Lasting>, given: &[Lasting], room: usize) -> Vec<u8> {
    let size = |list: &[Lasting]| encoded(list).len();
    let mut fits = given.len();
    let mut used: usize = given.iter().map(|entry| size(std::slice::from_ref(entry))).sum();
    let rest = Lasting {
        inode: 0,
        id: 0,
        from: 0,
        path: Vec::new(),
        place: REPAIR,
        done: GIVEN_UP,
        ..given.last().cloned().unwrap_or_default()
    };
    while fits > 0 && used > room / 2 - size(std::slice::from_ref(&rest)) {
        fits -= 1;
        used -= size(&given[fits..=fits]);
    }
    let mut told = given[..fits].to_vec();
    if fits < given.len() {
        told.push(Lasting {
            length: (given.len() - fits) as u64,
            ..rest
        });
    }
    let place = |e: &Lasting| (e.place, e.inode, e.id, e.from);
    damage.retain(|entry| !told.iter().any(|told| place(told) == place(entry)));
    damage.sort_by_key(|entry| entry.last);
    let mut first = 0;
    while first < damage.len() && size(&damage[first..]) + size(&told) > room {
        first += 1;
    }
    damage.drain(..first);
    damage.sort_by_key(|entry| entry.first);
    encoded(&[damage, told].concat())
}

fn encoded(list: &[Lasting]) -> Vec<u8> {
    let mut bytes = Vec::new();
    list.iter().for_each(|entry| entry.encode(&mut bytes));
    bytes
}

/// Generation and records of a half, if it is right (S-18.2).
fn read(image: &dyn Image, sb: &Superblock, half: u64) -> Option<(u64, Vec<Record>)> {
    let pages = u64::from(sb.history_pages.get() / 2);
    let mut bytes = Vec::new();
    for page in 0..pages {
        let mut buf: Page = [0; PAGE];
        image
            .read(sb.history_start.get() + half * pages + page, &mut buf)
            .ok()?;
        bytes.extend_from_slice(&buf);
    }
    let (head, content) = Head::read_from_prefix(&bytes).ok()?;
    let content = content.get(..head.length.get() as usize)?;
    let mut covered = bytes.get(..HEAD_COVERED)?.to_vec();
    covered.extend_from_slice(content);
    let generation = head.generation.get();
    let right = head.magic == MAGIC
        && head.pool == sb.pool
        && generation % 2 == half
        && generation < 1 << 63
        && crc64::full(&covered) == head.crc.get();
    right
        .then(|| history::decode(bytes.get(HEAD..HEAD + content.len())?))?
        .map(|records| (generation, records))
}

#[cfg(test)]
mod tests;
