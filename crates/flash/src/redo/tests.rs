//! Entries come back as they were, a kill at every store leaves exactly the committed ones, stray changes are told
//! (S-14.2, S-14.3, S-14.4, S-14.8).

use super::*;

use keepfs_format::MetaId;
use keepfs_format::plog::Run;
use keepfs_memory::Guard;
use keepfs_memory::failpoint;
use keepfs_vault::undo::UndoLog;

struct World {
    segment: Arc<Segment>,
    undo: UndoLog,
    redo: Redo,
}

impl World {
    fn new() -> World {
        let segment = Arc::new(Segment::new(4, Guard::Off, false, true).expect("segment"));
        World {
            undo: UndoLog::new(Guard::Off, false).expect("undo"),
            redo: Redo::new(segment.clone(), 40),
            segment,
        }
    }

    fn encode(&self, records: &[Record]) -> Result<Encoded<'_>, NoRoom> {
        let mut draft = Draft::begin();
        records.iter().for_each(|r| draft.push(r));
        draft.seal(&self.segment)
    }

    /// As `Txn::publish` does.
    fn commit(&mut self, records: &[Record]) -> TxnRedo {
        let (segment, undo) = (self.segment.clone(), &self.undo);
        let mut draft = Draft::begin();
        records.iter().for_each(|r| draft.push(r));
        let slot = undo.open();
        let mut encoded = draft.seal(&segment).expect("room");
        let (number, generation) = slot.place();
        let seq = self.redo.write(&mut encoded, number, generation);
        slot.commit(seq);
        self.redo.publish(encoded);
        TxnRedo {
            seq,
            records: records.to_vec(),
        }
    }

    /// The same memory, seen by a server that knows nothing.
    fn adopt(&self) -> Arc<Segment> {
        let region = self.segment.region();
        let descriptor = region.descriptor().expect("it lasts");
        let same = descriptor.try_clone_to_owned().expect("descriptor");
        Arc::new(Segment::adopt(same, Guard::Off, false).expect("adopt"))
    }

    /// Calls `see` after each of some stray writes into page 0, which are taken back (S-14.10).
    ///
    /// A place that the kill tore is right nowhere once a stray write meets the other: that must be told, and `see` is not called.
    fn with_strays(&self, mut see: impl FnMut()) {
        let is_torn = !self.adopt().changed().is_empty();
        let region = self.segment.region();
        for at in (0..128).step_by(16).flat_map(|at| [at, at + 2048]) {
            let mut before = [0; 64];
            region.load(at, &mut before);
            for byte in [0, 0xFF] {
                region.store(at, &[byte; 64]);
                let is_lost = is_torn && self.adopt().changed().iter().any(|(_, is_known)| !is_known);
                match self.rebuild() {
                    Err(_) if is_lost => {}
                    _ => see(),
                }
            }
            region.store(at, &before);
        }
    }

    fn rebuild(&self) -> Result<(Redo, Vec<TxnRedo>), RedoDamage> {
        let segment = self.adopt();
        let Rebuilt { mut redo, damage, .. } = rebuild(segment.clone(), |slot, generation| {
            self.undo.committed(slot, generation)
        });
        if let Some(damage) = damage {
            return Err(damage);
        }
        let span = redo.take();
        let transactions = span.read(&segment)?;
        Ok((redo, transactions))
    }
}

fn update(n: u64, len: usize) -> Vec<Record> {
    let bytes = (0..len).map(|i| (n as usize * 7 + i) as u8).collect();
    let freed = Record::Free {
        space: keepfs_format::Space::Pages,
        run: Run { start: n, count: 3 },
    };
    let update = Record::Update {
        id: MetaId(n),
        generation: n as u32,
        ranges: vec![(64, bytes)],
    };
    vec![freed, update]
}

/// S-14.2: what was committed is what a group is cut from, also where the ring ends.
#[test]
fn entries_come_back_as_they_were() {
    let mut world = World::new();
    let (mut expected, mut bytes) = (Vec::new(), 0);
    for n in 1.. {
        expected.push(world.commit(&update(n, (n as usize * 131) % 4000)));
        bytes += (n as usize * 131) % 4000;
        if n % 100 == 0 {
            let span = world.redo.take();
            assert_eq!(span.read(&world.segment), Ok(expected.split_off(0)));
            // One stays, so that the ring goes on behind its end.
            world.redo.release(world.redo.last - 1);
        }
        if bytes > 2 * RING + 12_345 {
            break;
        }
    }
    let whole = world.redo.kept.len();
    let (redo, all) = world.rebuild().expect("sound");
    assert_eq!((redo.last, all.len()), (world.redo.last, whole));
    assert_eq!(all[all.len() - expected.len()..], expected);
    assert_eq!(
        (redo.start, redo.end, &redo.kept),
        (world.redo.start, world.redo.end, &world.redo.kept)
    );
    assert_eq!(redo.segment.ring_in_use(), world.segment.ring_in_use());
}

/// S-14.2: an update that is encoded from its place has the bytes of the record.
#[test]
fn an_update_is_encoded_from_its_place() {
    let page: Vec<u8> = (0..4096).map(|i| (i * 13) as u8).collect();
    let ranges = [(64, 65), (100, 1100), (4000, 4096)];
    let record = Record::Update {
        id: MetaId(77),
        generation: 9,
        ranges: ranges
            .iter()
            .map(|(from, to)| (*from, page[usize::from(*from)..usize::from(*to)].to_vec()))
            .collect(),
    };
    let mut one = Vec::new();
    record.encode(&mut one);
    let mut other = Vec::new();
    keepfs_format::plog::encode_update(&mut other, MetaId(77), 9, &ranges, |from, bytes| {
        let from = usize::from(from);
        bytes.copy_from_slice(&page[from..from + bytes.len()]);
    });
    assert_eq!(one, other);
}

