//! The kinds of steps that a run must have caught in flight often enough (BARS R-3), and how often
//! broad workloads choose each.

use super::step::StepKind;
use keepfs_testkit::ops::{Rng, Verb};

/// An operation that workloads are made for: verb, form ([`StepKind::Op`]), weight.
pub type Kind = (Verb, &'static str, u64);

/// Operations that change what a user sees.
pub const CHANGES: &[Kind] = &[
    (Verb::Create, "", 6),
    (Verb::Mkdir, "", 5),
    (Verb::Mknod, "fifo", 3),
    (Verb::Mknod, "socket", 3),
    (Verb::Mknod, "char", 3),
    (Verb::Mknod, "block", 3),
    (Verb::Symlink, "", 4),
    (Verb::Tmpfile, "", 4),
    (Verb::Link, "", 4),
    (Verb::Link, "of an open file", 6),
    (Verb::Unlink, "", 5),
    (Verb::Rmdir, "", 6),
    (Verb::Rename, "", 6),
    (Verb::Rename, "no_replace", 4),
    (Verb::Rename, "exchange", 4),
    (Verb::Rename, "whiteout", 4),
    (Verb::Write, "", 8),
    (Verb::Append, "", 5),
    (Verb::Truncate, "", 5),
    (Verb::OpenTruncate, "", 4),
    (Verb::Fallocate, "allocate", 4),
    (Verb::Fallocate, "keep_size", 4),
    (Verb::Fallocate, "punch_hole", 4),
    (Verb::Fallocate, "zero_range", 4),
    (Verb::CopyRange, "", 13),
    (Verb::SetMode, "", 4),
    (Verb::Chown, "", 4),
    (Verb::Utimes, "", 4),
    (Verb::SetXattr, "user", 5),
    (Verb::SetXattr, "trusted", 4),
    (Verb::SetXattr, "security", 4),
    (Verb::RemoveXattr, "user", 6),
    (Verb::RemoveXattr, "trusted", 6),
    (Verb::RemoveXattr, "security", 6),
    (Verb::SetAcl, "access", 4),
    (Verb::SetAcl, "default", 4),
    (Verb::SetFlags, "", 5),
];

/// Operations that change nothing a user sees; they run between a change and the sync behind it.
pub const LOOKS: &[Kind] = &[
    (Verb::Read, "", 3),
    (Verb::ReadDir, "", 3),
    (Verb::ReadLink, "", 3),
    (Verb::GetXattr, "user", 4),
    (Verb::GetXattr, "trusted", 3),
    (Verb::GetXattr, "security", 3),
    (Verb::ListXattr, "", 3),
    (Verb::Stat, "", 3),
    (Verb::Seek, "", 3),
    (Verb::SeekMap, "", 3),
    (Verb::Hold, "", 3),
    (Verb::Release, "", 3),
];

/// Ways to make things durable.
const SYNCS: &[Kind] = &[
    (Verb::Fsync, "", 1),
    (Verb::Fsync, "data_only", 1),
    (Verb::SyncFs, "", 1),
];

/// What the store does on its own.
const OWN: [StepKind; 8] = [
    StepKind::Checkpoint,
    StepKind::Evict,
    StepKind::SwitchZone,
    StepKind::Trim,
    StepKind::Idle,
    StepKind::Resume,
    StepKind::ResumeTwice,
    StepKind::Behind,
];

/// Of a kind one state is asked for where others are asked for so many: a resume takes as long as many operations, and has few
/// trees of its own.
pub fn share(kind: StepKind) -> u64 {
    match kind {
        StepKind::Resume | StepKind::ResumeTwice => 10,
        _ => 1,
    }
}

/// All kinds that must come often enough.
pub fn asked() -> Vec<StepKind> {
    let ops = CHANGES.iter().chain(LOOKS).chain(SYNCS);
    ops.map(|(verb, form, _)| StepKind::Op(*verb, form))
        .chain(OWN)
        .collect()
}

/// A kind by weight.
pub fn draw(rng: &mut Rng, kinds: &[Kind]) -> (Verb, StepKind) {
    let mut at = rng.below(kinds.iter().map(|(_, _, weight)| weight).sum());
    let found = kinds.iter().find(|(_, _, weight)| {
        let here = at < *weight;
        at = at.saturating_sub(*weight);
        here
    });
    let (verb, form, _) = found.unwrap_or(&kinds[0]);
    (*verb, StepKind::Op(*verb, form))
}
