//! The operation log and the state table: what transactions did to inodes, and how these were before (SPEC section 12).
//!
//! An [`Operation`] is ⟨object id, operation, data⟩ as in Greenan and Miller 2006, section 4. It says what was asked,
//! not what the bytes became, so that somebody else can work out the bytes and compare.

mod field;

use crate::blockmap::PageEntry;
use crate::inode;
use crate::le::{U32, U64};
use field::{Field, Rest};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of an operation's head: object u64, code u8, length of the data u24 (S-12.3).
pub const HEAD: usize = 12;
/// Most bytes of data that the head can tell.
pub const DATA_MAX: usize = (1 << 24) - 1;

/// A point in time as an operation carries it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Moment {
    /// Seconds since the epoch.
    pub sec: i64,
    /// Nanoseconds.
    pub nsec: u32,
}

/// Bits of [`Attrs::set`].
pub mod attr {
    /// Permission bits of the mode.
    pub const MODE: u8 = 1;
    /// Owner.
    pub const UID: u8 = 2;
    /// Group.
    pub const GID: u8 = 4;
    /// Access time.
    pub const ATIME: u8 = 8;
    /// Modification time.
    pub const MTIME: u8 = 16;
    /// Change time.
    pub const CTIME: u8 = 32;
    /// An ordinary user changes the contents: the set-id bits go.
    pub const KILL: u8 = 64;
}

/// Attributes that [`Action::SetAttr`] sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs)] // S-12.5 is the text.
pub struct Attrs {
    /// Which of the fields count ([`attr`]).
    pub set: u8,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub atime: Moment,
    pub mtime: Moment,
    pub ctime: Moment,
}

