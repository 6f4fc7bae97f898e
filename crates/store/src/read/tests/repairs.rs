//! Scribbles in live frames: what the code repairs, and what is told (S-15.11, S-15.14, S-15.15, S-15.21).

use super::*;
use crate::{Meaning, Protection, Ref, Rungs, Source as _};
use keepfs_codes::identity::Group;
use keepfs_format::MetaId;
use keepfs_format::Space;
use keepfs_frames::Pin;
use keepfs_media::ram::RamDevice;
use keepfs_memory::failpoint;
use keepfs_pool::events::Done;
use keepfs_pool::events::Seen;
use keepfs_vault::undo::UndoSlot;
use keepfs_vault::update::by_hand as update;
use std::sync::{Arc, OnceLock};

const CODES: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];
const OWNER: u64 = 7;

struct World {
    store: Arc<Store>,
    node: Ref,
}

/// A pool with a node full of bytes, dirty since the last checkpoint; frames are mended by code and device only.
fn world(code: Protection) -> World {
    world_with(code, Rungs::CODE.with(Rungs::DEVICE))
}

fn world_with(code: Protection, rungs: Rungs) -> World {
    let store = opened(Arc::new(RamDevice::new(4096)), code, rungs);
    assert_eq!(store.pool().protect, code);
    let node = store.transact::<_, Error>(|t| {
        let node = t.new_node(Kind::Xattr, 0, OWNER)?;
        let bytes: Vec<u8> = (0..4000u32).map(|i| (i * 31 + i / 256) as u8).collect();
        t.put(node, 64, &bytes, Meaning::Xattr)?;
        Ok(node)
    });
    World {
        store,
        node: node.expect("node"),
    }
}

impl World {
    fn pin(&self) -> Pin<'_> {
        self.store.fetch(self.node.id).expect("pin")
    }

    /// A verified copy.
    fn verify(&self) -> [u8; PAGE] {
        let mut copy = [0; PAGE];
        self.store.verified_copy(&self.pin(), &mut copy).expect("verified");
        copy
    }

    /// A stray write: past the door.
    fn scribble(&self, offset: usize, bytes: &[u8]) {
        self.store.frames.arena.stray(self.pin().frame, offset, bytes);
    }

    fn put(&self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        self.store
            .transact::<_, Error>(|t| Ok(t.put(self.node, offset, bytes, Meaning::Xattr)?))
    }
}

/// S-2.6: the code is the pool's, whoever opens it; a pool that tells none has crc.
#[test]
fn a_pool_keeps_its_code() {
    for code in CODES.into_iter().chain([Protection::Off]) {
        world(code).verify();
    }
    let mut sb = keepfs_format::superblock::Superblock::blank();
    assert_eq!(crate::Pool::of(&sb).protect, Protection::Crc);
    assert!(keepfs_pool::protect::store(&mut sb, Protection::Adler).is_err());
}

/// Bits that flip: every code with sums repairs them, and says which.
#[test]
fn flipped_bits_are_repaired_by_every_code() {
    for code in CODES {
        let world = world(code);
        let right = world.verify();
        for (byte, bit) in [(5usize, 0u8), (64, 7), (2000, 3), (4095, 1)] {
            world.scribble(byte, &[right[byte] ^ 1 << bit]);
            assert!(world.verify() == right, "{code}");
            let (damage, done) = world.store.damages().pop().expect("told");
            assert_eq!(done, Done::Repaired);
            assert_eq!(damage.id, world.node.id);
            assert_eq!(damage.seen, Seen::Flips(vec![(byte, bit)]), "{code}");
        }
        assert_eq!(world.store.stats().repaired, 4);
        world.store.checkpoint().expect("nothing is wrong any more");
    }
}

