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
    /// The last events, oldest first; those of losses outlive others (S-18.5).
    pub events: VecDeque<Event>,
    /// Damages, in the order in which they were met first.
    pub damage: Vec<Lasting>,
}

impl Lists {
    /// Adds an event, which gets its number.
    pub fn add(&mut self, event: Event) {
        let number = self.events.back().map_or(0, |last| last.number) + 1;
        if self.events.len() == EVENTS_MAX {
            let losses = self.events.iter().filter(|event| event.is_loss()).count();
            let goes = losses > EVENTS_MAX / 2;
            let oldest = self.events.iter().position(|event| event.is_loss() == goes);
            oldest.and_then(|at| self.events.remove(at));
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
            let mut entries = self.damage.iter();
            entries.any(|entry| entry.tells_of(met) && entry.last_time() >= met.last_time())
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

    /// Damage was met at a place: once more, or for the first time. The list takes at most `room` bytes, see
    /// [`Lists::shorten`].
    pub fn note(&mut self, met: Lasting, room: usize) {
        let mut is_new = true;
        for entry in self.damage.iter_mut().filter(|entry| entry.tells_of(&met)) {
            is_new = false;
            (entry.verdict, entry.done) = (met.verdict, met.done);
            (entry.last, entry.last_part) = met.last_time();
            if entry.inode == met.inode {
                entry.length = entry.length.max(met.length);
            }
            entry.count = entry.count.saturating_add(met.count);
            if !met.path.is_empty() {
                entry.path.clone_from(&met.path);
            }
        }
        if is_new {
            self.damage.push(met);
        }
        self.shorten(room);
    }

    /// What was met longest ago goes, until the list takes at most `room` bytes. What was lost of redo and log goes last: until somebody
    /// takes note of it syncfs(2) fails for it (S-16.14).
    fn shorten(&mut self, room: usize) {
        while self.encode_damage().len() + 64 > room {
            let order = |entry: &Lasting| (entry.is_of_answered(), entry.last_time());
            let oldest = (0..self.damage.len()).min_by_key(|i| order(&self.damage[*i]));
            let Some(oldest) = oldest else { return };
            self.damage.remove(oldest);
        }
    }

    /// It is known whose the lost metablock `id` is: each is an inode, with the first byte and the length of what it has there. Returns
    /// whether the list did not know.
    pub fn own(&mut self, id: u64, owners: &[(u64, u64, u64)], room: usize) -> bool {
        let is_it = |entry: &Lasting| entry.id == id && entry.is_nobodys();
        let nobodys: Vec<Lasting> = self.damage.iter().filter(|entry| is_it(entry)).cloned().collect();
        if nobodys.is_empty() || owners.is_empty() {
            return false;
        }
        self.damage.retain(|entry| !is_it(entry));
        for entry in nobodys {
            for (inode, from, length) in owners.iter().copied() {
                let owned = Lasting {
                    inode,
                    from,
                    length,
                    ..entry.clone()
                };
                let first = owned.first;
                self.note(owned.clone(), room);
                let known = self.damage.iter_mut().filter(|other| other.tells_of(&owned));
                known.for_each(|other| other.first = other.first.min(first));
            }
        }
        true
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
            let mut entries = self.damage.iter().filter(|entry| entry.tells_of(met));
            entries.any(|entry| (entry.verdict, entry.done) == (met.verdict, met.done))
        };
        let is_told = self.events.iter().rev().filter(is_lately).any(is_same) && lasting.iter().all(has);
        if is_told {
            for met in lasting {
                let (last, last_part) = Lasting::time((event.seconds, event.nanoseconds));
                self.again(&Lasting {
                    last,
                    last_part,
                    ..met.clone()
                });
            }
        }
        is_told
    }

    /// Damage of the list was met once more, the last time of `met`, and nothing is new; `false` if it is not in the list.
    pub fn again(&mut self, met: &Lasting) -> bool {
        let mut is_there = false;
        for entry in self.damage.iter_mut().filter(|entry| entry.tells_of(met)) {
            (entry.last, entry.last_part) = entry.last_time().max(met.last_time());
            entry.count = entry.count.saturating_add(1);
            is_there = true;
        }
        is_there
    }

    /// The list of damages, encoded.
    pub fn encode_damage(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.damage.iter().for_each(|entry| entry.encode(&mut bytes));
        bytes
    }
}
