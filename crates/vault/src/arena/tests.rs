//! Tests of the arena: verifying while others write, and the guard.

use super::*;
use crate::undo::UndoLog;
use crate::update::by_hand as update;
use core::sync::atomic::{AtomicBool, AtomicU64};
use keepfs_codes::identity::Group;
use keepfs_codes::{Protection, crc64};
use keepfs_memory::LARGE;

fn arena(guard: Guard) -> Arena {
    let arena = Arena::protected(4, guard, false, Protection::Pq).expect("arena");
    for frame in 0..4 {
        arena.fill(frame, &[0; PAGE], crc64::of_zeros());
    }
    arena
}

/// A page that is copied whole is what its words are (decision 0780).
#[test]
fn a_whole_page_is_its_words() {
    let arena = arena(Guard::Alias);
    let bytes: [u8; PAGE] = core::array::from_fn(|at| (at * 167 + at / 256) as u8);
    arena.copy(2, 0, &bytes);
    let (mut whole, mut part) = ([0; PAGE], [0; PAGE - 1]);
    arena.load_raw(2, 0, &mut whole);
    arena.load_raw(2, 1, &mut part);
    assert_eq!(whole, bytes);
    assert_eq!(part, bytes[1..]);
}

#[test]
fn a_region_has_what_its_frames_need_and_no_more() {
    let arena = Arena::protected(64, Guard::Alias, false, Protection::Pcrc).expect("arena");
    assert_eq!(arena.frames.bytes(), 64 * PAGE);
    assert_eq!(arena.control.bytes(), 64 * (CONTROL + lines::SUMS));
    assert_eq!(arena.parity.bytes(), 64 * Protection::Pcrc.parity_len());
}

/// Two threads change one frame without a lock while a verifier runs: no false alarm, no lost delta (WAFL 4.4). S-13.1
#[test]
fn sums_follow_two_writers() {
    for (guard, puts) in [
        (Guard::Alias, 200_000),
        (Guard::Off, 200_000),
        (Guard::Sealed, 3000),
        (Guard::Mprotect, 3000),
    ] {
        let puts: u64 = if cfg!(miri) { 50 } else { puts };
        let arena = arena(guard);
        let undo = UndoLog::new(guard, false).expect("undo");
        let stop = AtomicBool::new(false);
        let checks = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let writer = |half: usize| {
                let (arena, undo) = (&arena, &undo);
                move || {
                    for i in 0..puts {
                        let mut slot = undo.open();
                        let at = 32 + half * 2000 + (i as usize * 13) % 1900;
                        update::put(
                            arena,
                            &mut slot,
                            (Group::Bitmap, 1),
                            at,
                            &i.to_le_bytes()[..1 + i as usize % 8],
                        )
                        .expect("put");
                    }
                }
            };
            let a = scope.spawn(writer(0));
            let b = scope.spawn(writer(1));
            scope.spawn(|| {
                let mut copy = [0; PAGE];
                while !stop.load(Ordering::Relaxed) {
                    arena.verified_copy(1, &mut copy).expect("no false alarm");
                    checks.fetch_add(1, Ordering::Relaxed);
                }
            });
            a.join().expect("writer");
            b.join().expect("writer");
            stop.store(true, Ordering::Relaxed);
        });
        let mut copy = [0; PAGE];
        arena.verified_copy(1, &mut copy).expect("no lost delta");
        assert_eq!(crc64::full(&copy), arena.sum(1));
        assert!(checks.load(Ordering::Relaxed) > 0);
    }
}

/// A guard that this processor may not have: it works, or it is refused with what to do.
#[test]
fn keys_work_or_are_refused_in_words() {
    match Arena::new(4, Guard::Pkey, false) {
        Ok(arena) => {
            arena.fill(1, &[7; PAGE], crc64::full(&[7; PAGE]));
            arena.verified_copy(1, &mut [0; PAGE]).expect("verified");
        }
        Err(refused) => assert!(refused.to_string().contains("memory protection keys"), "{refused}"),
    }
}

