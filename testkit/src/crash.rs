//! The states a power cut may leave behind, enumerated from a recording.
//!
//! The fault model is at the head of [`crate::sim`]. At a position `t` of the log (its first `t` entries
//! have happened) everything before the last flush is durable; the page writes and discards after it are
//! the *units* in flight. The states of a position, each with its number so that one pair of numbers
//! replays it:
//!
//! * up to 10 units: every subset;
//! * more: every prefix, every suffix (newest first), all subsets of one or two units, all that lack one
//!   or two, and 256 random ones by seed;
//! * torn pages: for each page write in flight the first 1..=7 sectors new, the last 1..=7, all but one
//!   in the middle; each alone, after all earlier units, and among all units.
//!
//! Different states often have equal content ([`Image::digest`]); skip those only where the promises
//! to be checked are equal too: a later position may have promised more for the same bytes.
//!
//! A state costs a copy of a reference and a path of a tree for each kept unit. Its device records again,
//! so a crash inside recovery is a [`Sweep`] over that device's recording.

mod choice;
mod timeline;

use std::fmt;
use std::sync::Arc;

use crate::image::Image;
use crate::sim::{Entry, PersistOrder, Recording, SimDevice};

use choice::{Choice, Choices};
use timeline::{Timeline, Unit};

/// A device over a crash state: recovery runs on it, its writes are its own and are recorded.
pub type ImageDevice = SimDevice;

/// The crash states of one position of a log.
#[derive(Clone, Debug)]
pub struct CrashPlan {
    timeline: Arc<Timeline>,
    position: usize,
    choices: Choices,
}

impl CrashPlan {
    /// The states after the first `position` entries of `log`. `seed` draws the random subsets.
    pub fn new(log: &[Entry], position: usize, seed: u64) -> Self {
        let position = position.min(log.len());
        let timeline = Arc::new(Timeline::of(&log[..position]));
        Self::at(timeline, position, seed)
    }

    fn at(timeline: Arc<Timeline>, position: usize, seed: u64) -> Self {
        let tearable = timeline.tearable(position);
        let units = timeline.in_flight(position).len();
        let seed = seed ^ (position as u64).rotate_left(32);
        Self {
            timeline,
            position,
            choices: Choices::new(units, tearable, seed),
        }
    }

    /// The position in the log.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Units in flight.
    pub fn in_flight(&self) -> usize {
        self.timeline.in_flight(self.position).len()
    }

    /// How many states there are (equal contents counted as often as they come).
    pub fn count(&self) -> u64 {
        self.choices.count()
    }

    /// The state of number `index`, if there is one.
    pub fn state(&self, index: u64) -> Option<CrashState> {
        let choice = self.choices.get(index)?;
        Some(self.with(choice))
    }

    /// All states.
    pub fn states(&self) -> impl Iterator<Item = CrashState> + '_ {
        (0..self.count()).filter_map(|index| self.state(index))
    }

    /// At most `limit` states: all if there are no more, else nothing kept, all kept, and a draw by seed.
    pub fn sample(&self, limit: u64) -> impl Iterator<Item = CrashState> + '_ {
        self.choices.sample(limit).filter_map(|index| self.state(index))
    }

    /// The state in which the first `kept` units in `order` are kept.
    pub fn cut(&self, order: PersistOrder, kept: usize) -> CrashState {
        self.with(match order {
            PersistOrder::OldestFirst => Choice::prefix(kept),
            PersistOrder::NewestFirst => Choice::suffix(kept.min(self.in_flight())),
        })
    }

    /// The durable content at this position, given the content before the log.
    pub fn durable(&self, base: &Image) -> Image {
        let mut image = base.clone();
        self.timeline.advance(&mut image, 0, self.position);
        image
    }

    fn with(&self, choice: Choice) -> CrashState {
        CrashState {
            timeline: Arc::clone(&self.timeline),
            position: self.position,
            choice,
        }
    }
}

/// One state a power cut may leave.
#[derive(Clone, Debug)]
pub struct CrashState {
    timeline: Arc<Timeline>,
    position: usize,
    choice: Choice,
}

impl CrashState {
    /// The content, given the durable content at this position ([`CrashPlan::durable`],
    /// [`CrashPoint::durable`]).
    pub fn content(&self, durable: &Image) -> Image {
        let mut image = durable.clone();
        for (index, unit) in self.units().iter().enumerate() {
            if !self.choice.keeps(index, self.units().len()) {
                continue;
            }
            match self.choice.tear_of(index) {
                None => unit.apply(&mut image),
                Some(tear) => unit.apply_torn(&mut image, tear),
            }
        }
        image
    }

    /// The content as a device for recovery.
    pub fn image(&self, durable: &Image) -> ImageDevice {
        SimDevice::over(self.content(durable))
    }

    /// A number that equal contents share ([`Image::digest`]).
    pub fn key(&self, durable: &Image) -> u64 {
        self.content(durable).digest()
    }

    fn units(&self) -> &[Unit] {
        self.timeline.in_flight(self.position)
    }
}

impl fmt::Display for CrashState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = self.units().len();
        let kept: Vec<usize> = (0..units).filter(|&index| self.choice.keeps(index, units)).collect();
        write!(
            f,
            "cut after {} log entries, of {units} units in flight kept {kept:?}",
            self.position
        )?;
        match self.choice.torn() {
            Some((unit, tear)) => write!(f, ", unit {unit} torn ({tear})"),
            None => Ok(()),
        }
    }
}

/// A position of a log with its durable content: what a sweep visits.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    /// The states of this position.
    pub plan: CrashPlan,
    /// The content that every state of this position has beneath it.
    pub durable: Image,
}

impl CrashPoint {
    /// The content of a state of this position.
    pub fn content(&self, state: &CrashState) -> Image {
        state.content(&self.durable)
    }

    /// The device of a state of this position.
    pub fn image(&self, state: &CrashState) -> ImageDevice {
        state.image(&self.durable)
    }
}

/// All positions of a recording, first to last (both ends included), with durable contents carried along.
#[derive(Clone, Debug)]
pub struct Sweep {
    timeline: Arc<Timeline>,
    durable: Image,
    carried_to: usize,
    next: usize,
    end: usize,
    seed: u64,
}

impl Sweep {
    /// All positions of `recording`.
    pub fn new(recording: &Recording, seed: u64) -> Self {
        Self {
            timeline: Arc::new(Timeline::of(&recording.log)),
            durable: recording.base.clone(),
            carried_to: 0,
            next: 0,
            end: recording.log.len(),
            seed,
        }
    }

    /// The same sweep from `position` on, for splitting work.
    #[must_use]
    pub fn starting_at(mut self, position: usize) -> Self {
        self.next = self.next.max(position);
        self
    }
}

impl Iterator for Sweep {
    type Item = CrashPoint;

    fn next(&mut self) -> Option<CrashPoint> {
        if self.next > self.end {
            return None;
        }
        let position = self.next;
        self.next += 1;
        self.timeline.advance(&mut self.durable, self.carried_to, position);
        self.carried_to = position;
        Some(CrashPoint {
            plan: CrashPlan::at(Arc::clone(&self.timeline), position, self.seed),
            durable: self.durable.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
