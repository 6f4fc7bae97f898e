//! What is used was verified: strays into whatever an operation reads, at every byte (S-15.19, S-15.14).

mod fetched;
mod ladder;
mod repairs;

use crate::{Equations, Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_codes::Protection;
use keepfs_format::bitmap::TOTALS;
use keepfs_format::metablock::HEADER;
use keepfs_format::{Kind, PAGE};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_pool::options::Rungs;
use keepfs_vault::planted::{Use, plant_use};
use std::sync::Arc;

const OWNER: u64 = 7;

/// A new pool in a small arena, without guard, audits and threads.
fn opened(device: Arc<dyn Device>, code: Protection, rungs: Rungs) -> Arc<Store> {
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
        rungs,
        ..StoreOptions::default()
    };
    Store::open(device, &options).expect("open")
}

fn world(code: Protection) -> (Arc<Store>, Ref, [u8; PAGE]) {
    let store = opened(Arc::new(RamDevice::new(4096)), code, StoreOptions::default().rungs);
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
    store.frames.arena.stray(pin.frame, at, bytes);
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

/// Asked for as what it is not, a right frame is told as that; nobody mends or fences it. S-15.30
#[test]
fn a_pointer_that_lies_fences_nobody() {
    let (store, node, right) = world(Protection::Pcrc);
    for kind in [Kind::DirLeaf, Kind::DirIndex, Kind::BlockMap] {
        let wrong = Ref { kind, ..node };
        let told = store.view().read(wrong, 64, &mut [0; 4]);
        assert!(format!("{told:?}").contains("was expected as"), "{told:?}");
        let told = store.transact::<_, Error>(|t| Ok(t.read(wrong, 64, &mut [0; 4])?));
        assert!(matches!(told, Err(Error::DamagedOne { .. })), "{told:?}");
    }
    let mut found = [0; PAGE];
    store.view().whole(node, &mut found).expect("read");
    assert!(found == right && store.fenced() == 0 && store.damages().is_empty());
}

/// A transaction that fails over a stray write in what it had stored: whether all is as before, and nothing is told.
fn back_over_a_stray(bug: Option<Use>) -> bool {
    let (store, node, right) = world(Protection::Pcrc);
    let failed = store.transact::<(), Error>(|t| {
        t.put(node, 300, &[0xC3; 16], Meaning::Xattr)?;
        scribble(&store, node, 304, &[0x5A; 4]);
        plant_use(bug);
        Err(Error::NoSpace.into())
    });
    plant_use(None);
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    let mut found = [0; PAGE];
    store.view().whole(node, &mut found).expect("read");
    found == right && store.damages().is_empty()
}

/// What is taken back needs no look: the record has both sides, and the stray goes with what it covered (S-15.11).
#[test]
fn what_is_taken_back_is_not_taken_from_the_frame() {
    assert!(back_over_a_stray(None));
    assert!(!back_over_a_stray(Some(Use::BackUnverified)), "noticed");
}

/// The pointer says another inode than the header: told as that at each way of asking, before anything is stored; nobody
/// mends or fences it, and its owner goes on (S-15.20, decision 0780).
#[test]
fn a_pointer_to_anothers_node_fences_nobody() {
    for code in [Protection::Off, Protection::Crc, Protection::Pcrc] {
        let (store, node, right) = world(code);
        let wrong = Ref {
            owner: OWNER + 1,
            ..node
        };
        let is_told = |told: String| assert!(told.contains("was expected as"), "{told}");
        is_told(format!("{:?}", store.view().read(wrong, 2000, &mut [0; 4])));
        is_told(format!("{:?}", store.view().whole(wrong, &mut [0; PAGE])));
        is_told(format!("{:?}", store.view().node(node.id, OWNER + 1)));
        let put = store.transact::<_, Error>(|t| Ok(t.put(wrong, 2000, b"mine", Meaning::Xattr)?));
        is_told(format!("{put:?}"));
        let by_kind = store.transact::<_, Error>(|t| {
            let found = t.node(node.id, OWNER + 1)?;
            Ok(t.put(found, 2000, b"mine", Meaning::Xattr)?)
        });
        is_told(format!("{by_kind:?}"));
        // As both in one transaction.
        let both = store.transact::<_, Error>(|t| {
            t.read(node, 2000, &mut [0; 4])?;
            Ok(t.put(wrong, 2000, b"mine", Meaning::Xattr)?)
        });
        assert!(matches!(both, Err(Error::Logic(_))), "{both:?}");
        let mut found = [0; PAGE];
        store.view().whole(node, &mut found).expect("read");
        assert!(
            found == right && store.fenced() == 0 && store.fault().is_none(),
            "{code}"
        );
        assert!(store.damages().is_empty(), "{code}");
    }
}

/// A stray write into what the control words say of whose frame it is: each line is read and changed all the same, since it is
/// held against whom the asker asks for; nothing of it is mended but the words (S-15.22, decision 0780).
#[test]
fn no_line_fails_over_the_words_that_say_whose_it_is() {
    for code in [Protection::Crc, Protection::Pcrc] {
        let (store, node, mut right) = world(code);
        let frame = store.fetch(node.id).expect("pin").frame;
        store.frames.arena.damage_binding(frame);
        for at in (0..PAGE).step_by(256) {
            let mut found = [0; 8];
            store.view().read(node, at, &mut found).expect("read");
            assert_eq!(found, right[at..at + 8], "{code} {at}");
        }
        assert!(store.damages().is_empty(), "{code}");
        let put = store.transact::<_, Error>(|t| Ok(t.put(node, 1900, b"changed", Meaning::Xattr)?));
        put.expect("put");
        right[1900..1907].copy_from_slice(b"changed");
        let failed = store.transact::<(), Error>(|t| {
            t.put(node, 1900, b"unmade!", Meaning::Xattr)?;
            Err(Error::NoSpace.into())
        });
        assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
        store.sync().expect("sync");
        let mut found = [0; PAGE];
        store.view().whole(node, &mut found).expect("read");
        assert!(found == right && store.fenced() == 0, "{code}");
        let seen: Vec<_> = store.damages().into_iter().map(|(damage, _)| damage.seen).collect();
        assert_eq!(seen, [keepfs_pool::events::Seen::Words], "{code}");
    }
}

/// A stray write into the owner of a header: it is told as that and mended, not taken for another inode's node; no other line
/// fails (S-15.19, decision 0780).
#[test]
fn an_owner_that_was_hit_is_no_other_owner() {
    use core::mem::offset_of;
    use keepfs_format::Header;
    for code in [Protection::Crc, Protection::Pcrc, Protection::Pq] {
        let (store, node, right) = world(code);
        let fields = [
            (offset_of!(Header, owner), 8),
            (offset_of!(Header, generation), 4),
            (offset_of!(Header, id), 8),
            (offset_of!(Header, kind), 1),
        ];
        for (at, len) in fields {
            for whole in [false, true] {
                let new: Vec<u8> = right[at..at + len].iter().map(|byte| byte ^ 1).collect();
                scribble(&store, node, at, &new);
                let mut found = [0; PAGE];
                match whole {
                    true => store.view().whole(node, &mut found).expect("read"),
                    false => {
                        let read = store.transact::<_, Error>(|t| Ok(t.read(node, 1800, &mut found[1800..1808])?));
                        read.expect("read");
                        assert_eq!(found[1800..1808], right[1800..1808]);
                        store.view().whole(node, &mut found).expect("read");
                    }
                }
                assert!(found == right, "{code} {at}");
            }
        }
        assert!(
            store.fenced() == 0 && store.fault().is_none() && store.damages().len() == 8,
            "{code}"
        );
        // Where the header is used as it lies there, the node counts as another inode's.
        plant_use(Some(Use::HeaderUnverified));
        scribble(&store, node, offset_of!(Header, owner), &[OWNER as u8 ^ 1]);
        let told = store.transact::<_, Error>(|t| Ok(t.read(node, 1800, &mut [0; 8])?));
        plant_use(None);
        assert!(format!("{told:?}").contains("was expected as"), "{code}: {told:?}");
    }
}
