//! What is proved about one frame that open transactions had changed, line by line (S-13.6, S-13.14): a stray write in one line
//! spoils no proof of another.

use super::{Finding, Open};
use crate::arena::{Arena, Copy, FrameNo};
use crate::planted::{self, Use};
use crate::undo::{Kept, Undo};
use core::ops::Range;
use keepfs_codes::Protection;
use keepfs_codes::line::{self, LINES};
use keepfs_format::PAGE;

/// A frame, what it was before the open transactions, and whether that is proved.
pub(super) struct Judgement {
    pub(super) frame: FrameNo,
    /// The live bytes with the old ones put back.
    image: Copy,
    /// Where it differs from the live bytes.
    span: Range<usize>,
    /// Sums of the image's lines.
    sums: [u64; LINES],
    /// Lines of the image that have the sum that is stored for them, with the deltas.
    proved: [bool; LINES],
    /// CRC-64 of the image when the rollback has ended.
    found: u64,
    /// CRC-64 of the right bytes, as the stored sum and the certain deltas tell.
    expected: u64,
    /// Deltas of changes in flight, which it may hold.
    perhaps: Vec<u64>,
    /// Stray writes inside ranges: slot, offset, length.
    inside: Vec<(usize, usize, usize)>,
}

impl Judgement {
    fn is_proved(&self) -> bool {
        self.proved.iter().all(|proved| *proved)
    }

    /// Writes the image, then its parity, if all of it is proved, then the sums of the lines that are, absolutely.
    pub(super) fn write(&self, arena: &Arena) {
        arena.restore(self.frame, self.span.start, &self.image[self.span.clone()]);
        if self.is_proved() || planted::omits(Use::ParityAnew) {
            arena.restore_parity(self.frame, &self.image);
        }
        for (number, sum) in self.sums.iter().enumerate().filter(|(number, _)| self.proved[*number]) {
            arena.restore_sum(self.frame, number, *sum);
        }
    }

    /// A stray write into a range of `slot`: frame, offset, length.
    pub(super) fn inside_of(&self, slot: usize) -> Option<(FrameNo, usize, usize)> {
        let found = self.inside.iter().find(|(s, ..)| *s == slot);
        found.map(|(_, offset, len)| (self.frame, *offset, *len))
    }

    /// The finding, if the frame is not what its sum says.
    pub(super) fn unproved(&self) -> Option<Finding> {
        (!self.is_proved()).then(|| Finding::Frame {
            frame: self.frame,
            found: self.found,
            expected: self.expected,
            perhaps: self.perhaps.clone(),
        })
    }
}

/// What one slot did to the frame.
struct Part<'o> {
    open: &'o Open,
    changes: Vec<&'o Kept>,
    /// Number of the record whose change may be incomplete.
    last: u32,
}

/// Judges one frame. Reads only.
pub(super) fn judge(arena: &Arena, frame: FrameNo, open: &[Open]) -> Judgement {
    let mut live: Copy = Box::new([0; PAGE]);
    arena.load_raw(frame, 0, &mut *live);
    let parts: Vec<Part<'_>> = open.iter().map(|o| part(o, frame)).collect();
    let mut image = live.clone();
    for part in &parts {
        part.changes
            .iter()
            .rev()
            .for_each(|kept| put(&mut image, kept, &kept.old));
    }
    // All slots are marked before the first frame is written.
    let restarted = open.iter().all(|o| o.head.restarted);
    let has_sums = arena.code() != Protection::Off;
    let (kept, sums) = (arena.line_sums(frame), line::sums(&image));
    let mut right = sums;
    let (mut proved, mut held, mut perhaps) = ([true; LINES], Held::default(), Vec::new());
    for number in (0..LINES).filter(|_| has_sums) {
        let deltas = Deltas::of(number, &parts);
        match deltas.held(sums[number] ^ kept[number], restarted) {
            Some(line) => held.doubts.extend(line.doubts),
            None => {
                proved[number] = false;
                right[number] = kept[number] ^ deltas.certain;
                held.doubts.extend(Held::unknown(&deltas).doubts);
                perhaps.extend(deltas.perhaps.iter().map(|(_, delta)| *delta));
            }
        }
    }
    let inside = match has_sums {
        true => strays(&live, &image, &parts, restarted, &held),
        false => Vec::new(),
    };
    let differs = |i: &usize| live[*i] != image[*i];
    let start = (0..PAGE).find(differs).unwrap_or(PAGE);
    let end = (start..PAGE).rfind(differs).map_or(start, |last| last + 1);
    Judgement {
        frame,
        image,
        span: start..end,
        sums,
        proved,
        found: line::crc(&sums),
        expected: line::crc(&right),
        perhaps,
        inside,
    }
}

