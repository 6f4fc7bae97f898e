//! The rows: each operation of each code on a hot frame, beside a copy of 4 KiB and a bare store.

use crate::timing::{Cost, Rng, cost};
use keepfs_codes::digest::{Digest, Extent, Key};
use keepfs_codes::keyed::Keys;
use keepfs_codes::line::{self, LINES};
use keepfs_codes::{Code, FRAME, Protection, Verdict, Verified, crc32c, crc64, mend};
use std::hint::black_box;
use std::process::ExitCode;

/// What is measured: a name, what it is compared with, and a loop.
pub struct Row {
    pub name: String,
    /// The row whose time is 1 in the last column.
    beside: &'static str,
    /// Operations of one turn.
    pub operations: u64,
    /// So many turns.
    pub run: Box<dyn FnMut(u64)>,
}

impl Row {
    /// Whose turns are passes over all places.
    fn of_changes(self) -> Self {
        Self {
            operations: PLACES as u64,
            ..self
        }
    }
}

fn row(name: impl Into<String>, beside: &'static str, run: impl FnMut(u64) + 'static) -> Row {
    Row {
        name: name.into(),
        beside,
        operations: 1,
        run: Box::new(run),
    }
}

const COPY: &str = "copy 4 KiB";
const STORE: &str = "store 8 B";

/// A frame under a code, and places to change, drawn before.
struct Bed {
    code: Protection,
    frame: Box<[u8; FRAME]>,
    parity: Vec<u8>,
    sum: u64,
    places: Vec<usize>,
    news: Vec<[u8; 64]>,
}

impl Bed {
    fn new(code: Protection) -> Self {
        let mut rng = Rng::new(1);
        let mut frame = Box::new([0; FRAME]);
        rng.fill(&mut frame[..]);
        let mut parity = vec![0; code.parity_len()];
        let sum = code.encode(Verified::made(&frame), &mut parity);
        let places = (0..PLACES).map(|_| rng.below(FRAME - 64)).collect();
        let news = (0..PLACES)
            .map(|_| {
                let mut new = [0; 64];
                rng.fill(&mut new);
                new
            })
            .collect();
        Self {
            code,
            frame,
            parity,
            sum,
            places,
            news,
        }
    }

    /// Changes `LEN` bytes at multiples of `align`, read before and written after, as the door does.
    #[inline(always)]
    fn change<const LEN: usize>(&mut self, align: usize, guard: bool) {
        for (place, new) in self.places.iter().zip(&mut self.news) {
            let place = place / align * align;
            let new: &mut [u8; LEN] = new.first_chunk_mut().expect("at most 64 bytes");
            let live: &mut [u8; LEN] = self.frame[place..].first_chunk_mut().expect("places leave room");
            let old = *live;
            if guard {
                self.code.update(&mut self.parity, &mut self.sum, place, &old, &*new);
            }
            *live = *new;
            *new = black_box(old);
        }
    }
}

/// Places to change: one turn of a row of changes.
const PLACES: usize = 256;

fn changes(rows: &mut Vec<Row>, code: Protection) {
    let mut bed = Bed::new(code);
    rows.push(
        row(format!("{code} change 8 B"), STORE, move |count| {
            (0..count).for_each(|_| bed.change::<8>(8, true));
        })
        .of_changes(),
    );
    let mut bed = Bed::new(code);
    rows.push(
        row(format!("{code} change 16 B"), STORE, move |count| {
            (0..count).for_each(|_| bed.change::<16>(16, true));
        })
        .of_changes(),
    );
    let mut bed = Bed::new(code);
    rows.push(
        row(format!("{code} change 64 B, any place"), STORE, move |count| {
            (0..count).for_each(|_| bed.change::<64>(1, true));
        })
        .of_changes(),
    );
}

fn whole(rows: &mut Vec<Row>, code: Protection) {
    let mut bed = Bed::new(code);
    rows.push(row(format!("{code} encode"), COPY, move |count| {
        for _ in 0..count {
            black_box(code.encode(Verified::made(black_box(&bed.frame)), black_box(&mut bed.parity)));
        }
    }));
    let bed = Bed::new(code);
    rows.push(row(format!("{code} verify"), COPY, move |count| {
        for _ in 0..count {
            assert!(code.verify(black_box(&bed.frame), &bed.parity, bed.sum));
        }
    }));
}

/// A damaged frame under a code, the sums that its lines should have, and its second sum.
struct Damaged {
    bed: Bed,
    sums: [u64; LINES],
    keys: Keys,
    keyed: u64,
}

impl Damaged {
    fn new(code: Protection, damage: impl FnOnce(&mut [u8; FRAME])) -> Self {
        let mut bed = Bed::new(code);
        let sums = line::sums(&bed.frame);
        let mut random = [0; FRAME];
        Rng::new(4).fill(&mut random);
        let keys = Keys::of(&random);
        let keyed = keys.sum(&bed.frame);
        damage(&mut bed.frame);
        Self { bed, sums, keys, keyed }
    }

    fn locate(&self) -> Verdict {
        let bed = &self.bed;
        let agrees = |bytes: &[u8; FRAME]| self.keys.sum(bytes) == self.keyed;
        mend::locate(bed.code, black_box(&bed.frame), &bed.parity, &self.sums, agrees)
    }
}

