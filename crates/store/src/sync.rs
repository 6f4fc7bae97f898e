//! Making transactions durable: groups cut from redo, one flush shared by all who wait.

use crate::error::Error;
use crate::{Flash, Store};
use core::sync::atomic::Ordering;
use keepfs_flash::redo::{Redo, Span};
use keepfs_flash::sync::carry_pages;
use keepfs_vault::planted::{self, Bug};

impl Flash {
    /// See [`Store::sync`].
    pub(crate) fn sync(&self, store: &Store) -> Result<(), Error> {
        let target = self.log.redo.lock().last;
        loop {
            store.ground.alive()?;
            let Some(lead) = self.log.sync.wait_or_lead(target) else {
                return store.ground.alive();
            };
            match self.cut_and_flush(store) {
                Ok(Cut::Durable) => {
                    drop(lead);
                    self.note_log_fill(&store.frames);
                }
                Ok(Cut::Full) => {
                    drop(lead);
                    self.checkpoint(store)?;
                }
                Err(e) => return Err(store.ground.fail(e)),
            }
        }
    }

    /// One group of all that is committed, and a flush. The caller leads.
    pub(crate) fn cut_and_flush(&self, store: &Store) -> Result<Cut, Error> {
        // Who led before may have failed with what it had cut: a group behind that would leave it out (S-15.27).
        store.ground.alive()?;
        let pending = self.cut(store, &mut self.log.redo.lock());
        if !pending.is_empty() {
            let group = self.unless_redo_is_damaged(&store.frames, self.prepare(&store.frames, &pending))?;
            let group = group.filter(|group| self.log_has_room(&store.frames, group.pages()));
            if !self.write_whole_group(&store.frames, group)? {
                self.log.redo.lock().give_back(pending);
                return Ok(Cut::Full);
            }
        }
        self.flush_log(store).map(|()| Cut::Durable)
    }

    /// Takes all redo for a group. Under the lock of redo, so that each transaction is before the cut with its number, its
    /// allocations and its frees, or behind it with all of them (S-11.2).
    pub(crate) fn cut(&self, store: &Store, redo: &mut Redo) -> Span {
        if !planted::is(Bug::YoungForever) {
            store.alloc.space.cut();
        }
        self.log.end.lock().carry = carry_pages(self.staged.weight.pages());
        redo.take()
    }

    /// Flushes; everything up to the last transaction written is durable then. The caller leads.
    pub(crate) fn flush_log(&self, store: &Store) -> Result<(), Error> {
        let (group, seq) = {
            let state = self.log.end.lock();
            (state.written, state.written_seq)
        };
        self.flush_device(&store.frames)?;
        store.ground.stats.flushes.fetch_add(1, Ordering::Relaxed);
        let mut state = self.log.end.lock();
        state.durable = state.durable.max(group);
        drop(state);
        self.release_up_to(store, seq);
        self.log.sync.reached(seq);
        self.checkpoints.wanted.flushed();
        Ok(())
    }

    /// Frees pages and numbers whose free is durable (S-11.1).
    pub(crate) fn release_up_to(&self, store: &Store, seq: u64) {
        let released = store.alloc.space.release(seq);
        self.note_released(store, &released);
        store.alloc.nodes.release(seq);
        store.alloc.inos.release(seq);
        self.log.redo.lock().release(seq);
    }
}

/// How cutting a group ended.
pub(crate) enum Cut {
    /// It is durable.
    Durable,
    /// The log has no room, or redo is damaged: a checkpoint must make everything durable.
    Full,
}

#[cfg(test)]
mod tests;
