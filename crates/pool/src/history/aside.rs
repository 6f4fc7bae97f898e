//! What was told and is not on the device yet, for whoever outlives this server (S-18.7).

use keepfs_format::history::{self, DAMAGE, EVENTS, Event, Lasting};
use std::collections::VecDeque;

/// Bytes that are set aside at most; the oldest go first.
pub const ROOM: usize = 16 << 10;

/// What is told at once: an event, and what it says of lasting damage.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// The event; `None`: it was told before.
    pub event: Option<Event>,
    /// Lasting damage.
    pub lasting: Vec<Lasting>,
}

/// Takes all that is set aside.
type Keep = Box<dyn Fn(&[u8]) + Send + Sync>;

/// See the head of the file.
#[derive(Default)]
pub struct Aside {
    /// With the version of the history that has them first.
    units: VecDeque<(u64, Unit)>,
    keep: Option<Keep>,
}

impl Aside {
    /// From here on it is given away, what there is already at once.
    pub fn begin(&mut self, keep: Keep) {
        keep(&self.encode());
        self.keep = Some(keep);
    }

    /// Something was told.
    pub fn add(&mut self, version: u64, unit: Unit) {
        self.units.push_back((version, unit));
        // What is not kept below is not kept here.
        while self.units.iter().map(|(_, unit)| size(unit)).sum::<usize>() > ROOM {
            self.units.pop_front();
        }
        self.give();
    }

    /// What the history had at `version` is on the device.
    pub fn written(&mut self, version: u64) {
        let before = self.units.len();
        self.units.retain(|(told, _)| *told > version);
        if self.units.len() != before {
            self.give();
        }
    }

    /// These entries are not damaged any more.
    pub fn forget_damage(&mut self, is: impl Fn(&Lasting) -> bool) {
        let units = self.units.iter_mut();
        units.for_each(|(_, unit)| unit.lasting.retain(|entry| !is(entry)));
        self.give();
    }

    fn give(&self) {
        if let Some(keep) = &self.keep {
            keep(&self.encode());
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let encoded: Vec<(Vec<u8>, Vec<u8>)> = self.units.iter().map(|(_, unit)| records(unit)).collect();
        let lists = encoded
            .iter()
            .flat_map(|(event, lasting)| [(EVENTS, &event[..]), (DAMAGE, &lasting[..])]);
        history::encode(lists)
    }
}

/// The two records of a unit.
fn records(unit: &Unit) -> (Vec<u8>, Vec<u8>) {
    let (mut event, mut lasting) = (Vec::new(), Vec::new());
    unit.event.iter().for_each(|told| told.encode(&mut event));
    unit.lasting.iter().for_each(|entry| entry.encode(&mut lasting));
    (event, lasting)
}

fn size(unit: &Unit) -> usize {
    let (event, lasting) = records(unit);
    history::size_of_record(EVENTS, &event) + history::size_of_record(DAMAGE, &lasting)
}

/// The units that were set aside; `None` if the bytes are none.
pub fn decode(bytes: &[u8]) -> Option<Vec<Unit>> {
    let mut units = Vec::new();
    for pair in history::decode(bytes)?.chunks(2) {
        let [(events, event), (damage, lasting)] = pair else {
            return None;
        };
        if (&events[..], &damage[..]) != (EVENTS, DAMAGE) {
            return None;
        }
        let event = Event::decode_all(event)?.into_iter().next();
        let lasting = Lasting::decode_all(lasting)?;
        units.push(Unit { event, lasting });
    }
    Some(units)
}

#[cfg(test)]
mod tests {
    use super::decode;

    /// What is none is not taken for what was set aside.
    #[test]
    fn bytes_that_are_none_have_no_units() {
        assert_eq!((decode(&[1, 2]), decode(&[])), (None, Some(Vec::new())));
    }
}
