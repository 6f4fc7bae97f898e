//! What is kept for checkpoints: enough at every step, and no more than is said (S-10.9).

use super::*;
use crate::{FormatOptions, Guard, StoreOptions};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

fn need(settled: u64, free: u64) -> Need {
    Need {
        copies: 2,
        limit: 256,
        settled,
        homes: 2,
        tables: 14,
        free,
        overwriting: 128,
    }
}

/// S-10.10 (2): a checkpoint that gave homes to everything born leaves what the next one needs, without another page of
/// data; as long as new metadata stops at the reserve this goes on for ever.
#[test]
fn a_checkpoint_leaves_what_the_next_one_needs() {
    for settled in [10, 100, 200, 250, 1000, 100_000] {
        for grown in [0, 1, 5, 62, 63, 64, 500, 10_000] {
            let now = need(settled, 0);
            let taken = 2 * Need::with_map(grown);
            let after = need(settled + Need::with_map(grown), now.of_next(grown) - taken);
            assert!(
                after.kept(0) <= after.overwriting + 2 * after.tables,
                "{settled} {grown}"
            );
            // (1) What it takes itself is there.
            let weight = (settled + Need::with_map(grown)).min(now.limit);
            assert!(now.pages_for(weight) <= now.of_next(grown), "{settled} {grown}");
        }
    }
}

#[test]
fn more_metadata_never_needs_less() {
    for settled in [10, 250, 100_000] {
        for grown in 0..2000 {
            assert!(need(settled, 77).kept(grown) <= need(settled, 77).kept(grown + 1));
        }
    }
}

/// What neither data nor metadata has, in hundredths of a percent of the pool, log and superblocks aside: of an empty
/// pool, and of one whose metadata is so large that the limit of what waits for a checkpoint is reached.
#[test]
fn how_much_is_kept() {
    for (mib, empty_most, large_most) in [(16, 400, 640), (64, 240, 560), (1024, 60, 400), (102_400, 30, 35)] {
        let device = Arc::new(SimDevice::new(mib << 8));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        let options = StoreOptions {
            guard: Guard::Off,
            background: false,
            oplog: false,
            audit: crate::Equations::NONE,
            ..StoreOptions::default()
        };
        let store = Store::open(device, &options).expect("open");
        let pages = store.pool().pages;
        let figures = store.figures();
        let keeper = store.home.flash().checkpoints.keeper.lock();
        let free = keeper.homes.free();
        let empty = (figures.reserve + figures.grown + free) * 10_000 / pages;
        let large = Need {
            settled: u64::from(u32::MAX),
            ..store.home.flash().need(&store, &keeper.homes)
        };
        let large = (large.kept(0) + free) * 10_000 / pages;
        println!("{mib} MiB: empty {empty}, large {large} hundredths of a percent are kept");
        assert!(empty <= empty_most, "{mib} MiB: {empty}");
        assert!(large <= large_most, "{mib} MiB: {large}");
    }
}
