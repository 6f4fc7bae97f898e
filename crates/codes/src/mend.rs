//! What is wrong with a frame of which each line has a sum (S-15.20), and the right bytes: the lines that fail are known, so
//! only what may have happened in them is tried (S-15.31). Parity's word alone counts for nothing (S-15.10).
//!
//! At most 15,000 patterns are tried for a frame (of evenodd: see there). Each is held against the 64-bit sum of its line, so damage beyond the
//! code is taken for damage within it with a probability of 2^-50, and then the caller's second sum must agree, too.

use crate::code::Code;
use crate::evenodd::{Damage, Evenodd};
use crate::gf256::{self, INVERSES, POWERS};
use crate::line::{self, LINE, LINES};
use crate::rows::{self, ROW, ROW_WORDS, Row};
use crate::verdict::{Repair, Verdict};
use crate::{FRAME, Protection, crc64, flips};

/// Rows of a line.
const OF_LINE: usize = LINE / ROW;
/// Most lines that are searched together.
const LINES_MAX: usize = 4;
/// Most runs of damaged columns that are shared out among lines.
const RUNS_MAX: usize = 4;
/// Most patterns of one line that are kept; more than one with the same sum is next to impossible.
const KEPT_MAX: usize = 4;

/// What the bytes of a frame, its parity and the sums of its lines say together. A repair is given only if each line of the
/// right bytes has its sum and `agrees` says yes to them, or if only the sums of lines that it leaves as they are disagree
/// and parity and `agrees` say yes. Nothing is written.
///
/// `agrees`: whether right bytes agree with what else is known of them (a second sum).
pub fn locate(
    code: Protection,
    data: &[u8; FRAME],
    parity: &[u8],
    sums: &[u64; LINES],
    agrees: impl Fn(&[u8; FRAME]) -> bool,
) -> Verdict {
    let found = line::sums(data);
    let parity_agrees = code.parity_len() == 0 || code.verify(data, parity, line::crc(&found));
    let mut bad = [0; LINES];
    let mut count = 0;
    for number in (0..LINES).filter(|number| found[*number] != sums[*number]) {
        bad[count] = number;
        count += 1;
    }
    match (count, parity_agrees) {
        _ if code == Protection::Off => return Verdict::Clean,
        (0, true) if agrees(data) => return Verdict::Clean,
        (0, false) if agrees(data) => return Verdict::ParityBad,
        (0, _) => return Verdict::Uncorrectable,
        // The bytes have all sums but those of lines.
        (_, true) if agrees(data) => return Verdict::SumsBad,
        _ => {}
    }
    let syndromes = core::array::from_fn(|number| found[number] ^ sums[number]);
    let frame = Frame {
        code,
        data,
        parity,
        bad: &bad[..count],
        syndromes,
    };
    let mut search = Found {
        frame: &frame,
        agrees: &agrees,
        first: None,
        several: false,
    };
    frame.search(&mut search);
    match search.first {
        Some(_) if search.several => Verdict::Ambiguous,
        Some(xor) => Verdict::Repair(Repair::of(xor)),
        None => Verdict::Uncorrectable,
    }
}

/// A frame with lines that fail.
struct Frame<'d> {
    code: Protection,
    data: &'d [u8; FRAME],
    parity: &'d [u8],
    /// Lines that fail, ascending.
    bad: &'d [usize],
    /// What each line's sum differs by.
    syndromes: [u64; LINES],
}

/// The patterns that were confirmed.
struct Found<'f, 'd, A> {
    frame: &'f Frame<'d>,
    agrees: &'f A,
    first: Option<[u8; FRAME]>,
    several: bool,
}

impl<A: Fn(&[u8; FRAME]) -> bool> Found<'_, '_, A> {
    fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// Takes a pattern of which only the lines `open` may be left without their sum: then parity must agree with what it
    /// makes.
    fn offer(&mut self, xor: &[u8; FRAME], open: bool) {
        if *xor == [0; FRAME] || self.first.as_ref() == Some(xor) {
            return;
        }
        let mut right = *self.frame.data;
        right.iter_mut().zip(xor).for_each(|(byte, xor)| *byte ^= xor);
        let sums = line::sums(&right);
        let parity = || self.frame.code.verify(&right, self.frame.parity, line::crc(&sums));
        if open && !parity() || !(self.agrees)(&right) {
            return;
        }
        self.several = self.first.is_some();
        self.first.get_or_insert(*xor);
    }
}