/// Damages a frame and asks.
fn locates(rows: &mut Vec<Row>, code: Protection) {
    let mut add = |name: &str, damaged: Damaged| {
        rows.push(row(format!("{code} locate {name}"), COPY, move |count| {
            for _ in 0..count {
                black_box(damaged.locate());
            }
        }));
    };
    // Starts, and the length at each.
    let damages: &[(&str, &[usize], usize)] = &[
        ("1 byte", &[1000], 1),
        ("8 B stray", &[1001], 8),
        ("64 B burst", &[1001], 64),
        ("two rows", &[640, 1920], 64),
        ("200 B, beyond", &[1000], 200),
    ];
    for (name, starts, len) in damages {
        let damaged = Damaged::new(code, |frame| {
            for start in *starts {
                let mut xor = vec![0; *len];
                Rng::new(7 + *start as u64).fill(&mut xor);
                let bytes = frame[*start..].iter_mut();
                bytes.zip(xor).for_each(|(byte, xor)| *byte ^= xor | 1);
            }
        });
        add(name, damaged);
    }
    add(
        "2 flipped bits",
        Damaged::new(code, |frame| {
            (frame[77], frame[3001]) = (frame[77] ^ 1, frame[3001] ^ 8);
        }),
    );
}

fn bases(rows: &mut Vec<Row>) {
    let bed = Bed::new(Protection::Off);
    let mut copy = Box::new([0; FRAME]);
    rows.push(row(COPY, COPY, move |count| {
        for _ in 0..count {
            black_box(&mut copy).copy_from_slice(black_box(&bed.frame[..]));
        }
    }));
    let bed = Bed::new(Protection::Off);
    rows.push(row("CRC-64 of 4 KiB", COPY, move |count| {
        for _ in 0..count {
            black_box(crc64::full(black_box(&bed.frame[..])));
        }
    }));
    let bed = Bed::new(Protection::Off);
    rows.push(row("CRC-32C of 4 KiB", COPY, move |count| {
        for _ in 0..count {
            black_box(crc32c::of(black_box(&bed.frame[..])));
        }
    }));
    let mut bed = Bed::new(Protection::Off);
    rows.push(
        row(STORE, STORE, move |count| {
            (0..count).for_each(|_| bed.change::<8>(8, false));
        })
        .of_changes(),
    );
    let mut bed = Bed::new(Protection::Off);
    rows.push(
        row("store 16 B", STORE, move |count| {
            (0..count).for_each(|_| bed.change::<16>(16, false));
        })
        .of_changes(),
    );
    let mut bed = Bed::new(Protection::Off);
    rows.push(
        row("store 64 B, any place", STORE, move |count| {
            (0..count).for_each(|_| bed.change::<64>(1, false));
        })
        .of_changes(),
    );
}

fn digests(rows: &mut Vec<Row>) {
    const ADD: &str = "plain sum of an item";
    let mut random = [0; Key::RANDOM];
    Rng::new(3).fill(&mut random);
    let key = Key::new(&random);
    let mut sum = 0u64;
    rows.push(row(ADD, ADD, move |count| {
        for item in 0..count {
            sum = black_box(sum.wrapping_add(black_box(item)));
        }
    }));
    let (mut digest, own) = (Digest::default(), key.clone());
    rows.push(row("digest of an item", ADD, move |count| {
        for item in 0..count {
            digest.add(&own, black_box(item));
        }
        black_box(&mut digest);
    }));
    let mut digest = Digest::default();
    rows.push(row("digest of an extent of 1000", ADD, move |count| {
        for start in 0..count {
            digest.add_extent(&key, black_box(Extent { start, len: 1000 }));
        }
        black_box(&mut digest);
    }));
}

/// All rows.
pub fn all() -> Vec<Row> {
    let mut rows = Vec::new();
    bases(&mut rows);
    let codes = Protection::ALL.into_iter().filter(|code| *code != Protection::Off);
    for code in codes.clone() {
        changes(&mut rows, code);
    }
    for code in codes.clone() {
        whole(&mut rows, code);
    }
    for code in codes.filter(|code| *code != Protection::Adler) {
        locates(&mut rows, code);
    }
    digests(&mut rows);
    rows
}

/// Prints all rows; each is measured in every round, and its best round counts.
pub fn table(rounds: usize) {
    let mut rows = all();
    let mut costs: Vec<Option<Cost>> = vec![None; rows.len()];
    for _ in 0..rounds.max(1) {
        for (row, best) in rows.iter_mut().zip(&mut costs) {
            let now = cost(row.operations, &mut *row.run);
            *best = Some(best.map_or(now, |best| best.least(now)));
        }
    }
    let least = |name: &str| {
        let at = rows.iter().position(|row| row.name == name);
        at.and_then(|at| costs[at]).map_or(f64::NAN, |cost| cost.min)
    };
    println!("| operation | ns, least | ns, quarter below | beside | ratio |");
    println!("|---|---|---|---|---|");
    for (row, cost) in rows.iter().zip(&costs) {
        let cost = cost.expect("one round at least");
        let ratio = cost.min / least(row.beside);
        println!(
            "| {} | {:.2} | {:.2} | {} | {ratio:.2} |",
            row.name, cost.min, cost.quarter, row.beside
        );
    }
}

/// Runs so many turns of one row, and nothing else: for a counter of instructions around the process.
pub fn run(name: &str, count: Option<&String>) -> ExitCode {
    let count = count.and_then(|count| count.parse().ok()).unwrap_or(1);
    let mut rows = all();
    let Some(row) = rows.iter_mut().find(|row| row.name == name) else {
        eprintln!("no row {name}");
        return ExitCode::from(2);
    };
    (row.run)(count);
    ExitCode::SUCCESS
}
