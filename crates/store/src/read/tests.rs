//! What is used was verified: strays into whatever an operation reads, at every byte (S-15.19, S-15.14).

use crate::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_codes::Protection;
use keepfs_format::bitmap::TOTALS;
use keepfs_format::metablock::HEADER;
use keepfs_format::{Kind, PAGE};
use keepfs_media::ram::RamDevice;
use std::sync::Arc;

const OWNER: u64 = 7;

fn world(code: Protection) -> (Arc<Store>, Ref, [u8; PAGE]) {
    let device = Arc::new(RamDevice::new(4096));
    let format = FormatOptions {
        protect: code,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &format).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 0,
        background: false,
        guard: Guard::Off,
        audit: Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let node = store.transact::<_, Error>(|t| {
        let node = t.new_node(Kind::Xattr, 0, OWNER)?;
        let bytes: Vec<u8> = (0..PAGE - HEADER).map(|i| (i * 31 + i / 256) as u8).collect();
        t.put(node, HEADER, &bytes, Meaning::Xattr)?;
        Ok(node)
    });
    let node = node.expect("node");
    let mut right = [0; PAGE];
    store.view().whole(node, &mut right).expect("read");
    (store, node, right)
}

fn scribble(store: &Store, r: Ref, at: usize, bytes: &[u8]) {
    let pin = store.fetch(r.id).expect("pin");
    store.arena.copy(pin.frame, at, bytes);
}

/// Each byte of a metablock, scribbled before it is read by view and transaction, alone and in the whole: what they get is
/// right, and it is told.
#[test]
fn no_read_sees_a_stray() {
    for code in [Protection::Crc, Protection::Pcrc, Protection::Pq, Protection::Evenodd64] {
        let (store, node, right) = world(code);
        let step = if code == Protection::Pcrc { 1 } else { 7 };
        for at in (0..PAGE).step_by(step) {
            scribble(&store, node, at, &[right[at] ^ 0x42]);
            let mut found = [0; PAGE];
            match at % 3 {
                0 => {
                    let from = at.min(PAGE - 8);
                    store.view().read(node, from, &mut found[from..from + 8]).expect("read");
                    assert_eq!(found[from..from + 8], right[from..from + 8], "{code} {at}");
                }
                1 => {
                    store.view().whole(node, &mut found).expect("read");
                    assert!(found == right, "{code} {at}");
                }
                _ => {
                    let read = store.transact::<_, Error>(|t| Ok(t.read(node, at, &mut found[at..at + 1])?));
                    read.expect("read");
                    assert_eq!(found[at], right[at], "{code} {at}");
                }
            }
            store.view().whole(node, &mut found).expect("read");
            assert!(found == right, "{code} {at}");
        }
        assert!(store.fault().is_none() && store.fenced() == 0, "{code}");
        assert!(
            store.stats().repaired + store.stats().rebuilt >= (PAGE / step) as u64 - 1,
            "{code}"
        );
    }
}

/// A stray under what a transaction replaces, and beside it in the same line: neither is folded into sums, both are told.
/// S-15.11
#[test]
fn a_put_over_a_stray_leaves_no_trace_of_it() {
    for code in [Protection::Pcrc, Protection::Pq] {
        let (store, node, mut right) = world(code);
        for at in (HEADER..PAGE - 64).step_by(61) {
            scribble(&store, node, at, &[0xEE; 9]);
            let new = [at as u8; 5];
            let put = store.transact::<_, Error>(|t| Ok(t.put(node, at + 2, &new, Meaning::Xattr)?));
            put.expect("put");
            right[at + 2..at + 7].copy_from_slice(&new);
            let mut found = [0; PAGE];
            store.view().whole(node, &mut found).expect("read");
            assert!(found == right, "{code} {at}");
        }
        store.sync().expect("sync");
        store.checkpoint().expect("checkpoint");
        assert!(store.fault().is_none());
    }
}

/// Two strays in one frame, in lines of their own: both are mended. S-15.21
#[test]
fn two_strays_in_a_frame_are_mended() {
    let (store, node, right) = world(Protection::Pcrc);
    for i in 0..200usize {
        let (one, other) = (64 + i * 13, 64 + (i * 13 + 1800) % 3900);
        let (one, other) = (one - one % 64, other - other % 64 + 32);
        scribble(&store, node, one, &[0xA1 ^ right[one]; 8]);
        scribble(&store, node, other, &[0xB2 ^ right[other]; 8]);
        let mut found = [0; PAGE];
        store.view().whole(node, &mut found).expect("read");
        assert!(found == right, "{one} {other}");
    }
    assert_eq!(store.stats().rebuilt, 0, "the code alone");
}

/// Counters: a stray into TOTALS before a transaction adds to them is not added to. S-13.4
#[test]
fn a_stray_counter_is_not_counted_from() {
    let (store, node, _) = world(Protection::Pcrc);
    let (totals, nodes) = (Ref::shared(TOTALS, Kind::Totals), store.totals().nodes);
    for round in 0..20u64 {
        for at in 0..4 {
            scribble(&store, totals, HEADER + 8 * at, &round.wrapping_mul(77).to_le_bytes());
            let made = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, OWNER)?));
            let made = made.expect("node");
            scribble(&store, totals, HEADER + 8 * at, &round.wrapping_mul(91).to_le_bytes());
            store.transact::<_, Error>(|t| Ok(t.free_node(made)?)).expect("freed");
        }
    }
    assert_eq!(store.totals().nodes, nodes);
    store.view().read(node, HEADER, &mut [0; 8]).expect("read");
    assert!(store.fault().is_none());
}

/// Asked for as what it is not, a right frame is told as that; nobody mends or fences it. S-15.20
#[test]
fn a_pointer_that_lies_fences_nobody() {
    let (store, node, right) = world(Protection::Pcrc);
    for kind in [Kind::DirLeaf, Kind::DirIndex, Kind::BlockMap] {
        let wrong = Ref { kind, ..node };
        let told = store.view().read(wrong, 64, &mut [0; 4]);
        assert!(format!("{told:?}").contains("was expected as"), "{told:?}");
        let told = store.transact::<_, Error>(|t| Ok(t.read(wrong, 64, &mut [0; 4])?));
        assert!(matches!(told, Err(Error::Damaged(_))), "{told:?}");
    }
    let mut found = [0; PAGE];
    store.view().whole(node, &mut found).expect("read");
    assert!(found == right && store.fenced() == 0 && store.damages().is_empty());
}