fn part(open: &Open, frame: FrameNo) -> Part<'_> {
    let remaining = open.remaining();
    Part {
        open,
        changes: remaining.iter().filter(|k| k.frame == frame).collect(),
        last: (remaining.len() as u32).wrapping_sub(1),
    }
}

/// Puts one side of a record into private bytes: those of its range, or its bits only.
fn put(bytes: &mut [u8; PAGE], kept: &Kept, side: &[u8]) {
    let range = &mut bytes[kept.offset..kept.offset + side.len()];
    match (kept.undo, kept.old.first(), kept.new.first()) {
        (Undo::Bits, Some(old), Some(new)) => range[0] = (range[0] & !(old ^ new)) | side[0],
        _ => range.copy_from_slice(side),
    }
}

/// What the changes of a line folded into its sum.
#[derive(Default)]
struct Deltas {
    certain: u64,
    /// Of those that may be incomplete: number of the record, delta.
    perhaps: Vec<(u32, u64)>,
}

/// Which of the doubtful deltas the stored sum holds.
#[derive(Default)]
struct Held {
    doubts: Vec<(u32, u64, Option<bool>)>,
}

impl Held {
    fn unknown(deltas: &Deltas) -> Held {
        let doubts = deltas.perhaps.iter();
        Held {
            doubts: doubts.map(|(number, delta)| (*number, *delta, None)).collect(),
        }
    }

    /// `None`: not known.
    fn has(&self, kept: &Kept) -> Option<bool> {
        let found = self
            .doubts
            .iter()
            .find(|(n, d, _)| *n == kept.number && *d == kept.delta);
        found.and_then(|(_, _, held)| *held)
    }
}

