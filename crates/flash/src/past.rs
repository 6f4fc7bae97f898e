//! A metablock as the device tells it: its last durable page with the log since (the first half of the witness, L-2).

use crate::log::Head;
use keepfs_format::bitmap::{self, BITS, COUNTS};
use keepfs_format::plog::{Record, Run};
use keepfs_format::superblock::Superblock;
use keepfs_format::{FromBytes, Header, Kind, MetaId, Space};
use keepfs_frames::newborn::{dead_since, newborn, zero_kind};
use keepfs_vault::arena;

/// Where the log behind the checkpoint in force begins.
#[derive(Clone, Copy, Debug)]
pub struct LogStart {
    /// Its first page.
    pub head: Head,
    /// Last transaction before it.
    pub seq: u64,
    /// Which life of the log.
    pub incarnation: u64,
    /// Generation of the superblock.
    pub base: u64,
}

impl LogStart {
    /// As a superblock tells it.
    pub fn of(sb: &Superblock) -> LogStart {
        LogStart {
            head: Head {
                sequence: sb.log_seq.get(),
                group: sb.group.get(),
                chain: sb.chain.get(),
            },
            seq: sb.seq.get(),
            incarnation: sb.incarnation.get(),
            base: sb.generation.get(),
        }
    }
}

/// The content of a metablock after some transaction.
pub struct Past {
    /// `None`: it does not exist then.
    pub content: Option<arena::Copy>,
    /// That transaction.
    pub seq: u64,
}

impl Past {
    /// Applies a record that concerns metablock `id` (S-8.5). Records are of logs and redo that were checked.
    pub fn apply(&mut self, tag: u32, id: MetaId, record: &Record) {
        match record {
            Record::Update {
                id: of,
                generation,
                ranges,
            } if *of == id => self.update(*generation, ranges),
            Record::Birth {
                id: of,
                generation,
                kind,
                level,
                owner,
            } => {
                if *of == id
                    && let Some(kind) = Kind::of(*kind)
                {
                    self.content = Some(newborn(&Header::new(tag, id, kind, *level, *owner, *generation)));
                }
                self.bits(id, Space::NodeNumbers, one(of.index()), true);
            }
            Record::Death { id: of, generation } => {
                if *of == id {
                    self.death(tag, id, *generation);
                }
                if of.space() == Some(Space::Nodes) {
                    self.bits(id, Space::NodeNumbers, one(of.index()), false);
                }
            }
            Record::Alloc { space, run } => self.bits(id, *space, *run, true),
            Record::Free { space, run } => self.bits(id, *space, *run, false),
            Record::Ref { run, delta } => self.shares(id, *run, *delta),
            _ => {}
        }
    }

    fn generation(&self) -> Option<u32> {
        let (header, _) = Header::read_from_prefix(&self.content.as_ref()?[..]).ok()?;
        Some(header.generation.get())
    }

    fn update(&mut self, generation: u32, ranges: &[(u16, Vec<u8>)]) {
        if self.generation() != Some(generation) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        for (offset, bytes) in ranges {
            if let Some(to) = content.get_mut(usize::from(*offset)..usize::from(*offset) + bytes.len()) {
                to.copy_from_slice(bytes);
            }
        }
    }

    fn death(&mut self, tag: u32, id: MetaId, generation: u32) {
        if self.generation() != Some(generation) {
            return;
        }
        self.content = zero_kind(id)
            .filter(|kind| *kind == Kind::Inodes)
            .map(|kind| reborn(tag, id, kind, generation));
    }

    fn bits(&mut self, id: MetaId, space: Space, run: Run, on: bool) {
        if id.space() != Some(space) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        let own = id.index() * BITS..(id.index() + 1) * BITS;
        let (from, to) = (
            run.start.max(own.start),
            (run.start + u64::from(run.count)).min(own.end),
        );
        for number in from..to {
            let (_, offset, mask) = bitmap::bit(space, number);
            match on {
                true => content[offset] |= mask,
                false => content[offset] &= !mask,
            }
        }
    }

    fn shares(&mut self, id: MetaId, run: Run, delta: i32) {
        if id.space() != Some(Space::Shares) {
            return;
        }
        let Some(content) = &mut self.content else { return };
        let own = id.index() * COUNTS..(id.index() + 1) * COUNTS;
        let (from, to) = (
            run.start.max(own.start),
            (run.start + u64::from(run.count)).min(own.end),
        );
        for page in from..to {
            let (_, at) = bitmap::share(page);
            let count = u16::from_le_bytes([content[at], content[at + 1]]);
            content[at..at + 2].copy_from_slice(&count.wrapping_add_signed(delta as i16).to_le_bytes());
        }
    }
}

fn one(start: u64) -> Run {
    Run { start, count: 1 }
}

/// What a metablock of inodes holds behind its death in `generation` (S-3.3).
fn reborn(tag: u32, id: MetaId, kind: Kind, generation: u32) -> arena::Copy {
    let mut bytes = newborn(&Header::new(tag, id, kind, 0, 0, generation.wrapping_add(1).max(1)));
    dead_since(&mut bytes, generation);
    bytes
}
