//! Whether there is memory for what is asked for.

use super::*;

/// S-16.32: what somebody asks for fits, or is refused by both numbers; the default becomes what fits, if that is an arena.
#[test]
fn an_arena_fits_in_memory() {
    const MIB: u64 = 1 << 20;
    let default = MountOptions::default().arena;
    for (asked, most, arena) in [
        (None, None, default),
        (None, Some(default), default),
        (None, Some(33 * MIB + 7), 33 * MIB),
        (Some(4 * default), Some(4 * default), 4 * default),
        (Some(4 * default), None, 4 * default),
        (Some(16 * MIB), Some(17 * MIB), 16 * MIB),
    ] {
        assert_eq!(arena_that_fits(asked, most).unwrap(), arena, "{asked:?} of {most:?}");
    }
    for (asked, most, part) in [
        (Some(4 * default), 2 * default, "arena=256M is more than the 128M"),
        (Some(default), default - 1, "arena=64.0M is more than the 63.0M"),
        (Some(16 * MIB), 15 * MIB, "at least 16.0M, and"),
        (None, 15 * MIB, "too little memory for a mount"),
    ] {
        let said = arena_that_fits(asked, Some(most)).unwrap_err().to_string();
        assert!(said.contains(part), "{said}");
    }
}
