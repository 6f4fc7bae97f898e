//! Bad pages of the group that carries staged pages over a checkpoint (S-10.3, S-9.7, S-9.11), and bad bitmaps (S-9.10).

use crate::opened::{self, open};
use crate::walked::check_with;
use keepfs_check::{Finding, Options};
use keepfs_format::plog::{MAGIC, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Header, Kind, MetaId, PAGE, Space};
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{Error, FormatOptions, Meaning, Mend, Ref, Remains, Source, Store, StoreOptions};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Faults, SimDevice};
use std::sync::Arc;

/// What ends the log of a page that is not what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bad {
    Zeros,
    Changed,
    /// Its payload alone: as a page of the log it looks right.
    Payload,
    /// Two bits far apart, more than S-9.24 undoes.
    Bits,
    Unreadable,
}

const WAYS: [Bad; 4] = [Bad::Zeros, Bad::Changed, Bad::Payload, Bad::Unreadable];

fn formatted() -> Arc<SimDevice> {
    let device = Arc::new(SimDevice::new(2048));
    let o = FormatOptions {
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    device
}

fn put(store: &Store, node: Ref, value: u64) {
    let change = store.transact::<_, Error>(|t| Ok(t.put(node, 64, &value.to_le_bytes(), Meaning::Xattr)?));
    change.expect("change");
    store.sync().expect("sync");
}

/// Pages staged and synced, carried over by a recovery, then syncs.
struct Carried {
    image: Image,
    node: Ref,
    staged: Vec<Vec<u8>>,
    syncs: u64,
    /// The device pages of the carried group.
    pages: Vec<PageNo>,
    /// Pages of the log.
    ring: u64,
}

impl Carried {
    fn new(lengths: &[usize], syncs: u64) -> Carried {
        let device = formatted();
        let store = open(&device, false, false).expect("open");
        let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
        let node = node.expect("node");
        let content = |n: usize| (0..lengths[n]).map(|i| (i * 7 + n * 31 + 1) as u8 | 1).collect();
        let staged: Vec<Vec<u8>> = (0..lengths.len()).map(content).collect();
        for (index, bytes) in staged.iter().enumerate() {
            let change = store.transact::<_, Error>(|t| Ok(t.stage(5, index as u64, 1, None, 0, bytes)?));
            change.expect("stage");
        }
        store.sync().expect("sync");
        store.kill();
        drop(store);
        let device = Arc::new(SimDevice::over(device.power_cut(0)));
        let store = open(&device, false, false).expect("open");
        (1..=syncs).for_each(|value| put(&store, node, value));
        store.kill();
        drop(store);
        let image = device.power_cut(0);
        let (sb, pages) = first_group(&image);
        Carried {
            image,
            node,
            staged,
            syncs,
            pages,
            ring: sb.log_pages.get(),
        }
    }

    fn with(&self, bad: &[PageNo], way: Bad) -> Arc<SimDevice> {
        let mut image = self.image.clone();
        for page in bad {
            image.change(*page, |bytes| match way {
                Bad::Zeros => bytes.fill(0),
                Bad::Changed => bytes.iter_mut().for_each(|byte| *byte ^= 0x5C),
                Bad::Payload => bytes[PAYLOAD_OFFSET + 20..PAYLOAD_OFFSET + 24]
                    .iter_mut()
                    .for_each(|byte| *byte ^= 0x41),
                Bad::Bits => [(2043, 0x10), (3081, 8)]
                    .into_iter()
                    .for_each(|(at, bit)| bytes[at] ^= bit),
                Bad::Unreadable => {}
            });
        }
        let device = Arc::new(SimDevice::over(image));
        if way == Bad::Unreadable {
            let faults = bad.iter().fold(Faults::none(), |faults, page| faults.unreadable(*page));
            device.set_faults(faults);
        }
        device
    }

    /// Everything is there.
    fn is_whole(&self, store: &Store, what: &str) {
        for (index, bytes) in self.staged.iter().enumerate() {
            let mut page = [0; PAGE];
            assert!(store.staged(5, index as u64, &mut page).expect("staged"), "{what}");
            assert!(page[..bytes.len()] == bytes[..], "{what}: page {index}");
            assert!(
                page[bytes.len()..].iter().all(|byte| *byte == 0),
                "{what}: page {index}"
            );
        }
        let mut value = [0; 8];
        store.view().read(self.node, 64, &mut value).expect("the node");
        assert_eq!(u64::from_le_bytes(value), self.syncs, "{what}");
    }
}

/// The newest superblock, and the pages of the group that its log begins with.
fn first_group(image: &Image) -> (Superblock, Vec<PageNo>) {
    let slots = (0..superblock::SLOTS).map(|slot| superblock::slot_page(slot, image.pages()));
    let read = |page| Superblock::read_from_bytes(&image.bytes(PageNo(page))[..]).ok();
    let sb = slots.filter_map(read).max_by_key(|sb| sb.generation.get());
    let sb = sb.expect("a superblock");
    let place = |q: u64| PageNo(sb.log_start.get() + q % sb.log_pages.get());
    let of_group = |page: &PageNo| {
        let head = PageHead::read_from_bytes(&image.bytes(*page)[..PAYLOAD_OFFSET]).expect("a head");
        head.magic.get() == MAGIC && head.group.get() == sb.group.get()
    };
    let pages = (sb.log_seq.get()..).map(place).take_while(of_group).collect();
    (sb, pages)
}

fn findings(device: &SimDevice) -> Vec<Finding> {
    let o = Options { data: true, limit: 100 };
    check_with(device, &o).findings
}

/// The watcher tells what the mount does: small writes from before the last checkpoint are lost.
fn is_told_as_carried(device: &SimDevice) -> bool {
    findings(device).iter().any(|f| matches!(f, Finding::LogCarried { .. }))
}

const LENGTHS: [&[usize]; 4] = [&[100], &[4096], &[4096, 4096, 4096, 17], &[900, 3124, 4096, 4096, 4096]];

/// Whichever page of the carried group is bad, alone: nothing is lost, the mount goes on, and it is told. S-9.11, S-10.3
#[test]
fn one_bad_page_of_the_carried_group_is_made_again() {
    for (lengths, syncs) in LENGTHS.into_iter().flat_map(|lengths| [(lengths, 0), (lengths, 2)]) {
        let carried = Carried::new(lengths, syncs);
        assert!(carried.pages.len() >= 2, "{:?}", carried.pages);
        for (page, way) in carried.pages.iter().flat_map(|page| WAYS.map(|way| (*page, way))) {
            let what = format!(
                "{lengths:?}, {syncs} syncs, page {page:?} of {:?}, {way:?}",
                carried.pages
            );
            let device = carried.with(&[page], way);
            let told = findings(&device);
            let is_mended = |f: &Finding| matches!(f, Finding::LogMended { page: of, .. } if *of == page.0);
            assert!(told.iter().any(is_mended), "{what}: {told:?}");
            assert!(
                !told.iter().any(|f| matches!(f, Finding::LogGone { .. })),
                "{what}: {told:?}"
            );
            for read_only in [true, false] {
                let store = open(&device, read_only, false).unwrap_or_else(|e| panic!("{what}: {e}"));
                carried.is_whole(&store, &what);
                let how = if way == Bad::Unreadable {
                    Mend::Unreadable
                } else {
                    Mend::MadeAgain
                };
                let mended: Vec<_> = store.log_mended().iter().map(|m| (m.page, m.how)).collect();
                assert_eq!(mended, [(page.0, how)], "{what}");
                assert!(
                    store.history().events(0).iter().any(|e| (e.place, e.done) == (6, 3)),
                    "{what}"
                );
                assert!(store.log_cut().is_none(), "{what}");
                store.kill();
            }
            // The recovery has written them elsewhere.
            let again = Arc::new(SimDevice::over(device.power_cut(0)));
            let store = open(&again, false, false).expect("open");
            carried.is_whole(&store, &what);
            assert!(store.log_mended().is_empty(), "{what}");
        }
    }
}

/// One bad page of the carried group, and a flipped bit in another one, at any field: that one's is undone before the other is made
/// again from it. S-9.21
#[test]
fn a_flipped_bit_beside_a_bad_page_costs_nothing() {
    for (lengths, syncs) in LENGTHS.into_iter().zip([0, 2, 0, 2]) {
        let carried = Carried::new(lengths, syncs);
        let ways = [Bad::Bits, Bad::Zeros, Bad::Unreadable];
        let pairs = carried
            .pages
            .iter()
            .flat_map(|page| carried.pages.iter().map(move |other| (*page, *other)));
        for ((page, other), way) in pairs.flat_map(|pages| ways.map(|way| (pages, way))) {
            // The CRC of a bad page tells what is wrong with the one behind it.
            if page == other || other.0 == page.0 + 1 && way != Bad::Bits {
                continue;
            }
            for at in [4, 6, 9, 17, 25, 33, 41, 60, 2000, PAGE - 1] {
                let what = format!("{lengths:?}, {syncs} syncs, {page:?} {way:?}, byte {at} of {other:?}");
                let device = carried.with(&[page], way);
                let mut bytes = [0; PAGE];
                device.read(other, &mut bytes).expect("read");
                bytes[at] ^= 0x40;
                device.write(other, &bytes, Class::Plog).expect("write");
                let gone = |f: &Finding| matches!(f, Finding::LogGone { .. } | Finding::LogPage { .. });
                assert!(!findings(&device).iter().any(gone), "{what}: {:?}", findings(&device));
                let store = open(&device, true, false).unwrap_or_else(|e| panic!("{what}: {e}"));
                carried.is_whole(&store, &what);
                assert_eq!(store.log_mended().len(), 2, "{what}");
            }
            let store = open(&carried.with(&[page], way), false, false).expect("open");
            store.sync().expect("sync");
        }
    }
}

/// Two bad pages of the carried group: no state that was can be shown, so the pool is not even read unless its user asks for the
/// cut. S-9.7
#[test]
fn without_the_carried_group_nothing_is_shown_unasked() {
    for syncs in [0, 2] {
        let carried = Carried::new(&[4096, 4096, 4096, 17], syncs);
        let pairs = carried.pages.windows(2);
        for (bad, way) in pairs.flat_map(|bad| WAYS.map(|way| (bad, way))) {
            let what = format!("{syncs} syncs, {bad:?} of {:?}, {way:?}", carried.pages);
            let device = carried.with(bad, way);
            assert!(
                findings(&device).iter().any(|f| matches!(f, Finding::LogGone { .. })),
                "{what}"
            );
            assert!(is_told_as_carried(&device), "{what}");
            for (read_only, cut_log) in [(false, false), (true, false)] {
                let Err(error) = open(&device, read_only, cut_log) else {
                    panic!("{what}: read-only {read_only}, cut-log {cut_log}");
                };
                assert!(error.to_string().contains("-o ro,cut-log"), "{what}: {error}");
            }
            let store = open(&device, true, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(store.log_cut().is_some_and(|cut| cut.carried), "{what}");
            drop(store);
            let store = open(&device, false, true).unwrap_or_else(|e| panic!("{what}: {e}"));
            store.sync().unwrap_or_else(|e| panic!("{what}: {e}"));
            drop(store);
            open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
        }
    }
}

/// Two flipped bits far apart in one page of the carried group, and one more, at any field, in the one behind it: what that page says
/// of itself is not believed, least of all that it brings transactions. Nothing is shown that never was. S-9.17
#[test]
fn no_unproved_head_tells_that_a_group_was_a_syncs() {
    for (lengths, syncs) in LENGTHS.into_iter().zip([0, 2, 2, 0]) {
        let carried = Carried::new(lengths, syncs);
        let ways = [Bad::Zeros, Bad::Bits, Bad::Unreadable];
        let behind = carried.pages.windows(2).map(|pages| (pages[0], pages[1]));
        for ((page, next), way) in behind.flat_map(|pages| ways.map(|way| (pages, way))) {
            for at in [4, 6, 9, 17, 25, 33, 40, 41, 43, 47, 49, PAGE - 1] {
                let what = format!("{lengths:?}, {syncs} syncs, {page:?} {way:?}, byte {at} of the one behind");
                let device = carried.with(&[page], way);
                let mut bytes = [0; PAGE];
                device.read(next, &mut bytes).expect("read");
                bytes[at] ^= 0x40;
                device.write(next, &bytes, Class::Plog).expect("write");
                let gone = findings(&device).iter().any(|f| matches!(f, Finding::LogGone { .. }));
                match open(&device, true, false) {
                    Ok(store) => {
                        carried.is_whole(&store, &what);
                        assert!(!gone, "{what}");
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("-o ro,cut-log"), "{what}: {error}");
                        assert!(gone && is_told_as_carried(&device), "{what}");
                    }
                }
            }
        }
    }
}

/// A newer superblock is lost, and its life has written over the carried group of the one before: that one's state is not to be had
/// either. S-9.17
#[test]
fn a_lost_superblock_is_no_way_around_the_carried_group() {
    let carried = Carried::new(&[4096, 4096, 17], 2);
    let mut image = carried.image.clone();
    for page in &carried.pages {
        image.change(*page, |bytes| {
            let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a word"));
            let (number, group, base) = (word(8) + carried.ring, word(16) + 9, word(32) + 2);
            bytes[8..16].copy_from_slice(&number.to_le_bytes());
            bytes[16..24].copy_from_slice(&group.to_le_bytes());
            bytes[32..40].copy_from_slice(&base.to_le_bytes());
        });
    }
    let device = Arc::new(SimDevice::over(image));
    for read_only in [true, false] {
        let Err(error) = open(&device, read_only, false) else {
            panic!("read-only {read_only}");
        };
        let said = error.to_string();
        assert!(
            said.contains("newest superblock") && said.contains("-o ro,cut-log"),
            "{said}"
        );
    }
    assert!(is_told_as_carried(&device), "{:?}", findings(&device));
    let store = open(&device, true, true).expect("mount -o ro,cut-log");
    assert!(
        store
            .log_cut()
            .is_some_and(|cut| cut.carried && cut.superblock.is_some())
    );
    drop(store);
    drop(open(&device, false, true).expect("mount -o cut-log"));
}

/// A sync's group is not the carried one: the checkpoint's state without it was, and is shown read-only, but not written
/// unasked. S-9.7
#[test]
fn a_bad_group_of_a_sync_is_cut_as_before() {
    let carried = Carried::new(&[100], 3);
    let last = carried.pages[carried.pages.len() - 1];
    let device = carried.with(&[PageNo(last.0 + 1)], Bad::Zeros);
    assert!(open(&device, false, false).is_err());
    let store = open(&device, true, false).expect("mount -o ro");
    assert!(store.log_cut().is_some_and(|cut| !cut.carried));
    assert!(!is_told_as_carried(&device), "{:?}", findings(&device));
    assert!(store.begin_writing().is_err());
    drop(store);
    drop(open(&device, false, true).expect("mount -o cut-log"));
}

/// A pool that was closed well, with a bad bitmap of numbers: it is refused for writing, with a word how it is read. S-9.22
#[test]
fn a_bad_bitmap_of_numbers_is_refused_for_writing() {
    let device = formatted();
    let store = open(&device, false, false).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    put(&store, node.expect("node"), 7);
    store.close().expect("close");
    drop(store);
    let mut image = device.image();
    let numbers = MetaId::new(Space::NodeNumbers, 0);
    let is_it =
        |page: &PageNo| Header::read_from_prefix(image.bytes(*page)).is_ok_and(|(h, _)| h.id.get() == numbers.0);
    let homes: Vec<PageNo> = (0..image.pages()).map(PageNo).filter(is_it).collect();
    assert!(!homes.is_empty());
    homes
        .iter()
        .for_each(|page| image.change(*page, |bytes| bytes[2000..].fill(0xEE)));
    let device = Arc::new(SimDevice::over(image));
    let Err(error) = open(&device, false, false) else {
        panic!("mounted for writing");
    };
    assert!(error.to_string().contains("-o ro"), "{error}");
    let store = open(&device, true, false).expect("mount -o ro");
    assert!(store.begin_writing().is_err());
}

/// A server that others follow, over a pool with staged pages in a carried group alone, all of it bad by now.
fn goes_bad(carried: &Carried, way: Bad, change: impl FnOnce(&Store)) -> (Arc<SimDevice>, Remains) {
    let device = Arc::new(SimDevice::over(carried.image.clone()));
    let store = Store::open(device.clone(), &lasting()).expect("open");
    carried.is_whole(&store, "before");
    let (_, pages) = first_group(&device.image());
    assert_eq!(pages.len(), carried.pages.len());
    change(&store);
    let remains = store.remains().expect("it lasts");
    store.kill();
    for page in &pages {
        device.write(*page, &[0; PAGE], Class::Plog).expect("write");
    }
    device.flush().expect("flush");
    if way == Bad::Unreadable {
        let faults = pages
            .iter()
            .fold(Faults::none(), |faults, page| faults.unreadable(*page));
        device.set_faults(faults);
    }
    (device, remains)
}

fn lasting() -> StoreOptions {
    StoreOptions {
        lasting: true,
        ..opened::options(false, false)
    }
}

/// S-16.36: all of the carried group goes bad while the pool is mounted, and the server dies: the memory that it left has what the
/// group had, with what came behind, and the next checkpoint carries it.
#[test]
fn what_a_carried_group_had_outlives_the_server() {
    let changes: [fn(&Store, Ref); 2] = [
        |_, _| {},
        |store, node| {
            let change = |t: &mut keepfs_store::Txn<'_>| {
                t.put(node, 64, &7u64.to_le_bytes(), Meaning::Xattr)?;
                Ok(t.stage(5, 0, 2, None, 10, b"newer")?)
            };
            store.transact::<_, Error>(change).expect("a change");
        },
    ];
    for (lengths, way) in LENGTHS
        .into_iter()
        .flat_map(|lengths| [(lengths, Bad::Zeros), (lengths, Bad::Unreadable)])
    {
        for (nth, change) in changes.into_iter().enumerate() {
            let what = format!("{lengths:?}, {way:?}, change {nth}");
            let mut carried = Carried::new(lengths, 0);
            let (device, remains) = goes_bad(&carried, way, |store| change(store, carried.node));
            if nth == 1 {
                carried.syncs = 7;
                carried.staged[0][10..15].copy_from_slice(b"newer");
            }
            // A resume that is cut is repeated: by then a checkpoint has them.
            for (mended, remains) in [(1, remains.duplicate().expect("again")), (0, remains)] {
                let (store, resumed) = Store::resume(device.clone(), &lasting(), remains, |_| {}).expect(&what);
                assert_eq!((resumed.lost, &resumed.findings[..]), (0, &[][..]), "{what}");
                carried.is_whole(&store, &what);
                assert!(store.log_cut().is_none(), "{what}");
                assert_eq!(store.log_mended().len(), mended, "{what}");
                let told = store.history().events(0);
                assert_eq!(told.iter().any(|e| (e.place, e.done) == (6, 3)), mended == 1, "{what}");
                store.kill();
            }
            let device = Arc::new(SimDevice::over(device.power_cut(0)));
            assert!(!is_told_as_carried(&device), "{what}");
            let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
            carried.is_whole(&store, &what);
            store.kill();
        }
    }
}

/// S-16.36: where a group was synced behind it, that is lost, too, and told.
#[test]
fn a_carried_group_that_is_lost_with_syncs_behind_it_is_told() {
    let carried = Carried::new(LENGTHS[2], 0);
    let (device, remains) = goes_bad(&carried, Bad::Zeros, |store| put(store, carried.node, 7));
    let (store, resumed) = Store::resume(device, &lasting(), remains, |_| {}).expect("resumed");
    assert!(resumed.lost > 0);
    assert!(store.log_cut().is_some_and(|cut| cut.carried && cut.proved));
    assert!(store.history().events(0).iter().any(|e| (e.place, e.done) == (6, 10)));
    store.kill();
}
