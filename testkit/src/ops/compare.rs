//! Two file systems side by side: the same operations, outcome by outcome and tree by tree.

use std::fmt;

use super::{Op, Session};
use crate::tree::{Times, diff, snapshot_with};
use keepfs_vfs::Vfs;

/// Where two file systems part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Disagreement {
    /// Which operation showed it, from 0.
    pub number: usize,
    /// That operation.
    pub op: Op,
    /// What the two say.
    pub words: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "operation {}, {}: {}", self.number, self.op, self.words)
    }
}

impl std::error::Error for Disagreement {}

/// Runs `ops` on both and tells the first disagreement. Trees are compared after every `tree_every` operations
/// (0: never) and after the last one, with or without `times`; for times, both must read a clock that `tick`, called
/// before each operation, moves on and nothing else does. Slots are closed before the last comparison.
pub fn first_disagreement(
    reference: &dyn Vfs,
    subject: &dyn Vfs,
    ops: &[Op],
    tree_every: usize,
    times: Times,
    tick: &mut dyn FnMut(),
) -> Option<Disagreement> {
    let mut sessions = (Session::new(reference), Session::new(subject));
    for (number, op) in ops.iter().enumerate() {
        tick();
        let disagreement = |words| {
            Some(Disagreement {
                number,
                op: op.clone(),
                words,
            })
        };
        let (expected, got) = (sessions.0.run(op), sessions.1.run(op));
        if expected != got {
            return disagreement(format!("the reference says {expected:?}, the subject {got:?}"));
        }
        let is_last = number + 1 == ops.len();
        if is_last {
            sessions = (Session::new(reference), Session::new(subject));
        }
        let is_due = tree_every > 0 && (number + 1) % tree_every == 0;
        if (is_last || is_due)
            && let Some(words) = tree_difference(reference, subject, times)
        {
            return disagreement(words);
        }
    }
    None
}

fn tree_difference(reference: &dyn Vfs, subject: &dyn Vfs, times: Times) -> Option<String> {
    let (expected, got) = match (snapshot_with(reference, times), snapshot_with(subject, times)) {
        (Ok(expected), Ok(got)) => (expected, got),
        (Err(error), _) => return Some(format!("the reference's tree: {error}")),
        (_, Err(error)) => return Some(format!("the subject's tree: {error}")),
    };
    (expected != got).then(|| format!("the trees differ (reference, subject)\n{}", diff(&expected, &got)))
}
