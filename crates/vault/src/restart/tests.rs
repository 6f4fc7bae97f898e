//! S-13.6, X-2.2: a kill at every store of every change, torn copies at each byte, a second writer half-way in
//! the same frame, a stray write inside and outside the range, and a kill at every store of the rollback itself.

use super::*;
use crate::planted::{Use, plant_use};
use crate::undo::UndoSlot;
use crate::update::by_hand as update;
use keepfs_codes::identity::Group;
use keepfs_codes::{Protection, crc64};
use keepfs_format::PAGE;
use keepfs_memory::Guard;
use keepfs_memory::failpoint;

/// Without parity, and with it.
const CODES: [Protection; 2] = [Protection::Crc, Protection::Pcrc];
const FRAMES: u32 = 3;
/// The frame that the writers share.
const SHARED: FrameNo = 1;

type Bytes = [u8; PAGE];

/// Guarded memory and what must stand in it when all open transactions are rolled back.
struct World {
    arena: Arena,
    undo: UndoLog,
    right: Vec<Box<Bytes>>,
}

fn first_bytes(frame: FrameNo) -> Box<Bytes> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64 ^ u64::from(frame);
    let mut bytes = Box::new([0; PAGE]);
    for b in bytes.iter_mut() {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *b = (state >> 56) as u8;
    }
    bytes[800] = 0; // Bits
    bytes
}

impl World {
    fn new(code: Protection) -> World {
        let mut world = World {
            arena: Arena::protected(FRAMES, Guard::Off, false, code).expect("arena"),
            undo: UndoLog::new(Guard::Off, false).expect("undo"),
            right: Vec::new(),
        };
        world.reset();
        world
    }

    fn reset(&mut self) {
        retire(&self.undo);
        self.right = (0..FRAMES).map(first_bytes).collect();
        for frame in 0..FRAMES {
            let bytes = &self.right[frame as usize];
            self.arena.restore_word(frame);
            self.arena.fill(frame, bytes, crc64::full(&**bytes));
        }
    }

    fn live(&self, frame: FrameNo) -> Bytes {
        let mut bytes = [0; PAGE];
        self.arena.load_raw(frame, 0, &mut bytes);
        bytes
    }

    /// Bytes, sums and words are as if the open transactions had never been.
    fn assert_right(&self, what: &str) {
        let mut copy = [0; PAGE];
        for frame in 0..FRAMES {
            let right = &self.right[frame as usize];
            assert!(self.live(frame) == **right, "{what}: bytes of frame {frame}");
            assert_eq!(self.arena.sum(frame), crc64::full(&**right), "{what}: sum of {frame}");
            assert!(self.arena.quiet_version(frame).is_some(), "{what}: writers of {frame}");
            self.arena.verified_copy(frame, &mut copy).expect("verified");
        }
    }

    /// 8 bytes at `offset` that are neither what they were nor what a change made of them.
    fn scribble(&self, frame: FrameNo, offset: usize) {
        let live = self.live(frame);
        let right = &self.right[frame as usize];
        let stray: Vec<u8> = (offset..offset + 8)
            .map(|i| {
                let taken = [live[i], right[i], new_byte(i)];
                (1..=255).find(|b| !taken.contains(b)).expect("a fourth value")
            })
            .collect();
        self.arena.copy(frame, offset, &stray);
    }
}

/// What the puts of these tests store at a place.
fn new_byte(at: usize) -> u8 {
    (at as u8).wrapping_mul(37) ^ 0x5C
}

fn new_bytes(offset: usize, len: usize) -> Vec<u8> {
    (offset..offset + len).map(new_byte).collect()
}

fn put(world: &World, slot: &mut UndoSlot<'_>, frame: FrameNo, offset: usize, len: usize) {
    update::put(
        &world.arena,
        slot,
        (Group::Bitmap, frame),
        offset,
        &new_bytes(offset, len),
    )
    .expect("put");
}

