//! Limits are raised where they may be (S-16.34).

use super::*;

/// S-16.34.
#[test]
fn limits_are_raised_and_none_is_lowered() {
    let limit = |current, maximum| Rlimit { current, maximum };
    let least = Some(100);
    assert_eq!(wanted(&limit(Some(5), Some(7)), least), limit(Some(100), Some(100)));
    assert_eq!(wanted(&limit(Some(5), None), least), limit(Some(100), None));
    assert_eq!(wanted(&limit(Some(500), Some(700)), least), limit(Some(500), Some(700)));
    assert_eq!(wanted(&limit(None, None), least), limit(None, None));
    assert_eq!(wanted(&limit(Some(5), Some(7)), None), limit(None, None));
}

/// S-16.34: the greatest limit is all that may be had, also by who has it.
#[test]
fn who_may_not_raise_goes_as_far_as_he_may() {
    let limit = |current, maximum| Rlimit { current, maximum };
    let left = |has: Rlimit, least| allowed(&has, &wanted(&has, least));
    for least in [None, Some(100)] {
        for current in [5, 7] {
            assert_eq!(left(limit(Some(current), Some(7)), least), limit(Some(7), Some(7)));
        }
    }
    assert_eq!(left(limit(Some(5), Some(700)), Some(100)), limit(Some(100), Some(700)));
    assert_eq!(left(limit(Some(5), None), Some(100)), limit(Some(100), None));
    assert_eq!(left(limit(Some(5), None), None), limit(None, None));
}

/// S-16.34, in this process: none of its tests needs less.
#[test]
fn a_server_may_write_large_files_for_long() {
    let limits = [(Resource::Fsize, 1 << 50), (Resource::Cpu, 1 << 30)].map(|(what, enough)| {
        let most = getrlimit(what).maximum;
        // Less than the greatest in any case, or there would be nothing to raise.
        let less = most.map_or(enough, |most| enough.min(most - 1));
        setrlimit(
            what,
            Rlimit {
                current: Some(less),
                maximum: most,
            },
        )
        .unwrap();
        (what, most)
    });
    raise();
    for (what, most) in limits {
        let has = getrlimit(what);
        assert!(has.current.is_none() || has.current == most, "{has:?}");
        assert_eq!(has.current, has.maximum);
    }
}
