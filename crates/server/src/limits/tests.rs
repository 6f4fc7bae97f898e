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

/// S-16.34, in this process: none of its tests needs less.
#[test]
fn a_server_may_write_large_files_for_long() {
    let (files, processor) = (getrlimit(Resource::Fsize), getrlimit(Resource::Cpu));
    let less = |most: &Rlimit, current| Rlimit {
        current: Some(current),
        maximum: most.maximum,
    };
    setrlimit(Resource::Fsize, less(&files, 1 << 50)).unwrap();
    setrlimit(Resource::Cpu, less(&processor, 1 << 30)).unwrap();
    raise();
    for (what, before) in [(Resource::Fsize, files), (Resource::Cpu, processor)] {
        let has = getrlimit(what).current;
        assert!(has.is_none() || has == before.maximum, "{has:?}");
    }
}