impl Deltas {
    /// Those of line `number`.
    fn of(number: usize, parts: &[Part<'_>]) -> Deltas {
        let mut deltas = Deltas::default();
        for part in parts {
            let here = part.changes.iter().filter(|kept| line::at(kept.offset) == number);
            here.for_each(|kept| deltas.add(kept, part.last));
        }
        deltas
    }

    fn add(&mut self, kept: &Kept, last: u32) {
        if kept.number == last {
            self.perhaps.push((kept.number, kept.delta));
        } else {
            self.certain ^= kept.delta;
        }
    }

    /// Solves `difference = certain ^ XOR of some of the doubtful`; after a cut restart also with none of the
    /// changes, because the sum may have been stored already. `None`: the frame is not what its sum says.
    fn held(&self, difference: u64, restarted: bool) -> Option<Held> {
        if restarted && difference == 0 {
            return Some(self.chosen(0));
        }
        subset(difference ^ self.certain, self.perhaps.iter().map(|(_, d)| *d)).map(|set| self.chosen(set))
    }

    fn chosen(&self, set: u128) -> Held {
        let all = self.perhaps.iter().enumerate();
        Held {
            doubts: all.map(|(i, (n, d))| (*n, *d, Some(set >> i & 1 == 1))).collect(),
        }
    }
}

/// Which of `vectors` (at most 128, zero = not to be used) XOR to `target`: elimination over GF(2), so that 64
/// transactions in flight on one frame cost no more than 64 steps each.
fn subset(target: u64, vectors: impl Iterator<Item = u64>) -> Option<u128> {
    let mut basis = [(0u64, 0u128); 64];
    for (i, vector) in vectors.enumerate() {
        let (rest, set) = reduce(&basis, vector, 1 << i);
        if rest != 0 {
            basis[rest.ilog2() as usize] = (rest, set);
        }
    }
    let (rest, set) = reduce(&basis, target, 0);
    (rest == 0).then_some(set)
}

fn reduce(basis: &[(u64, u128); 64], mut vector: u64, mut set: u128) -> (u64, u128) {
    for bit in (0..64).rev() {
        if vector >> bit & 1 == 1 && basis[bit].0 != 0 {
            vector ^= basis[bit].0;
            set ^= basis[bit].1;
        }
    }
    (vector, set)
}

/// Bytes inside the ranges of open changes that neither the changes nor a restart (which writes the image from the
/// first byte on) can have left. One place a slot.
fn strays(
    live: &[u8; PAGE],
    image: &[u8; PAGE],
    parts: &[Part<'_>],
    restarted: bool,
    held: &Held,
) -> Vec<(usize, usize, usize)> {
    let from = if restarted {
        (0..PAGE).find(|i| live[*i] != image[*i]).unwrap_or(PAGE)
    } else {
        0
    };
    let mut found = Vec::new();
    for part in parts {
        let mut expected = Box::new(*image);
        for kept in part.changes.iter().filter(|k| k.number != part.last) {
            put(&mut expected, kept, &kept.new);
        }
        if let Some(torn) = part.changes.last().filter(|k| k.number == part.last) {
            finish(
                &mut expected,
                live,
                torn,
                from,
                part.open.head.left.is_some(),
                held.has(torn),
            );
        }
        let wrong: Vec<usize> = owned(&part.changes)
            .filter(|(i, mask)| *i >= from && (live[*i] ^ expected[*i]) & mask != 0)
            .map(|(i, _)| i)
            .collect();
        if let (Some(first), Some(last)) = (wrong.iter().min(), wrong.iter().max()) {
            found.push((part.open.slot, *first, last - first + 1));
        }
    }
    found
}

/// Bytes of the changes, with the bits that are theirs.
fn owned<'k>(changes: &'k [&'k Kept]) -> impl Iterator<Item = (usize, u8)> + 'k {
    changes.iter().flat_map(|kept| {
        let bits = |i: usize| match kept.undo {
            Undo::Bits => kept.old[i] ^ kept.new[i],
            _ => 0xff,
        };
        (0..kept.old.len()).map(move |i| (kept.offset + i, bits(i)))
    })
}

/// Puts into `expected` what a copy that was cut may have left: its new bytes up to some place, the old ones after
/// it. The place is the one that explains most of `live`. A change being taken back (`back`) has them reversed.
fn finish(expected: &mut [u8; PAGE], live: &[u8; PAGE], torn: &Kept, from: usize, back: bool, held: Option<bool>) {
    let (first, then) = if back {
        (&torn.old, &torn.new)
    } else {
        (&torn.new, &torn.old)
    };
    // The sum is folded before the copy begins, in both directions.
    let begun = held.is_none_or(|held| held != back);
    if torn.undo == Undo::Bits {
        let now = live[torn.offset] & (torn.old[0] ^ torn.new[0]);
        let side = if begun && now == first[0] { first } else { then };
        return put(expected, torn, side);
    }
    let len = torn.old.len();
    let skip = from.saturating_sub(torn.offset).min(len);
    let place = if begun {
        cut(&live[torn.offset..torn.offset + len], first, then, skip)
    } else {
        0
    };
    let range = &mut expected[torn.offset..torn.offset + len];
    range[..place].copy_from_slice(&first[..place]);
    range[place..].copy_from_slice(&then[place..]);
}

/// The place p for which `first[..p]` followed by `then[p..]` differs least from `live`, from `skip` on.
fn cut(live: &[u8], first: &[u8], then: &[u8], skip: usize) -> usize {
    let mut wrong = (skip..live.len()).filter(|i| live[*i] != then[*i]).count();
    let (mut best, mut place) = (wrong, skip);
    for i in skip..live.len() {
        wrong -= usize::from(live[i] != then[i]);
        wrong += usize::from(live[i] != first[i]);
        if wrong < best {
            (best, place) = (wrong, i + 1);
        }
    }
    place
}
