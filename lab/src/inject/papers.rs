//! The injection experiments of Greenan & Miller 2006, section 5.2 (bars M-1, M-2) and of WAFL 2017, section 7.4 (M-23), as
//! tables in markdown.

use super::Dice;
use super::judge;
use super::matrix::Matrix;
use super::neutral;
use super::subject::failed;
use super::targeted;
use super::wild::{self, Draw, Tally};
use crate::told::Told;
use keepfs_codes::Protection;
use keepfs_format::{Kind, PAGE};
use keepfs_media::ram::RamDevice;
use keepfs_store::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// First byte of a node that is written to.
pub const FIRST: usize = 64;
/// Writes of one legal transaction.
const BATCH: usize = 100;
/// Bytes of a legal write.
const LEGAL: usize = 16;

/// A pool whose metablocks are full of bytes, and what they should hold.
pub struct Pool {
    /// It.
    pub store: Arc<Store>,
    /// Its nodes.
    pub nodes: Vec<Ref>,
    /// What was put into them last.
    pub right: Mutex<Vec<[u8; PAGE - FIRST]>>,
}

impl Pool {
    /// One with `nodes` metablocks in `arena` bytes of frames; operations and equations are left out, as the paper has none.
    pub fn new(arena: usize, nodes: usize, protect: Protection, guard: Guard) -> Result<Pool, String> {
        let device = Arc::new(RamDevice::new(4 * nodes as u64 + 16_384));
        let format = FormatOptions {
            protect,
            test: true,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &format).map_err(failed)?;
        let options = StoreOptions {
            arena_bytes: arena,
            tiny_arena: true,
            background: false,
            guard,
            audit: Equations::NONE,
            oplog: false,
            ..StoreOptions::default()
        };
        let store = Store::open(device, &options).map_err(failed)?;
        let mut dice = Dice::new(7);
        let (mut all, mut right) = (Vec::new(), Vec::new());
        for _ in 0..nodes {
            let bytes = dice.bytes(PAGE - FIRST);
            let node = store.transact::<_, Error>(|t| {
                let node = t.new_node(Kind::Xattr, 0, 1)?;
                t.put(node, FIRST, &bytes, Meaning::Xattr)?;
                Ok(node)
            });
            all.push(node.map_err(failed)?);
            right.push(bytes.try_into().map_err(failed)?);
        }
        store.checkpoint().map_err(failed)?;
        let right = Mutex::new(right);
        let nodes = all;
        Ok(Pool { store, nodes, right })
    }

    /// Nodes that are read and are not what was put into them, and those that cannot be read.
    pub fn wrong(&self) -> [u64; 2] {
        let mut wrong = [0; 2];
        let mut bytes = [0; PAGE - FIRST];
        for (node, right) in self.nodes.iter().zip(&*self.right.lock()) {
            match self.store.view().read(*node, FIRST, &mut bytes) {
                Ok(()) => wrong[0] += u64::from(bytes != *right),
                Err(_) => wrong[1] += 1,
            }
        }
        wrong
    }
}

/// Legal writes of sixteen bytes to all nodes, until told to stop; `puts` counts them. A node that cannot be written any more
/// is left alone.
pub fn legal_puts(pool: &Pool, stop: &AtomicBool, puts: &AtomicU64) -> Result<(), String> {
    let mut dice = Dice::new(3);
    while !stop.load(Ordering::Acquire) {
        let at = dice.below(pool.nodes.len());
        let node = pool.nodes[at];
        let places: Vec<(usize, Vec<u8>)> = (0..BATCH)
            .map(|_| (FIRST + dice.below(PAGE - FIRST - LEGAL), dice.bytes(LEGAL)))
            .collect();
        let done = pool.store.transact::<_, Error>(|t| {
            let mut places = places.iter();
            Ok(places.try_for_each(|(at, bytes)| t.put(node, *at, bytes, Meaning::Xattr))?)
        });
        match (done, pool.store.fault()) {
            (_, Some(fault)) => return Err(failed(fault)),
            (Err(_), None) => continue,
            (Ok(()), None) => {}
        }
        let right = &mut pool.right.lock()[at];
        for (at, bytes) in &places {
            right[at - FIRST..at - FIRST + LEGAL].copy_from_slice(bytes);
        }
        puts.fetch_add(BATCH as u64, Ordering::Release);
    }
    Ok(())
}

/// What an experiment came to.
pub struct Paper {
    /// Its table, in markdown.
    pub text: String,
    /// Whether its bar is met as far as so many injections can tell.
    pub met: bool,
    /// What is held against the bar, for `cargo xtask papers`.
    pub told: Vec<Told>,
}

/// The experiment of a bar. Errors: as text.
pub fn of(bar: &str, long: bool) -> Result<Paper, String> {
    match bar {
        "M-1" => whole_region(long),
        "M-2" => targeted::paper(long),
        "M-11" => judged(if long { 100_000 } else { 20_000 }),
        "M-23" => neutral::paper(long),
        _ => Err(format!("no experiment for {bar}; there are M-1, M-2, M-11, M-23")),
    }
}

