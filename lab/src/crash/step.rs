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
    /// The next checkpoint lists other zones.
    SwitchZone,
    /// Unmounted and mounted again.
    Remount,
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
            Step::Evict => StepKind::Evict,
            Step::SwitchZone => StepKind::SwitchZone,
            Step::Remount => StepKind::Remount,
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
        }
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Step, String> {
        Ok(match line {
            "!checkpoint" => Step::Checkpoint,
            "!evict" => Step::Evict,
            "!switch_zone" => Step::SwitchZone,
            "!remount" => Step::Remount,
            _ => Step::Op(line.parse().map_err(|e| format!("{line}: {e}"))?),
        })
    }
}
