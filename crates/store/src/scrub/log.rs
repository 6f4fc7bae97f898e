//! The log on the device, as the next recovery would read it (S-19.4).

use crate::error::Error;
use crate::{Flash, Store};
use keepfs_flash::log::{self, Before, Head, Mend, Mended};
use keepfs_format::PAGE;
use keepfs_frames::Looked;
use keepfs_media::{Device, PageNo};
use keepfs_pool::log::Region;

/// Pages read together.
const TOGETHER: u64 = 256;

impl Flash {
    /// See [`Store::scrub_log`].
    pub(crate) fn scrub_log(&self, store: &Store) -> Result<Looked, Error> {
        if store.ground.is_read_only() {
            return Ok(Looked::default());
        }
        // Meanwhile no checkpoint changes what is in force. Lock order: keeper, lead.
        let mut keeper = self.checkpoints.keeper.lock();
        let sb = self.superblock_in_force(&store.frames, &mut keeper)?;
        let begin = Head {
            sequence: sb.log_seq.get(),
            group: sb.group.get(),
            chain: sb.chain.get(),
        };
        let lead = self.log.sync.lead();
        let state = self.log.end.lock();
        let (end, is_broken) = (state.head, state.is_broken);
        drop(state);
        drop(lead);
        // The checkpoint that S-8.12 wants begins behind the page that was given up.
        if is_broken {
            return Ok(Looked::default());
        }
        let (device, region) = (&*store.ground.device, &store.ground.pool.log);
        read_afresh(device, region, begin.sequence, end.sequence);
        let generation = sb.generation.get();
        let before = Before {
            incarnation: sb.incarnation.get(),
            bases: generation.saturating_sub(1)..generation + 1,
            seq: sb.seq.get(),
            durable: sb.durable.get(),
            is_other_lost: false,
        };
        let scan = log::scan(device, region, begin, &before)?;
        drop(keeper);
        // What is written meanwhile, behind the end, is not looked at.
        let mut bad = scan.mended;
        bad.retain(|mended| mended.group < end.group);
        if scan.head.sequence < end.sequence {
            let last = (region.page(scan.seen), false);
            let (page, is_unreadable) = scan.cut.map_or(last, |cut| (cut.page, cut.unreadable));
            bad.push(Mended {
                page,
                group: scan.head.group,
                how: Mend::Kept { is_unreadable },
            });
        }
        let found = bad.len() as u64;
        if found > 0 {
            self.checkpoint(store)?;
            self.tell_mended(&store.frames, &bad);
        }
        Ok(Looked {
            pages: end.sequence - begin.sequence,
            bad: found,
            mended: found,
        })
    }
}

/// From here on the system's cache has these pages as the device does. What cannot be read is met again.
fn read_afresh(device: &dyn Device, region: &Region, from: u64, to: u64) {
    let mut q = from;
    let mut bytes = vec![0; TOGETHER as usize * PAGE];
    while q < to {
        let count = TOGETHER.min(region.pages - q % region.pages).min(to - q);
        let _ = device.read_fresh(PageNo(region.page(q)), &mut bytes[..count as usize * PAGE]);
        q += count;
    }
}
