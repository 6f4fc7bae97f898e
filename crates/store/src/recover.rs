//! Opening a pool: newest superblock, whole groups of the log in order, a checkpoint before the first write
//! (SPEC section 9). The same steps can be cut and repeated at any point: the device changes only by that checkpoint.
//!
//! The log is decoded twice, once to see what a replay takes (data pages, frames) and once to do it, so that of a large
//! log only its bytes are in memory.

use crate::error::{BadData, Error};
use crate::{Flash, Store, StoreOptions};
use keepfs_flash::adopted::Adopted;
use keepfs_flash::checkpoint::{Keeper, NewLog, Wish};
use keepfs_flash::log::{self, Cut, Found, Head, Mend, Mended, Scan};
use keepfs_flash::recovery::arrived::{self, Unreadable};
use keepfs_flash::recovery::demand::Demand;
use keepfs_flash::recovery::freed::Freed;
use keepfs_flash::recovery::there;
use keepfs_flash::replay::Replay;
use keepfs_flash::sync::SeenLog;
use keepfs_format::map::LIVE;
use keepfs_format::plog::{self, FLAG_DATA_FLUSHED, Record, Run};
use keepfs_format::superblock::Superblock;
use keepfs_format::{MetaId, Space};
use keepfs_media::Device;
use keepfs_pool::{Pool, Taken};
use keepfs_vault::planted::{self, Bug, Point, Second};
use std::sync::Arc;
use std::time::Instant;

/// Bitmaps of each kind that are read before a pool is opened for writing: those of small pools, and what numbers come from first.
const LOOKED_AT: u64 = 16;

/// A store, and what was found on the way.
pub struct Opened {
    /// It.
    pub store: Store,
    /// The last transaction that the log has.
    pub logged: u64,
    /// When everything was in memory: what is left to do from then on is writing.
    pub replayed: Instant,
}

/// Opens a pool with what its dead server owed: the redo that the log does not have, as one more group (S-16.5).
pub fn open_owing(
    device: Arc<dyn Device>,
    options: &StoreOptions,
    mut owed: Option<&mut Adopted>,
) -> Result<Opened, Error> {
    let Taken {
        sb,
        is_other_lost,
        flipped,
    } = keepfs_pool::take(&*device)?;
    if !options.read_only {
        keepfs_pool::may_write(&sb)?;
    }
    let pool = Pool::of(&sb);
    let head = Head {
        sequence: sb.log_seq.get(),
        group: sb.group.get(),
        chain: sb.chain.get(),
    };
    let generation = sb.generation.get();
    let bases = generation.saturating_sub(1)..generation + 1;
    let before = log::Before {
        incarnation: sb.incarnation.get(),
        bases,
        seq: sb.seq.get(),
        durable: sb.durable.get(),
        is_other_lost,
    };
    let mut scan = log::scan(&*device, &pool.log, head, &before)?;
    // Behind what is lost of it the log goes on with a group that was never told to be durable (S-9.14).
    let told = scan.durable.max(before.durable);
    scan.head.group = scan.head.group.max(told + 1);
    let seen_groups = scan.groups.len();
    if let Some(owed) = &owed {
        // Whoever wrote these groups, or took them, had their data there, and no power was cut since. What it refused stays
        // refused (S-9.9, S-11.10).
        scan.durable = u64::MAX;
        let refused = owed.refused(generation).filter(|_| !planted::is(Bug::RefusedBelieved));
        scan.groups
            .retain(|group| refused.is_none_or(|first| group.group < first));
    }
    // Before this a resume has flushed what its log and redo are believed for (S-9.8).
    let flushed = owed.is_some();
    if let Some(cut) = scan.cut.filter(|cut| owed.is_none() && !may_cut(cut, options)) {
        return Err(cut.refusal());
    }
    let mut logged = scan.groups.last().map_or(sb.seq.get(), |group| group.seq);
    if !options.read_only {
        keepfs_pool::may_count("last transaction", logged)?;
    }
    if planted::forgets(Second::RedoTwice) {
        logged = 0;
    }
    let owes = match &mut owed {
        Some(owed) => {
            if owed.lost(logged) > 0 {
                owed.keep_there(logged, |transactions| there::there(&*device, transactions))?;
            }
            owe(owed, &mut scan, logged)?
        }
        None => false,
    };
    let keeps = owed
        .as_deref()
        .is_some_and(|owed| keep_carried(&*device, owed, &mut scan, logged, options));
    let (frames, unreadable) = keep_taken(&*device, &sb, &pool, &mut scan)?;
    let store = Store::build(device, sb, options, frames)?;
    let flash = store.home.flash();
    let taken = scan.groups.len() - usize::from(owes) - usize::from(keeps);
    if taken < seen_groups {
        flash
            .log
            .segment
            .note_refused(generation, sb.group.get() + taken as u64);
    }
    flash.check_roots(&store.frames)?;
    store.frames.or_without(flash.load_homes(&store))?;
    flash.set_reserve(&store, &flash.checkpoints.keeper.lock().homes);
    flash.replay(&store, &scan.groups)?;
    flash.settle_staged(&store)?;
    for bad in unreadable {
        store
            .ground
            .events
            .tell_bad_data(bad.ino, bad.index, bad.page, BadData::Unreadable);
    }
    if let Some(cut) = scan.cut {
        flash.tell_cut(&store.frames, &cut, logged);
    }
    flash.tell_flipped(&store.frames, &flipped);
    flash.mended_by_recovery(&store.frames, scan.mended);
    flash.start_space(&store, &sb)?;
    if !planted::is(Bug::OwedReusedTooEarly) {
        let mut freed = freed_untold(&scan.groups[..taken], told)?;
        if let Some(owed) = owed.filter(|_| owes) {
            owed.show_freed(logged, &mut freed)?;
        }
        store.alloc.space.quarantine(freed.into_runs());
    }
    if before.is_other_lost {
        flash.tell_superblocks_lost(generation);
    }
    planted::step(Point::Replayed);
    let replayed = Instant::now();
    let last = flash.log.redo.lock().last;
    let seen = SeenLog {
        sequence: scan.seen,
        group: scan.head.group,
        owed: last.saturating_sub(logged),
    };
    match options.read_only {
        true => flash.log.sync.reached(last),
        // The plant flushes what a killed server had not, and that is all.
        false if planted::is(Bug::LifeGoesOn) && !owes && scan.seen == head.sequence => {
            flash.flush_device(&store.frames)?;
            flash.log.sync.reached(last);
        }
        false => flash.begin_new_log(&store, &mut flash.checkpoints.keeper.lock(), seen, flushed)?,
    }
    flash
        .log
        .is_witnessed
        .store(true, core::sync::atomic::Ordering::Release);
    *flash.log.seen.lock() = options.read_only.then_some(seen);
    Ok(Opened {
        store,
        logged,
        replayed,
    })
}

