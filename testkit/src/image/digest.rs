//! A fast 64-bit digest of page contents and places: to recognise equal images, not to detect damage.

use keepfs_media::{PAGE, PageNo};

/// Odd constants with mixed bits (the fractions of the golden ratio and of square roots).
const KEYS: [u64; 4] = [
    0x9E37_79B9_7F4A_7C15,
    0x6A09_E667_F3BC_C909,
    0xBB67_AE85_84CA_A73B,
    0x3C6E_F372_FE94_F82B,
];

/// The two halves of a 128-bit product, folded.
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ (product >> 64) as u64
}

/// Takes `word` into `lane`. The folded product spreads even the highest bit over the whole lane, so
/// that no later word of simple shape undoes it.
fn absorb(lane: u64, word: u64) -> u64 {
    fold(lane ^ word, KEYS[0])
}

/// The digest of a page's bytes; 0 for zeros.
pub(super) fn of_page(bytes: &[u8; PAGE]) -> u64 {
    const LANES: usize = 8;
    let (words, _) = bytes.as_chunks::<8>();
    let mut lanes: [u64; LANES] = std::array::from_fn(|i| KEYS[i % 4].rotate_left(i as u32));
    let mut any = 0u64;
    for row in words.as_chunks::<LANES>().0 {
        for (lane, word) in lanes.iter_mut().zip(row) {
            let word = u64::from_le_bytes(*word);
            any |= word;
            *lane = absorb(*lane, word);
        }
    }
    if any == 0 {
        return 0;
    }
    lanes.into_iter().fold(KEYS[1], absorb).max(1)
}

/// What a page of digest `content` at `at` adds (by XOR) to the digest of an image.
pub(super) fn at_place(at: PageNo, content: u64) -> u64 {
    if content == 0 {
        return 0;
    }
    let place = fold(at.0 ^ KEYS[2], KEYS[3]);
    fold(content ^ place, KEYS[0] ^ place.rotate_left(32))
}
