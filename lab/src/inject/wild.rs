//! Greenan & Miller 2006, section 5.2: sixteen-byte writes at random while legal writes go on (bar M-1). Drawn over the
//! arena where everybody sees it, over the address space, and as over- and underruns from pointers that the process holds.

use super::Dice;
use super::papers::{Pool, legal_puts};
use super::space::{Space, What};
use super::subject::failed;
use super::sys;
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
/// Writes of one child.
const ROUND: u64 = 1_000_000;

/// Where writes are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Draw {
    /// The whole arena, where everybody sees it.
    Arena,
    /// All addresses, the door's memory among them.
    Addresses,
    /// Near pointers that the process holds.
    Pointers,
}

/// What wild writes came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// All.
    pub writes: u64,
    /// Those that faulted.
    pub faulted: u64,
    /// Those that would have hit memory that holds no metadata; they are not made.
    pub elsewhere: u64,
    /// Those that reached guarded memory.
    pub reached: u64,
    /// Damages that were told, when all frames had been looked at behind it.
    pub told: u64,
    /// Legal writes meanwhile.
    pub puts: u64,
    /// For how long.
    pub time: Duration,
    /// Bytes of guarded memory that can be written to.
    pub window: u64,
    /// Pointers that were held when they were counted last, and those of them that lead into the door's memory.
    pub pointers: (u64, u64),
    /// Children that ended in the middle.
    pub died: u64,
}

impl Tally {
    /// Legal writes a second.
    pub fn rate(&self) -> f64 {
        self.puts as f64 / self.time.as_secs_f64()
    }

    fn add(&mut self, other: [u64; 4]) {
        let [writes, faulted, elsewhere, reached] = other;
        self.writes += writes;
        self.faulted += faulted;
        self.elsewhere += elsewhere;
        self.reached += reached;
    }
}

/// `writes` wild writes into a pool with `arena` bytes of frames. Errors: as text.
pub fn writes(draw: Draw, guard: Guard, writes: u64, arena: usize, seed: u64) -> Result<Tally, String> {
    let pool = Pool::new(arena, 2000, keepfs_codes::Protection::Pcrc, guard)?;
    sys::answer_faults().map_err(failed)?;
    let (stop, puts) = (AtomicBool::new(false), AtomicU64::new(0));
    let began = Instant::now();
    let mut tally = std::thread::scope(|scope| {
        let legal = scope.spawn(|| legal_puts(&pool, &stop, &puts));
        let mut tally = Tally::default();
        let done = match draw {
            Draw::Arena => over_arena(&pool, writes, seed, &mut tally),
            _ => by_children(draw, writes, seed, &mut tally),
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
    tally.told = pool.store.damages().len() as u64;
    Ok(tally)
}

/// A thread of this process, as in the paper.
fn over_arena(pool: &Pool, writes: u64, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let (start, len) = (pool.store.frames().shown_address(), pool.store.frames().bytes());
    tally.window = Space::now().map_err(failed)?.bytes(What::Window) as u64;
    let reached = (0..writes).filter(|_| sys::store(start + dice.below(len - WRITE), dice.roll()));
    let reached = reached.count() as u64;
    tally.add([writes, writes - reached, 0, reached]);
    Ok(())
}

fn by_children(draw: Draw, writes: u64, seed: u64, tally: &mut Tally) -> Result<(), String> {
    let mut round = 0;
    while tally.writes < writes {
        let space = Space::now().map_err(failed)?;
        let pointers = match draw {
            Draw::Pointers => space.pointers().map_err(failed)?,
            _ => Vec::new(),
        };
        let is_window = |at: &&usize| space.of(**at).is_some_and(|mapping| mapping.what == What::Window);
        tally.pointers = (pointers.len() as u64, pointers.iter().filter(is_window).count() as u64);
        tally.window = space.bytes(What::Window) as u64;
        let near: Vec<usize> = pointers.iter().copied().filter(|at| is_guarded(&space, *at)).collect();
        // With the memory that was asked for since.
        let space = Space::now().map_err(failed)?;
        let mut dice = Dice::new(seed + round);
        round += 1;
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let count = ROUND.min(writes - tally.writes);
        let ended = sys::in_child(|| {
            let counts = one_round(&space, [&pointers, &near], count, &mut dice);
            let mut words = [0; 32];
            for (word, count) in words.as_chunks_mut().0.iter_mut().zip(counts) {
                *word = count.to_ne_bytes();
            }
            // A child that cannot tell counts as one that died.
            let _ = rustix::io::write(&writer, &words);
        });
        drop(writer);
        let mut words = [0; 32];
        let mut reader = reader;
        match ended.map_err(failed)? && reader.read_exact(&mut words).is_ok() {
            true => {
                let (words, _) = words.as_chunks();
                let counts: Vec<u64> = words.iter().map(|word| u64::from_ne_bytes(*word)).collect();
                tally.add([counts[0], counts[1], counts[2], counts[3]]);
            }
            false => tally.died += 1,
        }
        if tally.died > 100 {
            return Err("a hundred children died in the middle".into());
        }
    }
    Ok(())
}

fn is_guarded(space: &Space, at: usize) -> bool {
    let mapping = space.of(at);
    mapping.is_some_and(|mapping| matches!(mapping.what, What::Window | What::Shown))
}

/// In the child: asks for no memory. Writes, those that faulted, elsewhere, reached.
fn one_round(space: &Space, [pointers, near]: [&[usize]; 2], count: u64, dice: &mut Dice) -> [u64; 4] {
    let mut counts = [count, 0, 0, 0];
    for n in 0..count {
        let at = match (pointers.is_empty(), near.is_empty() || n % 2 == 0) {
            (true, _) => dice.below(ADDRESSES - WRITE),
            (false, true) => beside(*dice.one_of(pointers), dice),
            (false, false) => beside(*dice.one_of(near), dice),
        };
        let touches = |what| {
            [at, at + WRITE - 1]
                .iter()
                .any(|at| space.of(*at).is_some_and(|m| m.what == what))
        };
        if touches(What::Private) {
            counts[2] += 1;
        } else if !sys::store(at, dice.roll()) {
            counts[1] += 1;
        } else if touches(What::Window) {
            counts[3] += 1;
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