/// No window opens beyond a frame, or beyond the arena, whatever the guard: the neighbour is as it was.
#[test]
fn nothing_is_written_beyond_frame_and_arena() {
    type Call = (&'static str, fn(&Arena));
    let calls: [Call; 8] = [
        ("bytes over the end", |a| {
            a.copy(1, PAGE - 3, &[1; 4]);
        }),
        ("bytes from the end", |a| {
            a.copy(1, PAGE, &[1]);
        }),
        ("bytes over all numbers", |a| {
            a.copy(1, usize::MAX - 3, &[1; 8]);
        }),
        ("restored bytes", |a| a.restore(1, PAGE - 3, &[1; 4])),
        ("bits", |a| {
            a.flip(1, PAGE, 1);
        }),
        ("no frame", |a| {
            a.copy(4, 0, &[1]);
        }),
        ("a writer of no frame", |a| a.enter(1 << 20)),
        ("far away", |a| {
            a.copy(u32::MAX, 8, &[1]);
        }),
    ];
    for guard in [Guard::Alias, Guard::Off, Guard::Sealed, Guard::Mprotect] {
        for (what, call) in calls {
            let arena = arena(guard);
            let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&arena)));
            assert!(refused.is_err(), "{what} at guard {guard:?}");
            for frame in 0..4 {
                let mut copy = [0; PAGE];
                arena.verified_copy(frame, &mut copy).expect("whole");
                assert!(copy == [0; PAGE], "{what} at guard {guard:?} changed frame {frame}");
            }
        }
    }
}

/// Bits commute: two transactions change one byte, one rolls back, the other's change stays.
#[test]
fn shared_bytes_roll_back_alone() {
    let arena = arena(Guard::Alias);
    let undo = UndoLog::new(Guard::Alias, false).expect("undo");
    let (mut a, mut b) = (undo.open(), undo.open());
    update::flip(&arena, &mut a, 2, 100, 0b0001, false).expect("flip");
    update::flip(&arena, &mut b, 2, 100, 0b0110, false).expect("flip");
    assert!(update::take_all_back(&arena, &mut a).is_empty());
    let mut copy = [0; PAGE];
    arena.verified_copy(2, &mut copy).expect("sum is right");
    assert_eq!(copy[100], 0b0110);
    assert!(update::take_all_back(&arena, &mut b).is_empty());
    arena.verified_copy(2, &mut copy).expect("sum is right");
    assert_eq!(crc64::full(&copy), crc64::of_zeros());
}

/// A flip of a bit that is not as the caller says is refused (allocated or freed twice).
#[test]
fn double_allocation_is_refused() {
    let arena = arena(Guard::Alias);
    let undo = UndoLog::new(Guard::Alias, false).expect("undo");
    let mut slot = undo.open();
    update::flip(&arena, &mut slot, 2, 100, 1, false).expect("first");
    assert!(update::flip(&arena, &mut slot, 2, 100, 1, false).is_err());
}

/// Bytes that do not have the CRC-64 that was promised for them are filled in so that they do not verify. S-15.3
#[test]
fn filling_with_bytes_of_another_sum_does_not_verify() {
    let (bytes, crc) = ([7; PAGE], crc64::full(&[7; PAGE]));
    for code in [Protection::Crc, Protection::Pcrc] {
        let arena = Arena::protected(4, Guard::Alias, false, code).expect("arena");
        arena.fill(1, &bytes, crc);
        arena.verified_copy(1, &mut [0; PAGE]).expect("right");
        arena.fill(1, &bytes, crc ^ 1);
        let told = arena.verified_copy(1, &mut [0; PAGE]).expect_err("another sum");
        assert_eq!((told.found, told.expected), (crc, crc ^ 1));
    }
}

