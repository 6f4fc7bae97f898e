//! Seats: whoever builds replies, one at a time, has a number that nobody else has meanwhile ([`keepfs_vfs::Request::seat`]).

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The numbers that are taken.
#[derive(Default)]
pub(crate) struct Seats(Mutex<BTreeSet<u32>>);

impl Seats {
    /// The lowest number that is free.
    pub(crate) fn take(self: &Arc<Seats>) -> Seat {
        let mut taken = self.0.lock();
        let gap = (0..).zip(taken.iter()).find(|(number, taken)| number != *taken);
        let number = gap.map_or(taken.len() as u32, |(number, _)| number);
        taken.insert(number);
        Seat {
            number,
            seats: self.clone(),
        }
    }
}

/// A number, until this is dropped.
pub(crate) struct Seat {
    number: u32,
    seats: Arc<Seats>,
}

impl Seat {
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.0.lock().remove(&self.number);
    }
}
