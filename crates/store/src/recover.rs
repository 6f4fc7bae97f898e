//! Opening a pool: newest superblock, whole groups of the log in order, a checkpoint before the first write
//! (SPEC section 9). The same steps can be cut and repeated at any point: the device changes only by that checkpoint.

use crate::cache::Pin;
use crate::checkpoint::Wish;
use crate::error::Error;
use crate::log::{self, Found, Head, Scan};
use crate::planted::{self, Bug};
use crate::space::OpenZone;
use crate::{Store, StoreOptions, pool, update};
use keepfs_codes::{crc32c, crc64};
use keepfs_format::bitmap::{self, TOTAL_INODES, TOTAL_NODES, TOTAL_PAGES, TOTAL_SHARES, TOTALS};
use keepfs_format::blockmap::FILE_SIZE_MAX;
use keepfs_format::map::LIVE;
use keepfs_format::metablock::HEADER;
use keepfs_format::plog::{self, FLAG_DATA_FLUSHED, Record, Run};
use keepfs_format::superblock::Superblock;
use keepfs_format::{Header, Kind, MetaId, PAGE, Space};
use keepfs_media::{Device, PageNo};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Opens a pool. With `read_only`, the log is applied in memory and nothing is written.
pub fn open(device: Arc<dyn Device>, options: &StoreOptions) -> Result<Store, Error> {
    let sb = pool::choose(&*device)?;
    let region = pool::Pool::of(&sb).log;
    let head = Head {
        sequence: sb.log_seq.get(),
        group: sb.group.get(),
        chain: sb.chain.get(),
    };
    let generation = sb.generation.get();
    let bases = generation.saturating_sub(1)..generation + 1;
    let mut scan = log::scan(&*device, &region, head, sb.incarnation.get(), bases)?;
    let decoded = decode_taken(&*device, &sb, &mut scan)?;
    let store = Store::build(device, sb, options, frames_for(&decoded))?;
    store.load_homes()?;
    for (seq, records) in &decoded {
        for record in records {
            store.replay(record)?;
        }
        store.redo.lock().last = *seq;
    }
    store.settle_staged()?;
    store.start_space(&sb)?;
    if scan.seen > head.sequence && !options.read_only {
        store.begin_new_log(&scan)?;
    } else {
        store.sync.reached(store.redo.lock().last);
    }
    Ok(store)
}

/// The records of the groups that are taken (S-9.3), with the number of each group's last transaction.
fn decode_taken(device: &dyn Device, sb: &Superblock, scan: &mut Scan) -> Result<Vec<(u64, Vec<Record>)>, Error> {
    let durable = scan.durable.max(sb.durable.get());
    let mut taken = Vec::with_capacity(scan.groups.len());
    for group in core::mem::take(&mut scan.groups) {
        let records = plog::decode(&group.payload).map_err(|e| {
            Error::Damaged(format!(
                "log group {} has a right checksum but {} at byte {}",
                group.group, e.what, e.at
            ))
        })?;
        let unconditional =
            planted::is(Bug::GroupWithoutData) || group.group <= durable || group.flags & FLAG_DATA_FLUSHED != 0;
        if !unconditional && !data_is_there(device, sb, &group, &records)? {
            break;
        }
        taken.push((group.seq, records));
    }
    Ok(taken)
}

/// Whether every data page that a group brings, and still names at its end, is on the device.
fn data_is_there(device: &dyn Device, sb: &Superblock, group: &Found, records: &[Record]) -> Result<bool, Error> {
    let mut wanted: HashMap<u64, u32> = HashMap::new();
    for record in records {
        match record {
            Record::MapEntry { page, crcs, .. } if *page != 0 => {
                wanted.extend(crcs.iter().enumerate().map(|(i, crc)| (page + i as u64, *crc)));
            }
            Record::Free {
                space: Space::Pages,
                run,
            } => {
                let freed = run.start..run.start + u64::from(run.count);
                if freed.end - freed.start > wanted.len() as u64 {
                    wanted.retain(|page, _| !freed.contains(page));
                } else {
                    freed.for_each(|page| {
                        wanted.remove(&page);
                    });
                }
            }
            _ => {}
        }
    }
    let mut page = [0; PAGE];
    for (number, crc) in wanted {
        if number >= sb.pages.get() {
            return Err(Error::Damaged(format!("log group {} names page {number}", group.group)));
        }
        if device.read(PageNo(number), &mut page).is_err() || crc32c::of(&page) != crc {
            tracing::info!(
                group = group.group,
                page = number,
                "the log ends here: its data did not reach the device"
            );
            return Ok(false);
        }
    }
    Ok(true)
}

