//! Pages of files that a lost carried group had: what the log before it, and what is left of it, tell (SPEC S-21.25).

use crate::adrift::{self, Drifted, follow, is_next, payload_of};
use crate::carried;
use crate::entry;
use crate::finding::Finding;
use crate::pool::Pool;
use crate::records::decode;
use crate::staged::{Stage, Staged};
use keepfs_format::plog::{FLAG_LAST, Record};

/// Whether the group is lost that carried staged pages over the last checkpoint (S-9.17).
pub(crate) fn is_carried_lost(findings: &[Finding]) -> bool {
    findings
        .iter()
        .any(|finding| matches!(finding, Finding::LogCarried { .. }))
}

/// Pages that stood in that group: what was staged at the end of the log before it, and what is left of it names (S-21.25).
pub(crate) fn pages(pool: &mut Pool<'_>) -> Drifted {
    let (first, round) = (pool.sb.log_seq.get(), pool.sb.log_pages.get());
    let mut before = adrift::pages(pool);
    let numbers = first.saturating_sub(2 * round)..first;
    before.retain(|page| page.head.group < pool.sb.group && numbers.contains(&page.head.sequence.get()));
    before.sort_by_key(|page| page.head.sequence.get());
    before.dedup_by_key(|page| page.head.sequence.get());
    let (mut stage, mut behind_a_gap, mut next) = (Stage::default(), Drifted::new(), None);
    for group in before.chunk_by(is_next) {
        let (Some(page), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let records = decode(&payload_of(group));
        if next.is_some_and(|next| next != page.head.sequence.get()) || records.is_err() {
            behind_a_gap.extend(stage.pages.keys());
        }
        next = Some(last.head.sequence.get() + 1);
        let records = records.unwrap_or_default();
        // All that is staged is in such a group.
        if matches!(records.first(), Some(Record::Parity { .. })) && last.head.flags & FLAG_LAST != 0 {
            (stage, behind_a_gap) = (Stage::default(), Drifted::new());
        }
        records.into_iter().for_each(|record| follow(&mut stage, record));
    }
    // The log of a recovery begins one round further on (S-9.14).
    if next.is_some_and(|next| next != first && next + round != first) {
        behind_a_gap.extend(stage.pages.keys());
    }
    // What a gap had may have written a page home; not if the page below is the one that it was staged over.
    let mut is_there = |(ino, index): (u64, u64), staged: &Staged| {
        let entry = entry::of(pool, ino, index).map(|entry| (entry.page(), entry.crc.get()));
        staged.base != 0 && entry == Some((staged.base, staged.base_crc))
    };
    let staged = stage.pages.iter();
    let staged = staged.filter(|(at, staged)| !behind_a_gap.contains(at) || is_there(**at, staged));
    let mut carried: Drifted = staged.map(|(at, _)| *at).collect();
    carried.extend(carried::named(pool));
    carried
}
