//! A log that no superblock leads to: what it has cannot be proved, but it tells which pages of files stood in it alone (S-21.23).

use crate::finding::Finding;
use crate::plog;
use crate::pool::Pool;
use crate::records::decode;
use crate::staged::{Piece, Stage};
use crate::superblock;
use keepfs_format::plog::{FLAG_LAST, PAYLOAD_OFFSET, PageHead, Record};
use keepfs_format::{FromBytes, PAGE, Space};
use std::collections::BTreeSet;

/// A log of a later superblock begins so many rings behind that of the one before, and is as long, at most.
const NEAR: u64 = 8;

/// Pages of files, (inode, index), that the log had when it was written last.
pub(crate) type Drifted = BTreeSet<(u64, u64)>;

/// What was lost with a superblock or the log, a sentence each.
pub(crate) fn losses(pool: &Pool<'_>) -> Vec<String> {
    let findings = &pool.sink.findings;
    let mut losses = Vec::new();
    if !has_log(pool) {
        losses.push(
            "no superblock is left, and so no log: what stood in the log alone, as what was written or synced last, is lost".into(),
        );
    }
    let beside = beside(pool);
    let all = || findings.iter().chain(&beside);
    // Each slot and page that tells of it is a finding, and all are one loss.
    let telling = all().filter(|finding| finding.lost_superblock().is_some());
    let newest = telling.max_by_key(|finding| finding.lost_superblock());
    losses.extend(newest.map(|finding| match finding {
        Finding::SuperblockLost { base, .. } => format!(
            "the newest superblock (generation {base} or later) is lost: the pool is as of generation {}, and what was written or synced since is lost",
            pool.sb.generation.get()
        ),
        told => told.to_string(),
    }));
    let is_other = |finding: &&Finding| {
        matches!(
            finding,
            Finding::LogGone { .. } | Finding::LogCarried { .. } | Finding::SuperblockBeside { .. }
        )
    };
    let others = all().filter(is_other);
    losses.extend(others.map(ToString::to_string));
    losses
}

/// Where both slots of one generation of superblocks are lost (S-21.10): the older or the newer one. What was written since may tell
/// which. `None` also where it is known already that the newest one is lost.
pub(crate) fn beside(pool: &Pool<'_>) -> Option<Finding> {
    let is_known = |finding: &Finding| {
        matches!(
            finding,
            Finding::SuperblockLost { .. } | Finding::SuperblockNewer { .. }
        )
    };
    if !has_log(pool) || pool.sink.findings.iter().any(is_known) || !superblock::is_other_lost(pool.image, &pool.sb) {
        return None;
    }
    let generation = pool.sb.generation.get();
    let is_misplaced = |finding: &Finding| matches!(finding, Finding::SuperblockPlace { .. });
    match plog::newest(pool) {
        Some(base) => Some(Finding::SuperblockNewer { generation, base }),
        None if pool.sink.findings.iter().any(is_misplaced) => None,
        None => Some(Finding::SuperblockBeside { generation }),
    }
}

/// The number behind all pages of the log, those of a lost superblock among them: a new log begins behind it (S-9.12).
pub(crate) fn behind(pool: &Pool<'_>) -> u64 {
    let numbers = later(pool).into_iter().map(|head| head.sequence.get() + 1);
    numbers.max().unwrap_or(0)
}

/// Pages of the log from the superblock on; what another pool left in the region has other numbers (S-8.13).
fn later(pool: &Pool<'_>) -> Vec<PageHead> {
    let first = pool.sb.log_seq.get();
    let near = first..first.saturating_add(NEAR * pool.sb.log_pages.get());
    let heads = pages(pool).into_iter().map(|page| page.head);
    heads.filter(|head| near.contains(&head.sequence.get())).collect()
}

fn has_log(pool: &Pool<'_>) -> bool {
    pool.sb.log_pages.get() > 0
}

/// The page of a log, as it says itself.
pub(crate) struct Lies {
    pub head: PageHead,
    payload: Vec<u8>,
}

