//! What the log's records do to the checkpoint (SPEC S-8.5, S-9.3, S-9.4), in memory only.

use crate::Page;
use crate::bitmap::{Set, test};
use crate::brought::Named;
use crate::finding::Finding;
use crate::plog::{Group, Log};
use crate::pool::{Load, Pool, header};
use crate::records::decode;
use crate::staged::{Piece, Stage};
use keepfs_codes::crc32c;
use keepfs_format::bitmap::{self, BITS, COUNTS, TOTALS};
use keepfs_format::inode;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{Record, Run};
use keepfs_format::{Header, IntoBytes, Kind, MetaId, PAGE, Space};
use std::collections::{HashMap, HashSet};

/// What the log gave.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    pub stage: Stage,
    /// Pages that the log allocated.
    pub fresh: Set,
    /// CRCs of the data pages that map-entry records brought.
    pub brought: HashMap<u64, u32>,
    /// Groups taken.
    pub groups: u64,
    /// Last transaction in them, or the superblock's.
    pub seq: u64,
    /// A record could not be applied: bitmaps may differ from the truth for that reason alone.
    pub damaged: bool,
}

/// Applies the groups in order until one cannot be taken.
pub(crate) fn replay(pool: &mut Pool<'_>, log: &Log) -> Replayed {
    let budget = 64 * pool.pages() + (1 << 24);
    let done = Replayed {
        seq: pool.sb.seq.get(),
        ..Replayed::default()
    };
    let mut replay = Replay {
        pool,
        done,
        group: 0,
        budget,
    };
    for group in &log.groups {
        if !replay.group(group, log.durable) {
            break;
        }
    }
    replay.done
}

struct Replay<'p, 'i> {
    pool: &'p mut Pool<'i>,
    done: Replayed,
    group: u64,
    /// How many bits and counts may still be changed: bounds the work that a hostile log can ask for.
    budget: u64,
}

impl Replay<'_, '_> {
    fn group(&mut self, group: &Group, durable: u64) -> bool {
        self.group = group.number;
        let records = match decode(&group.payload) {
            Ok(records) => records,
            Err(e) => {
                let finding = Finding::LogRecord {
                    group: group.number,
                    at: e.at,
                    what: e.what,
                };
                self.finding(finding);
                return false;
            }
        };
        if group.number > durable && !group.data_flushed && !self.data_arrived(&records) {
            return false;
        }
        self.check_order(&records);
        for record in records {
            self.apply(record);
        }
        self.done.groups += 1;
        self.done.seq = group.seq;
        true
    }

    fn finding(&mut self, finding: Finding) {
        self.done.damaged = true;
        self.pool.sink.push(finding);
    }

    /// S-9.3: every page that the group brings and still names at its end has the CRC told, to the bit (S-9.26).
    fn data_arrived(&mut self, records: &[Record]) -> bool {
        let mut named = Named::default();
        records.iter().for_each(|record| named.see(record));
        let mut bytes = [0; PAGE];
        for ((ino, index), (page, crc)) in named.brought() {
            let is_in = page < self.pool.pages();
            // What cannot be read may have arrived: its file is told where the block map names it.
            if is_in && self.pool.image.read(page, &mut bytes).is_err() {
                continue;
            }
            if !is_in || crc32c::of(&bytes) != crc {
                let group = self.group;
                self.pool.sink.push(Finding::LogData {
                    group,
                    ino,
                    index,
                    page,
                });
                return false;
            }
        }
        true
    }

    /// S-8.7: updates last, one a metablock, ranges ascending and apart.
    fn check_order(&mut self, records: &[Record]) {
        let updates = records
            .iter()
            .position(|r| matches!(r, Record::Update { .. }))
            .unwrap_or(records.len());
        let mut seen = HashSet::new();
        let (mut last, mut once, mut apart) = (true, true, true);
        for record in &records[updates..] {
            let Record::Update { id, generation, ranges } = record else {
                last = false;
                continue;
            };
            once &= seen.insert((*id, *generation));
            let mut end = 0;
            for (offset, bytes) in ranges {
                apart &= usize::from(*offset) >= end && !bytes.is_empty();
                end = usize::from(*offset) + bytes.len();
            }
        }
        let rules = [
            (last, "a record stands after updates"),
            (once, "a metablock is updated twice"),
            (apart, "ranges of an update overlap"),
        ];
        for (_, what) in rules.iter().filter(|(holds, _)| !holds) {
            let group = self.group;
            self.pool.sink.push(Finding::LogOrder { group, what });
        }
    }

