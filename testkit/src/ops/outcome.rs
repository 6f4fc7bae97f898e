//! What came of an operation, comparable between file systems.

use crate::tree::DataHash;
use keepfs_vfs::{Attr, Errno, FileKind};

/// What an operation gave.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It worked, there is no more to say.
    Done,
    /// It failed.
    Err(Errno),
    /// It was not tried: the path leads to an inode of another kind.
    WrongKind,
    /// A number: bytes written or copied, an offset found.
    Number(u64),
    /// What was read: how much, and its hash.
    Data(usize, DataHash),
    /// Bytes: a target, a value.
    Bytes(Vec<u8>),
    /// Names: of entries or attributes, in byte order.
    Names(Vec<Vec<u8>>),
    /// Attributes after the operation.
    View(View),
    /// The answers contradict each other, in words.
    Contradiction(String),
}

impl Outcome {
    /// Whether it failed or contradicted itself.
    pub fn is_err(&self) -> bool {
        matches!(self, Outcome::Err(_) | Outcome::Contradiction(_))
    }
}

/// The attributes that must be the same everywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View {
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number.
    pub rdev: u32,
    /// Bytes, 0 for directories.
    pub size: u64,
}

impl View {
    /// Of these attributes.
    pub fn of(attr: &Attr) -> View {
        let size = if attr.kind() == FileKind::Dir { 0 } else { attr.size };
        View {
            mode: attr.mode,
            nlink: attr.nlink,
            uid: attr.uid,
            gid: attr.gid,
            rdev: attr.rdev,
            size,
        }
    }
}

impl From<Attr> for Outcome {
    fn from(attr: Attr) -> Outcome {
        Outcome::View(View::of(&attr))
    }
}

impl From<()> for Outcome {
    fn from((): ()) -> Outcome {
        Outcome::Done
    }
}

impl From<Result<Outcome, Errno>> for Outcome {
    fn from(result: Result<Outcome, Errno>) -> Outcome {
        result.unwrap_or_else(Outcome::Err)
    }
}