/// A frame that is going to be filled is the same from whichever mapping it is looked at, at every guard level.
#[test]
fn a_scribble_is_seen_in_a_frame_to_be_filled() {
    for guard in [Guard::Alias, Guard::Off, Guard::Sealed, Guard::Mprotect] {
        let arena = arena(guard);
        let (bytes, mut copy) = ([7; PAGE], [0; PAGE]);
        arena.fill(2, &bytes, crc64::full(&bytes));
        arena.verified_to_fill(2, &mut copy).expect("nobody scribbled");
        assert!(copy == bytes, "{guard:?}");
        arena.copy(2, 4095, b"!");
        arena.verified_to_fill(2, &mut copy).expect_err("the scribble");
        arena.verified_to_fill(3, &mut copy).expect("the frame behind it");
        assert!(copy == [0; PAGE], "{guard:?}");
    }
}

/// A frame changed past the door is told by the next verify, with both checksums.
#[test]
fn a_scribble_is_seen() {
    let arena = arena(Guard::Off);
    arena.copy(3, 1000, b"scribble");
    let mut copy = [0; PAGE];
    let mismatch = arena.verified_copy(3, &mut copy).expect_err("the scribble");
    assert_eq!(mismatch.expected, crc64::of_zeros());
    assert_eq!(mismatch.found, crc64::full(&copy));
}

/// Whether each mapping of the memory that is mapped at `shown` has a large page, as the kernel tells.
fn large_mappings(shown: usize) -> Vec<bool> {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("mappings");
    let heads = text.lines().filter(|line| line.contains(FRAMES));
    let inode = |line: &str| line.split_ascii_whitespace().nth(4).map(str::to_owned);
    let memory = heads.clone().find(|line| line.starts_with(&format!("{shown:x}-")));
    let memory = inode(memory.expect("a mapping"));
    let mut is_inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(kib) = line.strip_prefix("ShmemPmdMapped:").filter(|_| is_inside) {
            let kib: usize = kib.trim().trim_end_matches(" kB").parse().expect("KiB");
            found.push(kib * 1024 >= LARGE);
        } else if line.contains('-') && !line.contains(": ") {
            is_inside = line.contains(FRAMES) && inode(line) == memory;
        }
    }
    found
}

/// Whether the kernel can make large pages of 2 MiB of memory that is mapped twice (6.1 on).
fn has_large_pages() -> bool {
    let size = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").unwrap_or_default();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("a kernel");
    let version: Vec<u32> = release.split(['.', '-']).map_while(|part| part.parse().ok()).collect();
    size.trim() == LARGE.to_string() && version >= vec![6, 1]
}

/// Decision 0673: large pages come as frames are first used, by either mapping, and the frames stay what they are.
#[test]
#[cfg_attr(miri, ignore = "there are no pages")]
fn frames_lie_in_large_pages_as_they_are_first_used() {
    let each = (LARGE / PAGE) as u32;
    for guard in [Guard::Alias, Guard::Sealed, Guard::Mprotect, Guard::Off] {
        let arena = Arena::protected(2 * each + 7, guard, false, Protection::Pcrc).expect("arena");
        assert!(arena.frames.shown_address().is_multiple_of(LARGE));
        for frame in 0..arena.count() {
            // Some are filled before anybody asks.
            if frame % each > 3 {
                arena.about_to_use(frame);
            }
            arena.fill(frame, &[frame as u8; PAGE], crc64::full(&[frame as u8; PAGE]));
        }
        for frame in 0..arena.count() {
            let mut copy = [0; PAGE];
            arena.verified_copy(frame, &mut copy).expect("sound");
            assert_eq!(copy, [frame as u8; PAGE]);
        }
        assert_eq!(arena.frames.asked_for_large(), 3 * LARGE);
    }
    let arena = Arena::new(8 * each, Guard::Alias, false).expect("arena");
    for frame in 0..arena.count() {
        arena.about_to_use(frame);
        arena.fill(frame, &[1; PAGE], crc64::full(&[1; PAGE]));
    }
    if has_large_pages() {
        assert_eq!(large_mappings(arena.frames.shown_address()), [true, true]);
    }
}
