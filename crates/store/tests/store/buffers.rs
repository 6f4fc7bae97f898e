//! A stray write into a buffer that is on its way to the device, at each write of a sync and of a checkpoint: it is seen when
//! the write has completed, nothing counts as durable, and the pool is as it was at the sync before (X-4.4, S-13.15, C-3).

use keepfs_format::Kind;
use keepfs_media::{Class, Counters, Device, DeviceError, PageNo};
use keepfs_store::{Equations, Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_testkit::sim::SimDevice;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device under which the buffer of one write changes before its bytes are taken.
struct Strayed {
    device: Arc<SimDevice>,
    class: Class,
    /// So many pages of that class are still written as they are; `u64::MAX`: all.
    pages_left: AtomicU64,
}

impl Strayed {
    /// Changes a bit of the page whose turn it is, past all that a compiler knows: by the address alone.
    fn reach(&self, data: &[u8], class: Class) {
        if class != self.class {
            return;
        }
        for page in data.chunks_exact(keepfs_media::PAGE) {
            let left = self.pages_left.load(Ordering::Relaxed);
            if left == 0 {
                let memory = File::options().write(true).open("/proc/self/mem").expect("memory");
                let at = page.as_ptr().addr() as u64 + 1234;
                memory.write_all_at(&[page[1234] ^ 0x20], at).expect("a stray write");
            }
            self.pages_left.store(left.wrapping_sub(1), Ordering::Relaxed);
        }
    }

    fn was_reached(&self) -> bool {
        self.pages_left.load(Ordering::Relaxed) > 1 << 32
    }
}

impl Device for Strayed {
    fn pages(&self) -> u64 {
        self.device.pages()
    }
    fn read(&self, at: PageNo, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.device.read(at, buf)
    }
    fn write(&self, at: PageNo, data: &[u8], class: Class) -> Result<(), DeviceError> {
        self.reach(data, class);
        self.device.write(at, data, class)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        self.device.flush()
    }
    fn discard(&self, at: PageNo, pages: u64) -> Result<(), DeviceError> {
        self.device.discard(at, pages)
    }
    fn counters(&self) -> Counters {
        self.device.counters()
    }
    fn describe(&self) -> String {
        self.device.describe()
    }
    fn read_only(&self) -> bool {
        false
    }
}

const OLD: &[u8; 8] = b"as it is";
const NEW: &[u8; 8] = b"the next";

fn open(device: Arc<dyn Device>) -> Arc<Store> {
    let options = StoreOptions {
        arena_bytes: 4 << 20,
        tiny_arena: true,
        background: false,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn put(store: &Store, r: Ref, bytes: &[u8]) {
    let done = store.transact::<_, Error>(|t| Ok(t.put(r, 100, bytes, Meaning::Xattr)?));
    done.expect("put");
}

/// A pool in which `OLD` is durable, under a device that strays in page number `page` of this class from here on.
fn world(copies: u32, class: Class, page: u64) -> (Arc<Strayed>, Arc<Store>, Ref) {
    let device = Arc::new(SimDevice::new(8192));
    let format = FormatOptions {
        meta_copies: copies,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let strayed = Arc::new(Strayed {
        device,
        class,
        pages_left: AtomicU64::new(u64::MAX >> 1),
    });
    let store = open(strayed.clone());
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let node = node.expect("node");
    put(&store, node, OLD);
    store.checkpoint().expect("checkpoint");
    let staged = store.transact::<_, Error>(|t| Ok(t.stage(5, 0, 1, None, 0, b"carried over")?));
    staged.expect("staged");
    store.sync().expect("sync");
    put(&store, node, NEW);
    strayed.pages_left.store(page, Ordering::Relaxed);
    (strayed, store, node)
}

/// For each page of a class that `act` writes. Returns how many there are.
fn at_each(copies: u32, class: Class, act: impl Fn(&Store) -> Result<(), Error>) -> u64 {
    for page in 0..1000 {
        let (strayed, store, node) = world(copies, class, page);
        let done = act(&store);
        if !strayed.was_reached() {
            done.expect("nothing strayed");
            return page;
        }
        let what = format!("{class:?} page {page}, {copies} copies");
        assert!(matches!(done, Err(Error::Damaged(_))), "{what}: {done:?}");
        assert!(store.fault().is_some(), "{what}");
        store.sync().expect_err("writing has ended");
        drop(store);
        for image in [strayed.device.power_cut(0), strayed.device.image()] {
            let again = open(Arc::new(SimDevice::over(image)));
            let mut found = [0; 8];
            again.view().read(node, 100, &mut found).expect("read");
            assert!([*OLD, *NEW].contains(&found), "{what}: {found:?}");
            let mut staged = [0; 4096];
            assert!(again.staged(5, 0, &mut staged).expect("whole"), "{what}");
            assert!(staged.starts_with(b"carried over"), "{what}");
            again.checkpoint().expect("checkpoint");
        }
    }
    panic!("no end of {class:?}");
}

#[test]
fn a_log_buffer_that_changes_under_way_is_seen() {
    assert!(at_each(1, Class::Plog, Store::sync) > 0);
}

#[test]
fn a_buffer_of_a_checkpoint_that_changes_under_way_is_seen() {
    for copies in [1, 2] {
        for class in [Class::Plog, Class::Metadata, Class::Map, Class::Superblock] {
            assert!(at_each(copies, class, Store::checkpoint) > 0, "{class:?}");
        }
    }
}
