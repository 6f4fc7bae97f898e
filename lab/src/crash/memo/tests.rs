//! Tests of the decision tree.

use super::*;
use keepfs_media::PageNo;
use keepfs_testkit::image::Page;

fn image(pages: &[(u64, u8)]) -> Image {
    let mut image = Image::new(8);
    for (page, byte) in pages {
        image.set(PageNo(*page), Page::new(&[*byte; 4096]));
    }
    image
}

fn reads(image: &Image, pages: &[u64]) -> Vec<Read> {
    let read = |page: &u64| Read {
        page: *page,
        digest: digest_at(image, *page),
    };
    pages.iter().map(read).collect()
}

#[test]
fn an_image_is_known_when_all_that_was_read_is_equal() {
    let mut memo = Memo::default();
    let one = image(&[(1, 1), (2, 2)]);
    assert_eq!(memo.find(&one), None);
    memo.keep(&reads(&one, &[1, 2]), "one").expect("kept");
    assert_eq!(memo.find(&one), Some(&"one"));
    // Page 3 is not read.
    assert_eq!(memo.find(&image(&[(1, 1), (2, 2), (3, 3)])), Some(&"one"));
    assert_eq!(memo.find(&image(&[(1, 1), (2, 9)])), None);
    let other = image(&[(1, 7), (5, 5)]);
    memo.keep(&reads(&other, &[1, 5, 6]), "other").expect("kept");
    assert_eq!(memo.find(&other), Some(&"other"));
    assert_eq!(memo.find(&one), Some(&"one"));
    // The way of the first run reads no page 5.
    assert_eq!(memo.find(&image(&[(1, 1), (5, 5)])), None);
}

#[test]
fn runs_that_contradict_each_other_are_told() {
    let mut memo = Memo::default();
    let one = image(&[(1, 1)]);
    memo.keep(&reads(&one, &[1, 2]), ()).expect("kept");
    assert_eq!(memo.keep(&reads(&one, &[1, 3]), ()), Err(Contradiction { after: 1 }));
    assert_eq!(memo.keep(&reads(&one, &[1]), ()), Err(Contradiction { after: 1 }));
    assert_eq!(memo.keep(&reads(&one, &[1, 2, 3]), ()), Err(Contradiction { after: 2 }));
    assert_eq!(memo.keep(&reads(&one, &[1, 2]), ()), Ok(()));
}