/// A stray write of 1 to 64 bytes at any place: pcrc and pq repair it, and tell its address, length, old and new bytes.
#[test]
fn a_stray_write_is_repaired_and_described() {
    for code in [Protection::Pcrc, Protection::Pq] {
        let world = world(code);
        let right = world.verify();
        for (offset, len) in [(0, 32), (33, 8), (100, 64), (1000, 17), (4032, 64), (3001, 3)] {
            let noise: Vec<u8> = right[offset..offset + len].iter().map(|b| !b).collect();
            world.scribble(offset, &noise);
            assert!(world.verify() == right, "{code} at {offset}");
            let (damage, _) = world.store.damages().pop().expect("told");
            let frame = world.pin().frame as usize;
            let expected = Seen::StrayWrite {
                address: world.store.strays().shown_address() + frame * PAGE + offset,
                offset,
                old: right[offset..offset + len].to_vec(),
                new: noise,
            };
            assert_eq!(damage.seen, expected);
        }
        assert_eq!(world.store.fault().map(|e| e.to_string()), None);
    }
}

/// Parity, sum and control words that are changed instead of the frame.
#[test]
fn damaged_parity_sum_and_words_are_made_right() {
    let world = world(Protection::Pcrc);
    let right = world.verify();
    let arena = &world.store.frames.arena;
    let frame = world.pin().frame;
    let told = |seen: Seen| {
        assert!(world.verify() == right);
        let (damage, done) = world.store.damages().pop().expect("told");
        assert_eq!((damage.seen, done), (seen, Done::Repaired));
    };
    arena.damage_parity(frame, 3, 0x1234);
    told(Seen::Parity);
    arena.damage_sum(frame, 3, 1 << 40);
    told(Seen::Sum);
    arena.damage_binding(frame);
    told(Seen::Words);
    // The parity that was encoded anew is good for a repair.
    world.scribble(777, b"scribble");
    assert!(world.verify() == right);
}

/// Damage beyond the code in a frame that the device has: it is read again. The same in a dirty one is
/// fenced: it alone gives errors, and what it should hold is on the device behind the next checkpoint (S-15.17).
#[test]
fn a_clean_frame_is_read_again_and_a_dirty_one_is_fenced() {
    for code in [Protection::Crc, Protection::Pcrc, Protection::Evenodd256] {
        let world = world(code);
        world.store.checkpoint().expect("checkpoint");
        let right = world.verify();
        world.scribble(500, &[0xA5; 700]);
        world.scribble(3000, &[0x5A; 300]);
        assert!(world.verify() == right, "{code}");
        let (damage, done) = world.store.damages().pop().expect("told");
        assert_eq!(done, Done::ReadAgain);
        assert!(
            matches!(damage.seen, Seen::StrayWrite { offset: 500, .. }),
            "{:?}",
            damage.seen
        );
        assert_eq!(world.store.stats().read_again, 1);
        world.put(64, b"dirty").expect("put");
        world.verify();
        world.scribble(500, &[0xA5; 700]);
        world.scribble(3000, &[0x5A; 300]);
        world.store.checkpoint().expect("all else goes on");
        let (damage, done) = world.store.damages().pop().expect("told");
        assert_eq!((damage.seen, done), (Seen::Unknown, Done::Fenced));
        assert!(matches!(world.put(64, b"more"), Err(Error::Fenced { id }) if id == world.node.id));
        let told = world.store.view().read(world.node, 64, &mut [0; 5]);
        assert!(
            matches!(told, Err(crate::Stop::Error(Error::Fenced { .. }))),
            "{told:?}"
        );
        assert!(world.store.fault().is_none() && world.store.fenced() == 1);
        let listed = world.store.history().damage();
        assert!(
            listed
                .iter()
                .any(|d| (d.inode, d.id, d.done) == (OWNER, world.node.id.0, Done::Fenced as u8))
        );
        let entry = world
            .store
            .home
            .flash()
            .locate(&world.store.frames, world.node.id)
            .expect("map")
            .expect("lives");
        let kept = world
            .store
            .home
            .flash()
            .read_copies(&world.store.frames, world.node.id, &entry)
            .expect("whole");
        assert_eq!(&kept[64..69], b"dirty");
        assert_eq!(&kept[500..700], &right[500..700]);
    }
}

