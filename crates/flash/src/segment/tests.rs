//! Memory of redo and staged pages, taken over.

use super::*;

/// S-14.1, S-14.8: memory that is not a segment, or not this one, is refused.
#[test]
fn only_a_segment_is_adopted() {
    let segment = Segment::new(4, Guard::Off, false, true).expect("segment");
    let again = || {
        let same = segment.region().descriptor().expect("it lasts").try_clone_to_owned();
        Segment::adopt(same.expect("descriptor"), Guard::Off, false)
    };
    assert_eq!(again().expect("right").incarnation(), segment.incarnation());
    for at in 0..48 {
        segment.region().xor_u8(at, 1);
        assert!(again().expect("once").header_changed, "header byte {at}");
        segment.region().xor_u8(at + 2048, 1);
        assert!(again().is_err(), "header byte {at}, twice");
        segment.region().xor_u8(at, 1);
        assert!(again().expect("once").header_changed, "header byte {at}");
        segment.region().xor_u8(at + 2048, 1);
    }
    again().expect("right again");
    let other = Region::lasting("other", 8192, Guard::Off, false).expect("region");
    let other = other
        .descriptor()
        .expect("it lasts")
        .try_clone_to_owned()
        .expect("descriptor");
    assert!(Segment::adopt(other, Guard::Off, false).is_err());
    let file = std::fs::File::open("/proc/self/exe").expect("a file that can change its size");
    assert!(Segment::adopt(file.into(), Guard::Off, false).is_err());
}

/// S-9.9: what was refused is told of the log behind that one superblock.
#[test]
fn what_was_refused_is_told_of_one_log() {
    let segment = Segment::new(8, Guard::Off, false, false).expect("memory");
    assert_eq!(segment.refused(7), None);
    segment.note_refused(7, 3);
    assert_eq!(
        [6, 7, 8].map(|generation| segment.refused(generation)),
        [None, Some(3), None]
    );
}