/// One change, or a few.
type Act = fn(&World, &mut UndoSlot<'_>);

fn put_long(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 101, 29);
}
fn flip(w: &World, s: &mut UndoSlot<'_>) {
    update::flip(&w.arena, s, SHARED, 800, 0b101, false).expect("flip");
}
/// A stripe of TOTALS, and a count of SHARES.
fn put_word(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 904, 8);
}
fn put_count(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 1000, 2);
}
/// Over the end of a line: two records (S-13.3).
fn put_across(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 250, 12);
}
/// A transaction of every kind of change on two frames, with puts that overlap each other.
fn many(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 101, 29);
    put_word(w, s);
    put(w, s, 2, 64, 16);
    update::put(&w.arena, s, (Group::Bitmap, SHARED), 96, &[0xEE; 12]).expect("put");
    flip(w, s);
    put_count(w, s);
    update::put(&w.arena, s, (Group::Bitmap, SHARED), 904, &[0xDD; 8]).expect("put");
    put(w, s, SHARED, 100, 8);
}
/// The same, rolled back by its own server.
fn many_and_back(w: &World, s: &mut UndoSlot<'_>) {
    many(w, s);
    assert!(update::take_all_back(&w.arena, s).is_empty());
}

/// A second transaction in the same frame, on bytes and bits of its own.
fn second_put(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 2000, 24);
}
fn second_flip(w: &World, s: &mut UndoSlot<'_>) {
    update::flip(&w.arena, s, SHARED, 800, 0b1010, false).expect("flip");
}
/// Beside those of the first in the same line.
fn second_words(w: &World, s: &mut UndoSlot<'_>) {
    put(w, s, SHARED, 912, 8);
    put(w, s, SHARED, 1002, 2);
}

/// Runs `act` in a transaction that is killed before store number `cut`. `false`: it ran to its end (and is open).
fn run_until(world: &World, act: Act, cut: u64) -> bool {
    // Dropping the slot is behind the failpoint, too: an open transaction stays open.
    let end = failpoint::run(cut, || {
        let mut slot = world.undo.open();
        act(world, &mut slot);
        failpoint::run_out();
        drop(slot);
    });
    assert!(end.is_err(), "the slot must stay open");
    !failpoint::ran_out()
}

/// A committed transaction between: what it did stays.
fn commit(world: &mut World) {
    let places = [(920, 8), (1004, 2)];
    let mut slot = world.undo.open();
    places
        .iter()
        .for_each(|(at, len)| put(world, &mut slot, SHARED, *at, *len));
    slot.commit(1);
    drop(slot);
    for (at, len) in places {
        world.right[SHARED as usize][at..at + len].copy_from_slice(&new_bytes(at, len));
    }
}

/// Calls `check` with the world as each cut of `act` leaves it, `before` having been done to it first.
fn each_cut(world: &mut World, before: &dyn Fn(&mut World), act: Act, mut check: impl FnMut(&mut World, u64)) {
    for cut in 0.. {
        world.reset();
        before(world);
        let killed = run_until(world, act, cut);
        check(world, cut);
        if !killed {
            return;
        }
    }
}

/// S-13.5, S-13.6, S-13.7
#[test]
fn a_kill_at_every_store_is_rolled_back_exactly() {
    for code in CODES {
        let mut world = World::new(code);
        for act in [put_long, put_across, flip, put_word, put_count, many, many_and_back] as [Act; 7] {
            let mut cuts = 0;
            each_cut(&mut world, &|_| {}, act, |world, cut| {
                let report = roll_back(&world.arena, &world.undo);
                assert_eq!(report.findings, [], "cut {cut}");
                world.assert_right(&format!("cut {cut}"));
                assert_eq!(roll_back(&world.arena, &world.undo).findings, [], "again, cut {cut}");
                retire(&world.undo);
                assert_eq!(roll_back(&world.arena, &world.undo), Report::default());
                world.assert_right(&format!("cut {cut}, retired"));
                cuts += 1;
            });
            assert!(cuts > 20, "only {cuts} cuts");
        }
    }
}