/// A scribble of a whole page brings an owner of its own with it, of which nobody is told: neither where the frame is read again
/// nor where it is fenced (S-15.15).
#[test]
fn an_owner_is_told_from_right_bytes_only() {
    for code in CODES {
        let world = world(code);
        world.store.checkpoint().expect("checkpoint");
        let right = world.verify();
        world.scribble(0, &[0xA5; PAGE]);
        assert!(world.verify() == right, "{code}");
        world.put(64, b"dirty").expect("put");
        world.verify();
        world.scribble(0, &[0xA5; PAGE]);
        world.store.checkpoint().expect("all else goes on");
        let told = world
            .store
            .damages()
            .into_iter()
            .map(|(damage, done)| (damage.owner, done));
        let expected = [(OWNER, Done::ReadAgain), (OWNER, Done::Fenced)];
        assert_eq!(told.collect::<Vec<_>>(), expected, "{code}");
        let listed = world.store.history().damage();
        assert!(listed.iter().all(|entry| entry.inode == OWNER), "{code}: {listed:?}");
    }
}

/// Map pages are clean always, whatever the code.
#[test]
fn a_map_page_is_read_again() {
    let world = world(Protection::Crc);
    world.store.checkpoint().expect("checkpoint");
    let id = MetaId::map(Space::Nodes, 0, 0);
    let pin = world.store.fetch(id).expect("map page");
    let mut right = [0; PAGE];
    world.store.verified_copy(&pin, &mut right).expect("verified");
    world.store.frames.arena.stray(pin.frame, 40, &[0xEE; 900]);
    let mut copy = [0; PAGE];
    world.store.verified_copy(&pin, &mut copy).expect("read again");
    assert!(copy == right);
}

/// Who changes a frame of another group leaves a line's sum that does not verify, legal as the call was: one bug a group. The
/// keyed sum has the bytes, and the line's sum is made anew.
/// S-15.5
#[test]
fn a_call_by_the_wrong_group_is_told() {
    for group in Group::ALL {
        for code in [Protection::Crc, Protection::Pcrc] {
            let world = world(code);
            world.verify();
            let mut undo = world.store.frames.undo.open();
            let place = (group, world.pin().frame);
            let put = update::put(&world.store.frames.arena, &mut undo, place, 300, b"by another group");
            put.expect("put");
            undo.commit(world.store.last_seq());
            let told = world.store.verified_copy(&world.pin(), &mut [0; PAGE]);
            assert!(told.is_ok(), "{group:?}: {told:?}");
            let damages = world.store.damages();
            match group == Group::Xattr {
                true => assert!(damages.is_empty(), "{damages:?}"),
                false => {
                    let (damage, done) = &damages[0];
                    assert_eq!((&damage.seen, *done), (&Seen::Sum, Done::Repaired));
                }
            }
        }
    }
}

/// The same for every frame of every group: what is told depends on the two groups alone, and nobody else's frame is. The log
/// has none in the arena. S-15.5
#[test]
fn a_call_by_the_wrong_group_is_told_whose_frame_it_may_be() {
    for (own, meaning) in [
        (Group::Inode, Some(Kind::Inodes)),
        (Group::Directory, Some(Kind::DirLeaf)),
        (Group::Map, Some(Kind::BlockMap)),
        (Group::Xattr, Some(Kind::Xattr)),
        (Group::Bitmap, None),
    ] {
        for caller in Group::ALL {
            let world = world(Protection::Crc);
            let id = match meaning {
                None => keepfs_format::bitmap::TOTALS,
                Some(Kind::Inodes) => {
                    let made = world.store.transact::<_, Error>(|t| Ok(t.new_ino()?));
                    Ref::inode_block(made.expect("inode")).id
                }
                Some(kind) => {
                    let made = world.store.transact::<_, Error>(|t| Ok(t.new_node(kind, 0, OWNER)?));
                    made.expect("node").id
                }
            };
            let pin = world.store.fetch(id).expect("pin");
            world.store.verified_copy(&pin, &mut [0; PAGE]).expect("verified");
            let mut undo = world.store.frames.undo.open();
            let put = update::put(
                &world.store.frames.arena,
                &mut undo,
                (caller, pin.frame),
                300,
                b"by whom?",
            );
            put.expect("put");
            undo.commit(world.store.last_seq());
            // What becomes of it then is the ladder's: a clean frame is read again, another one is fenced or ends writing.
            let told = world.store.verified_copy(&pin, &mut [0; PAGE]);
            let events = world.store.damages().len();
            assert_eq!(events, usize::from(caller != own), "{caller:?} in {own:?}: {told:?}");
            assert!(told.is_ok() || caller != own, "{caller:?} in {own:?}: {told:?}");
        }
    }
}

