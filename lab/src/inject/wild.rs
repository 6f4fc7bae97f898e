//! Greenan & Miller 2006, section 5.2: sixteen-byte writes at random while legal writes go on (bar M-1). Drawn over the
//! arena where everybody sees it, over the address space, and as over- and underruns from pointers that the process holds. And
//! over the door's memory, as if somebody knew where it is: what reaches it must be told and made right again.

mod hits;

use super::Dice;
use super::papers::{Pool, legal_puts};
use super::space::{Kept, Pointer, Space, What};
use super::subject::failed;
use super::sys;
use hits::{CODE, Hits, MOST, ends_server};
use keepfs_format::PAGE;
use keepfs_store::Guard;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a write.
const WRITE: usize = 16;
/// Addresses that a program of this machine can have.
const ADDRESSES: usize = 1 << 47;
/// How far an overrun goes, or an underrun.
const RUN: usize = 1 << 16;
/// Writes of one child; and of one that hits with each: few to a frame before somebody looks at it.
const ROUND: u64 = 1_000_000;
const ROUND_OF_HITS: u64 = 16;
/// How often stacks are looked at while legal writes go on: an address stands there for as long as a call takes.
const LOOKS: u64 = 2000;
/// One in so many frames holds nothing.
const FREE: usize = 8;

/// Where writes are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// The whole arena, where everybody sees it.
    Arena,
    /// All addresses, the door's memory among them.
    Addresses,
    /// Near pointers that the process holds.
    Pointers,
    /// Frames, their sums and their parity as the door reaches them.
    Door,
}

/// What wild writes came to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// All.
    pub writes: u64,
    /// Those that faulted.
    pub faulted: u64,
    /// Those that would have hit memory that holds no metadata; they are not made.
    pub elsewhere: u64,
    /// Those that reached guarded memory.
    pub hits: Hits,
    /// Those not made: they would have ended the server, and the experiment.
    pub ending: u64,
    /// Nodes that were read and were not what had been put into them, at the end; and those that could not be read.
    pub wrong: [u64; 2],
    /// Legal writes meanwhile.
    pub puts: u64,
    /// For how long.
    pub time: Duration,
    /// Bytes of guarded memory that can be written to.
    pub window: u64,
    /// Pointers that were held when they were counted last, and the most that led into the door's memory at a time.
    pub pointers: (u64, u64),
    /// Looks at the stacks, and those that found such a pointer.
    pub looks: (u64, u64),
    /// Where those stood.
    pub leaks: Vec<String>,
}

impl Tally {
    /// Legal writes a second.
    pub fn rate(&self) -> f64 {
        self.puts as f64 / self.time.as_secs_f64()
    }

    /// Whether what reached guarded memory was told, all is right, and no look at the stacks found where that memory is.
    pub fn is_right(&self) -> bool {
        let Hits { lost, untold, told, .. } = self.hits;
        // A legal write of as many bytes rarely covers all of one.
        self.wrong == [0, 0] && lost == 0 && untold * 20 <= told + 20 && self.looks.1 == 0
    }

    fn add(&mut self, [writes, faulted, elsewhere, ending]: [u64; 4]) {
        self.writes += writes;
        self.faulted += faulted;
        self.elsewhere += elsewhere;
        self.ending += ending;
    }
}

/// `writes` wild writes into a pool with `arena` bytes of frames. Errors: as text.
pub fn writes(draw: Draw, guard: Guard, writes: u64, arena: usize, seed: u64) -> Result<Tally, String> {
    let frames = arena / PAGE;
    let pool = Pool::new(arena, frames - frames / FREE, CODE, guard)?;
    sys::answer_faults().map_err(failed)?;
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let mut tally = std::thread::scope(|scope| {
        let legal = scope.spawn(|| legal_puts(&pool, &stop, &puts));
        let mut tally = Tally::default();
        let done = match draw {
            Draw::Arena => over_arena(&pool, writes, seed, &mut tally),
            _ => by_children(draw, &pool, writes, seed, &mut tally),
        };
        tally.time = began.elapsed();
        tally.puts = puts.load(Ordering::Acquire);
        stop.store(true, Ordering::Release);
        legal.join().map_err(|_| "the writer died".to_owned())??;
        done.map(|()| tally)
    })?;
    for frame in 0..pool.store.arena_figures().0 {
        pool.store.scrub_frame(frame);
    }
    pool.store.checkpoint().map_err(failed)?;
    tally.wrong = pool.wrong();
    Ok(tally)
}

/// A thread of this process, as in the paper.
fn over_arena(pool: &Pool, writes: u64, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let frames = pool.store.frame_addresses();
    let (start, len) = (frames.start, frames.len());
    tally.window = Space::now().map_err(failed)?.bytes(What::Window) as u64;
    let reached = (0..writes).filter(|_| sys::store(start + dice.below(len - WRITE), dice.roll()));
    tally.hits.reached = reached.count() as u64;
    tally.add([writes, writes - tally.hits.reached, 0, 0]);
    Ok(())
}

fn by_children(draw: Draw, pool: &Pool, writes: u64, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let (mut round, mut heard, mut died) = (0, 0, 0);
    if draw == Draw::Pointers {
        look_at_stacks(tally).map_err(failed)?;
    }
    while tally.writes < writes {
        let aim = Aim::new(draw, tally).map_err(failed)?;
        // With the memory that was asked for since.
        let space = Space::now().map_err(failed)?;
        let mut dice = Dice::new(seed + round);
        round += 1;
        let most = if draw == Draw::Door { ROUND_OF_HITS } else { ROUND };
        let count = most.min(writes - tally.writes);
        match round_by_child(&space, &aim, count, &mut dice).map_err(failed)? {
            Some((counts, hits)) => {
                tally.add(counts);
                heard = tally.hits.judge(pool, &space, &hits, heard);
            }
            None => died += 1,
        }
        if died > 100 {
            return Err("a hundred children died in the middle".into());
        }
    }
    Ok(())
}

