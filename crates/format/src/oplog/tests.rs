//! S-12.3: what is encoded is read back; what is cut or unknown is refused.

use super::*;
use crate::blockmap::WRITTEN;

const TIME: Moment = Moment { sec: -5, nsec: 7 };

fn samples() -> Vec<Action<'static>> {
    static ENTRIES: [PageEntry; 2] = [PageEntry::HOLE; 2];
    vec![
        Action::Create {
            mode: 0o100644,
            uid: 1,
            gid: 2,
            rdev: 3,
            parent: 4,
            time: TIME,
        },
        Action::Free {},
        Action::Enter {
            child: 9,
            kind: 8,
            time: TIME,
            name: b"name",
        },
        Action::Exchange {
            first: 1,
            second: 2,
            time: TIME,
            name: b"",
            other: b"other",
        },
        Action::SetXattr {
            namespace: 2,
            total: 77,
            name: b"n",
            value: &[5; 300],
            list: b"",
        },
        Action::Map {
            first: 1 << 40,
            was: 1,
            entries: &ENTRIES,
        },
        Action::Hole { from: 3, to: 1 << 50 },
    ]
}

fn encoded(action: Action<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert!(Operation { object: 42, action }.encode(&mut bytes));
    bytes
}

#[test]
fn operations_are_read_back() {
    let mut all = Vec::new();
    for action in samples() {
        all.extend(encoded(action));
    }
    let mut rest = &all[..];
    for action in samples() {
        let (operation, behind) = Operation::decode(rest).expect("decode");
        assert_eq!(operation, Operation { object: 42, action });
        rest = behind;
    }
    assert!(rest.is_empty());
}

#[test]
fn page_entries_keep_their_bytes() {
    let entries = [PageEntry::new(77, WRITTEN, 5, 6), PageEntry::HOLE];
    let action = Action::Map {
        first: 3,
        was: 2,
        entries: &entries,
    };
    let bytes = encoded(action);
    assert_eq!(bytes.len(), HEAD + 8 + 8 + 4 + 32);
    assert_eq!(Operation::decode(&bytes).expect("decode").0.action, action);
}

#[test]
fn cut_and_unknown_operations_are_refused() {
    for action in samples() {
        let bytes = encoded(action);
        for len in 0..bytes.len() {
            assert_eq!(Operation::decode(&bytes[..len]), None, "{action:?} cut to {len}");
        }
        let mut unknown = bytes.clone();
        unknown[8] = 0;
        assert_eq!(Operation::decode(&unknown), None);
        let mut longer = bytes.clone();
        longer[9] += 1;
        longer.push(0);
        assert_eq!(
            Operation::decode(&longer),
            None,
            "{action:?} with a byte behind its data"
        );
    }
}
