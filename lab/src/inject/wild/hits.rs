//! Writes that reached the door's memory: whose frame they hit, and whether the pool told it.

use super::super::papers::Pool;
use super::super::space::{Kept, Space, What};
use super::WRITE;
use keepfs_codes::{Code, Protection};
use keepfs_format::PAGE;
use std::collections::BTreeSet;

/// Most hits of a round; it ends with the last one.
pub const MOST: usize = 1000;
/// The code of the pool.
pub const CODE: Protection = Protection::Pcrc;
/// Frames, control words and parity as the system calls their mappings.
const REGIONS: [&str; 3] = ["/memfd:keepfs-arena", "/memfd:keepfs-sums", "/memfd:keepfs-parity"];
/// Bytes of a frame's control words, those of the first of them, which says who writes to the frame (S-13.1), and of all that
/// are in use.
const CONTROL: usize = 64;
const WORD: usize = 8;
const WORDS: usize = 48;
/// Bytes of a frame's line sums, which lie behind the control words of all frames.
const LINE_SUMS: usize = 128;

/// What they came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Hits {
    /// All.
    pub reached: u64,
    /// Those of frames that hold no metablock, of bytes between control words, and of the memory of redo, staged pages and undo.
    pub of_none: u64,
    /// Those that were told, when their frames had been looked at behind them.
    pub told: u64,
    /// Those that were not told and whose frame is right: a legal write had covered them before anybody looked, or they met
    /// reserved words.
    pub untold: u64,
    /// Those of frames that could not be made right again.
    pub lost: u64,
}

/// The region that an address of the door's memory lies in, and the place in it.
pub fn place(space: &Space, at: usize) -> Option<(usize, usize)> {
    let mapping = space.of(at).filter(|mapping| mapping.what == What::Window)?;
    let region = REGIONS.iter().position(|name| *name == mapping.name)?;
    Some((region, at - mapping.range().start))
}

/// Whether a write would change who writes to a frame: that ends the server (S-15.14), and with it the experiment.
pub fn ends_server(space: &Space, at: usize) -> bool {
    let mut bytes = at..at + WRITE;
    let is_word = |offset: usize| offset < control_words(space) && offset % CONTROL < WORD;
    bytes.any(|at| place(space, at).is_some_and(|(region, offset)| region == 1 && is_word(offset)))
}

/// Bytes of the control words of all frames.
fn control_words(space: &Space) -> usize {
    space.window_len(REGIONS[0]) / PAGE * CONTROL
}

impl Hits {
    /// Looks at the frames of `hits`, and at what was told since event `heard`; returns the number of the last event.
    pub fn judge(&mut self, pool: &Pool, space: &Space, hits: &[Kept], heard: u64) -> u64 {
        let frame = |at| match place(space, at)? {
            (0, offset) => Some(offset / PAGE),
            (1, offset) if offset >= control_words(space) => Some((offset - control_words(space)) / LINE_SUMS),
            (1, offset) if offset % CONTROL >= WORDS => None,
            (1, offset) => Some(offset / CONTROL),
            (_, offset) => Some(offset / CODE.parity_len()),
        };
        let frames = |hit: &Kept| [0, WRITE - 1].map(|byte| frame(hit.address() + byte));
        let all: BTreeSet<u32> = hits
            .iter()
            .flat_map(frames)
            .flatten()
            .map(|frame| frame as u32)
            .collect();
        let looks = all.iter().map(|frame| (*frame, pool.store.scrub_frame(*frame)));
        let looks: Vec<_> = looks.filter(|(_, look)| look.pages > 0).collect();
        let events = pool.store.history().events(heard);
        let told: BTreeSet<u32> = events.iter().map(|event| event.at as u32).collect();
        for hit in hits {
            let frames = frames(hit).map(|frame| frame.map(|frame| frame as u32));
            let of = |frame: &u32| frames.contains(&Some(*frame));
            let mut looks = looks.iter().filter(|(frame, _)| of(frame)).peekable();
            self.reached += 1;
            match (looks.peek().is_some(), told.iter().any(of)) {
                (false, _) => self.of_none += 1,
                (true, true) => self.told += 1,
                (true, false) => self.untold += 1,
            }
            self.lost += u64::from(looks.any(|(_, look)| look.lost() > 0));
        }
        events.last().map_or(heard, |event| event.number)
    }
}
