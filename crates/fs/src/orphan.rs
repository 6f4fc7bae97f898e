//! The hidden list: inodes without names, freed when nobody holds them; cuts and holes that are not finished (S-5.6,
//! S-5.8).
//!
//! What this keeps in memory follows from the ORPHANS bitmap and the lookup counts. Whether an inode without a name may get
//! one stands with its lookup count.

use crate::Volume;
use crate::blockmap::{self, Budget};
use crate::data::free_pages;
use crate::dir;
use crate::errors::{Result, Step};
use crate::inode::{Held, hide, is_listed, live};
use crate::xattr;
use keepfs_format::inode::{BODY_TREE, DEAD, XATTR_CHAIN};
use keepfs_format::oplog::Action;
use keepfs_store::planted::{self, Logic};
use keepfs_store::{Purpose, Txn};
use keepfs_vfs::{Errno, FileKind};
use parking_lot::{Condvar, Mutex, RwLockWriteGuard};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Metadata that died counts from one of so many parts of the pool on.
const COUNTS: u64 = 128;
/// Checkpoints that look for what died, at most.
const ROUNDS: usize = 4;
/// For so long behind its last name, who needs space waits for an inode that somebody holds, or locks.
const WAITED_FOR: Duration = Duration::from_secs(1);
/// Directory nodes freed in one transaction.
const NODES_A_STEP: usize = 48;
/// An inode that could not be freed is not tried again before, and each time that it fails not before twice as long.
const TRIED_AGAIN: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60 * 60);
/// How often pages are counted again because another inode began to be freed meanwhile.
const AGAIN: usize = 8;

/// Inodes that wait for something.
#[derive(Default)]
pub(crate) struct Orphans {
    lists: Mutex<Lists>,
    /// How many are trimming: who writes asks each time.
    trims: AtomicUsize,
    /// Held while an inode is freed: who needs the space waits for it. Nobody waits for an inode lock under it for long.
    freeing: Mutex<()>,
    /// Somebody gave back the last lookup of an inode without names.
    given_back: Condvar,
}

#[derive(Default)]
struct Lists {
    /// nlink 0, still held or not yet freed; when it lost its last name, if this life of the server saw that.
    unlinked: BTreeMap<u64, Option<Instant>>,
    /// nlink > 0, entries behind the size or in a pending hole left.
    trimming: BTreeSet<u64>,
    /// Those of them that another life of the server left, and that nobody has tried to finish.
    left: BTreeSet<u64>,
    /// The inode that is being freed, and its pages before the transaction that is under way.
    freeing: Option<(u64, u64)>,
    /// Those of the unlinked that could not be freed: for how long they wait, and until when.
    failed: BTreeMap<u64, (Duration, Instant)>,
}

impl Orphans {
    /// An inode lost its last name.
    pub fn unlinked(&self, ino: u64) {
        self.lists.lock().unlinked.insert(ino, Some(Instant::now()));
    }

    /// An inode was made without a name, or found without one.
    pub fn nameless(&self, ino: u64) {
        self.lists.lock().unlinked.insert(ino, None);
    }

    /// A nameless inode got a name.
    pub fn left(&self, ino: u64) {
        let mut lists = self.lists.lock();
        lists.unlinked.remove(&ino);
        lists.failed.remove(&ino);
        self.trimmed(&mut lists, ino);
    }

    /// Whether `ino` is without names.
    fn is_unlinked(&self, ino: u64) -> bool {
        self.lists.lock().unlinked.contains_key(&ino)
    }

    /// What the next transaction frees is of this inode, which has so many pages.
    fn frees(&self, ino: u64, pages: u64) {
        self.lists.lock().freeing = Some((ino, pages));
    }

    /// The inode is freed no more, because it is gone or because it failed.
    fn freed(&self, ino: u64, gone: bool) {
        let mut lists = self.lists.lock();
        lists.freeing = None;
        if gone {
            lists.unlinked.remove(&ino);
            lists.failed.remove(&ino);
            self.trimmed(&mut lists, ino);
        }
    }

    /// The inode that is being freed, and its pages, those of an open transaction among them.
    fn freeing(&self) -> Option<(u64, u64)> {
        self.lists.lock().freeing
    }

    fn all_unlinked(&self) -> Vec<u64> {
        self.lists.lock().unlinked.keys().copied().collect()
    }

    /// The inode could not be freed.
    fn failed(&self, ino: u64) {
        let mut lists = self.lists.lock();
        let (shortest, longest) = (*TRIED_AGAIN.start(), *TRIED_AGAIN.end());
        let before = lists.failed.get(&ino);
        let wait = before.map_or(shortest, |(wait, _)| longest.min(*wait * 2));
        lists.failed.insert(ino, (wait, Instant::now() + wait));
    }

