//! No two names look alike.

use super::{for_programs, from_programs, shown};
use std::collections::BTreeSet;

/// S-18.10.
#[test]
fn what_is_not_seen_is_quoted() {
    let cases: [(&[u8], &str); 15] = [
        (
            "/plain ünïcode's \u{fffd}\u{4e2d}\u{1f600}".as_bytes(),
            "/plain ünïcode's \u{fffd}\u{4e2d}\u{1f600}",
        ),
        ("/wide\u{3000}space".as_bytes(), "$'/wide\\xe3\\x80\\x80space'"),
        (
            "/blank\u{2800}\u{3164}".as_bytes(),
            "$'/blank\\xe2\\xa0\\x80\\xe3\\x85\\xa4'",
        ),
        (
            "/private\u{e000}\u{f8ff}".as_bytes(),
            "$'/private\\xee\\x80\\x80\\xef\\xa3\\xbf'",
        ),
        ("/none\u{ffff}".as_bytes(), "$'/none\\xef\\xbf\\xbf'"),
        ("/chosen\u{fe0f}".as_bytes(), "$'/chosen\\xef\\xb8\\x8f'"),
        (b"/a\\nb", "/a\\nb"),
        (b"/a\nb", "$'/a\\nb'"),
        (b"/e\x1b[31m", "$'/e\\e[31m'"),
        (b"/inv\xff", "$'/inv\\xff'"),
        (b"/it's\\\x01\xe2\x80", "$'/it\\'s\\\\\\x01\\xe2\\x80'"),
        (
            "/zw\u{200b}\u{61c}\u{feff}".as_bytes(),
            "$'/zw\\xe2\\x80\\x8b\\xd8\\x9c\\xef\\xbb\\xbf'",
        ),
        ("/u\u{202e}".as_bytes(), "$'/u\\xe2\\x80\\xae'"),
        ("/no\u{a0}break".as_bytes(), "$'/no\\xc2\\xa0break'"),
        (b"$'/a\\nb'", "$'$\\'/a\\\\nb\\''"),
    ];
    for (name, told) in cases {
        assert_eq!(shown(name), told);
        let (path, bytes) = for_programs(name);
        assert_eq!(from_programs(&path, bytes.as_deref()), told);
    }
}

/// S-18.10.
#[test]
fn no_two_paths_look_alike() {
    let parts: [&[u8]; 12] = [
        b"\xff",
        b"\xfe",
        "\u{fffd}".as_bytes(),
        b"\n",
        b"n",
        b"\\",
        b"\\xff",
        b"xff",
        b"'",
        b"$'",
        "\u{200b}".as_bytes(),
        b"/",
    ];
    let (mut texts, mut programs, mut count) = (BTreeSet::new(), BTreeSet::new(), 0);
    for first in parts {
        for second in parts {
            for third in parts {
                let path = [b"/", first, b".", second, b".", third].concat();
                texts.insert(shown(&path).into_owned());
                programs.insert(for_programs(&path).0);
                count += 1;
            }
        }
    }
    assert_eq!((texts.len(), programs.len()), (count, count));
}