/// With the records of all lines before the first change, some kill leaves what nothing proves (S-13.3, S-13.6).
#[test]
fn records_before_all_changes_are_noticed() {
    for code in CODES {
        let mut world = World::new(code);
        let mut told = 0;
        plant_use(Some(Use::RecordsFirst));
        each_cut(&mut world, &|_| {}, put_across, |world, _| {
            told += roll_back(&world.arena, &world.undo).findings.len();
        });
        plant_use(None);
        assert!(told > 0, "{code}");
    }
}

/// The rollback itself is killed at every store, twice in a row. S-13.7
#[test]
fn a_kill_at_every_store_of_the_rollback() {
    for code in [Protection::Pcrc] {
        let mut world = World::new(code);
        let step = if cfg!(miri) { 97 } else { 1 };
        for act in [put_long, put_across, put_word, many, many_and_back] as [Act; 5] {
            let mut last = 0;
            each_cut(&mut world, &|_| {}, act, |_, cut| last = cut);
            for cut in (0..=last).step_by(step) {
                // A long transaction has hundreds of cuts; each meets other cuts of the rollback.
                let stride = if last > 200 { 7 } else { 1 };
                for stop in (cut % stride..).step_by(stride as usize) {
                    world.reset();
                    run_until(&world, act, cut);
                    let (arena, undo) = (&world.arena, &world.undo);
                    let cut_short = failpoint::run(stop, || roll_back(arena, undo)).is_err();
                    let _ = failpoint::run(stop / 2, || roll_back(arena, undo));
                    let report = roll_back(arena, undo);
                    assert_eq!(report.findings, [], "cut {cut}, stop {stop}");
                    world.assert_right(&format!("cut {cut}, stop {stop}"));
                    for stop in [0, 1, 5, 70] {
                        let _ = failpoint::run(stop, || retire(&world.undo));
                        assert_eq!(roll_back(&world.arena, &world.undo).findings, []);
                    }
                    world.assert_right(&format!("cut {cut}, stop {stop}, retired"));
                    if !cut_short {
                        break;
                    }
                }
            }
        }
    }
}

/// Two transactions half-way in one frame, a committed one between them. S-13.4, S-13.6
#[test]
fn a_second_writer_half_way_in_the_same_frame() {
    for code in CODES {
        let mut world = World::new(code);
        let firsts: [Act; 3] = [put_long, flip, many];
        let seconds: [Act; 2] = [second_put, second_flip];
        for first in firsts {
            let mut long = 0;
            each_cut(&mut world, &|_| {}, first, |_, cut| long = cut);
            for second in seconds {
                for half in 0..200 {
                    let mut ended = false;
                    let before = |world: &mut World| {
                        run_until(world, second, half);
                    };
                    let mut last = 0;
                    // Every cut of the short ones; some of the long one.
                    let stride = if long > 200 { 1 + 17 * (half % 2 + 1) } else { 1 };
                    for cut in (half % stride..).step_by(stride as usize) {
                        world.reset();
                        before(&mut world);
                        let killed = run_until(&world, first, cut);
                        let report = roll_back(&world.arena, &world.undo);
                        assert_eq!(report.findings, [], "half {half}, cut {cut}");
                        world.assert_right(&format!("half {half}, cut {cut}"));
                        last = cut;
                        if !killed {
                            break;
                        }
                    }
                    assert!(last > 20);
                    world.reset();
                    ended |= !run_until(&world, second, half);
                    if ended {
                        break;
                    }
                }
            }
        }
    }
}

/// Words of three transactions in one line: one is open, one committed, one is cut. S-13.4
#[test]
fn words_of_three_transactions_in_one_line() {
    for code in CODES {
        let mut world = World::new(code);
        for act in [put_long, put_word, put_count, many, many_and_back] as [Act; 5] {
            let before = |world: &mut World| {
                assert!(!run_until(world, second_words, u64::MAX));
                commit(world);
            };
            each_cut(&mut world, &before, act, |world, cut| {
                let report = roll_back(&world.arena, &world.undo);
                assert_eq!(
                    (report.open, report.findings),
                    (expected_open(cut), vec![]),
                    "cut {cut}"
                );
                world.assert_right(&format!("cut {cut}"));
            });
            // The committed one comes last.
            world.reset();
            assert!(!run_until(&world, second_words, u64::MAX));
            assert!(!run_until(&world, many, u64::MAX));
            commit(&mut world);
            assert_eq!(roll_back(&world.arena, &world.undo).findings, []);
            world.assert_right("committed last");
        }
    }
}