/// A frame that stands under another metablock's number is told, though its bytes and sum agree. S-15.4
#[test]
fn a_misdirected_frame_is_told() {
    let world = world(Protection::Crc);
    let other = world
        .store
        .transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, OWNER)?))
        .expect("node");
    let bytes = world.verify();
    let crc = keepfs_codes::crc64::full(&bytes);
    let pin = world.store.fetch(other.id).expect("pin");
    let wrong = world.store.ground.pool.binding(world.node.id, Kind::Xattr as u8);
    world.store.frames.arena.fill_as(pin.frame, &bytes, crc, wrong);
    let told = world.store.verified_copy(&pin, &mut [0; PAGE]);
    assert!(matches!(told, Err(Error::Fenced { id }) if id == other.id), "{told:?}");
    let (damage, _) = world.store.damages().pop().expect("told");
    assert_eq!(damage.seen, Seen::Misdirected(world.node.id));
}

/// The trap: a scribble over exactly the bytes that the next put writes, before that put and at every step of it. What a
/// put has written is right; so never may a repair make other bytes of it, and where the code has parity it mends what is
/// left of the scribble. S-15.11
#[test]
fn a_scribble_under_the_next_put_is_never_repaired_into_wrong_bytes() {
    for code in CODES {
        let tally = trap(code, true);
        assert_eq!(tally.wrong, 0, "{code}: {tally:?}");
        assert!(tally.refused == 0 || code == Protection::Crc, "{code}: {tally:?}");
        assert!(tally.right > 60, "{code}: {tally:?}");
    }
}

/// The test above sees the fault that it is for: with old bytes that nobody verified there are wrong repairs.
#[test]
fn the_trap_catches_old_bytes_that_were_not_verified() {
    for code in [
        Protection::Pcrc,
        Protection::Pq,
        Protection::Evenodd64,
        Protection::Evenodd256,
    ] {
        let tally = trap(code, false);
        assert_eq!(
            tally.wrong, 12,
            "{code}: every place, where the scribble falls before the put: {tally:?}"
        );
    }
}

/// Redo comes from undo records, not from the frame: bytes that were scribbled behind the put and before its commit are
/// in no log, and the witness puts the right ones back. L-2
#[test]
fn a_scribble_between_put_and_commit_never_gets_into_redo() {
    for code in CODES {
        let world = world_with(code, Rungs::LOG);
        world.verify();
        let put = world.store.transact::<_, Error>(|t| {
            t.put(world.node, 1000, b"what was meant", Meaning::Xattr)?;
            world.scribble(1003, b"ROGUE");
            Ok(())
        });
        put.expect("put");
        assert_eq!(&world.verify()[1000..1014], b"what was meant", "{code}");
        let (_, done) = world.store.damages().pop().expect("told");
        assert_eq!(done, Done::Rebuilt);
    }
}

/// What is put may stand there already, by a stray write: it is recorded all the same, so that the repair of that stray
/// write does not take it away. S-15.24
#[test]
fn a_put_of_what_a_scribble_left_is_not_lost() {
    for code in CODES {
        let world = world_with(code, Rungs::CODE.with(Rungs::LOG));
        let before = world.verify();
        let put = world.store.transact::<_, Error>(|t| {
            t.put(world.node, 3000, b"first", Meaning::Xattr)?;
            world.scribble(1000, b"what was meant");
            Ok(t.put(world.node, 1000, b"what was meant", Meaning::Xattr)?)
        });
        put.expect("put");
        let mut right = before;
        right[3000..3005].copy_from_slice(b"first");
        right[1000..1014].copy_from_slice(b"what was meant");
        assert!(world.verify() == right, "{code}");
    }
}

#[derive(Debug, Default)]
struct Tally {
    /// The frame verified and held bytes that are not the put's.
    wrong: usize,
    /// It did not verify.
    refused: usize,
    /// It verified and was right.
    right: usize,
}