/// Whether the pool is opened although its log is cut (S-9.16).
fn may_cut(cut: &Cut, options: &StoreOptions) -> bool {
    match cut.carried {
        _ if !cut.proved => true,
        true => options.cut_log,
        false => options.read_only || options.cut_log,
    }
}

/// Adds the redo beyond `logged` to the groups of a log. Whether there is any.
fn owe(owed: &mut Adopted, scan: &mut Scan, logged: u64) -> Result<bool, Error> {
    if owed.last_seq() <= logged || owed.lacks(logged) || planted::forgets(Second::RedoForgotten) {
        return Ok(false);
    }
    let mut payload = owed.next_group(logged)?;
    if planted::forgets(Second::StagedDropped) {
        payload = without_tails(&payload)?;
    }
    scan.groups.push(Found {
        group: scan.head.group,
        seq: owed.last_seq(),
        flags: FLAG_DATA_FLUSHED,
        payload,
    });
    Ok(true)
}

/// Where the carried group went bad while the pool was mounted, and nothing was synced behind it: adds all that the dead server had
/// staged (S-16.36). Whether it did.
fn keep_carried(device: &dyn Device, owed: &Adopted, scan: &mut Scan, logged: u64, options: &StoreOptions) -> bool {
    let Some(cut) = scan.cut.filter(|cut| cut.carried && cut.superblock.is_none()) else {
        return false;
    };
    let began_without = options.read_only && options.cut_log;
    let goes_on = logged <= owed.last_seq() && !owed.lacks(logged) && owed.lost(logged) == 0;
    if began_without || !goes_on {
        return false;
    }
    let Ok(payload) = owed.staged_whole(|page, crc, bytes| there::base(device, page, crc, bytes)) else {
        return false;
    };
    scan.groups.push(Found {
        group: scan.head.group,
        seq: owed.last_seq(),
        flags: FLAG_DATA_FLUSHED,
        payload,
    });
    scan.cut = None;
    scan.mended.push(Mended {
        page: cut.page,
        group: cut.group,
        how: Mend::Kept {
            is_unreadable: cut.unreadable,
        },
    });
    true
}

