//! To whom a rolling sum belongs: the metablock it guards (S-15.4) and the group of callers that may change it (S-15.5).

use crate::crc64;
use crate::line::LINES;

/// The identity of a metablock: XORed into a sum, so that a sum that came to the wrong place does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Identity(u64);

impl Identity {
    /// Of the metablock `id` (S-3.1) of kind `kind` (S-3.2) in the pool `pool`.
    pub fn of(pool: &[u8; 16], id: u64, kind: u8) -> Self {
        Identities::of(pool).of_metablock(id, kind)
    }

    /// As it stands in control words (S-13.1).
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// What stands in control words; 0 is the identity of nothing.
    #[inline]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }
}

/// The identities of the metablocks of one pool.
#[derive(Clone, Copy, Debug)]
pub struct Identities(u64);

impl Identities {
    /// Of this pool's metablocks.
    pub fn of(pool: &[u8; 16]) -> Self {
        Self(crc64::full(pool))
    }

    /// That of metablock `id` (S-3.1) of kind `kind` (S-3.2): the CRC-64 of pool, id and kind, 8 bytes each of the last two.
    #[inline]
    pub fn of_metablock(self, id: u64, kind: u8) -> Identity {
        Identity(crc64::two_more(self.0, id, u64::from(kind)))
    }
}

/// Who may change a frame (the idea of WAFL 2017, section 4.5): a change by another group is legal for the door and
/// leaves a sum that does not verify.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Group {
    /// Inodes.
    Inode,
    /// Directory nodes.
    Directory,
    /// Block map nodes and map pages.
    Map,
    /// Bitmaps, shares, totals, homes.
    Bitmap,
    /// Extended attributes.
    Xattr,
    /// Operation log and state table.
    Log,
}

impl Group {
    /// All groups.
    pub const ALL: [Self; 6] = [
        Self::Inode,
        Self::Directory,
        Self::Map,
        Self::Bitmap,
        Self::Xattr,
        Self::Log,
    ];

    /// Its number in control words (S-13.1).
    #[inline]
    pub const fn number(self) -> u64 {
        self as u64
    }

    /// The group with this number.
    #[inline]
    pub fn of(number: u64) -> Option<Self> {
        Self::ALL.get(usize::try_from(number).ok()?).copied()
    }

    /// How far this group turns. Any two numbers differ by at most 2 factors of two, so that at most 16 deltas (zero
    /// among them) look the same to two groups.
    const fn turn(self) -> u32 {
        match self {
            Self::Inode => 0,
            Self::Directory => 1,
            Self::Map => 2,
            Self::Bitmap => 3,
            Self::Xattr => 5,
            Self::Log => 7,
        }
    }

    /// What a caller of this group folds into a rolling sum for a CRC-64 delta. Turning is linear: turned deltas merge
    /// by XOR as plain ones do.
    #[inline]
    pub const fn fold(self, delta: u64) -> u64 {
        delta.rotate_left(self.turn())
    }

    /// The delta of which `turned` is the folded form.
    #[inline]
    pub const fn unfold(self, turned: u64) -> u64 {
        turned.rotate_right(self.turn())
    }
}

/// The binding of a frame's sums: whose it is, and who may change it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The metablock.
    pub identity: Identity,
    /// Its group.
    pub group: Group,
}

impl Binding {
    /// What is kept for line `number` whose bytes have this sum (S-15.20).
    ///
    /// # Panics
    /// If a frame has no line of that number.
    #[inline]
    pub fn keep(self, number: usize, sum: u64) -> u64 {
        self.group.fold(sum) ^ self.identity.0 ^ MARKS[number]
    }

    /// The CRC-64 of a frame of whose lines `all` is the XOR of what is kept: there is an even number of them, so the
    /// identity is not in it.
    #[inline]
    pub const fn crc(self, all: u64) -> u64 {
        crc64::of_zeros() ^ self.group.unfold(all ^ ALL_MARKS)
    }

    /// The sum that is kept as `kept` for line `number`.
    ///
    /// # Panics
    /// If a frame has no line of that number.
    #[inline]
    pub fn sum(self, number: usize, kept: u64) -> u64 {
        self.group.unfold(kept ^ self.identity.0 ^ MARKS[number])
    }
}

/// The XOR of all of [`MARKS`].
const ALL_MARKS: u64 = {
    let mut all = 0;
    let mut number = 0;
    while number < LINES {
        all ^= (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        number += 1;
    }
    all
};

/// What tells the sums of the lines of one frame apart, equal lines of zeros too.
static MARKS: [u64; LINES] = {
    let mut marks = [0; LINES];
    let mut number = 0;
    while number < LINES {
        marks[number] = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        number += 1;
    }
    marks
};

#[cfg(test)]
mod tests;