/// For many places and every step of the door: the scribble falls there, the put goes on, the frame is verified and, if it
/// does not, mended by the code.
fn trap(code: Protection, verified: bool) -> Tally {
    let mut tally = Tally::default();
    for place in 0..12 {
        let (offset, len) = (200 + place * 307, 1 + place * 3 % 16);
        for step in core::iter::once(None).chain((0..).map(Some)) {
            let world = world(code);
            if !world.trapped((offset, len), step, verified, &mut tally) {
                break;
            }
        }
    }
    tally
}

impl World {
    /// The door, as a transaction goes through it.
    fn put_mended(&self, undo: &mut UndoSlot<'_>, offset: usize, new: &[u8], verified: bool) -> Result<(), Error> {
        let (pin, arena) = (self.pin(), &self.store.frames.arena);
        let binding = self.store.binding(self.node);
        for part in keepfs_vault::update::by_lines(offset, new.len()) {
            let mut line = arena.line_as_it_is(pin.frame, keepfs_codes::line::at(part.start));
            if verified {
                self.store.line(&pin, binding, part.start, &mut line)?;
            }
            let bytes = &new[part.start - offset..part.end - offset];
            let put = keepfs_vault::update::put(arena, undo, (Group::Xattr, pin.frame), &line, (part.start, bytes));
            put.expect("put");
        }
        Ok(())
    }

    /// A put of `len` bytes at `offset` and a scribble under it, before the put's store number `step` or before the put.
    /// Whether the put has so many steps.
    fn trapped(&self, (offset, len): (usize, usize), step: Option<u64>, verified: bool, tally: &mut Tally) -> bool {
        let frame = self.pin().frame;
        let mut right = self.verify();
        right[offset..offset + len]
            .iter_mut()
            .for_each(|b| *b = b.wrapping_add(0x35));
        let store = self.store.clone();
        let rogue = move || {
            store.frames.arena.stray(frame, offset, &[0x77; 16][..len]);
        };
        let mut undo = self.store.frames.undo.open();
        let mut put = || self.put_mended(&mut undo, offset, &right[offset..offset + len], verified);
        let done = match step {
            Some(step) => {
                let mut done = Ok(());
                if !failpoint::interrupt(step, Box::new(rogue), || done = put()) {
                    return false;
                }
                done
            }
            None => {
                rogue();
                put()
            }
        };
        if done.is_err() {
            tally.refused += 1;
            return true;
        }
        let mut copy = [0; PAGE];
        let arena = &self.store.frames.arena;
        let mend = || self.store.frames.mend_by_code(frame, self.node.id);
        let verified =
            arena.verified_copy(frame, &mut copy).is_ok() || mend() && arena.verified_copy(frame, &mut copy).is_ok();
        match verified {
            true if copy == right => tally.right += 1,
            true => tally.wrong += 1,
            false => tally.refused += 1,
        }
        true
    }
}

/// What a server without a successor ends writing for ends a server that has one, before anything else is done; and it is
/// told as no lasting damage. S-16.8
#[test]
fn damage_of_what_all_need_is_handed_on() {
    for has_successor in [false, true] {
        let world = world(Protection::Crc);
        let ended: Arc<OnceLock<String>> = Arc::default();
        if has_successor {
            let ended = ended.clone();
            world
                .store
                .hand_on_to_successor(move |why| ended.set(why.to_string()).expect("once"));
        }
        // Changed since the last checkpoint.
        let id = MetaId::new(Space::NodeNumbers, 0);
        let pin = world.store.fetch(id).expect("bitmap");
        world.store.verified_copy(&pin, &mut [0; PAGE]).expect("verified");
        world.store.frames.arena.stray(pin.frame, 40, &[0xEE; 900]);
        let told = world.store.verified_copy(&pin, &mut [0; PAGE]);
        assert!(
            matches!(told, Err(Error::Scribble { id: of, .. }) if of == id),
            "{told:?}"
        );
        let (_, done) = world.store.damages().pop().expect("told");
        match has_successor {
            true => assert_eq!((done, ended.get().is_some()), (Done::HandedOn, true)),
            false => assert_eq!((done, ended.get().is_some()), (Done::Ended, false)),
        }
        assert_eq!(world.store.history().damage().is_empty(), has_successor);
    }
}