/// Frames that a replay needs: all metablocks it touches are dirty until the checkpoint behind it.
fn frames_for(decoded: &[(u64, Vec<Record>)]) -> u64 {
    let mut touched: HashSet<MetaId> = HashSet::new();
    for record in decoded.iter().flat_map(|(_, records)| records) {
        match record {
            Record::Update { id, .. } | Record::Birth { id, .. } | Record::Death { id, .. } => {
                touched.insert(*id);
                touched.insert(bitmap::bit(Space::NodeNumbers, id.index()).0);
            }
            Record::Alloc { space, run } | Record::Free { space, run } => {
                touched.insert(bitmap::bit(*space, run.start).0);
                touched.insert(bitmap::bit(*space, run.start + u64::from(run.count)).0);
            }
            Record::Ref { run, .. } => {
                touched.insert(bitmap::share(run.start).0);
            }
            _ => {}
        }
    }
    // As many again for the map pages and for clean frames to go on with.
    2 * touched.len() as u64 + 128
}

impl Store {
    /// Reads the HOMES metablocks.
    fn load_homes(&self) -> Result<(), Error> {
        let mut keeper = self.keeper.lock();
        for index in 0.. {
            let id = MetaId::new(Space::Homes, index);
            let Some(entry) = self.locate(id)?.filter(|e| e.state == LIVE) else {
                break;
            };
            let mut block = [0; PAGE];
            let copies = [entry.first.get(), entry.second.get()];
            let good = copies.into_iter().filter(|p| *p != 0).any(|page| {
                self.device.read(PageNo(page), &mut block).is_ok() && crc64::full(&block) == entry.crc.get()
            });
            if !good {
                return Err(Error::Damaged(format!("{id} is bad in every copy")));
            }
            keeper.homes.load(index, &block).map_err(Error::Damaged)?;
        }
        let chunks = keeper.homes.runs();
        self.check_chunks(&chunks)?;
        self.map.chunks.get_or_init(|| chunks);
        self.set_reserve(&keeper.homes, self.live_metablocks());
        Ok(())
    }

    /// Chunks lie in the pool and overlap no slot, log page or other chunk (S-4.5).
    fn check_chunks(&self, chunks: &[Run]) -> Result<(), Error> {
        let mut all = pool::fixed_runs(&self.pool);
        all.extend(chunks);
        all.sort_unstable();
        let end = |run: &Run| run.start.saturating_add(u64::from(run.count));
        let overlap = all
            .windows(2)
            .find(|pair| end(&pair[0]) > pair[1].start)
            .map(|pair| pair[1]);
        match overlap.or(all.last().copied().filter(|run| end(run) > self.pool.pages)) {
            Some(run) => Err(Error::Damaged(format!(
                "the chunk of metadata at page {} is not its own",
                run.start
            ))),
            None => Ok(()),
        }
    }

