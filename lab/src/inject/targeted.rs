//! Greenan & Miller 2006, Fig. 6: the same writes aimed at 160,000 bytes to which legal writes go (bar M-2). Through what
//! everybody sees they must all fault; through the door's memory they must all be found and mended.

use super::Dice;
use super::fault::Regions;
use super::papers::{FIRST, Paper, Pool, counted};
use super::run::CODES;
use super::subject::failed;
use super::sys;
use crate::told::Told;
use keepfs_codes::Protection;
use keepfs_format::PAGE;
use keepfs_store::{Done, Error, Guard, Meaning, Source};

/// Bytes that are aimed at, as whole frames.
const TARGET: usize = 160_000;
/// Bytes of a write.
const WRITE: usize = 16;

/// What targeted writes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Writes.
    pub writes: u64,
    /// Those that changed bytes.
    pub changed: u64,
    /// Changes that were told.
    pub told: u64,
    /// Frames that were right behind it.
    pub right: u64,
    /// Changes that the code repaired.
    pub by_code: u64,
    /// Changes that the witness or the device repaired.
    pub by_others: u64,
    /// Frames that were told to be repaired and were wrong.
    pub wrong_repairs: u64,
    /// Nodes that did not hold what was put into them, at the end.
    pub silent: u64,
}

/// Nodes of the region, and what they should hold.
struct Region {
    pool: Pool,
    frames: Vec<u32>,
    right: Vec<[u8; PAGE]>,
}

impl Region {
    fn new(code: Protection, guard: Guard) -> Result<Region, String> {
        let pool = Pool::new(8 << 20, TARGET.div_ceil(PAGE), code, guard)?;
        let mut region = Region {
            frames: Vec::new(),
            right: Vec::new(),
            pool,
        };
        for node in &region.pool.nodes {
            let place = region.pool.store.structure(node.id, false).map_err(failed)?;
            let mut bytes = [0; PAGE];
            region.pool.store.view().read(*node, 0, &mut bytes).map_err(failed)?;
            region.frames.push(place.frame);
            region.right.push(bytes);
        }
        Ok(region)
    }

    /// A legal write to one of them; one that is refused changes nothing.
    fn put(&mut self, at: usize, dice: &mut Dice) -> Result<(), String> {
        let (offset, bytes) = (FIRST + dice.below(PAGE - FIRST - WRITE), dice.bytes(WRITE));
        let node = self.pool.nodes[at];
        let put = |t: &mut keepfs_store::Txn<'_>| Ok(t.put(node, offset, &bytes, Meaning::Xattr)?);
        if self.pool.store.transact::<_, Error>(put).is_ok() {
            self.right[at][offset..offset + WRITE].copy_from_slice(&bytes);
        }
        match self.pool.store.fault() {
            None => Ok(()),
            Some(fault) => Err(failed(fault)),
        }
    }

    /// Nodes that do not hold what they should.
    fn wrong(&self) -> u64 {
        let nodes = self.pool.nodes.iter().zip(&self.right);
        let is_wrong = |(node, right): &(&keepfs_store::Ref, &[u8; PAGE])| {
            let mut bytes = [0; PAGE];
            let read = self.pool.store.view().read(**node, 0, &mut bytes);
            read.is_ok() && bytes != **right
        };
        nodes.filter(is_wrong).count() as u64
    }
}

/// Stores into what everybody sees, legal writes between them. Writes, and those that got through.
fn at_the_guard(guard: Guard) -> Result<(u64, u64), String> {
    let mut region = Region::new(Protection::Pcrc, guard)?;
    sys::answer_faults().map_err(failed)?;
    let start = region.pool.store.frame_addresses().start;
    let mut dice = Dice::new(6);
    let writes = (TARGET / WRITE) as u64;
    let mut through = 0;
    for _ in 0..writes {
        let at = dice.below(region.frames.len());
        region.put(at, &mut dice)?;
        let address = start + region.frames[at] as usize * PAGE + dice.below(PAGE - WRITE);
        through += u64::from(sys::store(address, dice.roll()));
    }
    match region.wrong() {
        0 => Ok((writes, through)),
        n => Err(format!("{n} nodes do not hold what was put into them")),
    }
}

