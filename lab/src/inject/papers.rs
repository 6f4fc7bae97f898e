//! The injection experiments of Greenan & Miller 2006, section 5.2 (bars M-1, M-2) and of WAFL 2017, section 7.4 (M-23), as
//! tables in markdown.

use super::Dice;
use super::neutral;
use super::subject::failed;
use super::targeted;
use super::wild::{self, Draw};
use keepfs_codes::Protection;
use keepfs_format::{Kind, PAGE};
use keepfs_media::ram::RamDevice;
use keepfs_store::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Store, StoreOptions};
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
        let mut all = Vec::new();
        for _ in 0..nodes {
            let bytes = dice.bytes(PAGE - FIRST);
            let node = store.transact::<_, Error>(|t| {
                let node = t.new_node(Kind::Xattr, 0, 1)?;
                t.put(node, FIRST, &bytes, Meaning::Xattr)?;
                Ok(node)
            });
            all.push(node.map_err(failed)?);
        }
        store.checkpoint().map_err(failed)?;
        Ok(Pool { store, nodes: all })
    }
}

/// Legal writes of sixteen bytes to all nodes, until told to stop; `puts` counts them.
pub fn legal_puts(pool: &Pool, stop: &AtomicBool, puts: &AtomicU64) -> Result<(), String> {
    let mut dice = Dice::new(3);
    while !stop.load(Ordering::Acquire) {
        let node = *dice.one_of(&pool.nodes);
        let places: Vec<(usize, Vec<u8>)> = (0..BATCH)
            .map(|_| (FIRST + dice.below(PAGE - FIRST - LEGAL), dice.bytes(LEGAL)))
            .collect();
        let done = pool.store.transact::<_, Error>(|t| {
            let mut places = places.iter();
            Ok(places.try_for_each(|(at, bytes)| t.put(node, *at, bytes, Meaning::Xattr))?)
        });
        done.map_err(failed)?;
        puts.fetch_add(BATCH as u64, Ordering::Release);
    }
    Ok(())
}

/// The table of a bar, and whether it is met as far as so many injections can tell. Errors: as text.
pub fn table(bar: &str, long: bool) -> Result<(String, bool), String> {
    match bar {
        "M-1" => whole_region(long),
        "M-2" => targeted::table(long),
        "M-23" => neutral::table(long),
        _ => Err(format!("no experiment for {bar}; there are M-1, M-2, M-23")),
    }
}

/// M-1.
fn whole_region(long: bool) -> Result<(String, bool), String> {
    let (writes, arena) = match long {
        true => (10_000_000, 200 << 20),
        false => (300_000, 64 << 20),
    };
    let mut text = String::from(
        "| drawn over | guard | writes of 16 B | faulted | other memory | reached | expected | told | legal puts a second |\n\
         |---|---|---|---|---|---|---|---|---|\n\
         | Greenan & Miller: 200 MB, 10 runs | mprotect | ? | ? | | 4 | | | |\n",
    );
    let mut met = true;
    let draws = [
        (Draw::Arena, Guard::Alias, "the whole region"),
        (Draw::Arena, Guard::Sealed, "the whole region"),
        (
            Draw::Addresses,
            Guard::Alias,
            "all addresses, the door's memory among them",
        ),
        (Draw::Addresses, Guard::Sealed, "all addresses"),
        (Draw::Pointers, Guard::Alias, "over- and underruns from pointers held"),
        (Draw::Pointers, Guard::Sealed, "over- and underruns from pointers held"),
    ];
    for (seed, (draw, guard, words)) in (1..).zip(draws) {
        let tally = wild::writes(draw, guard, writes, arena, seed)?;
        let expected = match draw {
            Draw::Addresses => tally.window as f64 * writes as f64 / (1u64 << 47) as f64,
            _ => 0.0,
        };
        // An address drawn from all of them is the door's as often as chance has it.
        met &= tally.reached == 0 || (draw, guard) == (Draw::Addresses, Guard::Alias);
        text.push_str(&format!(
            "| {words} | {} | {} | {} | {} | {} | {expected:.1} | {} | {:.0} |\n",
            if guard == Guard::Alias { "alias" } else { "sealed" },
            tally.writes,
            tally.faulted,
            tally.elsewhere,
            tally.reached,
            tally.told,
            tally.rate()
        ));
        if draw == Draw::Pointers {
            let (held, door) = tally.pointers;
            text.push_str(&format!("| … of {held} words that are addresses, {door} of the door's memory (its own table left out) | | | | | | | | |\n"));
        }
    }
    Ok((text, met))
}
