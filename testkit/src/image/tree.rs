//! The radix tree of an image: nodes of 16 shared slots.

use std::ops::Range;
use std::sync::Arc;

use super::Page;

/// Slots of a node: small, because changing a shared node copies them all.
const FANOUT: usize = 16;
const BITS: u32 = FANOUT.trailing_zeros();

/// A place in the tree; at level 0 a page, above it a node of places one level lower.
#[derive(Clone, Debug)]
pub(super) enum Slot {
    Empty,
    Node(Arc<[Slot; FANOUT]>),
    Page(Page),
}

/// Levels of nodes needed for `pages` pages.
pub(super) fn levels_for(pages: u64) -> u32 {
    let bits = u64::BITS - pages.saturating_sub(1).leading_zeros();
    bits.div_ceil(BITS)
}

/// Which slot of a node at `level` (1 is the lowest) leads to `page`.
fn branch(level: u32, page: u64) -> usize {
    (page >> ((level - 1) * BITS)) as usize % FANOUT
}

/// Pages below a slot at `level`.
fn span(level: u32) -> u64 {
    1u64.checked_shl(level * BITS).unwrap_or(u64::MAX)
}

impl Slot {
    pub(super) fn get(&self, levels: u32, page: u64) -> Option<&Page> {
        let mut slot = self;
        let mut level = levels;
        loop {
            match slot {
                Slot::Empty => return None,
                Slot::Page(content) => return Some(content),
                Slot::Node(node) => slot = &node[branch(level, page)],
            }
            level -= 1;
        }
    }

    /// Stores `content`; the page that was there before is returned.
    pub(super) fn set(&mut self, level: u32, page: u64, content: Page) -> Option<Page> {
        if level == 0 {
            let old = std::mem::replace(self, Slot::Page(content));
            return match old {
                Slot::Page(old) => Some(old),
                Slot::Empty | Slot::Node(_) => None,
            };
        }
        if let Slot::Node(node) = self {
            return Arc::make_mut(node)[branch(level, page)].set(level - 1, page, content);
        }
        let mut node = std::array::from_fn(|_| Slot::Empty);
        node[branch(level, page)].set(level - 1, page, content);
        *self = Slot::Node(Arc::new(node));
        None
    }

    /// Empties the pages of `range`; `first` is the first page below this slot. Each page that was
    /// there is shown to `gone`.
    pub(super) fn clear(&mut self, level: u32, first: u64, range: &Range<u64>, gone: &mut impl FnMut(u64, &Page)) {
        if range.end <= first || range.start >= first.saturating_add(span(level)) {
            return;
        }
        match self {
            Slot::Empty => {}
            Slot::Page(content) => {
                gone(first, content);
                *self = Slot::Empty;
            }
            Slot::Node(node) => {
                let step = span(level - 1);
                for (i, child) in Arc::make_mut(node).iter_mut().enumerate() {
                    child.clear(level - 1, first + i as u64 * step, range, gone);
                }
            }
        }
    }

    pub(super) fn for_each(&self, level: u32, first: u64, visit: &mut impl FnMut(u64, &Page)) {
        match self {
            Slot::Empty => {}
            Slot::Page(content) => visit(first, content),
            Slot::Node(node) => {
                let step = span(level - 1);
                for (i, child) in node.iter().enumerate() {
                    child.for_each(level - 1, first + i as u64 * step, visit);
                }
            }
        }
    }
}
