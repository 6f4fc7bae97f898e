//! A flush fails: nothing of it became durable, what was written is there for whoever reads, and writing to the pool has ended. The
//! pool is opened again by another server (S-9.8), and its life goes on with what that one finds: what was answered before, and of
//! what came behind a prefix (C-1).

use super::{Broken, Done, Life, first_server, hash};
use crate::crash::judge;
use crate::crash::step::Step;
use keepfs_testkit::ops::{Session, Slots};
use keepfs_testkit::sim::{Operation, When};

impl Life<'_> {
    /// Whether the next step is one that flushes and changes no tree.
    pub(super) fn is_flushed_by(&self, behind: &[Step]) -> bool {
        match behind {
            [Step::Op(op), ..] => op.is_sync() && !self.fenced,
            [Step::Checkpoint, ..] => !self.fenced,
            _ => false,
        }
    }

    /// A step, of which a flush fails behind `after` others. Returns whether another server goes on; else there was no such flush.
    pub(super) fn without_flush(&mut self, session: &mut Session<'_>, after: u32, step: &Step) -> Result<bool, Broken> {
        // The step that says so.
        self.one(session, &Step::FlushFails { after })?;
        self.begin();
        let nth = When::Nth(u64::from(after) + 1);
        self.device
            .set_faults(self.setting.faults().fail(Operation::Flush, nth));
        let done = self.perform(session, step);
        self.device.set_faults(self.setting.faults());
        if self.volume.store().fault().is_none() {
            let done = done.map_err(|what| self.broken(what))?;
            self.holds = session.held();
            return self.end(done).map(|()| false);
        }
        if matches!(done, Ok(Done::Durable | Done::Moved)) {
            return Err(self.broken("its flush failed, and it was answered as done".into()));
        }
        self.count();
        self.volume.store().kill();
        self.below.hooks.forget();
        let server = first_server(self.setting, &self.below, &self.clock, self.mortal);
        self.volume = server.map_err(|what| self.broken(what))?;
        (self.evictions, self.hashed, self.holds) = (0, u64::MAX, Slots::default());
        let found = hash(&self.volume).map_err(|what| self.broken(what))?;
        let is_prefix = judge::prefix_of(&self.history, self.device.log_len(), found);
        is_prefix.map_err(|what| self.broken(format!("behind a failed flush: {what}")))?;
        self.end(Done::Moved).map(|()| true)
    }
}
