//! The work of one scrub, slice by slice: frames, then metadata at rest, then file data.

use super::data::DataPlace;
use super::record::{Phase, Record};
use crate::Volume;
use crate::errors::Result;
use keepfs_store::Looked;

/// Frames of one slice: 256 take about 20 us.
const FRAMES: usize = 256;
/// Files of one slice, and pages after which it ends.
const FILES: usize = 256;
const PAGES: u64 = 64;
/// Inodes whose numbers are asked for at a time.
const INODES: usize = 1024;

/// Which frames, in which order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Frames {
    /// All, by number.
    #[default]
    All,
    /// All, those first that were verified longest ago.
    Oldest,
    /// All, in an order that nobody knows before.
    Random,
    /// Those with bytes of these addresses of the server, from the first to the one behind the last.
    At(u64, u64),
}

/// What a scrub shall look at.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wish {
    /// Frames in memory.
    pub arena: bool,
    /// What lies on the device.
    pub rest: bool,
    /// Of file data only that of files changed since then, seconds since 1970.
    pub since_s: Option<i64>,
    /// Of file data only that of files known to be damaged.
    pub damaged: bool,
    /// Only this inode and what is below it: its frames, its data.
    pub top: Option<u64>,
    /// Which frames.
    pub frames: Frames,
}

impl Wish {
    /// Whether it looks at everything at rest.
    pub fn is_whole_rest(&self) -> bool {
        self.rest && !self.is_part()
    }

    /// Whether it looks at some files only.
    fn is_part(&self) -> bool {
        self.since_s.is_some() || self.damaged || self.top.is_some()
    }

    pub(super) fn first_phase(&self) -> Phase {
        match self {
            _ if self.arena => Phase::Arena,
            _ if self.damaged || self.top.is_some() => Phase::Data,
            _ => Phase::Metadata,
        }
    }
}

/// What a slice came to.
pub(super) struct Slice {
    /// Pages read from the device.
    pub pages: u64,
    /// That was the last.
    pub over: bool,
}

/// What is left to do.
pub(super) struct Work {
    /// Frames, the next one last.
    frames: Vec<u32>,
    /// Staged pages, which are looked at behind the frames.
    staged: Vec<(u64, u64)>,
    /// Inodes, the next one last.
    inodes: Vec<u64>,
    /// Whether `inodes` are all that there will be.
    is_list: bool,
}

impl Work {
    /// The work that a record leads to. Errors: what it shall look at cannot be read.
    pub fn of(volume: &Volume, record: &Record) -> Result<Work> {
        let wish = &record.wish;
        let mut inodes = match (wish.damaged, wish.top) {
            (true, _) => volume.lost.inodes(),
            (false, Some(top)) => volume.subtree(top)?,
            (false, None) => Vec::new(),
        };
        let (mut frames, staged) = match record.phase {
            Phase::Arena => (frames(volume, wish, &inodes), staged(volume, wish, &inodes)),
            _ => (Vec::new(), Vec::new()),
        };
        inodes.retain(|ino| *ino >= record.place.ino);
        inodes.reverse();
        frames.drain(..(record.frames_done as usize).min(frames.len()));
        frames.reverse();
        Ok(Work {
            frames,
            staged,
            inodes,
            is_list: wish.damaged || wish.top.is_some(),
        })
    }

    /// One slice. Errors: those that end a scrub; damage is counted, not returned.
    pub fn step(&mut self, volume: &Volume, record: &mut Record) -> Result<Slice> {
        let (pages, next) = match record.phase {
            Phase::Arena => (0, self.arena(volume, record)),
            Phase::Metadata => metadata(volume, record)?,
            Phase::Data => self.data(volume, record)?,
        };
        let over = next.is_none();
        record.phase = next.unwrap_or(record.phase);
        Ok(Slice { pages, over })
    }

