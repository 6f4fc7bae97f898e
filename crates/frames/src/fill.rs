//! A frame gets a metablock (S-15.4, S-15.5).

use crate::cache::Pin;
use crate::frames::Frames;
use crate::named::kind_in;
use crate::newborn::newborn;
use keepfs_codes::crc64;
use keepfs_format::{Header, MetaId, PAGE};
use keepfs_pool::Error;
use keepfs_vault::arena::FrameNo;

/// How often a frame is looked for while all are pinned for a moment.
const TAKE_TRIES: u32 = 1000;

impl Frames {
    /// A clean frame. There is one: transactions are throttled long before all frames are dirty.
    pub fn take_frame(&self) -> Result<FrameNo, Error> {
        for _ in 0..TAKE_TRIES {
            if let Some(frame) = self.evict() {
                return Ok(frame);
            }
            keepfs_vault::locks::yield_now();
        }
        Err(Error::Logic(format!(
            "no frame of the arena is free: {}",
            self.cache.census()
        )))
    }

    /// A frame that nobody uses any more, if there is one.
    pub fn evict(&self) -> Option<FrameNo> {
        let (frame, held) = self.cache.take()?;
        match held {
            Some(id) => self.look_at_evicted(frame, id),
            None => self.arena.about_to_use(frame),
        }
        Some(frame)
    }

    /// Fills a frame with the content of `id`, bound to it (S-15.4, S-15.5).
    pub fn fill(&self, frame: FrameNo, id: MetaId, bytes: &[u8; PAGE], crc: u64) {
        let (kind, slot) = (kind_in(bytes), self.cache.slot(frame));
        slot.heat.begin(kind);
        self.arena
            .fill_as(frame, bytes, crc, self.ground.pool.binding(id, kind));
        slot.seen_right(&self.clock);
    }

    /// Puts a metablock born in a transaction into a frame. `None`: no frame is clean.
    pub fn place_new(&self, id: MetaId, header: &Header) -> Result<Option<Pin<'_>>, Error> {
        let Some(frame) = self.evict() else {
            return Ok(None);
        };
        let bytes = newborn(header);
        self.fill(frame, id, &bytes, crc64::full(&*bytes));
        match self.cache.insert(id, frame) {
            Some(pin) => Ok(Some(pin)),
            None => {
                self.cache.give_back(frame);
                Err(Error::Logic(format!("{id} is born while it lives")))
            }
        }
    }
}
