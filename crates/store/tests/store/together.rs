//! Many threads on one store: transactions, syncs, checkpoints and evictions at the same time.

use keepfs_format::Kind;
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn options(guard: Guard) -> StoreOptions {
    // Far fewer frames than metablocks: everything is fetched and evicted all the time.
    StoreOptions {
        arena_bytes: 0,
        tiny_arena: true,
        background: true,
        guard,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    }
}

/// What a thread knows of its own nodes.
struct Owned {
    nodes: Vec<(Ref, u64)>,
    owner: u64,
    seed: u64,
}

impl Owned {
    fn next(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.seed >> 33
    }

    fn step(&mut self, store: &Store) {
        let what = self.next() % 10;
        let value = self.next();
        let at = self
            .nodes
            .len()
            .checked_sub(1)
            .map(|last| (self.next() as usize) % (last + 1));
        match (what, at) {
            (0..=3, _) | (_, None) if self.nodes.len() < 400 => {
                let owner = self.owner;
                let r = store.transact::<_, Error>(|t| {
                    let r = t.new_node(Kind::Xattr, 0, owner)?;
                    t.put(r, 64, &value.to_le_bytes(), Meaning::Xattr)?;
                    Ok(r)
                });
                self.nodes.push((r.expect("new"), value));
            }
            (4, Some(at)) => {
                let (r, _) = self.nodes.swap_remove(at);
                store.transact::<_, Error>(|t| Ok(t.free_node(r)?)).expect("free");
            }
            (5, _) => store.sync().expect("sync"),
            (_, Some(at)) => {
                let (r, old) = self.nodes[at];
                let mut found = [0; 8];
                store
                    .transact::<_, Error>(|t| {
                        t.read(r, 64, &mut found)?;
                        t.put(r, 64, &value.to_le_bytes(), Meaning::Xattr)?;
                        Ok(())
                    })
                    .expect("change");
                assert_eq!(u64::from_le_bytes(found), old);
                self.nodes[at].1 = value;
            }
            _ => {}
        }
    }
}

#[test]
fn threads_see_their_own_and_a_crash_keeps_the_synced() {
    for guard in [Guard::Alias, Guard::Off] {
        let device: Arc<dyn Device> = Arc::new(RamDevice::new(16_384));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        let store = Store::open(device.clone(), &options(guard)).expect("open");
        let stop = AtomicBool::new(false);
        let owned: Vec<Owned> = std::thread::scope(|scope| {
            let threads: Vec<_> = (1..=4u64)
                .map(|owner| {
                    let store = &store;
                    scope.spawn(move || {
                        let mut owned = Owned {
                            nodes: Vec::new(),
                            owner,
                            seed: owner,
                        };
                        (0..4000).for_each(|_| owned.step(store));
                        owned
                    })
                })
                .collect();
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    store.checkpoint().expect("checkpoint");
                }
            });
            let owned = threads.into_iter().map(|t| t.join().expect("thread")).collect();
            stop.store(true, Ordering::Relaxed);
            owned
        });
        store.sync().expect("sync");
        let (_, _, evictions) = store.arena_figures();
        assert!(evictions > 0, "the arena was to be too small");
        store.kill();
        drop(store);
        let store = Store::open(device.clone(), &options(guard)).expect("recover");
        let live: usize = owned.iter().map(|o| o.nodes.len()).sum();
        assert_eq!(store.totals().nodes, live as u64);
        for (r, value) in owned.iter().flat_map(|o| &o.nodes) {
            let mut found = [0; 8];
            store.view().read(*r, 64, &mut found).expect("read");
            assert_eq!(u64::from_le_bytes(found), *value);
        }
        store.close().expect("close");
    }
}
