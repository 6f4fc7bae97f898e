//! A log cut into units: what a power cut keeps or loses as one.

use crate::image::{Image, Page};
use crate::sim::{Entry, Event};
use keepfs_media::PageNo;

use super::choice::Tear;

/// The unit of keeping and losing.
#[derive(Clone, Debug)]
pub(super) enum Unit {
    /// One page of a write.
    Write(PageNo, Page),
    /// A whole discard.
    Discard(PageNo, u64),
}

impl Unit {
    pub(super) fn apply(&self, image: &mut Image) {
        match self {
            Unit::Write(at, page) => image.set(*at, page.clone()),
            Unit::Discard(at, pages) => image.clear(*at, *pages),
        }
    }

    /// As [`apply`](Self::apply), but only the sectors that `tear` lets through.
    pub(super) fn apply_torn(&self, image: &mut Image, tear: Tear) {
        if let Unit::Write(at, page) = self {
            let mut bytes = *image.bytes(*at);
            tear.copy(page.bytes(), &mut bytes);
            image.set(*at, Page::new(&bytes));
        }
    }

    fn is_write(&self) -> bool {
        matches!(self, Unit::Write(..))
    }
}

/// The units of a log and which of them are in flight at each position.
#[derive(Debug)]
pub(super) struct Timeline {
    units: Vec<Unit>,
    /// For each position (0..=entries): units durable, units that have happened.
    marks: Vec<(usize, usize)>,
}

impl Timeline {
    pub(super) fn of(log: &[Entry]) -> Self {
        let mut units = Vec::new();
        let mut marks = vec![(0, 0)];
        let mut durable = 0;
        for entry in log {
            match &entry.event {
                Event::Write { at, pages, .. } => {
                    let numbered = (at.0..).map(PageNo).zip(pages.iter().cloned());
                    units.extend(numbered.map(|(at, page)| Unit::Write(at, page)));
                }
                Event::Flush => durable = units.len(),
                Event::Discard { at, pages } => units.push(Unit::Discard(*at, *pages)),
            }
            marks.push((durable, units.len()));
        }
        Self { units, marks }
    }

    /// The units in flight at `position`.
    pub(super) fn in_flight(&self, position: usize) -> &[Unit] {
        let (durable, happened) = self.marks[position];
        &self.units[durable..happened]
    }

    /// Which units in flight at `position` are page writes.
    pub(super) fn tearable(&self, position: usize) -> Vec<usize> {
        let units = self.in_flight(position).iter().enumerate();
        units
            .filter(|(_, unit)| unit.is_write())
            .map(|(index, _)| index)
            .collect()
    }

    /// Brings the durable content of position `from` to that of `to`.
    pub(super) fn advance(&self, image: &mut Image, from: usize, to: usize) {
        for unit in &self.units[self.marks[from].0..self.marks[to].0] {
            unit.apply(image);
        }
    }
}