    /// Applies one record of a group that is taken (S-8.5).
    fn replay(&self, record: &Record) -> Result<(), Error> {
        match record {
            Record::Update { id, generation, ranges } => self.replay_update(*id, *generation, ranges)?,
            Record::Birth {
                id,
                generation,
                kind,
                level,
                owner,
            } => {
                self.replay_birth(*id, *generation, *kind, *level, *owner)?;
            }
            Record::Death { id, generation } => self.replay_death(*id, *generation)?,
            Record::Alloc { space, run } => self.replay_bits(*space, *run, true)?,
            Record::Free { space, run } => {
                self.replay_bits(*space, *run, false)?;
                if *space == Space::InodeNumbers {
                    self.staged_table.lock().forget(run.start);
                }
            }
            Record::Ref { run, delta } => self.replay_ref(*run, *delta)?,
            Record::MapEntry { ino, index, .. } | Record::Tail { ino, index, .. } | Record::Zero { ino, index, .. }
                if *index > FILE_SIZE_MAX / PAGE as u64 =>
            {
                return Err(Error::Damaged(format!(
                    "the log names page {index} of inode {ino}, beyond any file"
                )));
            }
            Record::MapEntry { .. } | Record::Tail { .. } | Record::Zero { .. } => {
                self.staged_table.lock().apply(record, None);
            }
            Record::Truncate { .. } | Record::Create { .. } => self.staged_table.lock().apply(record, None),
            Record::Link { .. } | Record::Unlink { .. } => {}
        }
        Ok(())
    }

    /// Stores bytes of a replayed record and marks the frame dirty.
    fn replay_store(&self, pin: &Pin<'_>, id: MetaId, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.before_first_write(id, pin).map_err(pool::stopped)?;
        update::replay(&self.arena, pin.frame, offset, bytes);
        Ok(())
    }

    fn replay_update(&self, id: MetaId, generation: u32, ranges: &[(u16, Vec<u8>)]) -> Result<(), Error> {
        if !matches!(id.space(), Some(Space::Nodes | Space::Inodes)) {
            return Err(Error::Damaged(format!("the log changes {id}, which is not logged")));
        }
        let Some(pin) = self.fetch_known(id)? else {
            return Err(Error::Damaged(format!("the log changes {id}, which does not exist")));
        };
        let live = self.header(id)?.generation.get();
        if live != generation {
            let newer = generation > live;
            return if newer {
                Err(Error::Damaged(format!("the log changes a {id} that was never born")))
            } else {
                Ok(())
            };
        }
        for (offset, bytes) in ranges {
            if usize::from(*offset) < HEADER || usize::from(*offset) + bytes.len() > PAGE {
                return Err(Error::Damaged(format!("the log changes the header of {id}")));
            }
            self.replay_store(&pin, id, usize::from(*offset), bytes)?;
        }
        Ok(())
    }

    fn replay_birth(&self, id: MetaId, generation: u32, kind: u8, level: u8, owner: u64) -> Result<(), Error> {
        let wrong = || Error::Damaged(format!("the log bears {id} of an impossible kind {kind}"));
        let kind = Kind::of(kind)
            .filter(|_| id.space() == Some(Space::Nodes))
            .ok_or_else(wrong)?;
        self.replay_bits(
            Space::NodeNumbers,
            Run {
                start: id.index(),
                count: 1,
            },
            true,
        )?;
        let header = Header::new(self.pool.tag, id, kind, level, owner, generation);
        // A stale frame of an earlier life may be here: its death is in this log.
        if let Some(pin) = self.cache.pin(id) {
            self.cache.remove(id, pin);
        }
        let pin = self.place_new(id, &header).map_err(pool::stopped)?;
        self.before_first_write(id, &pin).map_err(pool::stopped)
    }

    fn replay_death(&self, id: MetaId, generation: u32) -> Result<(), Error> {
        if id.space() != Some(Space::Nodes) {
            return Err(Error::Damaged(format!("the log ends {id}, which never ends")));
        }
        self.replay_bits(
            Space::NodeNumbers,
            Run {
                start: id.index(),
                count: 1,
            },
            false,
        )?;
        if let Some(pin) = self.cache.pin(id) {
            self.cache.remove(id, pin);
        }
        self.deaths.lock().insert(id, generation);
        Ok(())
    }

