//! The last events and the list of damages in memory; both are bounded (S-18.5, S-18.6).

use super::aside::Unit;
use keepfs_format::history::{Event, Lasting};
use std::collections::VecDeque;

/// Events kept in memory at most.
const EVENTS_MAX: usize = 1024;

/// What repeats is an event again behind so many seconds.
const TOLD_AGAIN: u64 = 60 * 60;

/// Events and damages.
#[derive(Default)]
pub struct Lists {
    /// The last events, oldest first.
    pub events: VecDeque<Event>,
    /// Damages, in the order in which they were met first.
    pub damage: Vec<Lasting>,
}

impl Lists {
    /// Adds an event, which gets its number.
    pub fn add(&mut self, event: Event) {
        let number = self.events.back().map_or(0, |last| last.number) + 1;
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
        }
        self.events.push_back(Event { number, ..event });
    }

    /// These events were before those that are here.
    pub fn put_before(&mut self, earlier: Vec<Event>) {
        let later = core::mem::replace(&mut self.events, earlier.into());
        later.into_iter().for_each(|event| self.add(event));
    }

    /// Whether this was told here: the event, whatever its number; without one, all the damage.
    pub fn has(&self, unit: &Unit) -> bool {
        let is_noted = |met: &Lasting| {
            let same = |e: &&Lasting| (e.place, e.inode, e.id, e.from) == (met.place, met.inode, met.id, met.from);
            self.damage
                .iter()
                .find(same)
                .is_some_and(|entry| entry.last >= met.last)
        };
        match &unit.event {
            Some(told) => self.events.iter().any(|event| {
                let number = event.number;
                *event == Event { number, ..told.clone() }
            }),
            None => unit.lasting.iter().all(is_noted),
        }
    }

    /// These damages were before those that are here.
    pub fn damage_before(&mut self, earlier: Vec<Lasting>, room: usize) {
        let later = core::mem::replace(&mut self.damage, earlier);
        later.into_iter().for_each(|entry| self.note(entry, room));
    }

    /// Damage was met at a place: once more, or for the first time. The list takes at most `room` bytes: what was met
    /// longest ago goes.
    pub fn note(&mut self, met: Lasting, room: usize) {
        let same = |e: &&mut Lasting| (e.place, e.inode, e.id, e.from) == (met.place, met.inode, met.id, met.from);
        match self.damage.iter_mut().find(same) {
            Some(entry) => {
                (entry.verdict, entry.done, entry.last) = (met.verdict, met.done, met.last);
                entry.length = entry.length.max(met.length);
                entry.count = entry.count.saturating_add(met.count);
                if !met.path.is_empty() {
                    entry.path = met.path;
                }
            }
            None => self.damage.push(met),
        }
        while self.encode_damage().len() + 64 > room {
            let oldest = (0..self.damage.len()).min_by_key(|i| self.damage[*i].last);
            let Some(oldest) = oldest else { return };
            self.damage.remove(oldest);
        }
    }

    /// Whether an event tells what one of the last hour told, and the list has all its damage, which then was met once more.
    pub fn is_told(&mut self, event: &Event, lasting: &[Lasting]) -> bool {
        let is_same = |told: &Event| {
            let Event {
                number,
                seconds,
                nanoseconds,
                ..
            } = *told;
            let time = Event {
                number,
                seconds,
                nanoseconds,
                ..event.clone()
            };
            *told == time
        };
        let is_lately = |told: &&Event| told.seconds.abs_diff(event.seconds) < TOLD_AGAIN;
        let has = |met: &Lasting| {
            let is_it = |e: &Lasting| (e.place, e.inode, e.id, e.from) == (met.place, met.inode, met.id, met.from);
            let entry = self.damage.iter().find(|entry| is_it(entry));
            entry.is_some_and(|entry| (entry.verdict, entry.done) == (met.verdict, met.done))
        };
        let is_told = self.events.iter().rev().filter(is_lately).any(is_same) && lasting.iter().all(has);
        if is_told {
            for met in lasting {
                self.again(met.place, (met.inode, met.id, met.from), event.seconds);
            }
        }
        is_told
    }

    /// Damage at a place of the list was met once more, at `now`, and nothing is new; `false` if it is not in the list. Times are
    /// in seconds since 1970.
    pub fn again(&mut self, place: u8, (inode, id, from): (u64, u64, u64), now: i64) -> bool {
        let same = |e: &&mut Lasting| (e.place, e.inode, e.id, e.from) == (place, inode, id, from);
        let Some(entry) = self.damage.iter_mut().find(same) else {
            return false;
        };
        entry.last = entry.last.max(now);
        entry.count = entry.count.saturating_add(1);
        true
    }

    /// The list of damages, encoded.
    pub fn encode_damage(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.damage.iter().for_each(|entry| entry.encode(&mut bytes));
        bytes
    }

    /// As many of the last events as `room` bytes hold, oldest first.
    pub fn encode_events(&self, room: usize) -> Vec<u8> {
        let mut encoded: Vec<Vec<u8>> = Vec::new();
        let mut used = 0;
        for event in self.events.iter().rev() {
            let mut bytes = Vec::new();
            event.encode(&mut bytes);
            used += bytes.len();
            if used > room {
                break;
            }
            encoded.push(bytes);
        }
        encoded.into_iter().rev().flatten().collect()
    }
}
