//! The steps of a workload: operations of users, and what the store does on its own.

use keepfs_store::Protection;
use keepfs_testkit::ops::{Op, Verb};
use keepfs_vfs::FallocMode;
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
    /// The pool's level of protection becomes another (S-2.9).
    Protect(Protection),
    /// Unmounted and mounted again.
    Remount,
    /// The device is told of every page that is not needed (fstrim).
    Trim,
    /// What an idle store does after a flush: an empty group that says what is durable.
    Idle,
    /// A checkpoint that stops before its write (or flush) number `after`, while the next `steps` operations run.
    During {
        /// Writes and flushes before the stop.
        after: u32,
        /// Operations beside it.
        steps: u32,
    },
    /// A stray write that nobody can mend fences what stands at a path; until the next remount only syncs and checkpoints are
    /// done (S-15.17).
    Fence {
        /// The path.
        path: String,
    },
    /// The server dies in the next step, and another one resumes the pool with its memory; a step that was not done is done
    /// again then (SPEC section 16).
    Die {
        /// Writes, flushes and discards of the step before the death; if there are not so many, it dies behind the step.
        after: u32,
        /// What is done of the call that it dies in: so many pages of a write at most, a flush or discard if it is odd.
        part: u32,
        /// The server that resumes dies as well, before its call of this number; 0: it does not.
        again: u32,
    },
    /// A flush of the next step, a sync or a checkpoint, fails, `after` others of it: nothing becomes durable, writing ends, and
    /// the pool is opened again, from what the device has.
    FlushFails {
        /// Flushes of the step before it.
        after: u32,
    },
    /// Power is cut here; the state of this draw is recovered, and the workload goes on with it.
    Crash {
        /// Which of the states.
        draw: u64,
        /// Not here, but before the life's last flush: in the sync or checkpoint of it.
        inside: bool,
    },
}

/// What a step is, for the table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StepKind {
    /// Recovery itself, before the first step.
    Recovery,
    /// An operation of this kind, and which form of it (`form`).
    Op(Verb, &'static str),
    /// [`Step::Checkpoint`].
    Checkpoint,
    /// [`Step::During`].
    During,
    /// [`Step::Evict`].
    Evict,
    /// [`Step::SwitchZone`].
    SwitchZone,
    /// [`Step::Protect`].
    Protect,
    /// [`Step::Remount`].
    Remount,
    /// [`Step::Trim`].
    Trim,
    /// [`Step::Idle`].
    Idle,
    /// [`Step::Fence`].
    Fence,
    /// [`Step::FlushFails`]
    FlushFails,
    /// [`Step::Die`]: what the resume does.
    Resume,
    /// [`Step::Die`] with `again`: what a resume does that dies, and the next one.
    ResumeTwice,
    /// The first steps behind a resume.
    Behind,
}

impl StepKind {
    /// The kind of an operation.
    pub fn of(op: &Op) -> StepKind {
        StepKind::Op(op.verb(), form(op))
    }
}

impl fmt::Display for StepKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            StepKind::Recovery => "(recovery)",
            StepKind::Op(verb, "") => verb.word(),
            StepKind::Op(verb, form) => return f.pad(&format!("{} {form}", verb.word())),
            StepKind::Checkpoint => "(checkpoint)",
            StepKind::During => "(ops beside one)",
            StepKind::Evict => "(eviction)",
            StepKind::SwitchZone => "(zone switch)",
            StepKind::Protect => "(protect)",
            StepKind::Remount => "(remount)",
            StepKind::Trim => "(trim)",
            StepKind::Idle => "(idle)",
            StepKind::Fence => "(fence)",
            StepKind::FlushFails => "(failed flush)",
            StepKind::Resume => "(resume)",
            StepKind::ResumeTwice => "(resume that dies)",
            StepKind::Behind => "(behind a resume)",
        })
    }
}