    fn replay_bits(&self, space: Space, run: Run, on: bool) -> Result<(), Error> {
        let limit = if space == Space::Pages {
            self.pool.pages
        } else {
            self.number_limit(space)
        };
        if run.start + u64::from(run.count) > limit || u64::from(run.count) > limit {
            return Err(Error::Damaged(format!(
                "the log names {space:?} {}, which does not exist",
                run.start
            )));
        }
        for number in run.start..run.start + u64::from(run.count) {
            let (id, offset, mask) = bitmap::bit(space, number);
            let pin = self.fetch(id)?;
            let mut byte = [0];
            self.arena.load(pin.frame, offset, &mut byte);
            if (byte[0] & mask != 0) == on {
                let what = if on {
                    "allocates what is allocated"
                } else {
                    "frees what is free"
                };
                return Err(Error::Damaged(format!("the log {what}: {space:?} {number}")));
            }
            self.replay_store(&pin, id, offset, &[byte[0] ^ mask])?;
        }
        let total = match space {
            Space::Pages => TOTAL_PAGES,
            Space::InodeNumbers => TOTAL_INODES,
            Space::NodeNumbers => TOTAL_NODES,
            _ => return Ok(()),
        };
        let count = i64::from(run.count);
        self.replay_total(total, if on { count } else { -count })
    }

    fn replay_ref(&self, run: Run, delta: i32) -> Result<(), Error> {
        if run.start + u64::from(run.count) > self.pool.pages {
            return Err(Error::Damaged(format!(
                "the log shares page {}, which does not exist",
                run.start
            )));
        }
        for page in run.start..run.start + u64::from(run.count) {
            let (id, offset) = bitmap::share(page);
            let pin = self.fetch(id)?;
            let mut count = [0; 2];
            self.arena.load(pin.frame, offset, &mut count);
            let now = i32::from(u16::from_le_bytes(count))
                .checked_add(delta)
                .and_then(|n| u16::try_from(n).ok());
            let now =
                now.ok_or_else(|| Error::Damaged(format!("the log shares page {page} an impossible number of times")))?;
            self.replay_store(&pin, id, offset, &now.to_le_bytes())?;
        }
        self.replay_total(TOTAL_SHARES, i64::from(run.count) * i64::from(delta))
    }

    fn replay_total(&self, offset: usize, add: i64) -> Result<(), Error> {
        let pin = self.fetch(TOTALS)?;
        let mut bytes = [0; 8];
        self.arena.load(pin.frame, offset, &mut bytes);
        let now = u64::from_le_bytes(bytes).wrapping_add_signed(add);
        self.replay_store(&pin, TOTALS, offset, &now.to_le_bytes())
    }

    /// Puts the device pages under pages staged over them.
    fn settle_staged(&self) -> Result<(), Error> {
        let pages = self.pool.pages;
        let mut table = self.staged_table.lock();
        table.settle(|page, crc, buf| {
            if page >= pages {
                return Err(Error::Damaged(format!(
                    "staged data lies over page {page}, which does not exist"
                )));
            }
            self.device.read(PageNo(page), buf)?;
            if crc32c::of(buf) == crc {
                Ok(())
            } else {
                Err(Error::Damaged(format!("page {page} under staged data")))
            }
        })?;
        self.space.promise_again(table.promised);
        Ok(())
    }

    fn start_space(&self, sb: &Superblock) -> Result<(), Error> {
        let used = self.totals()?.pages;
        let a = self.load_zone(sb.zone_current.get())?;
        let b = if sb.zone_next != sb.zone_current {
            self.load_zone(sb.zone_next.get())?
        } else {
            OpenZone::default()
        };
        self.space.start(self.pool.pages, used, [a, b]);
        Ok(())
    }

    /// The checkpoint that ends a recovery: a new life of the log, so that no old page can ever continue it (S-9.5).
    fn begin_new_log(&self, scan: &Scan) -> Result<(), Error> {
        let head = Head {
            sequence: scan.seen + self.pool.log.pages,
            group: scan.head.group,
            chain: 0,
        };
        self.checkpoint_as(Wish {
            clean: false,
            new_log: Some(head),
        })
    }
}
