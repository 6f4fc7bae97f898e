//! What is kept of the memory of groups.

use super::*;

/// A piece comes back as it was, to who wants it for the same; what is too long does not.
#[test]
fn pieces_are_kept_unless_they_are_long() {
    let spare = Spare::default();
    assert_eq!(spare.take(Piece::Whole).capacity(), 0);
    spare.give(Piece::Whole, vec![7; 5000]);
    spare.give(Piece::Payload, vec![7; KEEP_MAX + 1]);
    assert_eq!(spare.take(Piece::Payload).capacity(), 0);
    assert_eq!(spare.take(Piece::Whole), vec![7; 5000]);
    assert_eq!(spare.take(Piece::Whole).capacity(), 0);
}