    /// Whether it is too soon to try to free the inode again.
    fn is_to_wait(&self, ino: u64) -> bool {
        let lists = self.lists.lock();
        lists.failed.get(&ino).is_some_and(|(_, until)| *until > Instant::now())
    }

    /// A cut left entries behind the size, or a hole is pending.
    pub fn trim_starts(&self, ino: u64) {
        let mut lists = self.lists.lock();
        lists.trimming.insert(ino);
        self.trims.store(lists.trimming.len(), Ordering::Release);
    }

    /// They are gone.
    pub fn trim_ends(&self, ino: u64) {
        self.trimmed(&mut self.lists.lock(), ino);
    }

    fn trimmed(&self, lists: &mut Lists, ino: u64) {
        lists.trimming.remove(&ino);
        self.trims.store(lists.trimming.len(), Ordering::Release);
    }

    /// Whether a cut or hole of `ino` is not finished. Asked with its lock held, under which that changes.
    pub fn is_trimming(&self, ino: u64) -> bool {
        self.trims.load(Ordering::Acquire) > 0 && self.lists.lock().trimming.contains(&ino)
    }

    /// The cut or hole of `ino` is finished when there is time.
    fn trim_later(&self, ino: u64) {
        self.trim_starts(ino);
        self.lists.lock().left.insert(ino);
    }

    /// One of those, which is not among them any more.
    fn next_left(&self) -> Option<u64> {
        self.lists.lock().left.pop_first()
    }
}

impl Volume {
    /// At open: what the last mount left on the hidden list is freed, trimmed, or punched to the end.
    pub(crate) fn take_up_orphans(&self) -> Result<()> {
        for ino in self.store.orphans()? {
            match self.take_up(ino) {
                Err(error) if error.is_of_one() || error.errno() == Some(Errno::ESTALE) => {
                    // What it is comes out when it can be read: until then it may be one to be cut.
                    self.orphans.trim_starts(ino);
                    tracing::warn!(ino, %error, "an inode stays on the hidden list, because it cannot be read");
                }
                other => other?,
            }
        }
        match self.background {
            true => self.worker.wake_soon(),
            false => self.reclaim_now()?,
        }
        Ok(())
    }

    fn take_up(&self, ino: u64) -> Result<()> {
        let inode = self.see(|view| live(view, ino))?;
        if inode.nlink.get() == 0 {
            self.orphans.nameless(ino);
        } else if self.background {
            self.orphans.trim_later(ino);
        } else {
            let _lock = self.locks.exclusive(ino);
            unless_damaged(ino, self.free_cut_at_once(ino, true).map(|()| true))?;
        }
        Ok(())
    }

