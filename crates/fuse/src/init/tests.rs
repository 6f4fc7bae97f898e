//! Negotiation with kernels that offer much, little and nothing.

use super::*;

fn offer(flags: u64, minor: u32) -> InitIn {
    InitIn {
        major: 7,
        minor,
        max_readahead: 131_072,
        flags: flags as u32,
        flags2: (flags >> 32) as u32,
        unused: [0; 11],
    }
}

fn config(cache: CacheMode) -> MountConfig {
    MountConfig {
        cache,
        ..MountConfig::default()
    }
}

#[test]
fn takes_what_is_wanted_and_nothing_else() {
    let (out, granted) = negotiate(&offer(u64::MAX, 45), &config(CacheMode::Writethrough)).unwrap();
    assert!(granted.has(ALWAYS));
    for refused in [
        POSIX_LOCKS,
        FLOCK_LOCKS,
        AUTO_INVAL_DATA,
        WRITEBACK_CACHE,
        NO_OPEN_SUPPORT,
        HANDLE_KILLPRIV,
        CREATE_SUPP_GROUP,
        PASSTHROUGH,
        NO_EXPORT_SUPPORT,
        OVER_IO_URING,
        REQUEST_TIMEOUT,
        ALLOW_IDMAP,
    ] {
        assert_eq!(granted.flags & refused, 0, "{refused:#x}");
    }
    assert_eq!(
        (out.major, out.minor, out.max_write, out.max_pages),
        (7, 45, 1 << 20, 256)
    );
    assert_eq!(u64::from(out.flags) | u64::from(out.flags2) << 32, granted.flags);
    assert_eq!(
        (out.max_background, out.congestion_threshold, out.time_gran),
        (64, 48, 1)
    );
}

#[test]
fn cache_mode_decides_about_the_cache() {
    let flags = |cache| negotiate(&offer(u64::MAX, 45), &config(cache)).unwrap().1;
    assert!(flags(CacheMode::Writeback).has(WRITEBACK_CACHE));
    assert!(flags(CacheMode::Direct).has(DIRECT_IO_ALLOW_MMAP));
    assert!(!flags(CacheMode::Direct).has(WRITEBACK_CACHE));
}

#[test]
fn never_grants_what_was_not_offered() {
    let (_, granted) = negotiate(&offer(NEEDED | ASYNC_READ, 40), &config(CacheMode::Writeback)).unwrap();
    assert_eq!((granted.flags, granted.minor), (NEEDED | ASYNC_READ, 40));
}

#[test]
fn newer_kernels_are_spoken_to_in_our_version() {
    let (out, granted) = negotiate(&offer(u64::MAX, 99), &config(CacheMode::default())).unwrap();
    assert_eq!((out.minor, granted.minor), (MINOR, MINOR));
}

#[test]
fn old_and_poor_kernels_are_refused() {
    let refused = |offer| negotiate(&offer, &config(CacheMode::default())).unwrap_err();
    assert!(matches!(
        refused(offer(u64::MAX, 35)),
        FuseError::OldKernel { major: 7, minor: 35 }
    ));
    assert!(matches!(
        refused(InitIn {
            major: 8,
            ..offer(u64::MAX, 45)
        }),
        FuseError::OldKernel { major: 8, .. }
    ));
    for bit in [INIT_EXT, POSIX_ACL, DONT_MASK] {
        assert!(matches!(refused(offer(!bit, 45)), FuseError::Handshake { .. }));
    }
}

#[test]
fn sizes_and_timeouts_stay_in_range() {
    let with = |max_write, seconds| {
        let timeout = Some(std::time::Duration::from_secs(seconds));
        let config = MountConfig {
            max_write,
            request_timeout: timeout,
            ..MountConfig::default()
        };
        negotiate(&offer(u64::MAX, 45), &config).unwrap().0
    };
    assert_eq!(
        (with(0, 0).max_write, with(0, 0).max_pages, with(0, 0).request_timeout),
        (4096, 1, 1)
    );
    assert_eq!((with(5000, 60).max_write, with(5000, 60).request_timeout), (8192, 60));
    assert_eq!(
        (
            with(u32::MAX, 1 << 40).max_write,
            with(u32::MAX, 1 << 40).request_timeout
        ),
        (16 << 20, u16::MAX)
    );
}