/// Writes into the memory behind the door, each looked for before the next; with `active`, legal writes go to the same
/// frames between them, one of them after the wild write.
pub fn behind_the_door(code: Protection, active: bool, writes: usize, seed: u64) -> Result<Tally, String> {
    let mut region = Region::new(code, Guard::Alias)?;
    let regions = Regions::find(code).map_err(failed)?;
    let mut dice = Dice::new(seed);
    let mut tally = Tally::default();
    let mut heard = 0;
    for _ in 0..writes {
        let at = dice.below(region.frames.len());
        if active {
            region.put(at, &mut dice)?;
        }
        let before = regions.frame(region.frames[at]).map_err(failed)?;
        let offset = dice.below(PAGE - WRITE);
        regions
            .write(region.frames[at], offset, &dice.bytes(WRITE))
            .map_err(failed)?;
        tally.writes += 1;
        if regions.frame(region.frames[at]).map_err(failed)? == before {
            continue;
        }
        tally.changed += 1;
        if active {
            // It was verified a moment ago, so nobody looks before this one is made; or its own node refuses it.
            region.put(at, &mut dice)?;
        }
        region.pool.store.scrub_frame(region.frames[at]);
        let events = region.pool.store.history().events(heard);
        heard = events.last().map_or(heard, |event| event.number);
        let right = regions.frame(region.frames[at]).map_err(failed)? == region.right[at];
        let done = events.last().map(|event| event.done);
        tally.told += u64::from(done.is_some());
        tally.right += u64::from(right);
        tally.by_code += u64::from(done == Some(Done::Repaired as u8));
        let others = [Done::SumsRebuilt, Done::Rebuilt, Done::ReadAgain].map(|done| Some(done as u8));
        tally.by_others += u64::from(others.contains(&done));
        let refused = [Done::Fenced, Done::Ended].map(|done| Some(done as u8));
        tally.wrong_repairs += u64::from(done.is_some() && !refused.contains(&done) && !right);
    }
    tally.silent = region.wrong();
    Ok(tally)
}

/// M-2. Behind the door, without `long`, a twentieth of the writes: `crc` looks for pairs of flips each time,
/// which takes milliseconds.
pub fn paper(long: bool) -> Result<Paper, String> {
    of(TARGET / WRITE / if long { 1 } else { 20 }, 5)
}

/// M-2 with so many writes behind the door of each code, with legal writes and without, drawn from `seed`.
pub fn of(writes: usize, seed: u64) -> Result<Paper, String> {
    let mut text = String::from(
        "| aimed at 160,000 bytes | code | legal writes | writes of 16 B | reached | told | right again | by the code | by witness or device | silent | wrong repairs |\n\
         |---|---|---|---|---|---|---|---|---|---|---|\n\
         | Greenan & Miller, Fig. 6 | evenodd | between them | ~10,000 | 1.5-2.2 % | > 90 % of those | | | | some | |\n",
    );
    let (mut met, mut told) = (true, Vec::new());
    for (guard, word) in [(Guard::Alias, "alias"), (Guard::Sealed, "sealed")] {
        let (writes, through) = at_the_guard(guard)?;
        met &= through == 0;
        told.push(counted(format!("passed the guard, {word}"), through, writes));
        text.push_str(&format!(
            "| where everybody sees it, guard {word} | pcrc | between them | {writes} | {through} | | | | | 0 | 0 |\n"
        ));
    }
    let mut all = Tally::default();
    for code in CODES {
        for active in [false, true] {
            let tally = behind_the_door(code, active, writes, seed)?;
            let lost = tally.changed - tally.right;
            met &= tally.silent == 0 && tally.wrong_repairs == 0 && lost * 1000 <= tally.changed;
            // Between legal writes one of them may cover all of it before anybody looks.
            met &= active || tally.told == tally.changed;
            all.changed += tally.changed;
            // What a legal write had covered before anybody looked needs no telling: the bytes are right.
            all.told += tally.told.max(if active { tally.right } else { 0 });
            all.right += tally.right;
            all.silent += tally.silent + tally.wrong_repairs;
            text.push_str(&format!(
                "| behind the door | {code} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                if active { "between them" } else { "none" },
                tally.writes,
                tally.changed,
                tally.told,
                tally.right,
                tally.by_code,
                tally.by_others,
                tally.silent,
                tally.wrong_repairs
            ));
        }
    }
    let percent = |part: u64, name| {
        let percent = 100.0 * part as f64 / all.changed.max(1) as f64;
        Told::new(name, "keepfs", percent, "%").with("count", all.changed as f64)
    };
    told.push(percent(all.told, "told or covered by a legal write, behind the door"));
    told.push(percent(all.right, "right again, behind the door"));
    told.push(counted(
        "silent or wrongly repaired, behind the door",
        all.silent,
        all.changed,
    ));
    Ok(Paper { text, met, told })
}