    /// Finishes cuts and holes that another life of the server left, as far as there is time; whether that is all. Errors: those of
    /// the store.
    pub(crate) fn finish_left(&self, end: Option<Instant>) -> Result<bool> {
        while let Some(ino) = self.orphans.next_left() {
            loop {
                let _lock = self.locks.exclusive(ino);
                if !self.orphans.is_trimming(ino) || unless_damaged(ino, self.settle_step(ino, false))? {
                    break;
                }
                if is_over(end) {
                    self.orphans.trim_later(ino);
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Gives back `count` lookups.
    pub(crate) fn do_forget(&self, ino: u64, count: u64) {
        if self.lookups.lower(ino, count) && self.orphans.is_unlinked(ino) {
            // Whoever looked before this sleeps: `is_unlinked` took the lock that is held from the look to the sleep.
            self.orphans.given_back.notify_all();
            self.unlinked_more(ino);
        }
    }

    /// The kernel gives back what it had looked up, and closes what was open, a moment after unlink(2) and close(2) have returned. Waits
    /// until an inode that lost its last name just before is given back, or until `end`; `false`: nobody holds one.
    fn wait_for_lookups(&self, end: Instant) -> bool {
        let mut lists = self.orphans.lists.lock();
        let now = Instant::now();
        let is_held = |ino: &u64| self.lookups.held(*ino);
        let fresh = |(ino, at): (&u64, &Option<Instant>)| {
            let until = (*at)? + WAITED_FOR;
            (until > now && is_held(ino)).then_some(until)
        };
        let Some(until) = lists.unlinked.iter().filter_map(fresh).max() else {
            return false;
        };
        self.orphans.given_back.wait_until(&mut lists, until.min(end));
        true
    }

    /// The same until nobody holds one, for a moment at most.
    pub(crate) fn wait_for_all_lookups(&self) {
        let end = Instant::now() + WAITED_FOR;
        while Instant::now() < end && self.wait_for_lookups(end) {}
    }

    /// Called without locks after an inode lost its last name or its last holder.
    pub(crate) fn unlinked_more(&self, ino: u64) {
        if self.background {
            self.worker.wake_soon();
        } else if let Err(error) = self.reclaim(ino) {
            tracing::warn!(ino, %error, "an unlinked inode stays on the hidden list");
        }
    }

    /// Frees every inode without names that nobody holds. Errors: those of the store.
    pub fn reclaim_now(&self) -> Result<()> {
        self.reclaim_all(self.orphans.all_unlinked(), None).map(|_| ())
    }

    /// The same as far as there is time, but for those that could not be freed a short time ago (S-5.9); whether that is all that can be
    /// freed.
    pub(crate) fn reclaim_until(&self, end: Option<Instant>) -> Result<bool> {
        let mut due = self.orphans.all_unlinked();
        due.retain(|ino| !self.orphans.is_to_wait(*ino));
        self.reclaim_all(due, end)
    }

    fn reclaim_all(&self, inodes: Vec<u64>, end: Option<Instant>) -> Result<bool> {
        let mut all = true;
        for ino in inodes {
            match self.reclaim_some(ino, end) {
                // It stays hidden (S-15.17).
                Err(error) if error.is_of_one() => {
                    self.orphans.failed(ino);
                    tracing::warn!(ino, %error, "a file without names is not freed yet");
                }
                done => all &= done?,
            }
            if is_over(end) {
                return Ok(false);
            }
        }
        Ok(all)
    }

    /// Pages that come back when the inodes without names are freed that nobody holds; from below if pages are shared.
    /// Pages of an open transaction are still among them.
    pub(crate) fn reclaimable(&self) -> Result<u64> {
        let mut freeing = self.orphans.freeing();
        let mut pages = self.pages_unlinked(freeing)?;
        for _ in 0..AGAIN {
            let now = self.orphans.freeing();
            if now.map(|(ino, _)| ino) == freeing.map(|(ino, _)| ino) {
                break;
            }
            freeing = now;
            pages = self.pages_unlinked(freeing)?;
        }
        if pages == 0 {
            return Ok(0);
        }
        Ok(pages.saturating_sub(self.store.totals().shares))
    }

    fn pages_unlinked(&self, freeing: Option<(u64, u64)>) -> Result<u64> {
        let mut pages = 0u64;
        for ino in self.orphans.all_unlinked() {
            if self.lookups.held(ino) {
                continue;
            }
            pages = pages.saturating_add(match freeing {
                Some((freed, left)) if freed == ino => left,
                _ => match self.pages_of(ino) {
                    // They do not come back before it can be read.
                    Err(error) if error.is_of_one() => 0,
                    pages => pages?,
                },
            });
        }
        Ok(pages)
    }

    fn pages_of(&self, ino: u64) -> Result<u64> {
        Ok(self.see(|view| crate::inode::raw(view, ino))?.pages.get())
    }

    /// Frees one inode without names, unless somebody holds it or works on it.
    pub(crate) fn reclaim(&self, ino: u64) -> Result<()> {
        self.reclaim_some(ino, None).map(|_| ())
    }

    /// The same until `end`; `false`: there is more to free, which nobody holds.
    fn reclaim_some(&self, ino: u64, end: Option<Instant>) -> Result<bool> {
        if self.lookups.held(ino) {
            return Ok(true);
        }
        let _freeing = self.orphans.freeing.lock();
        let done = self.free(ino, end);
        self.orphans.freed(ino, matches!(done, Ok(Some(true))));
        Ok(done?.unwrap_or(true))
    }

    /// Frees an inode, in as many transactions as it takes; between them others that share its lock have theirs. Whether that was
    /// all; `None`: somebody holds it, or it is gone.
    fn free(&self, ino: u64, end: Option<Instant>) -> Result<Option<bool>> {
        loop {
            // Who has it may wait for what is freed here.
            let Some(lock) = self.locks.exclusive_soon(ino) else {
                return Ok(Some(false));
            };
            if self.lookups.held(ino) || !self.orphans.is_unlinked(ino) {
                return Ok(None);
            }
            self.orphans.frees(ino, self.pages_of(ino)?);
            if self.store.transact(|txn| reclaim_step(txn, ino))? {
                return Ok(Some(true));
            }
            if is_over(end) {
                return Ok(Some(false));
            }
            RwLockWriteGuard::unlock_fair(lock);
        }
    }

    /// Space ran out: frees what is unlinked and makes all frees durable, so that pages can be used again (S-11.1). What metadata
    /// does not need any more comes back too, as far as `wanted` pages of new data need it (S-11.4).
    pub(crate) fn find_space(&self, wanted: u64) -> Result<()> {
        self.reclaim_until(None)?;
        self.store.sync()?;
        // Metablocks without a home count from above; once they have one, it is known how much room they left.
        let figures = self.store.figures();
        if figures.grown > 0 || figures.died > 0 || figures.spare > 0 {
            self.store.checkpoint()?;
        }
        while self.store.figures().available(Purpose::New) < wanted && self.give_part()? {}
        let end = Instant::now() + WAITED_FOR;
        let mut more = self.background;
        while more && self.store.figures().available(Purpose::New) < wanted && !is_over(Some(end)) {
            more = self.wait_for_lookups(end);
            // One that somebody has locked may come free too.
            more |= !self.reclaim_until(None)?;
            self.store.sync()?;
        }
        Ok(())
    }

    /// A checkpoint gives back a part of what metadata does not need any more; whether that was some.
    pub(crate) fn give_part(&self) -> Result<bool> {
        let before = self.store.figures().spare;
        if before > 0 {
            self.store.checkpoint()?;
        }
        Ok(self.store.figures().spare < before)
    }

    /// Where so much metadata died that it counts, checkpoints tell how much of its space comes back, which statfs then has.
    pub(crate) fn count_spare(&self) -> Result<()> {
        let counts = self.store.pool().pages / COUNTS;
        let copies = u64::from(self.store.pool().meta_copies);
        if self.store.figures().died.saturating_mul(copies) <= counts {
            return Ok(());
        }
        for _ in 0..ROUNDS {
            let before = self.store.figures();
            match self.store.checkpoint() {
                // Nothing of it can be had then.
                Err(keepfs_store::Error::NoSpace) => return Ok(()),
                other => other?,
            }
            // What died with one is told by the next.
            let now = self.store.figures();
            if now.spare + now.free <= before.spare + before.free + counts {
                break;
            }
        }
        Ok(())
    }
}

/// Whether the cut or hole is done with. What is damaged stays as it is: whoever changes it is told (S-6.7, S-7.7).
fn unless_damaged(ino: u64, done: Result<bool>) -> Result<bool> {
    match done {
        Err(error) if error.is_damage() => {
            tracing::error!(ino, %error, "a cut or hole cannot be finished");
            Ok(true)
        }
        other => other,
    }
}

/// Whether there is no more time.
fn is_over(end: Option<Instant>) -> bool {
    end.is_some_and(|end| Instant::now() >= end)
}

/// One transaction of freeing an inode; the last one frees its number.
fn reclaim_step(txn: &mut Txn<'_>, ino: u64) -> Step<bool> {
    let mut inode = Held::load(txn, ino)?;
    let done = if inode.kind() == FileKind::Dir {
        dir::drain(txn, &mut inode, NODES_A_STEP)?
    } else {
        clear(txn, &mut inode)?
    };
    if done {
        txn.set_orphan(ino, false)?;
        end(txn, &mut inode)?;
    }
    inode.put(txn)?;
    Ok(done)
}

/// Frees the pages of a file, as many as one transaction may; whether that is all of them.
fn clear(txn: &mut Txn<'_>, file: &mut Held) -> Step<bool> {
    let mut freed = Vec::new();
    let done = blockmap::clear(txn, file, 0, u64::MAX, Budget::default(), &mut freed)?;
    free_pages(txn, file, &freed)?;
    Ok(done)
}

/// The inode, which has no pages any more, is dead, and its number free.
fn end(txn: &mut Txn<'_>, inode: &mut Held) -> Step<()> {
    xattr::free_all(txn, inode)?;
    inode.now.state.set(DEAD);
    inode.put(txn)?;
    txn.op(inode.ino, Action::Free {})?;
    if !planted::has(Logic::NumberKept) {
        txn.free_ino(inode.ino)?;
    }
    Ok(())
}

/// Ends a file that lost its last name in this transaction, and that nobody holds, with the transaction that took the name:
/// it never comes on the hidden list. Only where that is little work: four pages at most (S-5.4). `false`: it is not.
fn end_at_once(txn: &mut Txn<'_>, file: &mut Held) -> Step<bool> {
    let small = file.kind() != FileKind::Dir && file.now.body != BODY_TREE && file.now.xattr.get() != XATTR_CHAIN;
    // A cut that is not finished has put it on the list.
    if !small || is_listed(txn, file.ino)? || !clear(txn, file)? {
        return Ok(false);
    }
    end(txn, file)?;
    Ok(true)
}

/// A file or directory lost its last name: with `held` or much in it, it goes on the hidden list, else it ends. Tells whether
/// it is on the list.
pub(crate) fn nameless(txn: &mut Txn<'_>, file: &mut Held, held: bool) -> Step<bool> {
    if !held && end_at_once(txn, file)? {
        return Ok(false);
    }
    if !planted::has(Logic::NotHidden) {
        hide(txn, file)?;
    }
    Ok(true)
}