/// What [`Second::StagedDropped`] leaves of a group.
fn without_tails(payload: &[u8]) -> Result<Vec<u8>, Error> {
    let mut records = plog::decode(payload).map_err(|e| Error::Logic(e.what.into()))?;
    records.retain(|record| !matches!(record, Record::Tail { .. }));
    Ok(log::encode(records))
}

/// What opening did not do because the pool was opened read-only. The keeper is the caller's.
pub fn begin_writing(flash: &Flash, store: &Store, keeper: &mut Keeper) -> Result<(), Error> {
    store.frames.fences.has_what_writers_need()?;
    let unasked = |cut: &Cut| cut.proved && !store.ground.options.cut_log;
    if let Some(cut) = store.log_cut().filter(unasked) {
        return Err(cut.refusal());
    }
    let in_force = flash.superblock_in_force(&store.frames, keeper)?;
    keepfs_pool::may_write(&in_force)?;
    store.ground.device.begin_writing()?;
    if Keeper::plain(&keepfs_pool::choose(&*store.ground.device)?) != in_force {
        return Err(store.ground.fail(Error::BadPool(
            "somebody else has written it since it was mounted; unmount it and mount it again".into(),
        )));
    }
    let mut seen = flash.log.seen.lock();
    if let Some(log) = *seen {
        flash.begin_new_log(store, keeper, log, false)?;
    }
    *seen = None;
    Ok(())
}

/// Damage that a record shows, with the group it stands in.
fn in_group(group: u64, e: Error) -> Error {
    match e {
        Error::Damaged(what) => Error::Damaged(format!("log group {group}: {what}")),
        other => other,
    }
}

/// The records of a group.
fn decode(group: &Found) -> Result<Vec<Record>, Error> {
    plog::decode(&group.payload).map_err(|e| {
        Error::Damaged(format!(
            "log group {} has a right checksum but {} at byte {}",
            group.group, e.what, e.at
        ))
    })
}

/// Drops the groups that are not taken (S-9.3; why none of these was answered for: S-11.5, S-11.7). Returns the frames that a
/// replay of the others needs, and their data pages that cannot be read.
fn keep_taken(
    device: &dyn Device,
    sb: &Superblock,
    pool: &Pool,
    scan: &mut Scan,
) -> Result<(u64, Vec<Unreadable>), Error> {
    let durable = scan.durable.max(sb.durable.get());
    let mut demand = Demand::of(pool);
    let (mut taken, mut unreadable) = (0, Vec::new());
    for group in &scan.groups {
        let records = decode(group)?;
        let unconditional =
            planted::is(Bug::GroupWithoutData) || group.group <= durable || group.flags & FLAG_DATA_FLUSHED != 0;
        if !unconditional {
            match arrived::data_is_there(device, pool.pages, group.group, &records)? {
                Some(pages) => unreadable.extend(pages),
                None => break,
            }
        }
        for record in &records {
            demand.see(record).map_err(|e| in_group(group.group, e))?;
        }
        taken += 1;
    }
    scan.groups.truncate(taken);
    Ok((if taken == 0 { 0 } else { demand.frames() }, unreadable))
}

/// What groups have freed that no page tells as durable: where a data page of one of them goes bad now, and the power before the
/// checkpoint of this recovery is durable, the next one refuses that group, and needs what it freed (S-9.5, S-11.9).
fn freed_untold(taken: &[Found], told: u64) -> Result<Freed, Error> {
    let mut freed = Freed::default();
    for group in taken.iter().filter(|group| group.group > told) {
        decode(group)?.iter().for_each(|record| freed.see(group.seq, record));
    }
    Ok(freed)
}

impl Flash {
    /// Applies whole groups.
    fn replay(&self, store: &Store, groups: &[Found]) -> Result<(), Error> {
        let mut replay = Replay::of(self, &store.frames);
        for group in groups {
            for record in decode(group)? {
                replay.apply(&record).map_err(|e| in_group(group.group, e))?;
            }
            self.log.redo.lock().start_at(group.seq);
        }
        replay.store_all();
        Ok(())
    }