    fn apply(&mut self, record: Record) {
        match record {
            Record::Update { id, generation, ranges } => self.update(id, generation, &ranges),
            Record::Birth {
                id,
                generation,
                kind,
                level,
                owner,
            } => self.birth(id, generation, kind, level, owner),
            Record::Death { id, generation } => self.death(id, generation),
            Record::Alloc { space, run } => self.bits(space, run, true),
            Record::Free { space, run } => self.bits(space, run, false),
            Record::Ref { run, delta } => self.refs(run, delta),
            Record::Create { ino, born } => self.done.stage.born(ino, born),
            // A link voids nothing; an unlink takes effect when the number is freed.
            Record::Link { .. } | Record::Unlink { .. } | Record::Parity { .. } => {}
            Record::Truncate { ino, size } => self.done.stage.truncate(ino, size),
            Record::MapEntry {
                ino,
                index,
                page,
                count,
                crcs,
                ..
            } => {
                self.done.stage.mapped(ino, index, count);
                self.done
                    .brought
                    .extend(crcs.into_iter().zip(page..).map(|(crc, page)| (page, crc)));
            }
            Record::Tail {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                bytes,
            } => {
                self.done
                    .stage
                    .put((ino, index), version, (base, base_crc), Piece::Bytes(offset, bytes));
            }
            Record::Lost { ino, index } => self.done.stage.lost((ino, index)),
            Record::Zero {
                ino,
                index,
                version,
                base,
                base_crc,
                offset,
                len,
            } => {
                self.done
                    .stage
                    .put((ino, index), version, (base, base_crc), Piece::Zeros(offset, len));
            }
        }
    }

    /// Only nodes and inodes are logged as ranges (S-4.4, S-8.6).
    fn update(&mut self, id: MetaId, generation: u32, ranges: &[(u16, Vec<u8>)]) {
        let zero = match id.space() {
            Some(Space::Nodes) => None,
            Some(Space::Inodes) => Some(Kind::Inodes),
            _ => {
                return self.finding(Finding::LogUpdate {
                    group: self.group,
                    id: id.into(),
                    generation,
                });
            }
        };
        let live = match (self.pool.load(id), zero) {
            (Load::Live(bytes), _) => header(&bytes).generation.get(),
            (Load::Gone(last), Some(_)) => last.saturating_add(1),
            (Load::Gone(last), None) => last,
            (Load::Bad, _) => return self.done.damaged = true,
        };
        if generation > live {
            return self.finding(Finding::LogUpdate {
                group: self.group,
                id: id.into(),
                generation,
            });
        }
        if generation < live || !self.room() {
            return;
        }
        if let Some(bytes) = self.pool.edit(id, zero) {
            for (offset, new) in ranges {
                let at = usize::from(*offset);
                bytes[at..at + new.len()].copy_from_slice(new);
            }
        }
    }

    /// S-3.4: a node's life follows its last one.
    fn birth(&mut self, id: MetaId, generation: u32, kind: u8, level: u8, owner: u64) {
        let node = Kind::of(kind).filter(|k| (Kind::DirLeaf..=Kind::Xattr).contains(k));
        let last = match self.pool.load(id) {
            Load::Gone(last) if id.space() == Some(Space::Nodes) => last,
            Load::Bad => return self.done.damaged = true,
            _ => {
                return self.finding(Finding::LogBirth {
                    group: self.group,
                    id: id.into(),
                    generation,
                });
            }
        };
        let Some(kind) = node.filter(|_| Some(generation) == last.checked_add(1)) else {
            return self.finding(Finding::LogBirth {
                group: self.group,
                id: id.into(),
                generation,
            });
        };
        if !self.room() {
            return;
        }
        let mut bytes = [0; PAGE];
        let head = Header::new(self.pool.tag(), id, kind, level, owner, generation);
        bytes[..HEADER].copy_from_slice(head.as_bytes());
        self.pool.replace(id, bytes);
        self.bits(
            Space::NodeNumbers,
            Run {
                start: id.index(),
                count: 1,
            },
            true,
        );
    }

    fn death(&mut self, id: MetaId, generation: u32) {
        match self.pool.load(id) {
            Load::Live(bytes) if header(&bytes).generation.get() == generation && id.space() == Some(Space::Nodes) => {
                self.pool.remove(id, generation);
                self.bits(
                    Space::NodeNumbers,
                    Run {
                        start: id.index(),
                        count: 1,
                    },
                    false,
                );
            }
            // What made its inodes dead in this very group is not told (S-8.7), nor is a birth (S-8.9).
            Load::Live(bytes) if header(&bytes).generation.get() == generation && self.has_no_inodes(id) => {
                self.pool.remove(id, generation);
            }
            Load::Gone(last) if last.checked_add(1) == Some(generation) && self.has_no_inodes(id) => {
                self.pool.remove(id, generation);
            }
            Load::Bad => self.done.damaged = true,
            _ => self.finding(Finding::LogDeath {
                group: self.group,
                id: id.into(),
                generation,
            }),
        }
    }

    /// S-3.3: whether this is an INODES metablock of which no number is in use.
    fn has_no_inodes(&mut self, id: MetaId) -> bool {
        let first = id.index().saturating_mul(inode::PER_BLOCK);
        let free = |number: u64| match self.pool.load(MetaId::new(Space::InodeNumbers, number / BITS)) {
            Load::Live(bytes) => !test(&bytes[HEADER..], number % BITS),
            Load::Gone(_) => true,
            Load::Bad => false,
        };
        id.space() == Some(Space::Inodes) && (first..first.saturating_add(inode::PER_BLOCK)).all(free)
    }

