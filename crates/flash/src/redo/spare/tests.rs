//! What is kept of the memory of groups.

use super::*;

/// A piece comes back as it was, to who wants it for the same; what is too long comes back cut.
#[test]
fn pieces_are_kept_and_cut_if_they_are_long() {
    let spare = Spare::default();
    assert_eq!(spare.take(Piece::Whole).capacity(), 0);
    spare.give(Piece::Whole, vec![7; 5000]);
    let long = vec![7; 4 * KEEP_MAX];
    spare.give(Piece::Payload, long);
    let cut = spare.take(Piece::Payload);
    assert_eq!((cut.len(), cut.capacity()), (KEEP_MAX, KEEP_MAX));
    assert_eq!(spare.take(Piece::Whole), vec![7; 5000]);
    assert_eq!(spare.take(Piece::Whole).capacity(), 0);
}
