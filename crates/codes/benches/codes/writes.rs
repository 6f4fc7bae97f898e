//! The raw writes of Greenan & Miller (2006, section 5.4, figures 8 and 9) without page protection: 16 bytes at random
//! places of a region, bare, under each code, and by their figure 3 as printed (scratch, encode, copy, check).

use crate::timing::{Cost, Rng, cost};
use keepfs_codes::evenodd::block;
use keepfs_codes::{Code, FRAME, Protection, Verified};
use std::hint::black_box;

/// Bytes of a write.
const LEN: usize = 16;
/// Places drawn before the measurement: as many as the paper wrote.
const PLACES: usize = 250_000;

/// Frames with the parity and the sums of a code, each in memory of its own.
struct Region {
    code: Protection,
    frames: Vec<[u8; FRAME]>,
    parity: Vec<u8>,
    sums: Vec<u64>,
    places: Vec<(u32, u16)>,
    next: usize,
}

impl Region {
    fn new(code: Protection, frames: usize) -> Self {
        let zero = [0; FRAME];
        let mut one = vec![0; code.parity_len()];
        let sum = code.encode(Verified::made(&zero), &mut one);
        let mut rng = Rng::new(5);
        let places = (0..PLACES)
            .map(|_| (rng.below(frames) as u32, (rng.below(FRAME / LEN) * LEN) as u16))
            .collect();
        // Written once, so that every page is there.
        let mut all = vec![[1; FRAME]; frames];
        all.fill(zero);
        Self {
            code,
            frames: all,
            parity: one.repeat(frames),
            sums: vec![sum; frames],
            places,
            next: 0,
        }
    }

    fn place(&mut self) -> (usize, usize) {
        let (frame, offset) = self.places[self.next];
        self.next = if self.next + 1 < PLACES { self.next + 1 } else { 0 };
        (frame as usize, usize::from(offset))
    }

    fn write(&mut self, new: [u8; LEN]) {
        let (frame, offset) = self.place();
        let live: &mut [u8; LEN] = self.frames[frame][offset..].first_chunk_mut().expect("aligned");
        if self.code != Protection::Off {
            let len = self.code.parity_len();
            let parity = &mut self.parity[frame * len..][..len];
            self.code.update(parity, &mut self.sums[frame], offset, &*live, &new);
        }
        *live = new;
    }

    /// Figure 3, lines 4 to 11, without lines 7 and 10.
    fn write_as_printed<const BLOCK: usize>(&mut self, new: [u8; LEN]) {
        let (frame, offset) = self.place();
        let at = offset / BLOCK;
        let (blocks, _) = self.frames[frame].as_chunks_mut::<BLOCK>();
        let home = &mut blocks[at];
        let mut scratch = *home;
        scratch[offset % BLOCK..][..LEN].copy_from_slice(&new);
        let parity = block::encode(&scratch);
        *home = *black_box(&scratch);
        let len = self.code.parity_len();
        let stored: &mut [u8; block::PARITY] = self.parity[frame * len + at * block::PARITY..]
            .first_chunk_mut()
            .expect("a parity for each block");
        *stored = parity;
        assert!(block::check(black_box(home), stored));
    }
}

fn new(at: u64) -> [u8; LEN] {
    (u128::from(at).wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835)).to_le_bytes()
}

/// The ways to write, in the order of the table.
fn ways(frames: usize) -> Vec<(String, Cost)> {
    let incremental = |code: Protection| {
        let mut region = Region::new(code, frames);
        cost(1, &mut |count| (0..count).for_each(|at| region.write(new(at))))
    };
    let mut ways = vec![("bare".to_owned(), incremental(Protection::Off))];
    for code in Protection::ALL.into_iter().filter(|code| *code != Protection::Off) {
        ways.push((format!("{code}, following each change"), incremental(code)));
    }
    let mut region = Region::new(Protection::Evenodd64, frames);
    let printed = cost(1, &mut |count| {
        (0..count).for_each(|at| region.write_as_printed::<64>(new(at)))
    });
    ways.push(("EVENODD(96,64) as in figure 3".to_owned(), printed));
    let mut region = Region::new(Protection::Evenodd256, frames);
    let printed = cost(1, &mut |count| {
        (0..count).for_each(|at| region.write_as_printed::<256>(new(at)))
    });
    ways.push(("EVENODD(288,256) as in figure 3".to_owned(), printed));
    ways
}

/// Prints the table for the paper's targeted region (160,000 bytes) and for one of `mib` MiB.
pub fn table(mib: usize) {
    println!("| 16-byte writes | 160,000 B: ns | beside bare | {mib} MiB: ns | beside bare |");
    println!("|---|---|---|---|---|");
    let (small, large) = (ways(160_000 / FRAME), ways((mib << 20) / FRAME));
    let (bare_small, bare_large) = (small[0].1.min, large[0].1.min);
    for ((name, small), (_, large)) in small.iter().zip(&large) {
        let (a, b) = (small.min / bare_small, large.min / bare_large);
        println!("| {name} | {:.2} | {a:.2} | {:.2} | {b:.2} |", small.min, large.min);
    }
}
