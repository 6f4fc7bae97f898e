//! The steps of a workload: operations of users, and what the store does on its own.

use keepfs_vfs::ops::{Op, Verb};
use std::fmt;
use std::str::FromStr;

/// One step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// An operation.
    Op(Op),
    /// A checkpoint.
    Checkpoint,
    /// Every frame that is clean leaves the arena.
    Evict,
    /// A checkpoint that lists other zones.
    SwitchZone,
    /// Unmounted and mounted again.
    Remount,
    /// A checkpoint that stops before its write (or flush) number `after`, while the next `steps` operations run.
    During {
        /// Writes and flushes before the stop.
        after: u32,
        /// Operations beside it.
        steps: u32,
    },
    /// Power is cut here; the state of this draw is recovered, and the workload goes on with it.
    Crash {
        /// Which of the states.
        draw: u64,
    },
}

/// What a step is, for the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StepKind {
    /// Recovery itself, before the first step.
    Recovery,
    /// An operation of this kind.
    Op(Verb),
    /// [`Step::Checkpoint`].
    Checkpoint,
    /// [`Step::During`].
    During,
    /// [`Step::Evict`].
    Evict,
    /// [`Step::SwitchZone`].
    SwitchZone,
    /// [`Step::Remount`].
    Remount,
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StepKind::Recovery => "(recovery)",
            StepKind::Op(verb) => verb.word(),
            StepKind::Checkpoint => "(checkpoint)",
            StepKind::During => "(ops beside one)",
            StepKind::Evict => "(eviction)",
            StepKind::SwitchZone => "(zone switch)",
            StepKind::Remount => "(remount)",
        })
    }
}

impl Step {
    /// What it is.
    pub fn kind(&self) -> StepKind {
        match self {
            Step::Op(op) => StepKind::Op(op.verb()),
            Step::Checkpoint => StepKind::Checkpoint,
            Step::During { .. } => StepKind::During,
            Step::Evict => StepKind::Evict,
            Step::SwitchZone => StepKind::SwitchZone,
            Step::Remount => StepKind::Remount,
            Step::Crash { .. } => StepKind::Recovery,
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Op(op) => op.fmt(f),
            Step::Checkpoint => f.write_str("!checkpoint"),
            Step::Evict => f.write_str("!evict"),
            Step::SwitchZone => f.write_str("!switch_zone"),
            Step::Remount => f.write_str("!remount"),
            Step::During { after, steps } => write!(f, "!during {after} {steps}"),
            Step::Crash { draw } => write!(f, "!crash {draw}"),
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Step, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number = |word: &str| word.parse::<u64>().map_err(|e| format!("{line}: {e}"));
        Ok(match words[..] {
            ["!checkpoint"] => Step::Checkpoint,
            ["!evict"] => Step::Evict,
            ["!switch_zone"] => Step::SwitchZone,
            ["!remount"] => Step::Remount,
            ["!during", after, steps] => Step::During {
                after: number(after)? as u32,
                steps: number(steps)? as u32,
            },
            ["!crash", draw] => Step::Crash { draw: number(draw)? },
            _ => Step::Op(line.parse().map_err(|e| format!("{line}: {e}"))?),
        })
    }
}