macro_rules! actions {
    ($( $(#[$doc:meta])* $name:ident = $code:literal { $($field:ident: $ty:ty),* } )*) => {
        /// One operation on an object, with its data. The names are those of S-12.5, which says what each does.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs)] // S-12.5 is the text.
        pub enum Action<'a> { $( $(#[$doc])* $name { $($field: $ty),* }, )* }

        /// What an operation does, without its data: its number in the log.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum Code { $( $(#[$doc])* $name = $code, )* }

        impl Code {
            fn of(number: u8) -> Option<Code> {
                match number { $( $code => Some(Code::$name), )* _ => None }
            }
        }

        impl<'a> Action<'a> {
            /// Its number in the log.
            pub fn code(&self) -> u8 {
                match self { $( Action::$name { .. } => $code, )* }
            }

            /// Its name, for people.
            pub fn name(&self) -> &'static str {
                match self { $( Action::$name { .. } => stringify!($name), )* }
            }

            fn put(&self, out: &mut Vec<u8>) {
                match self { $( Action::$name { $($field),* } => { $( $field.put(out); )* } )* }
            }

            /// The action of that number whose data that is. `None` if it is none (S-12.3).
            #[inline]
            pub fn take(code: Code, data: &'a [u8]) -> Option<Action<'a>> {
                let mut rest = Rest(data);
                let action = match code {
                    $( Code::$name => Action::$name { $($field: Field::take(&mut rest)?),* }, )*
                };
                rest.0.is_empty().then_some(action)
            }
        }
    };
}

actions! {
    /// A new life.
    Create = 1 { mode: u32, uid: u32, gid: u32, rdev: u32, parent: u64, time: Moment }
    /// One name more.
    Link = 2 { dir: u64, time: Moment }
    /// One name less.
    Unlink = 3 { dir: u64, time: Moment }
    /// A name moved.
    Move = 4 { from: u64, to: u64, time: Moment }
    /// On the hidden list (1) or off it (0).
    Orphan = 5 { on: u8 }
    /// The life ends.
    Free = 6 {}
    /// A directory gets an entry.
    Enter = 7 { child: u64, kind: u8, time: Moment, name: &'a [u8] }
    /// A directory loses an entry.
    Leave = 8 { child: u64, kind: u8, time: Moment, name: &'a [u8] }
    /// An entry of a directory names another inode.
    Point = 9 { child: u64, kind: u8, was: u64, was_kind: u8, time: Moment, name: &'a [u8] }
    /// Two entries of one directory exchange their inodes.
    Exchange = 10 { first: u64, second: u64, time: Moment, name: &'a [u8], other: &'a [u8] }
    /// Attributes.
    SetAttr = 11 { attrs: Attrs }
    /// chattr flags.
    SetFlags = 12 { flags: u32, time: Moment }
    /// An extended attribute; `total` is the length of the list after it, `list` the list if it left a chain.
    SetXattr = 13 { namespace: u8, total: u32, name: &'a [u8], value: &'a [u8], list: &'a [u8] }
    /// An extended attribute goes.
    RemoveXattr = 14 { namespace: u8, total: u32, name: &'a [u8], list: &'a [u8] }
    /// The target of a new symbolic link; its bytes if they fit the inode.
    Target = 15 { len: u64, bytes: &'a [u8] }
    /// Bytes are written; given here if they stay in the inode.
    Write = 16 { offset: u64, len: u64, bytes: &'a [u8] }
    /// Contents changed: times, privileges.
    Contents = 17 { kill: u8, time: Moment }
    /// Bytes of another file are copied, or its pages shared, up to `end`.
    Copy = 18 { from: u64, end: u64 }
    /// The end of a fallocate; `end` 0 keeps the size.
    Fallocate = 19 { end: u64 }
    /// A version more: pages are about to be given.
    Revise = 20 {}
    /// The size is set.
    Truncate = 21 { size: u64 }
    /// Pages `from .. to` became holes: `freed` were mapped; `emptied` 1: the tree is gone.
    Clear = 22 { from: u64, to: u64, freed: u64, emptied: u8 }
    /// An empty file keeps its bytes in the inode again.
    Inline = 23 {}
    /// Inline bytes move to a staged page.
    Unpack = 24 {}
    /// Page entries are set from page `first` on; `was` of them were mapped before.
    Map = 25 { first: u64, was: u64, entries: &'a [PageEntry] }
    /// Bytes of a page are staged; `zero` 1: they are zeros.
    Stage = 26 { index: u64, offset: u32, len: u32, zero: u8 }
    /// The allocator's choice of the body's or directory's root and of the first xattr metablock (S-12.8).
    Roots = 27 { root: u64, xattrs: u64 }
    /// The pending hole (S-5.8); both 0: it ends.
    Hole = 28 { from: u64, to: u64 }
}

/// ⟨object id, operation, data⟩.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operation<'a> {
    /// Inode number.
    pub object: u64,
    /// What was done to it.
    pub action: Action<'a>,
}

impl<'a> Operation<'a> {
    /// Appends the bytes of the operation. `false`, and nothing is appended, if its data is too long for the head.
    pub fn encode(&self, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.reserve(HEAD + 64);
        out.extend_from_slice(&self.object.to_le_bytes());
        out.extend_from_slice(&[self.action.code(), 0, 0, 0]);
        self.action.put(out);
        let len = out.len() - start - HEAD;
        if len > DATA_MAX {
            out.truncate(start);
            return false;
        }
        out[start + 9..start + HEAD].copy_from_slice(&(len as u32).to_le_bytes()[..3]);
        true
    }

    /// Reads the first operation of `bytes`; tells what follows it. `None` if the bytes are none (S-12.3).
    pub fn decode(bytes: &'a [u8]) -> Option<(Operation<'a>, &'a [u8])> {
        let (Undecoded { object, code, data }, rest) = Undecoded::split(bytes)?;
        let action = Action::take(code, data)?;
        Some((Operation { object, action }, rest))
    }
}

/// An operation whose data is not read yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Undecoded<'a> {
    /// Inode number.
    pub object: u64,
    /// What was done to it.
    pub code: Code,
    /// With what ([`Action::take`]).
    pub data: &'a [u8],
}

impl<'a> Undecoded<'a> {
    /// Takes the first operation off `bytes`; tells what follows it. `None` if the bytes are none (S-12.3).
    #[inline]
    pub fn split(bytes: &'a [u8]) -> Option<(Undecoded<'a>, &'a [u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let [o @ .., code, a, b, c] = *head;
        let (data, rest) = rest.split_at_checked(u32::from_le_bytes([a, b, c, 0]) as usize)?;
        let operation = Undecoded {
            object: u64::from_le_bytes(o),
            code: Code::of(code)?,
            data,
        };
        Some((operation, rest))
    }
}

/// Head of a half of the operation log (S-12.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-12.2 is the text.
pub struct HalfHead {
    pub incarnation: U64,
    pub end: U64,
    pub states: U64,
    pub reserved: [U64; 5],
}

/// Head of a transaction in the operation log; its operations follow (S-12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-12.3 is the text.
pub struct TxnHead {
    pub crc: U64,
    pub seq: U64,
    pub count: U32,
    pub len: U32,
}

/// An entry of the state table (S-12.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
#[allow(missing_docs)] // S-12.4 is the text.
pub struct StateEntry {
    pub crc: U64,
    pub object: U64,
    pub seq: U64,
    pub reserved: U64,
    pub inode: [u8; inode::SIZE],
}

/// Bytes of a half's head.
pub const HALF_HEAD: usize = size_of::<HalfHead>();
/// Bytes of a transaction's head.
pub const TXN_HEAD: usize = size_of::<TxnHead>();
/// Bytes of a state.
pub const STATE: usize = size_of::<StateEntry>();

const _: () = assert!(HALF_HEAD == 64);
const _: () = assert!(TXN_HEAD == 24);
const _: () = assert!(STATE == 288);

#[cfg(test)]
mod tests;
