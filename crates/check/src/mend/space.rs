//! What is counted: numbers in use, the hidden list, references of pages, and totals.

use super::{Mender, Refusal};
use crate::Page;
use crate::bitmap::{Bits, Set};
use crate::pool::Load;
use keepfs_format::bitmap::{COUNTS, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, totals};
use keepfs_format::inode::{BODY_DIRECT, BODY_TREE, FILE};
use keepfs_format::metablock::HEADER;
use keepfs_format::{Header, IntoBytes, Kind, MetaId, PAGE, Space};
use std::collections::{BTreeMap, BTreeSet};

/// Metablocks that are to be written, by id.
pub(super) type Fresh = BTreeMap<u64, Box<Page>>;

impl Mender<'_> {
    /// Nodes that nothing leads to die.
    pub fn unreached(&mut self) {
        let mut number = 0u64;
        for index in self.pool().live(Space::Nodes) {
            if !self.walk.nodes.has(index) {
                let id = MetaId::new(Space::Nodes, index);
                let generation = self.pool().last_generation(id);
                self.pool().remove(id, generation);
                number += 1;
            }
        }
        if number > 0 {
            self.act(format!("{number} nodes that nothing leads to are freed"));
        }
    }

    /// Bitmaps of numbers, the hidden list and SHARES as they must be.
    pub fn numbers(&mut self, fresh: &mut Fresh) -> Result<(), Refusal> {
        let (mut nodes, mut inodes) = (Set::default(), Set::default());
        for index in self.pool().live(Space::Nodes) {
            nodes.add(index);
        }
        for ino in self.walk.inodes.keys() {
            inodes.add(*ino);
        }
        let orphans = self.hidden();
        for (space, set) in [
            (Space::NodeNumbers, nodes),
            (Space::InodeNumbers, inodes),
            (Space::Orphans, orphans),
        ] {
            let mut blocks: BTreeSet<u64> = self.known(space);
            blocks.extend(set.blocks.keys());
            for index in blocks {
                self.bitmap(MetaId::new(space, index), set.bits(index), fresh);
            }
        }
        self.shares(fresh)
    }

    /// Every index of a space that is or was alive.
    fn known(&mut self, space: Space) -> BTreeSet<u64> {
        let rows: Vec<u64> = self.pool().rows[space as usize].iter().map(|row| row.index).collect();
        let mut known: BTreeSet<u64> = rows.into_iter().collect();
        known.extend(self.pool().live(space));
        known
    }

    /// S-5.6: inodes without name, files with a pending hole, and those that were on the list and may be.
    fn hidden(&mut self) -> Set {
        let mut set = Set::default();
        for (ino, facts) in &self.walk.inodes {
            let is_freeing = facts.kind == FILE && [BODY_DIRECT, BODY_TREE].contains(&facts.body);
            if facts.nlink == 0 || facts.hole != (0, 0) || self.walk.orphans.has(*ino) && is_freeing {
                set.add(*ino);
            }
        }
        set
    }

    /// Puts a bitmap among the fresh ones unless it stands so already.
    pub fn bitmap(&mut self, id: MetaId, bits: &Bits, fresh: &mut Fresh) {
        self.counted(id, Kind::Bitmap, &bits[..], fresh);
    }

    fn counted(&mut self, id: MetaId, kind: Kind, content: &[u8], fresh: &mut Fresh) {
        let bytes = self.made(id, kind, content);
        match self.pool().load(id) {
            Load::Live(old) if *old == *bytes => {}
            Load::Gone(0) if content.iter().all(|byte| *byte == 0) => {}
            _ => drop(fresh.insert(id.0, bytes)),
        }
    }

    /// The metablock with this content behind its header.
    pub fn made(&mut self, id: MetaId, kind: Kind, content: &[u8]) -> Box<Page> {
        let generation = match self.pool().load(id) {
            Load::Live(old) => crate::pool::header(&old).generation.get(),
            Load::Gone(last) => last.saturating_add(1),
            Load::Bad => 1,
        };
        let mut bytes = Box::new([0; PAGE]);
        let head = Header::new(self.pool().tag(), id, kind, 0, 0, generation);
        bytes[..HEADER].copy_from_slice(head.as_bytes());
        bytes[HEADER..HEADER + content.len()].copy_from_slice(content);
        bytes
    }

    fn shares(&mut self, fresh: &mut Fresh) -> Result<(), Refusal> {
        let mut blocks = self.known(Space::Shares);
        blocks.extend(self.walk.shared.keys().map(|page| page / COUNTS));
        for index in blocks {
            let mut content = [0; PAGE - HEADER];
            for (page, count) in self.walk.shared.range(index * COUNTS..(index + 1) * COUNTS) {
                let count = u16::try_from(*count)
                    .map_err(|_| Refusal::Other("a page has more references than can be counted"))?;
                let at = 2 * (page % COUNTS) as usize;
                content[at..at + 2].copy_from_slice(&count.to_le_bytes());
            }
            self.counted(MetaId::new(Space::Shares, index), Kind::Shares, &content, fresh);
        }
        Ok(())
    }

    /// TOTALS, all in the first stripe of the first metablock.
    pub fn totals(&mut self, pages: u64, fresh: &mut Fresh) {
        let counts = [
            (TOTAL_PAGES, pages),
            (TOTAL_INODES, self.walk.inodes.len() as u64),
            (TOTAL_NODES, self.pool().live(Space::Nodes).len() as u64),
            (TOTAL_SHARES, self.walk.shared.values().sum()),
        ];
        for index in self.totals_blocks() {
            let mut bytes = self.made(totals(index), Kind::Totals, &[]);
            for (at, count) in counts.iter().filter(|_| index == 0) {
                bytes[*at..*at + 8].copy_from_slice(&count.to_le_bytes());
            }
            fresh.insert(totals(index).0, bytes);
        }
    }

    /// The TOTALS metablocks that will be there.
    pub fn totals_blocks(&mut self) -> BTreeSet<u64> {
        let mut blocks = self.known(Space::Totals);
        blocks.insert(0);
        blocks
    }
}
