//! Staged data: file pages that are durable in the log only (SPEC S-8.8).

use crate::Page;
use keepfs_codes::crc32c;
use keepfs_format::PAGE;
use std::collections::BTreeMap;

/// What a tail or zero record stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Bytes(u16, Vec<u8>),
    Zeros(u16, u16),
}

impl Piece {
    fn is_whole(&self) -> bool {
        match self {
            Piece::Bytes(_, new) => new.len() == PAGE,
            Piece::Zeros(_, len) => usize::from(*len) == PAGE,
        }
    }
}

/// One staged page.
#[derive(Clone, Debug)]
pub(crate) struct Staged {
    /// Version of the last record.
    pub version: u32,
    /// Page below the pieces, 0 = zeros.
    pub base: u64,
    pub base_crc: u32,
    pub pieces: Vec<Piece>,
    /// The log says that it is lost.
    pub lost: bool,
    /// The device page that the inode's block map has here, as far as the walk has seen.
    pub mapped: u64,
}

impl Staged {
    /// The page's bytes; None if the base cannot be read or has another CRC.
    pub fn content(&self, read: impl FnOnce(u64, &mut Page) -> bool) -> Option<Box<Page>> {
        let mut bytes = Box::new([0; PAGE]);
        if self.base != 0 && !(read(self.base, &mut bytes) && crc32c::of(&bytes[..]) == self.base_crc) {
            return None;
        }
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(at, new) => {
                    let at = usize::from(*at);
                    bytes.get_mut(at..at + new.len())?.copy_from_slice(new);
                }
                Piece::Zeros(at, len) => {
                    let at = usize::from(*at);
                    bytes.get_mut(at..at + usize::from(*len))?.fill(0);
                }
            }
        }
        Some(bytes)
    }
}

/// All staged pages, by inode and page index.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub pages: BTreeMap<(u64, u64), Staged>,
}

impl Stage {
    /// A tail or zero record: over what earlier ones made, else over its base.
    pub fn put(&mut self, at: (u64, u64), version: u32, base: (u64, u32), piece: Piece) {
        let fresh = || Staged {
            version,
            base: base.0,
            base_crc: base.1,
            pieces: Vec::new(),
            lost: false,
            mapped: 0,
        };
        let staged = self.pages.entry(at).or_insert_with(fresh);
        staged.version = version;
        staged.lost &= !piece.is_whole();
        staged.pieces.push(piece);
    }

    /// A lost record: the page is lost until it is staged whole or its tails are void.
    pub fn lost(&mut self, at: (u64, u64)) {
        let none = || Staged {
            version: 0,
            base: 0,
            base_crc: 0,
            pieces: Vec::new(),
            lost: true,
            mapped: 0,
        };
        self.pages.entry(at).or_insert_with(none).lost = true;
    }

    /// A map-entry record voids the tails of its indices.
    pub fn mapped(&mut self, ino: u64, index: u64, count: u32) {
        self.drop_range(ino, index, index.saturating_add(count.into()));
    }

    /// The inode's number is freed.
    pub fn freed(&mut self, first: u64, count: u64) {
        let range = (first, 0)..(first.saturating_add(count), 0);
        let gone: Vec<_> = self.pages.range(range).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| drop(self.pages.remove(at)));
    }

    /// A create record voids the tails of earlier lives.
    pub fn born(&mut self, ino: u64, born: u64) {
        let earlier = |staged: &Staged| staged.lost || (staged.version.wrapping_sub(born as u32) as i32) < 0;
        let of_ino = self.pages.range((ino, 0)..=(ino, u64::MAX));
        let gone: Vec<_> = of_ino
            .filter(|(_, staged)| earlier(staged))
            .map(|(at, _)| *at)
            .collect();
        gone.iter().for_each(|at| drop(self.pages.remove(at)));
    }

    /// A truncate record voids what is beyond `size` and zeroes the rest of the page that it cuts.
    pub fn truncate(&mut self, ino: u64, size: u64) {
        self.drop_range(ino, size.div_ceil(PAGE as u64), u64::MAX);
        let (index, within) = (size / PAGE as u64, (size % PAGE as u64) as u16);
        if let Some(staged) = self.pages.get_mut(&(ino, index)).filter(|_| within != 0) {
            staged.pieces.push(Piece::Zeros(within, PAGE as u16 - within));
        }
    }

    fn drop_range(&mut self, ino: u64, first: u64, end: u64) {
        if first >= end {
            return;
        }
        let gone: Vec<_> = self.pages.range((ino, first)..(ino, end)).map(|(at, _)| *at).collect();
        gone.iter().for_each(|at| drop(self.pages.remove(at)));
    }
}