    /// Reads the HOMES metablocks.
    fn load_homes(&self, store: &Store) -> Result<(), Error> {
        let mut keeper = self.checkpoints.keeper.lock();
        for index in 0.. {
            let id = MetaId::new(Space::Homes, index);
            let Some(entry) = self.locate(&store.frames, id)?.filter(|e| e.state == LIVE) else {
                break;
            };
            let block = self.read_copies(&store.frames, id, &entry)?;
            let loaded = keeper.homes.load(index, &block);
            loaded.map_err(|what| Error::Damaged(format!("{id}: {what}")))?;
        }
        let chunks = keeper.homes.runs()?;
        self.check_chunks(store, &chunks)?;
        chunks.iter().for_each(|run| store.alloc.system.add(*run));
        self.load_totals(&store.frames)?;
        store.alloc.space.begin(store.frames.known.nodes_in_use());
        Ok(())
    }

    /// Chunks lie in the pool and overlap no slot, log page or other chunk (S-4.5).
    fn check_chunks(&self, store: &Store, chunks: &[Run]) -> Result<(), Error> {
        let mut all = keepfs_pool::fixed_runs(&store.ground.pool);
        all.extend(chunks);
        all.sort_unstable();
        let end = |run: &Run| run.start.saturating_add(u64::from(run.count));
        let overlap = all
            .windows(2)
            .find(|pair| end(&pair[0]) > pair[1].start)
            .map(|pair| pair[1]);
        match overlap.or(all.last().copied().filter(|run| end(run) > store.ground.pool.pages)) {
            Some(run) => Err(Error::Damaged(format!(
                "the chunk of {} metadata pages at page {} lies over a superblock, the log, another chunk or the end of the \
                 pool",
                run.count, run.start
            ))),
            None => Ok(()),
        }
    }

    /// Puts the device pages under pages staged over them. A page whose base is bad is lost (S-9.4); others are not concerned.
    fn settle_staged(&self, store: &Store) -> Result<(), Error> {
        let mut table = self.staged.table.lock();
        let lost = table.settle(|page, crc, buf| self.base(&store.frames, page, crc, buf))?;
        store.alloc.space.promise_again(table.promised);
        drop(table);
        for ((ino, index), base) in lost {
            store.ground.events.tell_lost_staged(ino, index, base);
        }
        Ok(())
    }

    /// Bitmaps of numbers and pages, and counts, that writers soon need, where a page has them (S-9.22).
    fn look_at_bitmaps(&self, store: &Store) -> Result<(), Error> {
        for space in [Space::InodeNumbers, Space::NodeNumbers, Space::Pages, Space::Shares] {
            for index in 0..LOOKED_AT {
                let id = MetaId::new(space, index);
                if self.live(id, self.locate(&store.frames, id)?)?.is_some() {
                    store.fetch_known(id)?;
                }
            }
        }
        Ok(())
    }

    fn start_space(&self, store: &Store, sb: &Superblock) -> Result<(), Error> {
        store.frames.or_without(self.look_at_bitmaps(store))?;
        let totals = store.frames.or_without(self.load_totals(&store.frames))?;
        store.alloc.space.nodes_now(store.frames.known.nodes_in_use());
        let a = store
            .frames
            .or_without(self.zone_at_rest(store, sb.zone_current.get()))?;
        let b = match sb.zone_next != sb.zone_current {
            true => store.frames.or_without(self.zone_at_rest(store, sb.zone_next.get()))?,
            false => None,
        };
        let used = totals.map_or(store.ground.pool.pages, |()| store.frames.known.totals().pages);
        store
            .alloc
            .space
            .start(store.ground.pool.pages, used, [a, b].map(Option::unwrap_or_default));
        let need = self.need(store, &self.checkpoints.keeper.lock().homes);
        self.limit_by_space(store, &need);
        Ok(())
    }

    /// The checkpoint that ends a recovery: a new life of the log, so that no old page can ever continue it (S-9.5, S-9.14, S-11.9),
    /// be it one of another try to end this recovery, which had the redo of a dead server (S-16.18), or of a group whose first
    /// page was lost, so that nothing was found.
    fn begin_new_log(&self, store: &Store, keeper: &mut Keeper, seen: SeenLog, flushed: bool) -> Result<(), Error> {
        // What was read may not be durable: a killed server's writes are seen before they are flushed (S-9.5).
        if !flushed && !planted::is(Bug::NoFlushBeforeRecovery) {
            self.flush_device(&store.frames)?;
        }
        let head = Head {
            sequence: seen.sequence + store.ground.pool.log.pages,
            group: seen.group,
            chain: 0,
        };
        let owed = if planted::is(Bug::OwedInSameLog) { 0 } else { seen.owed };
        let wish = Wish {
            clean: false,
            new_log: Some(NewLog { head, lives: 1 + owed }),
        };
        self.checkpoint_with(store, keeper, wish)
    }
}
