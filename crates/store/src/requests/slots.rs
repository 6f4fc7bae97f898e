//! The words of the request slots, as they lie in memory (S-16.2).

use crate::error::Error;
use core::sync::atomic::Ordering;
use keepfs_codes::crc64;
use keepfs_flash::twice::{self, Found};
use keepfs_memory::{Guard, Region};
use keepfs_vault::undo::UndoLog;
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Number of slots.
pub const SLOTS: usize = 4096;
/// Bytes of a slot.
const SLOT: usize = 64;
/// Where the first slot lies, behind the header.
const FIRST: usize = 4096;
const BYTES: usize = FIRST + SLOTS * SLOT;
const NAME: &str = "keepfs-requests";
const MAGIC: u64 = 0x3152_5153_5346_504B;
const LAYOUT: u64 = 1;

/// Word of a slot: state and lives.
const STATE: usize = 0;
/// Number of the request.
const UNIQUE: usize = 8;
/// Guards the number.
const CHECK: usize = 16;
/// Undo slot and generation of the transaction.
const PLACE: usize = 24;
/// The inode that the reply names, or 0.
const INO: usize = 32;
/// Guards number, place and inode.
const CHECK_NAMED: usize = 40;
/// Number of the transaction.
const SEQ: usize = 48;

/// What a slot says. The constants are far apart (S-1.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// Nothing.
    Free,
    /// The request is being worked on.
    Begun,
    /// A transaction is about to be committed that does what it shall.
    Named,
    /// That is committed.
    Done,
    /// And the lookup that the reply stands for is counted.
    Raised,
}

impl State {
    const ALL: [State; 5] = [State::Free, State::Begun, State::Named, State::Done, State::Raised];

    /// High half of the state word.
    pub(super) const fn constant(self) -> u32 {
        match self {
            State::Free => 0x35C9_6A0F,
            State::Begun => 0x9A63_D1C5,
            State::Named => 0x659C_2E3A,
            State::Done => 0xCA36_95F0,
            State::Raised => 0x5AA5_F0C3,
        }
    }

    fn of(word: u64) -> Option<State> {
        let found = State::ALL.into_iter().find(|s| u64::from(s.constant()) == word >> 32);
        found.or((word == 0).then_some(State::Free))
    }
}

/// A request as a life of the server left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Met {
    /// Its number.
    pub unique: u64,
    /// It has done what it shall.
    pub done: bool,
    /// The inode that its reply names, or 0.
    pub ino: u64,
    /// The lookup that the reply stands for is counted.
    pub raised: bool,
    /// In how many lives it was begun.
    pub attempts: u32,
}

/// Memory for the slots of the redo ring of `incarnation`.
pub fn make(guard: Guard, seal: bool, incarnation: u64) -> Result<Region, Error> {
    let region = Region::lasting(NAME, BYTES, guard, seal).map_err(memory)?;
    twice::store(&region, 0, &header(incarnation));
    Ok(region)
}

fn header(incarnation: u64) -> [u8; 32] {
    let mut header = [0; 32];
    for (to, word) in header.chunks_exact_mut(8).zip([MAGIC, LAYOUT, incarnation]) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc64::full(&header[..24]);
    header[24..].copy_from_slice(&crc.to_le_bytes());
    header
}

fn memory(source: std::io::Error) -> Error {
    Error::Memory {
        bytes: BYTES,
        source: Arc::new(source),
    }
}

fn at(slot: usize, word: usize) -> usize {
    FIRST + slot * SLOT + word
}

fn set(region: &Region, slot: usize, word: usize, value: u64) {
    region.store_u64(at(slot, word), value);
}

fn get(region: &Region, slot: usize, word: usize) -> u64 {
    region.load_u64(at(slot, word), Ordering::Acquire)
}

fn check(words: &[u64]) -> u64 {
    let mut bytes = [0; 24];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_le_bytes());
    }
    crc64::full(&bytes)
}

fn place_word((undo, generation): (u16, u32)) -> u64 {
    u64::from(undo) << 32 | u64::from(generation)
}

/// Another state, the lives as they were.
pub fn set_state(region: &Region, slot: usize, state: State) {
    let lives = get(region, slot, STATE) & 0xffff_ffff;
    set(region, slot, STATE, u64::from(state.constant()) << 32 | lives);
}

/// The slot is of request `unique` from here on, which is begun in its `attempts`-th life.
pub fn begin(region: &Region, slot: usize, unique: u64, attempts: u32) {
    set_state(region, slot, State::Free);
    set(region, slot, UNIQUE, unique);
    set(region, slot, CHECK, check(&[unique]));
    set(
        region,
        slot,
        STATE,
        u64::from(State::Begun.constant()) << 32 | u64::from(attempts),
    );
}

