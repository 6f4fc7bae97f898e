//! What a sealed transaction does from its number on: redo, the state word, and what follows from it (S-14.3).

use super::Txn;
use crate::home::Staging;
use crate::locks::{self, Rule};
use keepfs_flash::redo;
use keepfs_format::{Space, inode};
use keepfs_pool::events::Done;
use keepfs_vault::planted::{self, Point, Second, Use};

impl Txn<'_> {
    /// Takes the number, stores the state word, publishes the redo and lets the staged table follow, in the order of
    /// S-14.3 (T-4).
    pub(super) fn publish(&mut self, mut encoded: Option<redo::Encoded<'_>>) -> u64 {
        self.mend_records(encoded.as_ref());
        let mut redo = self.store.home.redo().lock();
        if planted::omits(Use::LoadUnderRedo) || locks::breaks(Rule::LookUnderRedo) {
            self.look_again();
        }
        let (slot, generation) = self.undo.place();
        let seq = match &mut encoded {
            Some(encoded) => redo.write(encoded, slot, generation),
            None => redo.last,
        };
        let appended = match (&self.store.watch.oplog, &mut self.draft) {
            (Some(oplog), Some(draft)) if !draft.is_empty() => Some(oplog.append(seq, draft)),
            _ => None,
        };
        let answers = self.answers.filter(|_| !planted::forgets(Second::MarkOmitted));
        let request = self.store.life.requests.as_ref().zip(answers);
        if let Some((requests, (running, ino))) = request {
            requests.name(running, (slot, generation), ino);
        }
        planted::step(Point::EntryStored);
        self.undo.commit(seq);
        self.store
            .frames
            .known
            .add(self.store.ground.pool.stripe_of(slot), &self.totalled);
        planted::step(Point::Committed);
        if let Some(encoded) = encoded {
            redo.publish(encoded);
        }
        planted::step(Point::CursorMoved);
        if let Some((requests, (running, _))) = request {
            requests.done(running, seq);
        }
        planted::step(Point::RequestDone);
        let stray = appended.is_some_and(|appended| appended.publish());
        self.store.watch.audits.ledger.told(&self.records);
        if !self.logged {
            return seq;
        }
        self.store.alloc.space.follow(seq, &self.records, self.pages_used);
        self.store.alloc.space.nodes_went(self.nodes_died());
        let staging = Staging {
            bases: &mut self.bases,
            coming: &mut self.coming,
            promised: self.promised,
        };
        let given_back = self
            .store
            .home
            .committed(&self.store.frames, seq, &self.records, staging);
        self.store.alloc.space.promise_back(given_back);
        planted::step(Point::StagedFollowed);
        self.promised = 0;
        drop(redo);
        if stray {
            self.tell_stray_operations(Done::Dropped);
        }
        seq
    }

    /// Looks at what it has touched, for who shows what comes of that under the lock of redo.
    #[cold]
    fn look_again(&self) {
        for t in &self.touched {
            let _seen = self.store.frames.arena.load(t.pin.frame, t.binding, 0, &mut [0; 8]);
        }
    }

    /// Everything after the state word: idempotent, and nobody waits for it.
    pub(super) fn settle(&mut self, seq: u64) {
        if self.logged {
            self.store.ground.stats.bytes_dirtied(&self.records);
            let ranges = self.touched.iter().map(|t| &t.ranges[..]).filter(|r| !r.is_empty());
            self.store.ground.stats.ranges_dirtied(ranges);
        }
        for (space, number) in self.taken.drain(..) {
            self.store.alloc.numbers(space).used(number);
        }
        for (space, number) in self.freed.drain(..) {
            if space == Space::InodeNumbers {
                self.store.home.ended(inode::block_of(number), None);
            }
            self.store.alloc.numbers(space).freed(seq, number);
        }
        for t in self.touched.extract_if(.., |t| t.dies()) {
            self.store.home.ended(t.r.id, Some(t.birth.generation));
            self.store.frames.cache.remove(t.r.id, t.pin);
        }
        self.store.ground.stats.committed();
    }
}
