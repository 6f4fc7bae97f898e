//! Lines verified where they are read (S-15.19, S-15.20).

use super::*;
use crate::arena::UNBOUND;
use crate::undo::UndoLog;
use crate::update::by_hand as update;
use core::sync::atomic::{AtomicBool, AtomicU64};
use keepfs_codes::identity::{Group, Identity};
use keepfs_memory::Guard;

const CODES: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

fn binding(id: u64) -> Binding {
    Binding {
        identity: Identity::of(b"a pool of tests!", id, 2),
        group: Group::Inode,
    }
}

/// A line of frame 1.
fn line_of(arena: &Arena, binding: Binding, number: usize) -> Result<Line, Damaged> {
    let mut line = Line::none();
    arena.line(1, binding, number, &mut line).map(|()| line)
}

fn bytes() -> [u8; PAGE] {
    core::array::from_fn(|i| (i * 7 + i / 256) as u8)
}

fn arena(code: Protection, guard: Guard) -> Arena {
    let arena = Arena::protected(2, guard, false, code).expect("arena");
    let bytes = bytes();
    arena.fill_as(1, &bytes, crc64::full(&bytes), binding(9));
    arena
}

/// S-15.20: the sums of the lines make the CRC-64 of the frame after any puts of several threads at once.
#[test]
fn sums_make_the_crc_after_puts_of_four_threads() {
    let arena = arena(Protection::Pcrc, Guard::Alias);
    let undo = UndoLog::new(Guard::Alias, false).expect("undo");
    let puts: u64 = if cfg!(miri) { 40 } else { 250_000 };
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let (arena, undo) = (&arena, &undo);
            scope.spawn(move || {
                for i in 0..puts {
                    let mut slot = undo.open();
                    let at = 32 + thread as usize * 1000 + (i as usize * 13) % 980;
                    let word = i.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
                    update::put(arena, &mut slot, (Group::Inode, 1), at, &word[..1 + i as usize % 8]).expect("put");
                }
            });
        }
    });
    let mut copy = [0; PAGE];
    arena.verified_copy(1, &mut copy).expect("right");
    assert_eq!(arena.sums(1, binding(9)), line::sums(&copy));
    assert_eq!(arena.sum(1), crc64::full(&copy));
}

/// S-15.19: each byte, scribbled: whoever reads the line that has it is told, every other line is read.
#[test]
fn a_scribbled_byte_is_never_handed_out() {
    for code in CODES {
        let (arena, right) = (arena(code, Guard::Off), bytes());
        for at in (0..PAGE).step_by(if cfg!(miri) { 509 } else { 1 }) {
            arena.copy(1, at, &[right[at] ^ 0x10]);
            for number in 0..LINES {
                let looked = line_of(&arena, binding(9), number);
                match number == line::at(at) {
                    true => assert_eq!(looked.err(), Some(Damaged { line: number })),
                    false => assert_eq!(
                        looked.expect("right").at(number * LINE, 4),
                        &right[number * LINE..][..4]
                    ),
                }
            }
            assert!(arena.whole(1, binding(9), &mut [0; PAGE]).is_err());
            let mut word = [0; 2];
            let from = at.min(PAGE - 2);
            assert!(arena.load(1, binding(9), from, &mut word).is_err());
            arena.copy(1, at, &[right[at]]);
        }
        arena.whole(1, binding(9), &mut [0; PAGE]).expect("right");
    }
}

/// S-15.30: a line is right for its own metablock only.
#[test]
fn a_line_says_whose_it_is() {
    let arena = arena(Protection::Pcrc, Guard::Off);
    for other in [
        binding(8),
        UNBOUND,
        Binding {
            group: Group::Map,
            ..binding(9)
        },
    ] {
        for number in 0..LINES {
            assert!(line_of(&arena, other, number).is_err());
        }
        assert!(arena.whole(1, other, &mut [0; PAGE]).is_err());
    }
}

/// S-15.20: one value written over the sums of neighbouring lines is seen, though these lines are equal.
#[test]
fn sums_that_were_filled_are_seen() {
    let arena = Arena::protected(2, Guard::Off, false, Protection::Pcrc).expect("arena");
    arena.fill_as(1, &[0; PAGE], crc64::of_zeros(), binding(9));
    let at = arena.sum_at(1, 4);
    arena.control.store(at, &[0x77; 16]);
    assert!(arena.verified_copy(1, &mut [0; PAGE]).is_err());
    assert!(line_of(&arena, binding(9), 4).is_err() && line_of(&arena, binding(9), 5).is_err());
}