impl Frame<'_> {
    fn search<A: Fn(&[u8; FRAME]) -> bool>(&self, found: &mut Found<'_, '_, A>) {
        match self.code {
            Protection::Pcrc | Protection::Pq => {
                let p = self.damage_of_p();
                self.bursts(&p, found);
                if found.is_empty() {
                    self.shared_out(&p, found);
                }
                if found.is_empty() && self.code == Protection::Pq {
                    self.two_rows(&p, &self.damage_of_q(), found);
                }
            }
            Protection::Evenodd64 => self.columns(Evenodd::Blocks64, found),
            Protection::Evenodd256 => self.columns(Evenodd::Blocks256, found),
            Protection::Off | Protection::Crc | Protection::Adler => {}
        }
        if found.is_empty() {
            self.flips(found);
        }
    }

    /// What the code of columns finds, if all sums are right, and if that of one line is bad.
    fn columns<A: Fn(&[u8; FRAME]) -> bool>(&self, code: Evenodd, found: &mut Found<'_, '_, A>) {
        let damage = Damage::of(code, self.data, self.parity);
        let mut search = |syndromes: &[u64; LINES], open| {
            let delta = syndromes.iter().fold(0, |delta, syndrome| delta ^ syndrome);
            damage.patterns(delta, |xor| {
                if line::sums(xor) == *syndromes {
                    found.offer(xor, open);
                }
            });
        };
        search(&self.syndromes, false);
        if self.bad.len() > 1 {
            for number in self.bad {
                let mut others = self.syndromes;
                others[*number] = 0;
                search(&others, true);
            }
        }
    }

    fn damage_of_p(&self) -> Row {
        rows::xor(&rows::p(rows::of(self.data)), &self.parity[..ROW])
    }

    fn damage_of_q(&self) -> Row {
        rows::xor(&rows::pq(rows::of(self.data)).1, &self.parity[ROW..])
    }

    /// Whether a pattern gives each line its sum.
    fn is_confirmed(&self, xor: &[u8; FRAME]) -> bool {
        line::sums(xor) == self.syndromes
    }

    /// One burst of up to a row's length, in one line or over the end of one.
    fn bursts<A: Fn(&[u8; FRAME]) -> bool>(&self, p: &Row, found: &mut Found<'_, '_, A>) {
        let starts = match *self.bad {
            [only] => only * LINE..only * LINE + LINE - ROW + 1,
            [one, next] if next == one + 1 => next * LINE - ROW + 1..next * LINE,
            _ => return,
        };
        for start in starts {
            let burst: Row = core::array::from_fn(|at| p[(start + at) % ROW]);
            let end = (start + ROW).min((line::at(start) + 1) * LINE);
            let (here, behind) = burst.split_at(end - start);
            if delta(start, here) == self.syndromes[line::at(start)]
                && (behind.is_empty() || delta(end, behind) == self.syndromes[line::at(end)])
            {
                let mut xor = [0; FRAME];
                xor[start..start + ROW].copy_from_slice(&burst);
                found.offer(&xor, false);
            }
        }
    }

    /// Strays in several places whose columns do not overlap: the runs of damaged columns are shared out among the lines.
    fn shared_out<A: Fn(&[u8; FRAME]) -> bool>(&self, p: &Row, found: &mut Found<'_, '_, A>) {
        let Some(runs) = Runs::of(p) else { return };
        if self.bad.len() > LINES_MAX {
            return;
        }
        let mut parts = [const { Parts::NONE }; LINES_MAX];
        for (parts, number) in parts.iter_mut().zip(self.bad) {
            self.parts_of(*number, p, &runs, parts);
        }
        let mut xor = [0; FRAME];
        self.share(&parts[..self.bad.len()], runs.all(), (0, false), &mut xor, found);
    }

    /// The patterns of line `number` from some of the runs that its sum confirms.
    fn parts_of(&self, number: usize, p: &Row, runs: &Runs, parts: &mut Parts) {
        for mask in 1..=runs.all() {
            let part = runs.of_mask(mask, p);
            for start in 0..=LINE - ROW {
                let burst: Row = core::array::from_fn(|at| part[(start + at) % ROW]);
                if delta(number * LINE + start, &burst) == self.syndromes[number] {
                    let mut bytes = [0; LINE];
                    bytes[start..start + ROW].copy_from_slice(&burst);
                    parts.keep(mask, bytes);
                }
            }
            if mask.count_ones() > 1 {
                self.spread(number, &part, (mask, runs), parts);
            }
        }
    }

    /// Each run of `mask` in any row of the line.
    fn spread(&self, number: usize, part: &Row, (mask, runs): (u8, &Runs), parts: &mut Parts) {
        for places in 0..OF_LINE.pow(mask.count_ones()) {
            let mut bytes = [0; LINE];
            let mut rest = places;
            for run in runs.ranges(mask) {
                let row = rest % OF_LINE * ROW;
                rest /= OF_LINE;
                bytes[row + run.start..row + run.end].copy_from_slice(&part[run]);
            }
            if line::sum(number, &bytes) == self.syndromes[number] {
                parts.keep(mask, bytes);
            }
        }
    }

    /// Chooses a pattern for each line so that each run is one line's; a line with none has a bad sum.
    fn share<A: Fn(&[u8; FRAME]) -> bool>(
        &self,
        parts: &[Parts],
        left: u8,
        (line, open): (usize, bool),
        xor: &mut [u8; FRAME],
        found: &mut Found<'_, '_, A>,
    ) {
        let Some((first, rest)) = parts.split_first() else {
            if left == 0 {
                found.offer(xor, open);
            }
            return;
        };
        let range = self.bad[line] * LINE..(self.bad[line] + 1) * LINE;
        for (mask, bytes) in first.all().filter(|(mask, _)| mask & !left == 0) {
            xor[range.clone()].copy_from_slice(bytes);
            self.share(rest, left & !mask, (line + 1, open), xor, found);
        }
        xor[range].fill(0);
        self.share(rest, left, (line + 1, true), xor, found);
    }

    /// Any damage of one or two rows of the lines that fail, of which P and Q tell the bytes.
    fn two_rows<A: Fn(&[u8; FRAME]) -> bool>(&self, p: &Row, q: &Row, found: &mut Found<'_, '_, A>) {
        if self.bad.len() > 2 {
            return;
        }
        let mut offer = |parts: &[(usize, Row)]| {
            let mut xor = [0; FRAME];
            parts
                .iter()
                .for_each(|(row, bytes)| xor[row * ROW..][..ROW].copy_from_slice(bytes));
            if self.is_confirmed(&xor) {
                found.offer(&xor, false);
            }
        };
        let all = || self.bad.iter().flat_map(|line| line * OF_LINE..(line + 1) * OF_LINE);
        for second in all() {
            // P is bad, too.
            offer(&[(second, rows::times(INVERSES[POWERS[second] as usize], q))]);
            for first in all().filter(|first| *first < second) {
                let k = INVERSES[(POWERS[first] ^ POWERS[second]) as usize];
                let a = rows::xor(&rows::times(k, q), &rows::times(gf256::product(k, POWERS[second]), p));
                offer(&[(first, a), (second, rows::xor(p, &a))]);
            }
        }
    }

    /// One or two flipped bits in each line, of which its sum alone tells the places.
    fn flips<A: Fn(&[u8; FRAME]) -> bool>(&self, found: &mut Found<'_, '_, A>) {
        let mut xor = [0; FRAME];
        for number in self.bad {
            let syndrome = self.syndromes[*number];
            let one = flips::single(syndrome).map(|bit| flips::pattern(&[bit]));
            let Some(pattern) = one.or_else(|| flips::pair(syndrome)) else {
                return;
            };
            let own = number * LINE..(number + 1) * LINE;
            xor[own.clone()].copy_from_slice(&pattern[own]);
        }
        if self.is_confirmed(&xor) {
            found.offer(&xor, false);
        }
    }
}

