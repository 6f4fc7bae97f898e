//! The steps of a search, in words.

use std::fmt;

use crate::checkpoint::Fate;
use crate::chunks::Place;
use crate::disk::Page;

/// A transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Write { f: u8, page: Page, late: bool },
    Share(u8),
    Unlink(u8),
    Stage(u8),
    Attr(u8),
    Birth(u8),
    Update(u8),
    Death(u8),
    Create(u8),
    Change(u8),
    Free(u8),
}

/// A step.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    Op(Op),
    Discard(Page),
    Rot(Page),
    Flip(Page),
    RotLog(u8),
    TellNear,
    Tell,
    Wipe(u8),
    RotMeta(Page),
    Mend(Page),
    Lose(u8),
    SyncCut,
    SyncBad { arrives: bool },
    SyncFlush,
    Begin { place: Place, old: Fate, carry: Fate },
    Step,
    Recover { place: Place, carry: Fate },
    Cut { choice: u32, drops: bool, words: String },
    LookUp(u8),
    Forget(u8),
    Kill { lost: u8 },
}

impl Op {
    /// The file that it changes.
    pub fn file(self) -> Option<u8> {
        match self {
            Op::Write { f, .. } | Op::Share(f) | Op::Unlink(f) | Op::Stage(f) | Op::Attr(f) => Some(f),
            _ => None,
        }
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Write { f: file, page, late } => {
                let late = if *late { ", whose old write arrives last" } else { "" };
                write!(f, "file {file} is written to page {page}{late}")
            }
            Op::Share(file) => write!(f, "file {file} shares the other's page"),
            Op::Unlink(file) => write!(f, "file {file} is emptied"),
            Op::Stage(file) => write!(f, "a part of file {file} is staged"),
            Op::Attr(file) => write!(f, "the attributes of file {file} are changed"),
            Op::Birth(n) => write!(f, "metablock {n} is born"),
            Op::Update(n) => write!(f, "metablock {n} is changed"),
            Op::Death(n) => write!(f, "metablock {n} dies"),
            Op::Create(n) => write!(f, "a file is made with inode number {n}"),
            Op::Change(n) => write!(f, "the file with number {n} is changed"),
            Op::Free(n) => write!(f, "the file with number {n} goes"),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Op(op) => write!(f, "{op}"),
            Action::Lose(file) => write!(f, "the staged page of file {file} is damaged in memory"),
            Action::Rot(page) => write!(f, "page {page} becomes unreadable"),
            Action::RotLog(place) => write!(f, "place {place} of the log becomes bad"),
            Action::Flip(page) => write!(f, "a bit of page {page} becomes wrong"),
            Action::TellNear => write!(f, "a page behind the last group tells what is durable"),
            Action::Tell => write!(f, "the page far away tells what is durable"),
            Action::Wipe(pos) => write!(f, "the log is bad from page {pos} up to its end"),
            Action::RotMeta(page) => write!(f, "page {page}, of metadata, becomes unreadable"),
            Action::Mend(page) => write!(f, "page {page} can be read again"),
            Action::Discard(page) => write!(f, "page {page} is discarded"),
            Action::SyncCut => write!(f, "a sync writes its group"),
            Action::SyncFlush => write!(f, "its flush returns and it is answered"),
            Action::SyncBad { arrives } => {
                let fate = Fate::Bad { arrives: *arrives };
                write!(f, "a sync cuts its group{}", becomes("it", fate))
            }
            Action::Begin { place, old, carry } => {
                let (old, carry) = (becomes("its group", *old), becomes("the carried group", *carry));
                write!(f, "a checkpoint's moment, {place}{old}{carry}")
            }
            Action::Step => write!(f, "the checkpoint's next step"),
            Action::Recover { place, carry } => {
                let carry = becomes("the carried group", *carry);
                write!(f, "recovery writes its checkpoint, {place}{carry}")
            }
            Action::Cut { drops, words, .. } => {
                let left = if words.is_empty() {
                    "nothing unflushed is left".to_owned()
                } else {
                    format!("of the unflushed is left: {words}")
                };
                let drops = if *drops {
                    "the device drops the newest superblock, "
                } else {
                    ""
                };
                write!(f, "{drops}power goes, {left}")
            }
            Action::LookUp(n) => write!(f, "number {n} is looked up"),
            Action::Forget(n) => write!(f, "the kernel forgets number {n}"),
            Action::Kill { lost: 0 } => write!(f, "the server dies and is resumed"),
            Action::Kill { lost } => write!(f, "the server dies and is resumed, the last {lost} of its redo damaged"),
        }
    }
}

fn becomes(what: &str, fate: Fate) -> String {
    match fate {
        Fate::Written => String::new(),
        Fate::Full => format!(", and {what} does not fit"),
        Fate::Bad { arrives: true } => format!(", and the write of {what} fails, though it arrives"),
        Fate::Bad { arrives: false } => format!(", and the write of {what} fails"),
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "home {}", self.home)?;
        let others = [
            ("the last file's", self.leaf),
            ("takes the chunk at", self.take),
            ("ends the chunk at", self.end),
        ];
        for (what, page) in others {
            if let Some(page) = page {
                write!(f, ", {what} {page}")?;
            }
        }
        Ok(())
    }
}