/// The first stores of a transaction prepare its slot; the last of those opens it.
fn expected_open(cut: u64) -> usize {
    if cut < 4 { 1 } else { 2 }
}

/// A stray write of 8 bytes inside the range of an open put: undone, and told, whatever the kill left. S-13.14
#[test]
fn a_scribble_inside_is_undone_and_told() {
    for code in CODES {
        let mut world = World::new(code);
        let (mut told, mut unlisted) = (0, 0);
        for offset in [101, 108, 120, 122] {
            for second in [None, Some(second_put as Act)] {
                let before = |world: &mut World| {
                    second.into_iter().for_each(|act| {
                        run_until(world, act, 150);
                    })
                };
                each_cut(&mut world, &before, put_long, |world, cut| {
                    let counts = world.undo.slots().any(|slot| {
                        let head = world.undo.head(slot);
                        let records = world.undo.records(slot, &head).unwrap_or_default();
                        head.state == Some(State::Open) && records.iter().any(|k| k.offset == 101)
                    });
                    world.scribble(SHARED, offset);
                    let listed = second.is_some() || counts;
                    let report = roll_back(&world.arena, &world.undo);
                    if counts {
                        let inside = Finding::Inside {
                            frame: SHARED,
                            offset,
                            len: 8,
                        };
                        assert_eq!(report.findings, [inside], "offset {offset}, cut {cut}");
                        world.assert_right(&format!("offset {offset}, cut {cut}"));
                        assert_eq!(roll_back(&world.arena, &world.undo), report);
                        told += 1;
                    } else {
                        // No change is open there: an ordinary stray write, which the next verify tells.
                        assert_eq!(report.findings.len(), usize::from(listed));
                        assert!(world.arena.verified_copy(SHARED, &mut [0; PAGE]).is_err());
                        unlisted += 1;
                    }
                });
            }
        }
        assert!(told > 200 && unlisted > 200, "{told} {unlisted}");
    }
}

/// A stray write elsewhere in the frame: told with the checksum that the right bytes have; open ranges still come
/// back; nothing blesses it, however often the rollback is cut. S-13.8
#[test]
fn a_scribble_outside_is_told_and_not_blessed() {
    for code in CODES {
        let mut world = World::new(code);
        for act in [put_long, many] as [Act; 2] {
            let mut last = 0;
            each_cut(&mut world, &|_| {}, act, |_, cut| last = cut);
            for cut in (0..=last).step_by(if last > 200 { 5 } else { 1 }) {
                let mut reports = Vec::new();
                for stop in [None, Some(0), Some(3), Some(9), Some(20), Some(31), Some(40), Some(55)] {
                    world.reset();
                    run_until(&world, act, cut);
                    world.scribble(SHARED, 3000);
                    if let Some(stop) = stop {
                        let _ = failpoint::run(stop, || roll_back(&world.arena, &world.undo));
                    }
                    let report = roll_back(&world.arena, &world.undo);
                    assert_outside(&world, &report, cut);
                    reports.push(report);
                }
                reports.dedup();
                assert_eq!(reports.len(), 1, "cut {cut}: {reports:?}");
            }
        }
    }
}

/// What the rollback leaves of a frame with a stray write in a line that no record is about: the verdict on it.
fn verdict_behind(bug: Option<Use>) -> keepfs_codes::Verdict {
    let mut world = World::new(Protection::Pcrc);
    world.reset();
    run_until(&world, put_long, u64::MAX);
    world.scribble(SHARED, 3000);
    plant_use(bug);
    roll_back(&world.arena, &world.undo);
    plant_use(None);
    let held = world.arena.hold(SHARED);
    held.locate(held.binding())
}

