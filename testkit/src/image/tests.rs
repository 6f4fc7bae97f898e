//! Tests of images: against a plain map, sharing, digests.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use keepfs_media::ram::RamDevice;

fn filled(byte: u8) -> Page {
    Page::new(&[byte; PAGE])
}

#[test]
fn copies_do_not_see_each_others_changes() {
    let mut first = Image::new(1000);
    first.set(PageNo(999), filled(1));
    let mut second = first.clone();
    second.set(PageNo(999), filled(2));
    second.set(PageNo(0), filled(3));
    assert_eq!(first.bytes(PageNo(999)), &[1; PAGE]);
    assert_eq!(first.bytes(PageNo(0)), &[0; PAGE]);
    assert_eq!(second.bytes(PageNo(999)), &[2; PAGE]);
    assert_eq!(first.first_difference(&second), Some(PageNo(0)));
    assert_ne!(first.digest(), second.digest());
    second.set(PageNo(999), filled(1));
    second.change(PageNo(0), |bytes| bytes.fill(0));
    assert_eq!(first.digest(), second.digest());
    assert_eq!(first.first_difference(&second), None);
}

#[test]
fn swapped_pages_have_another_digest() {
    let of = |a: u8, b: u8| {
        let mut image = Image::new(20);
        image.set(PageNo(3), filled(a));
        image.set(PageNo(17), filled(b));
        image.digest()
    };
    assert_ne!(of(1, 2), of(2, 1));
    assert_ne!(of(1, 1), of(2, 2));
    assert_ne!(of(1, 1), 0);
}

#[test]
fn every_single_bit_changes_the_digest_of_a_page() {
    let mut seen = std::collections::HashSet::from([Page::new(&[0; PAGE]).digest()]);
    for bit in 0..PAGE * 8 {
        let mut bytes = [0; PAGE];
        bytes[bit / 8] = 1 << (bit % 8);
        assert!(seen.insert(Page::new(&bytes).digest()), "bit {bit}");
    }
}

#[test]
fn flips_of_two_bits_have_different_digests() {
    let mut seen = std::collections::HashSet::new();
    let high_bits = (0..64).map(|word| word * 64 + 63);
    for first in high_bits {
        for second in first + 1..first + 1200 {
            let mut bytes = [0; PAGE];
            bytes[first / 8] ^= 1 << (first % 8);
            bytes[second / 8] ^= 1 << (second % 8);
            bytes[PAGE - 1] ^= 1;
            assert!(seen.insert(Page::new(&bytes).digest()));
        }
    }
}

#[test]
fn out_of_range_is_ignored() {
    for pages in [0, 1, 16, 17] {
        let mut image = Image::new(pages);
        image.set(PageNo(pages), filled(1));
        image.set(PageNo(u64::MAX), filled(1));
        image.clear(PageNo(u64::MAX), u64::MAX);
        assert_eq!((image.digest(), image.get(PageNo(pages))), (0, None));
    }
    let mut huge = Image::new(1 << 40);
    huge.set(PageNo((1 << 40) - 1), filled(1));
    huge.clear(PageNo(0), u64::MAX);
    assert_eq!(huge.digest(), 0);
}

#[test]
fn capture_and_restore_are_inverse() {
    let mut image = Image::new(40);
    image.set(PageNo(7), filled(9));
    image.set(PageNo(39), filled(8));
    let device = RamDevice::new(40);
    device.write(PageNo(1), &[5; PAGE], Class::Data).unwrap();
    image.restore(&device).unwrap();
    let again = Image::capture(&device).unwrap();
    assert_eq!(again.first_difference(&image), None);
    assert_eq!(again.digest(), image.digest());
}

proptest! {
    #[test]
    fn behaves_like_a_map(changes in prop::collection::vec((0u64..300, 0u8..4, 1u64..40), 0..60)) {
        let mut image = Image::new(290);
        let mut map = BTreeMap::new();
        for (at, byte, count) in changes {
            if byte == 3 {
                image.clear(PageNo(at), count);
                map.retain(|page, _| !(at..at + count).contains(page));
            } else {
                image.set(PageNo(at), filled(byte));
                if at < 290 && byte != 0 { map.insert(at, byte); } else { map.remove(&at); }
            }
        }
        let mut seen = BTreeMap::new();
        image.for_each(|at, page| { seen.insert(at.0, page.bytes()[0]); });
        prop_assert_eq!(&seen, &map);
        let mut fresh = Image::new(290);
        for (&at, &byte) in map.iter().rev() { fresh.set(PageNo(at), filled(byte)); }
        prop_assert_eq!(fresh.digest(), image.digest());
    }
}