/// Without a code there are no sums, and every line counts as right.
#[test]
fn without_a_code_all_lines_are_right() {
    let arena = arena(Protection::Off, Guard::Off);
    arena.copy(1, 100, b"anything");
    assert_eq!(line_of(&arena, binding(8), 0).expect("right").at(100, 8), b"anything");
    arena.whole(1, binding(8), &mut [0; PAGE]).expect("right");
}

/// S-15.19: while two writers change words of one line, a reader sees each word whole and never a mixture, and no damage.
#[test]
fn readers_beside_writers_see_no_mixture() {
    for (guard, puts) in [
        (Guard::Alias, 100_000),
        (Guard::Off, 100_000),
        (Guard::Sealed, 2000),
        (Guard::Mprotect, 2000),
    ] {
        let puts: u64 = if cfg!(miri) { 30 } else { puts };
        let arena = arena(Protection::Pcrc, guard);
        let undo = UndoLog::new(guard, false).expect("undo");
        let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        let places = [512usize, 560];
        for at in places {
            let mut slot = undo.open();
            update::put(&arena, &mut slot, (Group::Inode, 1), at, &[0; 16]).expect("put");
        }
        std::thread::scope(|scope| {
            let writers = places.map(|at| {
                let (arena, undo) = (&arena, &undo);
                scope.spawn(move || {
                    for i in 0..puts {
                        let mut slot = undo.open();
                        let mut both = [0; 16];
                        both[..8].copy_from_slice(&i.to_le_bytes());
                        both[8..].copy_from_slice(&(!i).wrapping_add(1).to_le_bytes());
                        update::put(arena, &mut slot, (Group::Inode, 1), at, &both).expect("put");
                    }
                })
            });
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let line = line_of(&arena, binding(9), 2).expect("no false alarm");
                    for at in places {
                        let word = |from| u64::from_le_bytes(line.at(from, 8).try_into().expect("8"));
                        assert_eq!(word(at).wrapping_add(word(at + 8)), 0, "a mixture");
                    }
                    seen.fetch_add(1, Ordering::Relaxed);
                }
            });
            writers.into_iter().for_each(|writer| writer.join().expect("writer"));
            stop.store(true, Ordering::Relaxed);
        });
        assert!(seen.load(Ordering::Relaxed) > 0);
    }
}

/// A reader that has this bug meets a writer who was stopped between fold and copy: what the reader got, and what it should.
fn beside_a_stopped_writer(bug: Option<Use>) -> (Result<Vec<u8>, Damaged>, Vec<u8>) {
    let arena = arena(Protection::Pcrc, Guard::Off);
    let (old, new) = (&bytes()[300..308], b"new word");
    let (folded, has_folded) = std::sync::mpsc::channel();
    let (read, has_read) = std::sync::mpsc::channel();
    let got = std::thread::scope(|scope| {
        let arena = &arena;
        scope.spawn(move || {
            arena.enter(1);
            arena.fold(1, Group::Inode, (300, old, new), crc64::delta(300, old, new));
            folded.send(()).expect("a reader");
            has_read.recv().expect("a reader");
            arena.copy(1, 300, new);
            arena.leave(1);
        });
        has_folded.recv().expect("a writer");
        for number in (0..LINES).filter(|number| *number != 1) {
            assert!(line_of(arena, binding(9), number).is_ok(), "line {number}");
        }
        let reader = scope.spawn(move || {
            planted::plant_use(bug);
            if bug.is_none() {
                // The writer goes on while it looks.
                read.send(()).expect("a writer");
                return line_of(arena, binding(9), 1).map(|line| line.at(300, 8).to_vec());
            }
            let got = line_of(arena, binding(9), 1).map(|line| line.at(300, 8).to_vec());
            read.send(()).expect("a writer");
            got
        });
        reader.join().expect("reader")
    });
    (got, new.to_vec())
}

/// A writer who was stopped between fold and copy: other lines of its frame are read meanwhile, and its own when it went on.
#[test]
fn a_stopped_writer_delays_its_own_line_alone() {
    let (got, right) = beside_a_stopped_writer(None);
    assert_eq!(got, Ok(right));
}

/// The look before, that tells damage where bytes and sum disagree once: a writer is taken for damage (S-15.29).
#[test]
fn damage_at_once_is_noticed() {
    let (got, _) = beside_a_stopped_writer(Some(Use::DamageAtOnce));
    assert_eq!(got, Err(Damaged { line: 1 }));
}