/// Parity is encoded anew only if all lines are proved (S-13.6): else it agrees with the stray write, which counts as right.
#[test]
fn parity_over_an_unproved_line_is_noticed() {
    use keepfs_codes::Verdict;
    let right = verdict_behind(None);
    assert!(!matches!(right, Verdict::Clean | Verdict::SumsBad), "{right:?}");
    assert_eq!(verdict_behind(Some(Use::ParityAnew)), Verdict::SumsBad);
}

fn assert_outside(world: &World, report: &Report, cut: u64) {
    assert!(
        world.arena.verified_copy(SHARED, &mut [0; PAGE]).is_err(),
        "cut {cut}: blessed"
    );
    let mut live = world.live(SHARED);
    // The stray bytes are left to the repair.
    live[3000..3008].copy_from_slice(&world.right[SHARED as usize][3000..3008]);
    assert!(live == *world.right[SHARED as usize], "cut {cut}: open ranges");
    if report.frames == 0 {
        return; // Nothing open there yet.
    }
    let [
        Finding::Frame {
            frame: SHARED,
            expected,
            perhaps,
            ..
        },
    ] = &report.findings[..]
    else {
        panic!("cut {cut}: {report:?}")
    };
    let sums = perhaps.iter().fold(vec![*expected], |sums, delta| {
        sums.iter().flat_map(|sum| [*sum, sum ^ delta]).collect()
    });
    assert!(sums.contains(&crc64::full(&live)), "cut {cut}: no sum for the repair");
}

/// A stray write over the sum, over an undo record, over a slot's words. S-13.2, S-13.3, S-13.8
#[test]
fn damaged_control_words_are_told() {
    for code in CODES {
        let mut world = World::new(code);
        run_until(&world, put_long, u64::MAX);
        world.arena.damage_sum(SHARED, 0, 1 << 17);
        let report = roll_back(&world.arena, &world.undo);
        assert!(matches!(report.findings[..], [Finding::Frame { frame: SHARED, .. }]));

        for (word, value) in [(0, 1 << 40), (16, 1), (16, 3), (16, 1 << 33)] {
            world.reset();
            run_until(&world, many, u64::MAX);
            let slot = world
                .undo
                .slots()
                .find(|s| world.undo.head(*s).state == Some(State::Open));
            world.undo.scribble(slot.expect("open"), word, value);
            let report = roll_back(&world.arena, &world.undo);
            assert!(
                matches!(report.findings[..], [Finding::Slot { .. }]),
                "{word}: {report:?}"
            );
        }
        for byte in 0..64 {
            world.reset();
            run_until(&world, put_long, u64::MAX);
            let slot = world
                .undo
                .slots()
                .find(|s| world.undo.head(*s).state == Some(State::Open));
            world
                .undo
                .scribble(slot.expect("open"), 128 + byte / 8 * 8, 1 << (byte % 8 * 8));
            let report = roll_back(&world.arena, &world.undo);
            assert!(
                matches!(report.findings[..], [Finding::Slot { .. }]),
                "{byte}: {report:?}"
            );
        }
    }
}

/// Committed slots are retired, never undone. S-13.5
#[test]
fn what_is_committed_stays() {
    for code in CODES {
        let mut world = World::new(code);
        let end = failpoint::run(u64::MAX, || {
            let mut slot = world.undo.open();
            put_long(&world, &mut slot);
            slot.commit(9);
            failpoint::run_out();
            drop(slot);
        });
        assert!(end.is_err());
        let range = 101..130;
        world.right[SHARED as usize][range.clone()].copy_from_slice(&new_bytes(range.start, range.len()));
        let report = roll_back(&world.arena, &world.undo);
        assert_eq!((report.open, report.committed, report.findings), (0, 1, vec![]));
        world.assert_right("committed");
        retire(&world.undo);
        assert_eq!(roll_back(&world.arena, &world.undo).committed, 0);
    }
}
