//! Reading a pool's history (SPEC section 18), whatever state the rest of the pool is in.

use crate::image::Image;
use crate::read::ReadError;
use crate::report::Sink;
use crate::{Finding, Page, superblock};
use keepfs_codes::crc64;
use keepfs_format::history::{self, DAMAGE, EVENTS, Event, HEAD, HEAD_COVERED, Head, Lasting, MAGIC, Record};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, PAGE};

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
    let halves = [0, 1].into_iter().filter_map(|half| read(image, &sb, half));
    let records = halves
        .max_by_key(|(generation, _)| *generation)
        .map(|(_, records)| records);
    let mut found = History::default();
    for (name, bytes) in records.unwrap_or_default() {
        match name.as_str() {
            EVENTS => found.events = Event::decode_all(&bytes).unwrap_or_default(),
            DAMAGE => found.damage = Lasting::decode_all(&bytes).unwrap_or_default(),
            _ => {}
        }
    }
    Ok(found)
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
