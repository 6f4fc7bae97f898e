//! A recovery is cut before its superblock: what it wrote behind the old log is nobody's, and wrong bits in it tell of no lost superblock
//! (S-9.28).

use crate::opened::{self, open};
use crate::walked::check;
use keepfs_check::Finding;
use keepfs_codes::crc64;
use keepfs_format::plog::{MAGIC, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, Kind, PAGE};
use keepfs_media::PageNo;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_testkit::image::{Image, Page};
use keepfs_testkit::sim::SimDevice;
use std::sync::Arc;

const PAGES: u64 = 2048;
/// Pages of the log.
const LOG: u64 = 64;
/// Pages of a file that are staged, whole: the carried group has three pages with them, and its parity.
const STAGED: u64 = 2;
/// What a node has before the crash.
const VALUE: u64 = 7;

/// What is staged as page `index`.
fn content(index: u64) -> [u8; PAGE] {
    core::array::from_fn(|at| (at * 31 / 8) as u8 ^ index as u8)
}

fn newest(image: &Image) -> Superblock {
    let slots = (0..superblock::SLOTS).map(|slot| PageNo(superblock::slot_page(slot, PAGES)));
    let read = |page| Superblock::read_from_bytes(&image.bytes(page)[..]).expect("a page");
    let newest = slots.map(read).max_by_key(|sb| sb.generation.get());
    newest.expect("a superblock")
}

fn head(image: &Image, page: PageNo) -> PageHead {
    PageHead::read_from_bytes(&image.bytes(page)[..PAYLOAD_OFFSET]).expect("a head")
}

/// A pool behind a crash, with staged pages, and the pages of the log that a recovery of it writes before its superblock.
fn crashed(syncs: u64) -> (Image, Ref, Vec<(PageNo, Page)>) {
    let device = Arc::new(SimDevice::new(PAGES));
    let o = FormatOptions {
        log_pages: Some(LOG),
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).expect("format");
    let store = open(&device, false, false).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let node = node.expect("a node");
    for sync in 0..syncs {
        let change = store.transact::<_, Error>(|t| {
            t.put(node, 64, &VALUE.to_le_bytes(), Meaning::Xattr)?;
            for index in 0..STAGED {
                t.stage(5, index, 1 + sync as u32, None, 0, &content(index)[..4000])?;
            }
            Ok(())
        });
        change.and_then(|()| store.sync()).expect("a sync");
    }
    store.kill();
    drop(store);
    let before = device.image();
    let recovered = Arc::new(SimDevice::over(before.clone()));
    open(&recovered, false, false).expect("recovered").kill();
    let (after, sb) = (recovered.image(), newest(&before));
    let region = sb.log_start.get()..sb.log_start.get() + sb.log_pages.get();
    let is_carried = |page: &PageNo| {
        let head = head(&after, *page);
        head.magic.get() == MAGIC && head.base == sb.generation && after.bytes(*page) != before.bytes(*page)
    };
    let mut carried: Vec<PageNo> = region.map(PageNo).filter(is_carried).collect();
    carried.sort_by_key(|page| head(&after, *page).sequence.get());
    let carried = carried.into_iter().map(|page| (page, Page::new(after.bytes(page))));
    (before, node, carried.collect())
}

/// The pool with these pages of the recovery, as it stands.
fn with(before: &Image, pages: &[(PageNo, Page)]) -> Image {
    let mut image = before.clone();
    for (place, page) in pages {
        image.set(*place, page.clone());
    }
    image
}

/// Nothing is lost, for whoever writes, reads or checks.
fn is_whole(image: &Image, node: Ref, what: &str) {
    let device = Arc::new(SimDevice::over(image.clone()));
    let found = check(&*device).findings;
    // Nothing leads to what the store has: there is no file system in it.
    let is_of_it = |found: &Finding| matches!(found, Finding::Staged { .. } | Finding::NodeUnreached { .. });
    assert!(found.iter().all(is_of_it), "{what}: {found:?}");
    let store = open(&device, false, false).unwrap_or_else(|e| panic!("{what}: {e}"));
    let (mut value, mut page) = ([0; 8], [0; PAGE]);
    store.view().read(node, 64, &mut value).expect("the node");
    for index in 0..STAGED {
        store.staged(5, index, &mut page).expect("the staged page");
        assert!(page[..4000] == content(index)[..4000], "{what}: page {index}");
    }
    assert_eq!(value, VALUE.to_le_bytes(), "{what}");
    assert!(store.log_cut().is_none(), "{what}");
    store.kill();
}

/// The runs of pages of the recovery that arrived: all, each alone, and all but each.
fn arrived(count: usize) -> Vec<Vec<usize>> {
    let alone = (0..count).map(|nth| vec![nth]);
    let without = (0..count).map(|nth| (0..count).filter(|other| *other != nth).collect());
    [(0..count).collect()].into_iter().chain(alone).chain(without).collect()
}

/// Wrong bits, from one on: each of a head and of what a carried page begins with, or those in the base generation and beside it.
fn wrong_bits(is_all: bool) -> impl Iterator<Item = (usize, u16)> {
    let bytes = if is_all { 0..PAYLOAD_OFFSET + 8 } else { 31..40 };
    let runs = (8 * 31..8 * 40)
        .step_by(5)
        .flat_map(|bit| [(bit, 0x8001), (bit, 0xFFFF)]);
    (8 * bytes.start..8 * bytes.end).map(|bit| (bit, 1)).chain(runs)
}

