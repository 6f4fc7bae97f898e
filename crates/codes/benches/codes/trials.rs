//! Random damage, most of it beyond every code: how often a verdict is right, how often the code gives up, and that no
//! verdict is ever wrong (S-15.21).

use crate::timing::Rng;
use keepfs_codes::keyed::Keys;
use keepfs_codes::line::{self, LINES};
use keepfs_codes::{Code, FRAME, Protection, Verdict, Verified, mend};
use std::process::ExitCode;

/// A way to damage a frame, its parity or the sum of a line.
type Deed = fn(&mut Rng, &mut Case);

const DEEDS: &[(&str, Deed)] = &[
    ("3–20 bytes anywhere", scattered),
    ("3–8 flipped bits", flipped),
    ("burst of 65–512 bytes", burst),
    ("fill of 66–2048 equal bytes over equal bytes", fill),
    ("two 8-byte fields swapped", swap),
    ("three rows", three_rows),
    ("equal damage in 2–4 rows", equal_rows),
    ("8 bytes and a byte of parity", with_parity),
    ("8 bytes and a byte of a line's sum", with_sum),
    ("another frame with its parity", misdirected),
    ("other bytes altogether", garbage),
];

struct Case {
    code: Protection,
    right: [u8; FRAME],
    frame: [u8; FRAME],
    parity: Vec<u8>,
    right_parity: Vec<u8>,
    sums: [u64; LINES],
    right_sums: [u64; LINES],
    keys: Keys,
    keyed: u64,
}

impl Case {
    fn new(code: Protection, right: [u8; FRAME], keys: Keys) -> Self {
        let mut parity = vec![0; code.parity_len()];
        code.encode(Verified::made(&right), &mut parity);
        let sums = line::sums(&right);
        let keyed = keys.sum(&right);
        Self {
            code,
            right,
            frame: right,
            right_parity: parity.clone(),
            parity,
            sums,
            right_sums: sums,
            keys,
            keyed,
        }
    }

    fn heal(&mut self) {
        self.frame = self.right;
        self.parity.copy_from_slice(&self.right_parity);
        self.sums = self.right_sums;
    }