/// A transaction about to be committed does what the request shall.
pub fn name(region: &Region, slot: usize, unique: u64, place: (u16, u32), ino: u64) {
    let place = place_word(place);
    set(region, slot, PLACE, place);
    set(region, slot, INO, ino);
    set(region, slot, CHECK_NAMED, check(&[unique, place, ino]));
    set_state(region, slot, State::Named);
}

/// It is committed as number `seq`.
pub fn done(region: &Region, slot: usize, seq: u64) {
    set(region, slot, SEQ, seq);
    set_state(region, slot, State::Done);
}

/// The lookup that its reply stands for is counted, if it is done.
pub fn raised(region: &Region, slot: usize) {
    if State::of(get(region, slot, STATE)) == Some(State::Done) {
        set_state(region, slot, State::Raised);
    }
}

/// What an earlier life left of a request, in a free slot.
pub fn put(region: &Region, slot: usize, met: &Met) {
    begin(region, slot, met.unique, met.attempts);
    if met.done {
        name(region, slot, met.unique, (0, 0), met.ino);
        // Of an earlier life: everything before this one is recovered.
        done(region, slot, 0);
        if met.raised {
            set_state(region, slot, State::Raised);
        }
    }
}

/// The slots of a killed server.
pub struct Left {
    region: Region,
    /// The header was changed at one of its places.
    pub header_changed: bool,
    /// The incarnation of the redo ring of the same set.
    pub incarnation: u64,
}

/// Maps them. Errors: `Memory`; `Damaged` if they are no slots, or do not belong to the ring of `incarnation`, if that is known.
pub fn adopt(descriptor: OwnedFd, guard: Guard, incarnation: Option<u64>) -> Result<Left, Error> {
    let region = Region::adopt(descriptor, guard, false).map_err(memory)?;
    let is_right = |found: &[u8; 32]| {
        let told = found[16..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        (*found == header(incarnation.unwrap_or(told))).then_some(told)
    };
    let found = twice::found(&region, 0, is_right);
    match found.right().filter(|_| region.bytes() == BYTES) {
        Some(incarnation) => Ok(Left {
            header_changed: matches!(found, Found::One(_)),
            incarnation,
            region,
        }),
        None => Err(Error::Damaged(
            "the request slots are not those of this version or of this life".into(),
        )),
    }
}

impl Left {
    /// The requests that the slots tell, each once. `undo` are the undo slots of the same life, `last` the last transaction
    /// that was recovered. The second value: slots that are damaged.
    pub fn met(&self, undo: &UndoLog, last: u64) -> (Vec<Met>, Vec<usize>) {
        let mut met: HashMap<u64, Met> = HashMap::new();
        let mut damaged = Vec::new();
        for slot in 0..SLOTS {
            match self.read(slot, undo, last) {
                Ok(None) => {}
                Ok(Some(now)) => {
                    let known = met.entry(now.unique).or_insert(now);
                    if (now.done, now.raised, now.attempts) > (known.done, known.raised, known.attempts) {
                        *known = now;
                    }
                }
                Err(()) => damaged.push(slot),
            }
        }
        (met.into_values().collect(), damaged)
    }

    fn read(&self, slot: usize, undo: &UndoLog, last: u64) -> Result<Option<Met>, ()> {
        let get = |word| get(&self.region, slot, word);
        let state = State::of(get(STATE)).ok_or(())?;
        if state == State::Free {
            return Ok(None);
        }
        let unique = get(UNIQUE);
        let mut met = Met {
            unique,
            done: false,
            ino: 0,
            raised: false,
            attempts: get(STATE) as u32,
        };
        if get(CHECK) != check(&[unique]) {
            return Err(());
        }
        if state == State::Begun {
            return Ok(Some(met));
        }
        let (place, ino) = (get(PLACE), get(INO));
        if get(CHECK_NAMED) != check(&[unique, place, ino]) {
            return Err(());
        }
        let seq = match state {
            State::Named => undo.committed((place >> 32) as u16, place as u32),
            _ => Some(get(SEQ)),
        };
        met.done = seq.is_some_and(|seq| seq <= last);
        if met.done {
            (met.ino, met.raised) = (ino, state == State::Raised || ino == 0);
        }
        Ok(Some(met))
    }

    /// The lookup that the reply to request `unique` stands for is counted now: done again, the resume does not count it
    /// twice.
    pub fn note_raised(&self, unique: u64) {
        let mut slots = (0..SLOTS).filter(|slot| get(&self.region, *slot, UNIQUE) == unique);
        if let Some(slot) = slots.find(|slot| State::of(get(&self.region, *slot, STATE)) != Some(State::Free)) {
            if State::of(get(&self.region, slot, STATE)) == Some(State::Named) {
                set(&self.region, slot, SEQ, 0);
            }
            set_state(&self.region, slot, State::Raised);
        }
    }
}
