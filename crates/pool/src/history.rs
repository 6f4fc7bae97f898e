//! The history of a pool: what was noticed, what is damaged, and small named records, in a region of its own
//! (SPEC section 18).
//!
//! It lies beside all that a mount needs: it is written without a transaction, a log or a checkpoint, so it can tell why
//! these have ended.
//!
//! Invariants:
//! H-1 A half is written only when the write of the other one was flushed: one of them is always whole (S-18.3).
//! H-2 Nothing that goes wrong here is told here: an error of writing goes to the log of the server only.
//! H-3 Nobody waits for the device to tell something: it is written by a thread, and where the pool is made durable.
//! H-4 What is told and not on the device yet is with whoever outlives this server, from before the teller goes on (S-18.7).
//! H-5 What syncfs(2) asks (S-16.14) waits for nothing: each change of the list settles it while it has the list.

mod aside;
mod lists;
mod region;

pub use aside::ROOM as FINDINGS_ROOM;

use crate::error::Error;
use crate::switch::Switch;
use crate::worker::Worker;
use aside::{Aside, Unit};
use keepfs_format::history::{self, DAMAGE, EVENTS, Event, Lasting, NAME_MAX};
use keepfs_format::plog::Run;
use keepfs_format::{PAGE, PoolId};
use keepfs_vault::locks::{Condvar, Mutex};
use lists::Lists;
use region::Region;
pub use region::{Failed, hand_over};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// What the history holds, and where it is written.
pub struct History {
    state: Mutex<State>,
    changed: Condvar,
    /// Only one writes (H-1).
    region: Mutex<Option<Region>>,
    /// Bytes of records that a half takes.
    room: usize,
    /// Who writes; it holds the device.
    pub thread: Worker,
    /// Whether something was told, by this server, to be bad in every copy: most pools have nothing that could be read right again.
    all_bad: AtomicBool,
    /// Whether what is on the device is in the lists.
    loaded: AtomicBool,
    /// Whether the list of damages tells of answered changes that are lost (H-5).
    answered: AtomicBool,
}

/// The record of [`History::noted`].
const NOTED: &str = "noted";

/// Where it was noticed: a copy of a metablock on the device (S-18.5).
const COPY: u8 = 2;

/// What was done: nothing, reading it is an error (S-18.5).
const NOTHING: u8 = 10;

/// Room of a pool that has no region: everything is in memory only.
const ROOM_WITHOUT: usize = 32 * PAGE;

/// Least time between two writes of the thread: damage that comes in swarms is written together.
const PAUSE: Duration = Duration::from_millis(250);

/// Whether an entry says that no copy of a metablock could be read.
fn is_all_bad(entry: &Lasting) -> bool {
    (entry.place, entry.done) == (COPY, NOTHING)
}

#[derive(Default)]
struct State {
    lists: Lists,
    records: BTreeMap<String, Vec<u8>>,
    /// Counts changes.
    version: u64,
    /// The version that was written last, or could not be.
    kept: u64,
    stop: bool,
    aside: Aside,
}

impl History {
    /// The history of a pool. Nothing is read before somebody asks: no mount needs it.
    pub fn new(device: Arc<Switch>, pool: PoolId, run: Option<Run>) -> History {
        let region = run.map(|run| Region::new(device, pool, run));
        History {
            room: region.as_ref().map_or(ROOM_WITHOUT, Region::room),
            state: Mutex::default(),
            changed: Condvar::new(),
            region: Mutex::new(region),
            thread: Worker::default(),
            all_bad: AtomicBool::new(false),
            loaded: AtomicBool::new(false),
            answered: AtomicBool::new(false),
        }
    }

    /// What is on the device comes before what was told since; a half that is damaged counts as if it were not there.
    fn load(&self) {
        let mut region = self.region.lock();
        let found = region.as_mut().and_then(Region::load).unwrap_or_default();
        let mut state = self.state.lock();
        for (name, bytes) in found {
            match name.as_str() {
                EVENTS => state.lists.put_before(Event::decode_all(&bytes).unwrap_or_default()),
                DAMAGE => {
                    let earlier = Lasting::decode_all(&bytes).unwrap_or_default();
                    state.lists.damage_before(earlier, self.room / 4);
                }
                _ => {
                    state.records.entry(name).or_insert(bytes);
                }
            }
        }
        self.settle(&state);
        self.loaded.store(true, Release);
    }

    /// Keeps `bytes` under a name, instead of what was there. It is in memory at once, and on the device soon.
    /// Errors: `Logic` for a name that is empty, longer than 32 bytes, or of the lists; `NoSpace` if all named records
    /// together have no room, a quarter of a half (S-18.4).
    pub fn put(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if !(1..=NAME_MAX).contains(&name.len()) || [EVENTS, DAMAGE].contains(&name) {
            return Err(Error::Logic(format!(
                "the history takes no record of the name {name:?}"
            )));
        }
        self.load();
        let mut state = self.state.lock();
        let others = state.records.iter().filter(|(other, _)| *other != name);
        let used: usize = others.map(|(name, bytes)| history::size_of_record(name, bytes)).sum();
        if used + history::size_of_record(name, bytes) > self.room / 4 {
            return Err(Error::NoSpace);
        }
        state.records.insert(name.to_owned(), bytes.to_vec());
        self.change(&mut state);
        Ok(())
    }