    fn bits(&mut self, space: Space, run: Run, set: bool) {
        let (first, count) = (run.start, u64::from(run.count));
        let pages = self.pool.pages();
        let within = match space {
            Space::Pages => first + count <= pages,
            // Every inode has a place in a metablock, and that has a page.
            _ => count <= pages * 15,
        };
        if !within || count > self.budget {
            return self.finding(Finding::LogRange {
                group: self.group,
                what: "run of numbers",
            });
        }
        self.budget -= count;
        if space == Space::InodeNumbers && !set {
            self.done.stage.freed(first, count);
        }
        if space == Space::Pages {
            self.fresh_pages(first, count, set);
        }
        let (mut at, end) = (first, first + count);
        let mut clash = None;
        while at < end && self.room() {
            let stop = end.min((at / BITS + 1) * BITS);
            match self.pool.edit(MetaId::new(space, at / BITS), Some(Kind::Bitmap)) {
                Some(bytes) => clash = clash.or(change(bytes, at, stop, set)),
                None => self.done.damaged = true,
            }
            at = stop;
        }
        if let Some(number) = clash {
            let (group, space) = (self.group, name(space));
            self.finding(match set {
                true => Finding::LogAlloc { group, space, number },
                false => Finding::LogFree { group, space, number },
            });
        }
        let counter = match space {
            Space::Pages => bitmap::TOTAL_PAGES,
            Space::NodeNumbers => bitmap::TOTAL_NODES,
            Space::InodeNumbers => bitmap::TOTAL_INODES,
            _ => return,
        };
        self.total(counter, if set { count } else { count.wrapping_neg() });
    }

    fn fresh_pages(&mut self, first: u64, count: u64, set: bool) {
        if set {
            return self.done.fresh.add_run(first, count);
        }
        for page in first..first + count {
            self.done.fresh.remove(page);
            self.done.brought.remove(&page);
        }
    }

    fn refs(&mut self, run: Run, delta: i32) {
        let count = u64::from(run.count);
        if run.start + count > self.pool.pages() || count > self.budget {
            return self.finding(Finding::LogRange {
                group: self.group,
                what: "run of shared pages",
            });
        }
        self.budget -= count;
        let mut wrong = None;
        for page in run.start..run.start + count {
            let (id, at) = bitmap::share(page);
            let Some(bytes) = self.pool.edit(id, Some(Kind::Shares)) else {
                self.done.damaged = true;
                return;
            };
            let old = u16::from_le_bytes([bytes[at], bytes[at + 1]]);
            match u16::try_from(i64::from(old) + i64::from(delta)) {
                Ok(new) => bytes[at..at + 2].copy_from_slice(&new.to_le_bytes()),
                Err(_) => wrong = wrong.or(Some(page)),
            }
        }
        if let Some(page) = wrong {
            self.finding(Finding::LogShare {
                group: self.group,
                page,
                delta,
            });
        }
        self.total(
            bitmap::TOTAL_SHARES,
            (i64::from(delta).wrapping_mul(count as i64)) as u64,
        );
    }

    /// S-8.6: TOTALS follow the records.
    fn total(&mut self, at: usize, delta: u64) {
        if let Some(bytes) = self.pool.edit(TOTALS, Some(Kind::Totals)) {
            let old = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
            bytes[at..at + 8].copy_from_slice(&old.wrapping_add(delta).to_le_bytes());
        }
    }

    /// Whether one more metablock may be changed: no more than pages that could hold them.
    fn room(&mut self) -> bool {
        let room = (self.pool.changes() as u64) < self.pool.pages();
        if !room && !self.done.damaged {
            self.finding(Finding::LogRange {
                group: self.group,
                what: "more metablocks than pages",
            });
        }
        room
    }
}

/// Changes bits `first..end`, all within one metablock; the first number that was so already.
fn change(bytes: &mut Page, first: u64, end: u64, set: bool) -> Option<u64> {
    let mut clash = None;
    for number in first..end {
        let within = number % BITS;
        if test(&bytes[HEADER..], within) == set {
            clash = clash.or(Some(number));
        }
        let byte = &mut bytes[HEADER + (within / 8) as usize];
        let mask = 1u8 << (within % 8);
        *byte = if set { *byte | mask } else { *byte & !mask };
    }
    clash
}

/// How findings call a bitmap.
pub(crate) fn name(space: Space) -> &'static str {
    match space {
        Space::Pages => "PAGES",
        Space::NodeNumbers => "NODE_NUMBERS",
        Space::InodeNumbers => "INODE_NUMBERS",
        Space::Orphans => "ORPHANS",
        _ => "no bitmap",
    }
}

const _: () = assert!(COUNTS * 2 + HEADER as u64 == PAGE as u64);