/// Which form of its verb an operation is, where the store or the file system takes another way for it.
fn form(op: &Op) -> &'static str {
    match op {
        Op::Rename { flags, .. } => match (flags.no_replace, flags.exchange, flags.whiteout.is_some()) {
            (false, false, false) => "",
            (true, false, false) => "no_replace",
            (false, true, false) => "exchange",
            (_, false, true) => "whiteout",
            _ => "of wrong flags",
        },
        Op::Fallocate { mode, .. } => match mode {
            FallocMode::Allocate => "allocate",
            FallocMode::KeepSize => "keep_size",
            FallocMode::PunchHole => "punch_hole",
            FallocMode::ZeroRange { .. } => "zero_range",
        },
        Op::Mknod { mode, .. } => match mode.0 & 0o170_000 {
            0o010_000 => "fifo",
            0o140_000 => "socket",
            0o020_000 => "char",
            0o060_000 => "block",
            _ => "",
        },
        Op::SetXattr { name, .. } | Op::RemoveXattr { name, .. } | Op::GetXattr { name, .. } => name_space(name),
        Op::SetAcl { default: true, .. } => "default",
        Op::SetAcl { default: false, .. } => "access",
        Op::Link { from, .. } if from.starts_with('@') => "of an open file",
        Op::Fsync { data_only: true, .. } => "data_only",
        _ => "",
    }
}

fn name_space(name: &str) -> &'static str {
    let known = ["user", "trusted", "security"];
    let of = |space: &&&str| name.split('.').next() == Some(**space);
    known.iter().find(of).copied().unwrap_or("other")
}

impl Step {
    /// What it is.
    pub fn kind(&self) -> StepKind {
        match self {
            Step::Op(op) => StepKind::of(op),
            Step::Checkpoint => StepKind::Checkpoint,
            Step::During { .. } => StepKind::During,
            Step::Evict => StepKind::Evict,
            Step::SwitchZone => StepKind::SwitchZone,
            Step::Protect(_) => StepKind::Protect,
            Step::Remount => StepKind::Remount,
            Step::Trim => StepKind::Trim,
            Step::Idle => StepKind::Idle,
            Step::Fence { .. } => StepKind::Fence,
            Step::FlushFails { .. } => StepKind::FlushFails,
            Step::Die { again: 0, .. } => StepKind::Resume,
            Step::Die { .. } => StepKind::ResumeTwice,
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
            Step::Protect(level) => write!(f, "!protect {level}"),
            Step::Remount => f.write_str("!remount"),
            Step::Trim => f.write_str("!trim"),
            Step::Idle => f.write_str("!idle"),
            Step::During { after, steps } => write!(f, "!during {after} {steps}"),
            Step::Fence { path } => write!(f, "!fence {path}"),
            Step::Die { after, part, again } => write!(f, "!die {after} {part} {again}"),
            Step::FlushFails { after } => write!(f, "!flush_fails {after}"),
            Step::Crash { draw, inside: false } => write!(f, "!crash {draw}"),
            Step::Crash { draw, inside: true } => write!(f, "!crash_inside {draw}"),
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
            ["!protect", level] => Step::Protect(level.parse().map_err(|e| format!("{line}: {e}"))?),
            ["!remount"] => Step::Remount,
            ["!trim"] => Step::Trim,
            ["!idle"] => Step::Idle,
            ["!during", after, steps] => Step::During {
                after: number(after)? as u32,
                steps: number(steps)? as u32,
            },
            ["!die", after, part, again] => Step::Die {
                after: number(after)? as u32,
                part: number(part)? as u32,
                again: number(again)? as u32,
            },
            ["!flush_fails", after] => Step::FlushFails {
                after: number(after)? as u32,
            },
            ["!fence", path] => Step::Fence { path: path.into() },
            [word @ ("!crash" | "!crash_inside"), draw] => Step::Crash {
                draw: number(draw)?,
                inside: word == "!crash_inside",
            },
            _ => Step::Op(line.parse().map_err(|e| format!("{line}: {e}"))?),
        })
    }
}