/// Reads all log pages and follows those of the last checkpoint's time: from the group on that it carried over (S-10.3). What a repair
/// left that was cut is of none that tells (S-21.26).
pub(crate) fn staged(pool: &Pool<'_>) -> Drifted {
    let mut groups = groups(pool);
    let told = pool.sink.findings.iter().filter_map(Finding::lost_superblock);
    let last = match has_log(pool) {
        true => told.chain(plog::newest(pool)).max().unwrap_or(pool.sb.generation.get()),
        false => groups.iter().map(|group| group.base).max().unwrap_or(0),
    };
    groups.retain(|group| (last.saturating_sub(1)..=last).contains(&group.base));
    let is_carried = |group: &Group| matches!(group.records.first(), Some(Record::Parity { .. }));
    let from = groups.iter().rposition(is_carried).unwrap_or(0);
    let mut stage = Stage::default();
    for record in groups.drain(..).skip(from).flat_map(|group| group.records) {
        follow(&mut stage, record);
    }
    stage.pages.into_keys().collect()
}

struct Group {
    base: u64,
    records: Vec<Record>,
}

fn groups(pool: &Pool<'_>) -> Vec<Group> {
    let mut pages = pages(pool);
    pages.sort_by_key(|page| page.head.sequence.get());
    pages.dedup_by_key(|page| page.head.sequence.get());
    let mut groups = Vec::new();
    for run in pages.chunk_by(is_next) {
        // What lacks its first page, or one between, does not decode, or tells less.
        if let (Ok(records), Some(last)) = (decode(&payload_of(run)), run.last()) {
            groups.push(Group {
                base: last.head.base.get(),
                records,
            });
        }
    }
    groups
}

/// Whether page `b` goes on with the group of page `a`.
pub(crate) fn is_next(a: &Lies, b: &Lies) -> bool {
    a.head.sequence.get() + 1 == b.head.sequence.get() && a.head.group == b.head.group && a.head.flags & FLAG_LAST == 0
}

pub(crate) fn payload_of(group: &[Lies]) -> Vec<u8> {
    group.iter().flat_map(|page| page.payload.iter().copied()).collect()
}

pub(crate) fn pages(pool: &Pool<'_>) -> Vec<Lies> {
    let (start, length) = (pool.sb.log_start.get(), pool.sb.log_pages.get());
    let places = match has_log(pool) {
        true => start..start.saturating_add(length).min(pool.image.pages()),
        false => 1..pool.image.pages(),
    };
    let read = |page| {
        let mut bytes = [0; PAGE];
        pool.image.read(page, &mut bytes).ok()?;
        let (head, _) = PageHead::read_from_prefix(&bytes).ok()?;
        let used = usize::from(head.used.get());
        plog::is_sound(&head).then(|| Lies {
            head,
            payload: bytes[PAYLOAD_OFFSET..PAYLOAD_OFFSET + used].to_vec(),
        })
    };
    places.filter_map(read).collect()
}

/// What a record does to staged pages (S-8.5).
pub(crate) fn follow(stage: &mut Stage, record: Record) {
    match record {
        Record::Tail {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            bytes,
        } => stage.put((ino, index), version, (base, base_crc), Piece::Bytes(offset, bytes)),
        Record::Zero {
            ino,
            index,
            version,
            base,
            base_crc,
            offset,
            len,
        } => stage.put((ino, index), version, (base, base_crc), Piece::Zeros(offset, len)),
        Record::Lost { ino, index } => stage.lost((ino, index)),
        Record::Create { ino, born } => stage.born(ino, born),
        Record::Truncate { ino, size } => stage.truncate(ino, size),
        Record::MapEntry { ino, index, count, .. } => stage.mapped(ino, index, count),
        Record::Free {
            space: Space::InodeNumbers,
            run,
        } => stage.freed(run.start, run.count.into()),
        _ => {}
    }
}
