//! Raw writes of 16 bytes to a protected region, without undo and transactions (Greenan & Miller 2006, section 5.4).

use crate::arena::{Arena, FrameNo};
use crate::error::Error;
use keepfs_codes::identity::Group;
use keepfs_codes::{Protection, crc64};
use keepfs_format::PAGE;
use keepfs_memory::Guard;
use std::time::{Duration, Instant};

/// Bytes of a write.
const LEN: usize = 16;
/// Writes of a run: as many as the paper did.
const WRITES: usize = 250_000;
/// Writes that are timed together.
const BATCH: usize = 500;

/// How a write is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The bytes are stored: the paper's NOTHING.
    Bare,
    /// Each block is copied to scratch, changed, encoded and copied home: NPND.
    Encode,
    /// And checked: NO_PROT.
    Check,
    /// And its pages are opened before and closed behind it, as figure 3 is printed: ALL.
    Printed,
    /// Sum and parity follow the change, the bytes go through the window of guard `alias`.
    Rolling,
}

impl Way {
    fn guard(self) -> Guard {
        match self {
            Way::Bare | Way::Encode | Way::Check => Guard::Off,
            Way::Printed => Guard::Mprotect,
            Way::Rolling => Guard::Alias,
        }
    }

    fn write(self, arena: &Arena, (frame, offset): (FrameNo, usize), new: &[u8; LEN]) -> bool {
        match self {
            Way::Bare => arena.copy(frame, offset, new),
            Way::Encode => arena.write_blocks(frame, offset, new, false),
            Way::Check | Way::Printed => arena.write_blocks(frame, offset, new, true),
            Way::Rolling => {
                let mut old = [0; LEN];
                arena.load_raw(frame, offset, &mut old);
                let delta = crc64::delta(offset, &old, new);
                arena.fold(frame, Group::Bitmap, (offset, &old, new), delta);
                arena.copy(frame, offset, new)
            }
        }
    }
}

/// Nanoseconds of a write in a region of `bytes` bytes under `code`: the mean of the fastest batch of at least one run, in as
/// many runs as `time` allows. Errors: `Memory`; `Damaged`: something does not verify at the end.
pub fn writes(way: Way, code: Protection, bytes: usize, time: Duration) -> Result<f64, Error> {
    let frames = u32::try_from(bytes / PAGE).unwrap_or(u32::MAX).max(1);
    let arena = Arena::protected(frames, way.guard(), false, code)?;
    for frame in 0..frames {
        arena.fill(frame, &[0; PAGE], crc64::of_zeros());
    }
    let places = places(frames);
    let begun = Instant::now();
    let (mut least, mut good, mut count) = (f64::MAX, true, 0u128);
    loop {
        for batch in places.chunks(BATCH) {
            let start = Instant::now();
            for place in batch {
                count += 1;
                let new = count.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835);
                good &= way.write(&arena, *place, &new.to_le_bytes());
            }
            least = least.min(start.elapsed().as_nanos() as f64 / batch.len() as f64);
            if begun.elapsed() > time * 4 {
                break;
            }
        }
        if begun.elapsed() > time {
            break;
        }
    }
    let sound = good && is_sound(&arena, way);
    sound
        .then_some(least)
        .ok_or_else(|| Error::Damaged(format!("a frame does not verify after raw writes ({way:?}, {code})")))
}

/// Places drawn before anything is measured.
fn places(frames: u32) -> Vec<(FrameNo, usize)> {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut draw = |below: u64| {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        ((u128::from(random.wrapping_mul(0x2545_F491_4F6C_DD1D)) * u128::from(below)) >> 64) as u64
    };
    let place = |_| {
        let frame = draw(frames.into()) as FrameNo;
        (frame, draw((PAGE / LEN) as u64) as usize * LEN)
    };
    (0..WRITES).map(place).collect()
}

/// Whether what guards each frame still fits it, where sums follow the writes.
fn is_sound(arena: &Arena, way: Way) -> bool {
    let mut copy = [0; PAGE];
    let mut frames = 0..arena.count();
    way != Way::Rolling || frames.all(|frame| arena.verified_copy(frame, &mut copy).is_ok())
}
