//! The log of a simulated device: totally ordered, tagged with the operation that caused each entry.

use std::sync::Arc;

use super::{Image, Page, PersistOrder};
use crate::crash::CrashPlan;
use keepfs_media::{Class, PageNo};

/// What was done to a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A write of pages that follow each other.
    Write {
        /// The first page.
        at: PageNo,
        /// The bytes, a page each.
        pages: Arc<[Page]>,
        /// What they are.
        class: Class,
    },
    /// A flush that returned Ok and did what it said.
    Flush,
    /// A discard.
    Discard {
        /// The first page.
        at: PageNo,
        /// How many.
        pages: u64,
    },
}

impl Event {
    /// A write of `data`, whole pages.
    pub(super) fn write(at: PageNo, data: &[u8], class: Class) -> Self {
        let pages = data.as_chunks().0.iter().map(Page::new).collect();
        Event::Write { at, pages, class }
    }

    /// Does it to `image`.
    pub fn apply(&self, image: &mut Image) {
        match self {
            Event::Write { at, pages, .. } => {
                for (page, content) in (at.0..).zip(pages.iter()) {
                    image.set(PageNo(page), content.clone());
                }
            }
            Event::Flush => {}
            Event::Discard { at, pages } => image.clear(*at, *pages),
        }
    }
}

/// An event and the tag that was set when it happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The number of the operation that caused it.
    pub tag: u64,
    /// What happened.
    pub event: Event,
}

/// A log and the (durable) content before it.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The content before the first entry.
    pub base: Image,
    /// The entries, oldest first.
    pub log: Vec<Entry>,
}

impl Recording {
    /// The content after all entries.
    pub fn replay(&self) -> Image {
        self.replay_first(self.log.len())
    }

    /// The content after the first `count` entries, all of them kept.
    pub fn replay_first(&self, count: usize) -> Image {
        let mut image = self.base.clone();
        for entry in self.log.iter().take(count) {
            entry.event.apply(&mut image);
        }
        image
    }

    /// The durable content at the end, and of what is in flight the first `kept` units in `order`.
    pub(super) fn power_cut(&self, order: PersistOrder, kept: usize) -> Image {
        let plan = CrashPlan::new(&self.log, self.log.len(), 0);
        plan.cut(order, kept).content(&plan.durable(&self.base))
    }
}