/// What a line's sum changes by when the bytes from `offset` on change by `xor`.
fn delta(offset: usize, xor: &[u8]) -> u64 {
    crc64::delta(offset, &[0; ROW][..xor.len()], xor)
}

/// Patterns of one line that have its sum, with the runs that they use.
struct Parts {
    count: usize,
    kept: [(u8, [u8; LINE]); KEPT_MAX],
}

impl Parts {
    const NONE: Parts = Parts {
        count: 0,
        kept: [(0, [0; LINE]); KEPT_MAX],
    };

    fn keep(&mut self, mask: u8, bytes: [u8; LINE]) {
        if self.count < KEPT_MAX && self.all().all(|(_, kept)| *kept != bytes) {
            self.kept[self.count] = (mask, bytes);
            self.count += 1;
        }
    }

    fn all(&self) -> impl Iterator<Item = (u8, &[u8; LINE])> {
        self.kept[..self.count].iter().map(|(mask, bytes)| (*mask, bytes))
    }
}

/// Runs of words of a row that are damaged.
struct Runs {
    count: usize,
    /// First word and the one behind the last.
    words: [(usize, usize); RUNS_MAX],
}

impl Runs {
    /// `None`: there are none, or too many.
    fn of(p: &Row) -> Option<Runs> {
        let (words, _) = p.as_chunks::<8>();
        let is_hit = |at: usize| words.get(at).is_some_and(|word| *word != [0; 8]);
        let mut runs = Runs {
            count: 0,
            words: [(0, 0); RUNS_MAX],
        };
        let mut at = 0;
        while at < ROW_WORDS {
            if !is_hit(at) {
                at += 1;
                continue;
            }
            let end = (at..=ROW_WORDS).find(|word| !is_hit(*word))?;
            *runs.words.get_mut(runs.count)? = (at, end);
            runs.count += 1;
            at = end;
        }
        (runs.count > 0).then_some(runs)
    }

    /// All of them, one bit each.
    fn all(&self) -> u8 {
        (1 << self.count) - 1
    }

    /// The bytes of those of a mask.
    fn ranges(&self, mask: u8) -> impl Iterator<Item = core::ops::Range<usize>> {
        let chosen = (0..self.count).filter(move |run| mask >> run & 1 == 1);
        chosen.map(|run| 8 * self.words[run].0..8 * self.words[run].1)
    }

    /// The damage in the runs of a mask alone.
    fn of_mask(&self, mask: u8, p: &Row) -> Row {
        let mut part = [0; ROW];
        for run in self.ranges(mask) {
            part[run.clone()].copy_from_slice(&p[run]);
        }
        part
    }
}

#[cfg(all(test, not(miri)))]
mod tests;