/// Counts the looks at all stacks that found an address of the door's memory.
fn look_at_stacks(tally: &mut Tally) -> std::io::Result<()> {
    let space = Space::now()?;
    for _ in 0..LOOKS {
        let leaks = space.leaks()?;
        tally.looks.0 += 1;
        tally.looks.1 += u64::from(!leaks.is_empty());
        tally
            .leaks
            .extend(leaks.iter().filter_map(|pointer| space.told(pointer)));
    }
    Ok(())
}

/// One round in a child: its counts, and its hits; `None` if it died in the middle.
fn round_by_child(
    space: &Space,
    aim: &Aim,
    count: u64,
    dice: &mut Dice,
) -> std::io::Result<Option<([u64; 4], Vec<Kept>)>> {
    let (mut reader, writer) = std::io::pipe()?;
    let mut hits = Vec::with_capacity(MOST);
    let mut words: Vec<u8> = Vec::with_capacity(8 * (4 + MOST));
    let ended = sys::in_child(|| {
        let counts = one_round(space, aim, count, dice, &mut hits);
        counts.iter().for_each(|count| words.extend(count.to_ne_bytes()));
        hits.iter()
            .for_each(|hit: &Kept| words.extend(hit.word().to_ne_bytes()));
        // A child that cannot tell counts as one that died. All of it fits into the pipe.
        let _ = rustix::io::write(&writer, &words);
    })?;
    drop(writer);
    let mut words = Vec::new();
    reader.read_to_end(&mut words)?;
    let words: Vec<u64> = words
        .as_chunks()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word))
        .collect();
    Ok(match words.split_first_chunk() {
        Some((counts, hits)) if ended => {
            let hits = hits.iter().map(|word| Kept::from_word(*word as usize));
            Some((*counts, hits.collect()))
        }
        _ => None,
    })
}

/// Where the writes of a round go.
struct Aim {
    draw: Draw,
    /// Addresses that the process holds, and those of them that lead into guarded memory.
    pointers: [Vec<Kept>; 2],
    /// Windows of frames, sums and parity.
    windows: Vec<(Kept, usize)>,
}

impl Aim {
    fn new(draw: Draw, tally: &mut Tally) -> std::io::Result<Aim> {
        let space = Space::now()?;
        tally.window = space.bytes(What::Window) as u64;
        let pointers = match draw {
            Draw::Pointers => space.pointers()?,
            _ => Vec::new(),
        };
        let what = |pointer: &Pointer| space.of(pointer.to.address()).map(|mapping| mapping.what);
        let of_door: Vec<&Pointer> = pointers.iter().filter(|p| what(p) == Some(What::Window)).collect();
        tally.pointers = (pointers.len() as u64, tally.pointers.1.max(of_door.len() as u64));
        tally
            .leaks
            .extend(of_door.iter().filter_map(|pointer| space.told(pointer)));
        let is_guarded = |pointer: &&Pointer| matches!(what(pointer), Some(What::Window | What::Shown));
        let near = pointers.iter().filter(is_guarded).map(|pointer| pointer.to).collect();
        let windows = space
            .windows()
            .filter(|(at, _)| hits::place(&space, at.address()).is_some());
        Ok(Aim {
            draw,
            pointers: [pointers.iter().map(|pointer| pointer.to).collect(), near],
            windows: windows.collect(),
        })
    }

    /// The next one. Asks for no memory.
    fn draw(&self, n: u64, dice: &mut Dice) -> usize {
        let [pointers, near] = &self.pointers;
        match self.draw {
            Draw::Door => {
                let all = self.windows.iter().map(|(_, len)| len).sum();
                let mut at = dice.below(all);
                let window = self.windows.iter().find(|(_, len)| match at.checked_sub(*len) {
                    Some(behind) => {
                        at = behind;
                        false
                    }
                    None => true,
                });
                window.map_or(0, |(start, len)| start.address() + at.min(len - WRITE))
            }
            Draw::Pointers if near.is_empty() || n.is_multiple_of(2) => beside(dice.one_of(pointers).address(), dice),
            Draw::Pointers => beside(dice.one_of(near).address(), dice),
            Draw::Arena | Draw::Addresses => dice.below(ADDRESSES - WRITE),
        }
    }
}

/// In the child: asks for no memory. Writes, those that faulted, elsewhere, not made because they would end the server.
fn one_round(space: &Space, aim: &Aim, count: u64, dice: &mut Dice, hits: &mut Vec<Kept>) -> [u64; 4] {
    let mut counts = [0; 4];
    for n in 0..count {
        if hits.len() == MOST {
            break;
        }
        counts[0] += 1;
        let at = aim.draw(n, dice);
        let touches = |what| {
            [at, at + WRITE - 1]
                .iter()
                .any(|at| space.of(*at).is_some_and(|m| m.what == what))
        };
        if touches(What::Private) {
            counts[2] += 1;
        } else if ends_server(space, at) {
            counts[3] += 1;
        } else if !sys::store(at, dice.roll()) {
            counts[1] += 1;
        } else if touches(What::Window) {
            hits.push(Kept::new(at));
        } else {
            counts[2] += 1;
        }
    }
    counts
}

/// An address not far behind a pointer, or before it: near ones more often.
fn beside(pointer: usize, dice: &mut Dice) -> usize {
    let far = 1 + dice.below(RUN);
    let distance = 1 + dice.below(far);
    match dice.once_in(2) {
        true => pointer.saturating_add(distance),
        false => pointer.saturating_sub(distance + WRITE),
    }
}
