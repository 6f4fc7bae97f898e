//! The life of a pool goes on with another server: the one before died, and the next resumes with its memory on the same device
//! (SPEC section 16). What was in flight on the device stays in flight: no power was cut yet.

use super::{Broken, Done, Doom, Life, below, hash};
use crate::crash::death::{self, Died};
use crate::crash::step::Step;
use keepfs_fs::{Remains, Resumed, Volume};
use keepfs_testkit::ops::{Session, Slots};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

impl Life<'_> {
    /// The server dies in the next step.
    pub(super) fn be_doomed(&mut self, after: u32, part: u32, again: u32) {
        self.begin();
        self.below.hooks.set_at_step(false);
        let number = self.history.begins.len() - 1;
        self.doom = Some(Doom { number, part, again });
        // What the resume does is told by its tag; else this is no step.
        self.history.worked.push(false);
        self.history.evicted.push(false);
        let same = self.history.hashes.last().copied();
        self.history.hashes.extend(same);
        self.below.hooks.plan(u64::from(after));
    }

    /// Ends a session: whoever is mounted next goes on with what it holds, if the server is dead.
    pub(super) fn leave(&mut self, session: Session<'_>, rest: &[Step]) {
        let begun = self.history.begins.len() - 1;
        match self.is_doomed(begun, rest) {
            true => self.holds = session.leave(),
            false => self.holds = Slots::default(),
        }
    }

    /// The server died; the next one takes over. A step that was not done is done again, as the kernel would send it again.
    pub(super) fn second_life(&mut self, steps: &[Step]) -> Result<(), Broken> {
        let Some(doom) = self.doom.take() else {
            return Ok(());
        };
        self.count();
        let died = self.below.hooks.take();
        let died = died.map_err(|e| self.broken(format!("the memory of the dead server: {e}")))?;
        let (step, at_step) = (died.device.tag() as usize, died.at_step);
        // What the dead server would have made of its step.
        let after = self.history.hashes.get(step).copied();
        let began_next = step + usize::from(!at_step);
        self.holds = self.held.get(began_next).copied().unwrap_or(self.holds);
        self.forget_what_came_behind(step, died.device.log_len(), at_step);
        let left = self.left(died, doom.part)?;
        self.device.set_tag(doom.number as u64);
        let left = match doom.again {
            0 => left,
            again => {
                self.below.hooks.plan(u64::from(again) - 1);
                let unheard_of = self.resume(left)?;
                let died = self.below.hooks.take();
                drop(unheard_of);
                let died = died.map_err(|e| self.broken(format!("the memory of the second dead server: {e}")))?;
                self.left(died, doom.part)?
            }
        };
        self.volume = self.resume(left)?;
        let memory = self.volume.remains();
        self.below
            .hooks
            .keep(memory.map_err(|e| self.broken(format!("the memory of the next server: {e}")))?);
        self.history.resumes.push(step);
        self.go_on(step, at_step, after, steps)
    }

    /// The history is that of the moment of death again.
    fn forget_what_came_behind(&mut self, step: usize, log: usize, at_step: bool) {
        let ended = step + usize::from(!at_step);
        self.history.begins.truncate(step + 1);
        self.held.truncate(step + 1);
        self.history.hashes.truncate(ended);
        self.history.worked.truncate(ended);
        self.history.evicted.truncate(ended);
        self.history.acks.retain(|(at, of)| *at <= log && *of < ended);
    }

    /// The device that a dead server left becomes that of the next one. Returns the memory that it left.
    fn left(&mut self, died: Died, part: u32) -> Result<Remains, Broken> {
        let next = self.device.recording().log.get(died.device.log_len()).cloned();
        // Where the call was held up, what came next is of a later step that ran beside it: nothing of that was begun.
        let next = next.filter(|entry| entry.tag == died.device.tag());
        let device: Arc<SimDevice> = Arc::new(died.device);
        let next = next.map(|entry| entry.event);
        death::finish(&device, next.as_ref(), u64::from(part))
            .map_err(|e| self.broken(format!("the rest of a call: {e}")))?;
        // The dead server ends its threads; nothing of it reaches this device.
        self.volume.store().kill();
        device.set_faults(self.setting.faults());
        self.below = below(&device);
        self.device = device;
        Ok(died.memory)
    }

    /// The next server; its keeper still holds what the dead one left.
    fn resume(&mut self, left: Remains) -> Result<Arc<Volume>, Broken> {
        let held = left.duplicate();
        self.below
            .hooks
            .keep(held.map_err(|e| self.broken(format!("descriptors: {e}")))?);
        let resumed = self.setting.resume(self.below.clone(), &self.clock, left);
        let (volume, resumed) = resumed.map_err(|e| self.broken(format!("the pool cannot be resumed: {e}")))?;
        match is_whole(&resumed) {
            true => Ok(volume),
            false => Err(self.broken(format!(
                "nothing was damaged, and the resume lost {} transactions and found {:?}",
                resumed.lost, resumed.findings
            ))),
        }
    }

    /// The tree that was resumed is that of a whole step; the step that the server died in is done now.
    fn go_on(&mut self, step: usize, at_step: bool, after: Option<u64>, steps: &[Step]) -> Result<(), Broken> {
        self.evictions = 0;
        self.fenced = false;
        self.hashed = u64::MAX;
        let tree = hash(&self.volume).map_err(|what| self.broken(what))?;
        let before = step.checked_sub(1).and_then(|step| self.history.hashes.get(step));
        let done = !at_step || after == Some(tree) && before != Some(&tree);
        if !done && before != Some(&tree) || !at_step && after != Some(tree) {
            return Err(self.broken("after a resume there is a tree that no step made".into()));
        }
        // The resume has made durable what it found (S-16.5).
        self.history
            .acks
            .push((self.device.log_len(), step - usize::from(!done)));
        if !at_step {
            return Ok(());
        }
        self.device.set_tag(step as u64);
        self.below.hooks.set_at_step(true);
        if done {
            self.history.worked.push(true);
            self.history.evicted.push(false);
            self.history.hashes.push(tree);
            self.below.hooks.set_at_step(false);
            return Ok(());
        }
        let volume = self.volume.clone();
        let mut session = Session::holding(&*volume, self.holds);
        let outcome = self.perform(&mut session, &steps[step - 1]);
        self.holds = session.leave();
        let outcome = outcome.map_err(|what| self.broken(format!("done again: {what}")))?;
        self.end(match &steps[step - 1] {
            Step::Remount => Done::Moved,
            _ => outcome,
        })
    }
}

/// Whether a resume lost nothing and found no damage.
fn is_whole(resumed: &Resumed) -> bool {
    resumed.lost == 0 && resumed.findings.is_empty()
}