#[test]
fn wrong_bits_in_what_a_cut_recovery_wrote_cost_nothing() {
    for syncs in [1, 4] {
        let (before, node, carried) = crashed(syncs);
        assert_eq!(carried.len(), 4, "{syncs} syncs");
        is_whole(&before, node, "nothing arrived");
        for pages in arrived(carried.len()) {
            let pages: Vec<(PageNo, Page)> = pages.into_iter().map(|nth| carried[nth].clone()).collect();
            let is_all = pages.len() == carried.len();
            let image = with(&before, &pages);
            is_whole(&image, node, "as it was written");
            if syncs > 1 && !is_all {
                continue;
            }
            for (nth, (place, _)) in pages.iter().enumerate() {
                for (first, wrong) in wrong_bits(is_all && syncs == 1) {
                    let mut flipped = image.clone();
                    let bits = (0..16).filter(|bit| wrong >> bit & 1 == 1).map(|bit| first + bit);
                    flipped.change(*place, |bytes| bits.for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8)));
                    let what = format!(
                        "{syncs} syncs, page {nth} of {}, bits {wrong:x} from {first}",
                        pages.len()
                    );
                    is_whole(&flipped, node, &what);
                }
            }
        }
    }
}

/// Both slots of the newest superblock hold an older one, and one page was written behind it: of the group that a recovery which was cut
/// would have carried, as older versions wrote it (S-9.14). Its CRC tells that it is none of these, with wrong bits in it, too.
#[test]
fn one_whole_page_tells_of_a_lost_superblock() {
    let device = Arc::new(SimDevice::new(PAGES));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let store = open(&device, false, false).expect("open");
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
    let node = node.expect("a node");
    store.sync().expect("sync");
    store.close().expect("closed");
    let older = device.image();
    let store = open(&device, false, false).expect("open");
    let change = store.transact::<_, Error>(|t| Ok(t.put(node, 64, &VALUE.to_le_bytes(), Meaning::Xattr)?));
    change.and_then(|()| store.sync()).expect("a sync");
    store.kill();
    let mut image = device.image();
    let sb = newest(&image);
    lose(&mut image, &sb, &older);
    let place = first_page(&image, &sb);
    let group = newest(&image).group;
    image.change(place, |bytes| {
        bytes[16..24].copy_from_slice(&group.get().to_le_bytes());
        bytes[24..32].copy_from_slice(&(group.get() - 1).to_le_bytes());
        let seed = [&sb.pool[..], &sb.incarnation.get().to_le_bytes(), &[0; 8]].concat();
        let crc = crc64::full(&[&seed, &bytes[..PAGE - 8]].concat());
        bytes[PAGE - 8..].copy_from_slice(&crc.to_le_bytes());
    });
    // What is not known as a page of the log, or of this place, tells nothing: its magic and its number stay.
    let runs = (8 * 16..8 * PAGE - 16).step_by(4099).map(|first| (first, 0x8421));
    for (first, wrong) in [(0, 0)].into_iter().chain(runs) {
        let mut flipped = image.clone();
        let bits = (0..16).filter(|bit| wrong >> bit & 1 == 1).map(|bit| first + bit);
        flipped.change(place, |bytes| bits.for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8)));
        is_lost(flipped, &format!("from {first}"));
    }
}

/// The slots of the superblock hold what they did in the older pool.
fn lose(image: &mut Image, sb: &Superblock, older: &Image) {
    for slot in superblock::slots_of(sb.generation.get()) {
        let place = PageNo(superblock::slot_page(slot, PAGES));
        image.set(place, Page::new(older.bytes(place)));
    }
}

/// The first page of the log behind a superblock, which was written behind it.
fn first_page(image: &Image, sb: &Superblock) -> PageNo {
    let place = PageNo(sb.log_start.get() + sb.log_seq.get() % sb.log_pages.get());
    assert_eq!(head(image, place).base, sb.generation);
    place
}

/// The newest superblock is told as lost.
fn is_lost(image: Image, what: &str) {
    let device = Arc::new(SimDevice::over(image));
    let refused = open(&device, false, false).map(drop).expect_err(what).to_string();
    assert!(refused.contains("newest superblock"), "{what}: {refused}");
    let found = check(&*device).findings;
    let is_told = |found: &Finding| matches!(found, Finding::SuperblockNewer { .. });
    assert!(found.iter().any(is_told), "{what}: {found:?}");
}

/// S-9.14, S-16.18: a resume that applied so many transactions, and carried nothing, lost its superblock; one sync was answered behind it.
#[test]
fn what_is_synced_behind_a_resume_tells_of_its_superblock() {
    for owed in [0, 1, 6, 7, 40] {
        let device = Arc::new(SimDevice::new(PAGES));
        Store::format(device.clone(), &FormatOptions::default()).expect("format");
        let o = StoreOptions {
            lasting: true,
            ..opened::options(false, false)
        };
        let store = Store::open(device.clone(), &o).expect("open");
        let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 9)?));
        let node = node.expect("a node");
        store.sync().expect("sync");
        let put = |store: &Store, value: u64| {
            let change = |t: &mut keepfs_store::Txn<'_>| Ok(t.put(node, 64, &value.to_le_bytes(), Meaning::Xattr)?);
            store.transact::<_, Error>(change).expect("a change");
        };
        (0..owed).for_each(|value| put(&store, value));
        let (older, remains) = (device.image(), store.remains().expect("it lasts"));
        store.kill();
        let (store, resumed) = Store::resume(device.clone(), &o, remains, |_| {}).expect("resumed");
        assert_eq!((resumed.beyond, resumed.lost), (owed, 0));
        put(&store, VALUE);
        store.sync().expect("a sync");
        store.kill();
        let mut image = device.image();
        let sb = newest(&image);
        lose(&mut image, &sb, &older);
        first_page(&image, &sb);
        is_lost(image, &format!("{owed} owed"));
    }
}