    /// What was put under a name.
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.load();
        self.state.lock().records.get(name).cloned()
    }

    /// There is no record of this name any more.
    pub fn remove(&self, name: &str) {
        self.load();
        let mut state = self.state.lock();
        if state.records.remove(name).is_some() {
            self.change(&mut state);
        }
    }

    /// Adds an event, which gets its number, and what it says of lasting damage. Never waits (H-3).
    pub fn tell(&self, event: Event, lasting: impl IntoIterator<Item = Lasting>) {
        let lasting = lasting.into_iter().collect();
        self.add(
            &mut self.state.lock(),
            Unit {
                event: Some(event),
                lasting,
            },
        );
    }

    /// Whether this is what an event of the last hour told, and all its damage is in the list still: then that is counted there, and it is
    /// no event (S-18.13). Only of what nothing was done about: what was mended is damaged anew.
    pub fn is_told(&self, event: &Event, lasting: &[Lasting]) -> bool {
        if event.done != NOTHING || lasting.is_empty() {
            return false;
        }
        let mut state = self.state.lock();
        let is_told = state.lists.is_told(event, lasting);
        if is_told {
            state.version += 1;
        }
        is_told
    }

    /// Adds to the list of damages only: what was told already.
    pub fn note(&self, lasting: Lasting) {
        let lasting = vec![lasting];
        self.add(&mut self.state.lock(), Unit { event: None, lasting });
    }

    fn add(&self, state: &mut State, unit: Unit) {
        if let Some(event) = &unit.event {
            state.lists.add(event.clone());
        }
        if unit.lasting.iter().any(is_all_bad) {
            self.all_bad.store(true, Relaxed);
        }
        for lasting in &unit.lasting {
            state.lists.note(lasting.clone(), self.room / 4);
        }
        self.change(state);
        let version = state.version;
        state.aside.add(version, unit);
    }

    /// From here on what is told and not on the device yet is also given to `keep`, all of it (at most [`FINDINGS_ROOM`] bytes of the
    /// last) each time that it changes, before the teller goes on (S-18.7). `keep` must not wait, nor tell anything here.
    pub fn set_aside(&self, keep: impl Fn(&[u8]) + Send + Sync + 'static) {
        self.state.lock().aside.begin(Box::new(keep));
    }

    /// What a server that died had set aside: what of it is not on the device is told once more, under the next numbers (S-18.7).
    pub fn adopt(&self, findings: &[u8]) {
        let units = aside::decode(findings).unwrap_or_default();
        if units.is_empty() {
            return;
        }
        self.load();
        let mut state = self.state.lock();
        for unit in units {
            if !state.lists.has(&unit) {
                self.add(&mut state, unit);
            }
        }
    }

    /// Damage that is in the list was met once more: its last time and count change. It is written with what is told next, or where
    /// the pool is made durable: a program that reads a damaged page again and again costs no writes.
    pub fn again(&self, met: &Lasting) {
        // The entry may be of an earlier life.
        self.load();
        let mut state = self.state.lock();
        if state.lists.again(met) {
            state.version += 1;
        }
    }

    /// The events with numbers above `after` that are kept, oldest first.
    pub fn events(&self, after: u64) -> Vec<Event> {
        self.load();
        let state = self.state.lock();
        state
            .lists
            .events
            .iter()
            .filter(|e| e.number > after)
            .cloned()
            .collect()
    }

    /// The list of damages, in the order in which they were met first.
    pub fn damage(&self) -> Vec<Lasting> {
        self.load();
        self.state.lock().lists.damage.clone()
    }

    /// Whether the list of damages tells of changes that were answered and are lost: nothing heals that (S-18.6, S-16.14).
    pub fn tells_of_answered(&self) -> bool {
        if !self.loaded.load(Acquire) {
            self.load();
        }
        self.answered.load(Acquire)
    }

    /// Gives entries the paths that their inodes have now, as far as `is_of` says that they are of these lives of them (S-18.6).
    pub fn name(&self, paths: &BTreeMap<u64, Vec<u8>>, is_of: impl Fn(&Lasting) -> bool) {
        let mut state = self.state.lock();
        let mut is_changed = false;
        let of_files = state.lists.damage.iter_mut().filter(|entry| !entry.is_of_gone());
        for entry in of_files.filter(|entry| is_of(entry)) {
            if let Some(path) = paths.get(&entry.inode).filter(|path| **path != entry.path) {
                entry.path.clone_from(path);
                is_changed = true;
            }
        }
        if is_changed {
            self.change(&mut state);
        }
    }

    /// It is known whose the lost metablock `id` is, of which the list of damages may have an entry of inode 0: inodes, each with the
    /// first byte and the length of what it has there (S-18.6).
    pub fn own(&self, id: u64, owners: &[(u64, u64, u64)]) {
        let mut state = self.state.lock();
        if state.lists.own(id, owners, self.room / 4) {
            self.change(&mut state);
        }
    }

    /// Somebody has taken note of all that was told until now: the list of damages is empty from here on, and [`History::noted`] is the
    /// last event. Returns how many entries the list had.
    pub fn clear_damage(&self) -> usize {
        if let Some(last) = self.events(0).last() {
            // Without room for it, what was told is told again in the next life.
            let _ = self.put(NOTED, &last.number.to_le_bytes());
        }
        self.forget_damage()
    }

    /// The number of the last event that somebody has taken note of (S-18.6), 0 if nobody has.
    pub fn noted(&self) -> u64 {
        let record = self.get(NOTED);
        record
            .and_then(|bytes| Some(u64::from_le_bytes(*bytes.first_chunk()?)))
            .unwrap_or(0)
    }

    fn forget_damage(&self) -> usize {
        self.load();
        let mut state = self.state.lock();
        let count = core::mem::take(&mut state.lists.damage).len();
        state.aside.forget_damage(|_| true);
        self.change(&mut state);
        count
    }

    /// These entries, as the list has them now, are of what is not damaged any more: they go (S-18.8).
    pub fn heal(&self, healed: &[Lasting]) {
        let mut state = self.state.lock();
        let before = state.lists.damage.len();
        state.lists.damage.retain(|entry| !healed.contains(entry));
        if state.lists.damage.len() == before {
            return;
        }
        let is = |entry: &Lasting| healed.iter().any(|healed| healed.tells_of(entry));
        state.aside.forget_damage(is);
        self.change(&mut state);
    }

    /// The metablock `id` was read right: what was told of all its copies is over, and is told anew if they are bad once more
    /// (S-18.8).
    pub fn read_right(&self, id: u64) {
        if !self.all_bad.load(Relaxed) {
            return;
        }
        let healed: Vec<Lasting> = {
            let state = self.state.lock();
            let all_bad = |entry: &&Lasting| is_all_bad(entry);
            let entries: Vec<&Lasting> = state.lists.damage.iter().filter(all_bad).collect();
            self.all_bad.store(!entries.is_empty(), Relaxed);
            entries.into_iter().filter(|entry| entry.id == id).cloned().collect()
        };
        if !healed.is_empty() {
            self.heal(&healed);
        }
    }

    /// Waits until something is to be written; `false` when the thread shall end.
    pub fn wait(&self, last: Option<Instant>) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.stop {
                return false;
            }
            let due = last.map(|last| last + PAUSE).filter(|due| *due > Instant::now());
            match (state.version != state.kept, due) {
                (true, None) => return true,
                (true, Some(due)) => {
                    self.changed.wait_until(&mut state, due);
                }
                (false, _) => self.changed.wait(&mut state),
            }
        }
    }

    /// Waits until the history is another one than at version `seen` (at first 0, which is before anything was told); returns which it is
    /// then. `None`: the pool is closed.
    pub fn wait_for_change(&self, seen: u64) -> Option<u64> {
        let mut state = self.state.lock();
        while !state.stop && state.version == seen {
            self.changed.wait(&mut state);
        }
        (!state.stop).then_some(state.version)
    }

    /// Ends the thread and waits for it, unless this is it: whoever closed the pool may open it again at once.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.changed.notify_all();
        self.thread.join();
    }

    /// Behind each change of the lists (H-5).
    fn settle(&self, state: &State) {
        let is_there = state.lists.damage.iter().any(Lasting::is_of_answered);
        self.answered.store(is_there, Release);
    }

    fn change(&self, state: &mut State) {
        self.settle(state);
        state.version += 1;
        self.changed.notify_all();
    }

    /// Writes what was changed since it was written last. What cannot be written waits for the next change.
    pub fn keep(&self) -> Result<(), Failed> {
        self.load();
        // Who is told that there is nothing to write may rely on it: whoever is writing has ended.
        let mut region = self.region.lock();
        let Some(region) = &mut *region else { return Ok(()) };
        let (bytes, version) = {
            let mut state = self.state.lock();
            if state.version == state.kept {
                return Ok(());
            }
            state.kept = state.version;
            (state.encode(self.room), state.version)
        };
        region.write(&bytes)?;
        self.state.lock().aside.written(version);
        Ok(())
    }
}

impl State {
    /// All records (S-18.4), of the events as many as there is room for, the last ones.
    fn encode(&self, room: usize) -> Vec<u8> {
        let damage = self.lists.encode_damage();
        let events = Event::encode_last(self.lists.events.iter(), room / 2 - 2 * NAME_MAX);
        let lists = [(EVENTS, &events[..]), (DAMAGE, &damage[..])];
        let records = self.records.iter().map(|(name, bytes)| (&name[..], &bytes[..]));
        history::encode(lists.into_iter().chain(records))
    }
}

#[cfg(test)]
mod tests;
