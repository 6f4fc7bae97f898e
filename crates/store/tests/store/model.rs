//! A model of the frame word and of the slot word, run by loom through every order of steps that the memory model allows
//! (X-3.1; S-13.1, S-13.2).
//!
//! It is a small copy of the protocol, not the protocol: the real words lie in shared memory by address, where loom cannot
//! follow. Each function names the one it copies; a frame is two words of bytes, its sum their XOR.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

const WRITER: u64 = 1;
const WRITERS: u64 = 0x7fff;
const GATE: u64 = 0x8000;
const VERSION: u64 = 0x1_0000;

struct Frame {
    word: AtomicU64,
    sum: AtomicU64,
    bytes: [AtomicU64; 2],
}

impl Frame {
    fn new() -> Frame {
        Frame {
            word: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            bytes: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// `Arena::enter`, which gives up where the real one goes on spinning.
    fn enter(&self) -> bool {
        for _ in 0..2 {
            if self.word.fetch_add(WRITER, Ordering::AcqRel) & GATE == 0 {
                fence(Ordering::Release);
                return true;
            }
            self.word.fetch_add(WRITER.wrapping_neg(), Ordering::AcqRel);
            thread::yield_now();
        }
        false
    }

    /// `Arena::leave`.
    fn leave(&self) {
        self.word.fetch_add(VERSION.wrapping_sub(WRITER), Ordering::AcqRel);
    }

    /// `update::put`: fold, then copy.
    fn put(&self, at: usize, new: u64) -> bool {
        let old = self.bytes[at].load(Ordering::Relaxed);
        if !self.enter() {
            return false;
        }
        self.sum.fetch_xor(old ^ new, Ordering::AcqRel);
        self.bytes[at].store(new, Ordering::Relaxed);
        self.leave();
        true
    }

    /// `Arena::try_copy`: `None` if somebody wrote, else the copy, which must agree with the sum.
    fn try_copy(&self, gate: u64) -> Option<[u64; 2]> {
        let before = self.word.load(Ordering::Acquire);
        if before & WRITERS != 0 {
            return None;
        }
        let copy = [
            self.bytes[0].load(Ordering::Relaxed),
            self.bytes[1].load(Ordering::Relaxed),
        ];
        let sum = self.sum.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        let after = self.word.load(Ordering::Acquire);
        if (before | gate) != (after | gate) {
            return None;
        }
        assert_eq!(copy[0] ^ copy[1], sum, "a false alarm");
        Some(copy)
    }

    /// `Arena::try_line` between two looks at the word, as `Arena::undisturbed` has it: the bytes, if they agree with the sum;
    /// `Err`: damage, because they do not though nobody was writing.
    fn try_line(&self) -> Result<Option<[u64; 2]>, ()> {
        let before = self.word.load(Ordering::Acquire);
        let copy = [
            self.bytes[0].load(Ordering::Relaxed),
            self.bytes[1].load(Ordering::Relaxed),
        ];
        let agrees = copy[0] ^ copy[1] == self.sum.load(Ordering::Acquire);
        fence(Ordering::Acquire);
        if agrees {
            return Ok(Some(copy));
        }
        match before & WRITERS == 0 && self.word.load(Ordering::Acquire) == before {
            true => Err(()),
            false => Ok(None),
        }
    }

    /// `Arena::verified_copy` after its tries: with the gate. Gives up where the real one goes on spinning.
    fn gated_copy(&self) -> Option<[u64; 2]> {
        if self.word.fetch_or(GATE, Ordering::AcqRel) & GATE != 0 {
            return None;
        }
        let copy = (0..3).find_map(|_| {
            thread::yield_now();
            self.try_copy(GATE)
        });
        self.word.fetch_and(!GATE, Ordering::AcqRel);
        copy
    }
}

fn explore(body: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(body);
}

#[test]
fn two_writers_and_a_verifier() {
    explore(|| {
        let frame = Arc::new(Frame::new());
        let writers = [(0, 5), (1, 6)].map(|(at, new)| {
            let frame = frame.clone();
            thread::spawn(move || frame.put(at, new))
        });
        frame.try_copy(0);
        for writer in writers {
            assert!(writer.join().expect("writer"));
        }
        assert_eq!(frame.try_copy(0), Some([5, 6]), "a lost delta");
    });
}

#[test]
fn a_gate_keeps_the_copy_whole() {
    explore(|| {
        let frame = Arc::new(Frame::new());
        let other = frame.clone();
        let writer = thread::spawn(move || other.put(0, 7));
        if let Some(copy) = frame.gated_copy() {
            assert!(copy == [0, 0] || copy == [7, 0]);
        }
        let wrote = writer.join().expect("writer");
        assert_eq!(frame.try_copy(0), Some([if wrote { 7 } else { 0 }, 0]));
    });
}

/// S-15.19: a reader beside two writers of its line sees bytes that were right together, or looks again; never damage.
#[test]
fn two_writers_and_a_reader_of_one_line() {
    explore(|| {
        let frame = Arc::new(Frame::new());
        let writers = [(0, 5), (1, 6)].map(|(at, new)| {
            let frame = frame.clone();
            thread::spawn(move || frame.put(at, new))
        });
        for _ in 0..2 {
            if let Some(copy) = frame.try_line().expect("a false alarm") {
                assert!([[0, 0], [5, 0], [0, 6], [5, 6]].contains(&copy));
            }
        }
        for writer in writers {
            assert!(writer.join().expect("writer"));
        }
        assert_eq!(frame.try_line(), Ok(Some([5, 6])));
    });
}

const OPEN: u64 = 1;
const COMMITTED: u64 = 2;

/// The slot word decides: who sees COMMITTED sees the number and the redo; who sees a record's count sees the record.
#[test]
fn the_slot_word_publishes_what_stands_before_it() {
    explore(|| {
        let slot = Arc::new([(); 4].map(|()| AtomicU64::new(0)));
        let other = slot.clone();
        let owner = thread::spawn(move || {
            let [state, seq, count, record] = &*other;
            state.store(OPEN, Ordering::Release);
            record.store(77, Ordering::Relaxed); // `UndoSlot::write`
            count.store(1, Ordering::Release); // `UndoSlot::keep`
            seq.store(9, Ordering::Release); // `UndoSlot::commit`
            state.store(COMMITTED, Ordering::Release);
        });
        let [state, seq, count, record] = &*slot;
        if count.load(Ordering::Acquire) == 1 {
            assert_eq!(record.load(Ordering::Relaxed), 77);
        }
        if state.load(Ordering::Acquire) == COMMITTED {
            assert_eq!((seq.load(Ordering::Relaxed), count.load(Ordering::Relaxed)), (9, 1));
        }
        owner.join().expect("owner");
    });
}

/// S-14.3, S-14.6: who sees the slot's word or the cursor sees the redo entry; who sees a head's checksum sees its page.
#[test]
fn redo_and_staged_pages_are_complete_before_they_count() {
    explore(|| {
        let words = Arc::new([(); 5].map(|()| AtomicU64::new(0)));
        let other = words.clone();
        let owner = thread::spawn(move || {
            let [entry, state, cursor, page, head] = &*other;
            entry.store(77, Ordering::Relaxed); // `Redo::write`
            state.store(COMMITTED, Ordering::Release); // `UndoSlot::commit`
            cursor.store(1, Ordering::Release); // `Redo::publish`
            page.store(78, Ordering::Relaxed); // `Slots::put`
            head.store(1, Ordering::Release); // `Segment::set_head`
        });
        let [entry, state, cursor, page, head] = &*words;
        let staged = head.load(Ordering::Acquire) == 1;
        if staged {
            assert_eq!(page.load(Ordering::Relaxed), 78);
        }
        let published = cursor.load(Ordering::Acquire) == 1;
        assert!(published || !staged, "staged before the redo counted");
        if published || state.load(Ordering::Acquire) == COMMITTED {
            assert_eq!(entry.load(Ordering::Relaxed), 77);
            assert_eq!(state.load(Ordering::Relaxed), COMMITTED);
        }
        owner.join().expect("owner");
    });
}
