//! Records of the log where they must not stand, each with its own checksums right.

use super::Build;
use crate::hostile::anatomy::{Edit, Place};
use keepfs_format::plog::{CRC_OFFSET, PAYLOAD_OFFSET};

impl Build<'_> {
    /// Records by group: where each begins in its payload, and how long it is.
    fn records(&self) -> Vec<(usize, usize, usize)> {
        let len = |group: usize, at: usize| {
            let payload = self.anatomy.payload(group);
            let head = [payload[at + 1], payload[at + 2], payload[at + 3], 0];
            4 + u32::from_le_bytes(head) as usize
        };
        let records = self.anatomy.records().into_iter();
        records.map(|r| (r.group, r.at, len(r.group, r.at))).collect()
    }

    fn put_payload(&mut self, group: usize, offset: usize, bytes: Vec<u8>) {
        self.edits.push(Edit {
            place: Place::Group(group),
            offset,
            bytes,
        });
    }
}

/// A record stands behind the one that followed it.
pub(super) fn swapped(build: &mut Build<'_>, which: usize) -> Option<()> {
    let records = build.records();
    let pairs: Vec<_> = records.windows(2).filter(|pair| pair[0].0 == pair[1].0).collect();
    let pair = pairs.get(which * 7 % pairs.len().max(1))?;
    let ((group, at, one), (_, next, other)) = (pair[0], pair[1]);
    let payload = build.anatomy.payload(group);
    let (one, other) = (payload.get(at..at + one)?, payload.get(next..next + other)?);
    let bytes = [other, one].concat();
    build.put_payload(group, at, bytes);
    Some(())
}

/// A record of the same length stands in another one's place too.
pub(super) fn twice(build: &mut Build<'_>, which: usize) -> Option<()> {
    let records = build.records();
    let mut pairs = Vec::new();
    for (i, (group, at, len)) in records.iter().enumerate() {
        let later = records[i + 1..].iter().filter(|(_, _, other)| other == len).take(3);
        pairs.extend(later.map(|(to, there, _)| ((*group, *at, *len), (*to, *there))));
    }
    let ((group, at, len), (to, there)) = *pairs.get(which * 13 % pairs.len().max(1))?;
    let bytes = build.anatomy.payload(group).get(at..at + len)?.to_vec();
    build.put_payload(to, there, bytes);
    Some(())
}

/// The records of a group stand from the last to the first.
pub(super) fn reversed(build: &mut Build<'_>, which: usize) -> Option<()> {
    let groups = build.anatomy.groups.len();
    let group = which.checked_rem(groups)?;
    let payload = build.anatomy.payload(group);
    let mut records = build.records();
    records.retain(|(other, ..)| *other == group);
    let parts = records.iter().rev().map(|(_, at, len)| payload.get(*at..*at + *len));
    let bytes = parts.collect::<Option<Vec<_>>>()?.concat();
    build.put_payload(group, 0, bytes);
    Some(())
}

/// Two pages of the log have each other's records.
pub(super) fn pages(build: &mut Build<'_>, which: usize) -> Option<()> {
    let pages = build.anatomy.log.len();
    let (one, other) = (which % pages.max(1), (which * 3 + 1) % pages.max(1));
    for (to, from) in [(one, other), (other, one)] {
        let bytes = build.anatomy.log.get(from)?[PAYLOAD_OFFSET..CRC_OFFSET].to_vec();
        build.edits.push(Edit {
            place: Place::LogPage(to),
            offset: PAYLOAD_OFFSET,
            bytes,
        });
    }
    Some(())
}

/// A record of a metablock names another one that the log has, in its generation.
pub(super) fn another(build: &mut Build<'_>, which: usize) -> Option<()> {
    /// Updates, births and deaths: the metablock, then its generation (S-8.5).
    const OF_BLOCKS: core::ops::RangeInclusive<u8> = 1..=3;
    let records = build.anatomy.records();
    let named: Vec<_> = records
        .iter()
        .filter(|record| OF_BLOCKS.contains(&record.kind))
        .collect();
    let count = named.len().max(1);
    let (to, from) = (named.get(which * 5 % count)?, named.get((which * 11 + 1) % count)?);
    let bytes = build
        .anatomy
        .payload(from.group)
        .get(from.at + 4..from.at + 16)?
        .to_vec();
    build.put_payload(to.group, to.at + 4, bytes);
    Some(())
}