    /// What became of the damage.
    fn outcome(&self) -> Outcome {
        let intact = self.frame == self.right;
        let agrees = |bytes: &[u8; FRAME]| self.keys.sum(bytes) == self.keyed;
        match mend::locate(self.code, &self.frame, &self.parity, &self.sums, agrees) {
            Verdict::Repair(repair) => {
                let mut copy = self.frame;
                repair.apply(&mut copy);
                if copy == self.right {
                    Outcome::Repaired
                } else {
                    Outcome::Wrong
                }
            }
            Verdict::Clean | Verdict::ParityBad | Verdict::SumsBad if intact => Outcome::Repaired,
            Verdict::Clean | Verdict::ParityBad | Verdict::SumsBad => Outcome::Wrong,
            Verdict::Ambiguous | Verdict::Uncorrectable => Outcome::GivenUp,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Repaired,
    GivenUp,
    Wrong,
}

fn change(rng: &mut Rng) -> u8 {
    1 + rng.below(255) as u8
}

fn strew(rng: &mut Rng, bytes: &mut [u8]) {
    bytes.iter_mut().for_each(|byte| *byte ^= change(rng));
}

fn scattered(rng: &mut Rng, case: &mut Case) {
    for _ in 0..3 + rng.below(18) {
        case.frame[rng.below(FRAME)] ^= change(rng);
    }
}

fn flipped(rng: &mut Rng, case: &mut Case) {
    for _ in 0..3 + rng.below(6) {
        let bit = rng.below(FRAME * 8);
        case.frame[bit / 8] ^= 1 << (bit % 8);
    }
}

fn burst(rng: &mut Rng, case: &mut Case) {
    let len = 65 + rng.below(448);
    let start = rng.below(FRAME - len + 1);
    strew(rng, &mut case.frame[start..start + len]);
}

fn fill(rng: &mut Rng, case: &mut Case) {
    let len = 66 + rng.below(1983);
    let start = rng.below(FRAME - len + 1);
    let xor = change(rng);
    case.frame[start..start + len].iter_mut().for_each(|byte| *byte ^= xor);
}

fn swap(rng: &mut Rng, case: &mut Case) {
    let (one, other) = (8 * rng.below(FRAME / 8), 8 * rng.below(FRAME / 8));
    (0..8).for_each(|at| case.frame.swap(one + at, other + at));
}

fn three_rows(rng: &mut Rng, case: &mut Case) {
    for _ in 0..3 {
        let row = 64 * rng.below(FRAME / 64);
        strew(rng, &mut case.frame[row..row + 64]);
    }
}

fn equal_rows(rng: &mut Rng, case: &mut Case) {
    let mut xor = [0; 64];
    rng.fill(&mut xor);
    for _ in 0..2 + rng.below(3) {
        let row = 64 * rng.below(FRAME / 64);
        case.frame[row..row + 64]
            .iter_mut()
            .zip(xor)
            .for_each(|(byte, xor)| *byte ^= xor);
    }
}

fn with_parity(rng: &mut Rng, case: &mut Case) {
    let start = rng.below(FRAME - 7);
    strew(rng, &mut case.frame[start..start + 8]);
    if !case.parity.is_empty() {
        let at = rng.below(case.parity.len());
        case.parity[at] ^= change(rng);
    }
}

fn with_sum(rng: &mut Rng, case: &mut Case) {
    let start = rng.below(FRAME - 7);
    strew(rng, &mut case.frame[start..start + 8]);
    case.sums[rng.below(LINES)] ^= u64::from(change(rng)) << (8 * rng.below(8));
}

fn misdirected(rng: &mut Rng, case: &mut Case) {
    rng.fill(&mut case.frame[..64]);
    case.frame.rotate_left(rng.below(FRAME));
    case.code.encode(Verified::made(&case.frame), &mut case.parity);
}

fn garbage(rng: &mut Rng, case: &mut Case) {
    rng.fill(&mut case.frame);
}

/// Counts of one deed: repaired, given up, wrong.
type Counts = [u64; 3];

fn outcomes(code: Protection, seed: u64, trials: usize) -> Vec<Counts> {
    let mut rng = Rng::new(seed);
    let mut frame = [0; FRAME];
    // Half a frame of zeros, as metadata has them.
    rng.fill(&mut frame[..FRAME / 2]);
    let mut random = [0; FRAME];
    rng.fill(&mut random);
    let mut case = Case::new(code, frame, Keys::of(&random));
    let mut all = vec![[0; 3]; DEEDS.len()];
    for trial in 0..trials {
        let deed = trial % DEEDS.len();
        DEEDS[deed].1(&mut rng, &mut case);
        all[deed][case.outcome() as usize] += 1;
        case.heal();
    }
    all
}

/// Prints what became of `count` damages under each code; fails if one verdict was wrong.
pub fn table(count: usize) -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut wrong = 0;
    println!("| code | damage | trials | repaired | given up | wrong |");
    println!("|---|---|---|---|---|---|");
    // The slowest last.
    let codes = [
        Protection::Pcrc,
        Protection::Evenodd64,
        Protection::Evenodd256,
        Protection::Pq,
        Protection::Crc,
    ];
    for code in codes {
        let parts: Vec<Vec<Counts>> = std::thread::scope(|scope| {
            let part = |thread: usize| scope.spawn(move || outcomes(code, thread as u64 + 1, count.div_ceil(threads)));
            let handles: Vec<_> = (0..threads).map(part).collect();
            handles
                .into_iter()
                .map(|handle| handle.join().expect("no panic"))
                .collect()
        });
        for (deed, (name, _)) in DEEDS.iter().enumerate() {
            let [repaired, given_up, bad] = [0, 1, 2].map(|at| parts.iter().map(|part| part[deed][at]).sum::<u64>());
            wrong += bad;
            let trials = repaired + given_up + bad;
            println!("| {code} | {name} | {trials} | {repaired} | {given_up} | {bad} |");
        }
    }
    println!("wrong verdicts: {wrong}");
    if wrong == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