    fn arena(&mut self, volume: &Volume, record: &mut Record) -> Option<Phase> {
        for _ in 0..FRAMES {
            if let Some(frame) = self.frames.pop() {
                record.arena += volume.store.scrub_frame(frame);
                record.frames_done += 1;
            } else if let Some((ino, index)) = self.staged.pop() {
                record.arena += volume.store.scrub_staged(ino, index);
            } else {
                break;
            }
        }
        let is_done = self.frames.is_empty() && self.staged.is_empty();
        if is_done {
            record.arena += volume.store.scrub_page_0();
        }
        match (is_done, record.wish.rest) {
            (false, _) => Some(Phase::Arena),
            (true, false) => None,
            (true, true) if self.is_list => Some(Phase::Data),
            (true, true) => Some(Phase::Metadata),
        }
    }

    /// Some pages, of one file or of several small ones.
    fn data(&mut self, volume: &Volume, record: &mut Record) -> Result<(u64, Option<Phase>)> {
        let mut pages = 0;
        for _ in 0..FILES {
            if self.inodes.is_empty() && !self.is_list {
                self.inodes = volume.store.inodes_in_use(record.place.ino, INODES)?;
                self.inodes.reverse();
            }
            let Some(ino) = self.inodes.last().copied() else {
                return Ok((pages, None));
            };
            if ino != record.place.ino {
                record.place = DataPlace { ino, index: 0 };
            }
            if self.is_list && record.place.index == 0 {
                // What is looked at whole is looked at in its own phase.
                let looked = volume.scrub_metablocks(ino)?;
                record.metadata += looked;
                pages += looked.pages;
            }
            let (looked, next) = volume.scrub_file(record.place, record.wish.since_s)?;
            record.data += looked;
            pages += looked.pages;
            match next {
                Some(index) => record.place.index = index,
                None => {
                    self.inodes.pop();
                    record.place = DataPlace { ino: ino + 1, index: 0 };
                }
            }
            if pages >= PAGES {
                break;
            }
        }
        Ok((pages, Some(Phase::Data)))
    }
}

fn metadata(volume: &Volume, record: &mut Record) -> Result<(u64, Option<Phase>)> {
    let mut looked = Looked::default();
    if record.metadata.pages == 0 {
        looked += volume.store.scrub_superblocks();
        looked += volume.store.scrub_log()?;
    }
    let (more, next) = volume.store.scrub_rest(record.rest)?;
    looked += more;
    record.metadata += looked;
    record.rest = next.unwrap_or(record.rest);
    let phase = if next.is_some() { Phase::Metadata } else { Phase::Data };
    Ok((looked.pages, Some(phase)))
}

fn frames(volume: &Volume, wish: &Wish, inodes: &[u64]) -> Vec<u32> {
    let count = volume.store.arena_figures().0;
    if wish.top.is_some() {
        return volume.store.frames_of(&inodes.iter().copied().collect());
    }
    match wish.frames {
        Frames::All => (0..count).collect(),
        Frames::Oldest => volume.store.frames_by_age(),
        Frames::Random => shuffled(count, volume.now().nsec),
        Frames::At(start, end) => volume.store.frames_at(start as usize..end as usize).collect(),
    }
}

/// The staged pages that go with those frames.
fn staged(volume: &Volume, wish: &Wish, inodes: &[u64]) -> Vec<(u64, u64)> {
    let mut staged = volume.store.staged_keys();
    match (wish.top, wish.frames) {
        (Some(_), _) => staged.retain(|(ino, _)| inodes.binary_search(ino).is_ok()),
        (None, Frames::At(..)) => staged.clear(),
        (None, _) => {}
    }
    staged
}

/// All numbers below `count`, each once: each changes places with one before it.
fn shuffled(count: u32, seed: u32) -> Vec<u32> {
    let mut state = u64::from(seed) | 1;
    let mut all: Vec<u32> = (0..count).collect();
    for i in (1..all.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        all.swap(i, (state >> 33) as usize % (i + 1));
    }
    all
}