/// S-14.13: without room a transaction does not commit; what is durable makes room, what is in no group does not.
#[test]
fn a_full_ring_refuses() {
    let mut world = World::new();
    let mut committed = 0;
    while world.encode(&update(1, 4000)).is_ok() {
        world.commit(&update(1, 4000));
        committed += 1;
    }
    assert!(committed > 2000);
    let refused = world.encode(&update(1, 4000)).err();
    assert!(matches!(refused, Some(NoRoom::Now)));
    world.redo.release(u64::MAX);
    assert_eq!(world.redo.kept.len(), committed, "released without a group");
    let span = world.redo.take();
    world.redo.give_back(span);
    assert_eq!(world.redo.take().entries.len(), committed);
    world.redo.release(u64::MAX);
    assert_eq!((world.segment.ring_in_use(), world.redo.end), (0, 0));
    assert!(world.encode(&update(1, 4000)).is_ok());
    let long: Vec<Record> = (0..ENTRY_MAX as u64 / 4000).flat_map(|n| update(n, 4000)).collect();
    assert!(matches!(world.encode(&long).err(), Some(NoRoom::Ever { .. })));
    assert_eq!(world.segment.ring_in_use(), 0);
}

/// S-14.4: a stray change of any byte is told when the group is cut, and by a restart.
#[test]
fn a_changed_byte_is_told() {
    let mut world = World::new();
    let first = world.commit(&update(5, 100));
    let second = world.commit(&update(6, 50));
    let span = world.redo.take();
    let ring_at = 4096;
    for at in 0..world.redo.end {
        world.segment.region().xor_u8(ring_at + at, 0x10);
        let padding = [world.redo.kept[0].len as usize, world.redo.end]
            .into_iter()
            .any(|end| at < end && at + 8 > end);
        match (span.read(&world.segment), padding) {
            (Err(damage), _) => assert!(damage.seq == first.seq || damage.seq == second.seq),
            (Ok(read), true) => assert_eq!(read, [first.clone(), second.clone()]),
            (Ok(_), false) => panic!("byte {at} was not missed"),
        }
        assert_eq!(
            world.rebuild().is_err(),
            span.read(&world.segment).is_err(),
            "byte {at}"
        );
        world.segment.region().xor_u8(ring_at + at, 0x10);
    }
    assert!(world.rebuild().is_ok());
    for bit in [0, 1, 2, 5, 35, 60] {
        let right = world.segment.word(Word::Cursor).expect("right");
        world.segment.set_word(Word::Cursor, right ^ 1 << bit);
        let found = world.rebuild().map(|(redo, _)| redo.last);
        assert!(found.is_err(), "cursor bit {bit}");
        world.segment.set_word(Word::Cursor, right);
    }
}

/// S-14.3: whatever store the kill hits, a restart finds exactly the transactions whose slot word says so.
#[test]
fn a_kill_at_every_store_leaves_what_was_committed() {
    let (mut before, mut after) = (0, 0);
    for stores in 0.. {
        let mut world = World::new();
        let mut expected = vec![world.commit(&update(1, 20)), world.commit(&update(2, 9))];
        let third = TxnRedo {
            seq: 43,
            records: update(3, 15),
        };
        let (slot, generation) = world.undo.open().place();
        let cut = failpoint::run(stores, || {
            world.commit(&third.records);
        });
        if world.undo.committed(slot, generation + 1) == Some(43) || cut.is_ok() {
            expected.push(third);
            after += 1;
        } else {
            before += 1;
        }
        let (redo, found) = world.rebuild().expect("sound");
        assert_eq!(found, expected, "{stores} stores");
        assert_eq!(redo.last, expected.last().map_or(0, |t| t.seq));
        world.with_strays(|| assert_eq!(world.rebuild().expect("sound").1, expected, "{stores} stores"));
        // Done again it comes to the same.
        assert_eq!(world.rebuild().expect("sound").1, expected, "{stores} stores, again");
        if cut.is_ok() {
            break;
        }
    }
    assert!(before > 50 && after > 1, "{before} before, {after} after");
}

/// S-14.4: a kill while entries are given up leaves those that are not durable.
#[test]
fn a_kill_while_entries_are_given_up() {
    for release in [41, 42, 43] {
        for stores in 0.. {
            let mut world = World::new();
            let all = [1, 2, 3].map(|n| world.commit(&update(n, 30)));
            world.redo.take();
            let cut = failpoint::run(stores, || world.redo.release(release));
            let (redo, found) = world.rebuild().expect("sound");
            assert_eq!(redo.last, 43);
            let kept: Vec<_> = all.iter().filter(|t| t.seq > release).cloned().collect();
            assert!(found == kept || cut.is_err() && found == all, "{stores} stores");
            world.with_strays(|| {
                let (redo, found) = world.rebuild().expect("sound");
                assert_eq!(redo.last, 43);
                assert!(found == kept || cut.is_err() && found == all, "{stores} stores");
            });
            if cut.is_ok() {
                break;
            }
        }
    }
}