/// A count that is told, `of` so many.
pub fn counted(workload: impl Into<String>, count: u64, of: u64) -> Told {
    Told::new(workload, "keepfs", count as f64, "times").with("count", of as f64)
}

/// M-11: faults of all kinds, judged by what was told alone.
fn judged(count: u64) -> Result<Paper, String> {
    let lines = super::run(count, 11)?;
    let matrix = Matrix::of(&lines.truth, &judge::judge(&lines.told))?;
    let all = &matrix.all;
    Ok(Paper {
        text: matrix.text(),
        met: matrix.is_good(),
        told: vec![
            counted(format!("wrong verdicts of {count}"), all.wrong, count),
            counted(
                format!("silent or wrongly repaired of {count}"),
                all.silent + all.wrong_repairs,
                count,
            ),
        ],
    })
}

/// M-1.
fn whole_region(long: bool) -> Result<Paper, String> {
    let (writes, arena) = match long {
        true => (10_000_000, 200 << 20),
        false => (300_000, 64 << 20),
    };
    let mut text = String::from(
        "| drawn over | guard | writes of 16 B | faulted | other memory | reached | expected | of frames in use | told | not told, and the frame is right | not made right again | wrong nodes | unreadable nodes | legal puts a second |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n\
         | Greenan & Miller: 200 MB, 10 runs | mprotect | ? | ? | | 4 | | | | | | | | |\n",
    );
    let (mut met, mut told) = (true, Vec::new());
    let all = "the whole region";
    let near = "over- and underruns from pointers held";
    let draws = [
        (Draw::Arena, Guard::Alias, all, writes),
        (Draw::Arena, Guard::Sealed, all, writes),
        (
            Draw::Addresses,
            Guard::Alias,
            "all addresses, the door's memory among them",
            writes,
        ),
        (Draw::Addresses, Guard::Sealed, "all addresses", writes),
        (Draw::Pointers, Guard::Alias, near, writes),
        (Draw::Pointers, Guard::Sealed, near, writes),
        // As if somebody knew.
        (
            Draw::Door,
            Guard::Alias,
            "the door's memory of frames, sums and parity",
            writes / 500,
        ),
    ];
    for (seed, (draw, guard, words, writes)) in (1..).zip(draws) {
        let tally = wild::writes(draw, guard, writes, arena, seed)?;
        // An address drawn from all of them is the door's as often as chance has it.
        let by_chance = (draw, guard) == (Draw::Addresses, Guard::Alias) || draw == Draw::Door;
        met &= tally.is_right() && (by_chance || tally.hits.reached == 0);
        text.push_str(&row(draw, guard, words, &tally));
        if draw != Draw::Door {
            let workload = format!("reached: {words}, {}", name(guard));
            told.push(counted(workload, tally.hits.reached, tally.writes));
        }
        if by_chance {
            let workload = format!("reached and not right again: {words}, {}", name(guard));
            told.push(counted(workload, tally.hits.lost, tally.writes));
        }
    }
    Ok(Paper { text, met, told })
}

fn name(guard: Guard) -> &'static str {
    match guard {
        Guard::Alias => "alias",
        _ => "sealed",
    }
}

/// A row of the table of M-1, and for pointers one of where they lead.
fn row(draw: Draw, guard: Guard, words: &str, tally: &Tally) -> String {
    let expected = match draw {
        Draw::Addresses => format!("{:.1}", tally.window as f64 * tally.writes as f64 / (1u64 << 47) as f64),
        Draw::Door => "all".into(),
        _ => "0".into(),
    };
    let (hits, [wrong, unreadable]) = (tally.hits, tally.wrong);
    let mut text = format!(
        "| {words} | {} | {} | {} | {} | {} | {expected} | {} | {} | {} | {} | {wrong} | {unreadable} | {:.0} |\n",
        name(guard),
        tally.writes,
        tally.faulted,
        tally.elsewhere,
        hits.reached,
        hits.reached - hits.of_none,
        hits.told,
        hits.untold,
        hits.lost,
        tally.rate()
    );
    let mut more = |line: String| text.push_str(&format!("| … {line}{}\n", " |".repeat(14)));
    if draw == Draw::Pointers {
        let (held, door) = tally.pointers;
        more(format!(
            "of {held} words that are addresses, {door} lead into the door's memory"
        ));
        let (looks, leaks) = tally.looks;
        more(format!("of {looks} looks at the stacks, {leaks} found one that does"));
        tally.leaks.iter().take(10).for_each(|leak| more(leak.clone()));
    }
    if tally.ending > 0 {
        more(format!(
            "{} would have ended the server (S-15.14) and were not made",
            tally.ending
        ));
    }
    text
}
