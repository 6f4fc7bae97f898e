//! Whether there is memory for what is asked for.

use super::*;

/// S-16.32: what somebody asks for fits, or is refused by both numbers; the default is never refused.
#[test]
fn an_arena_that_was_asked_for_fits_in_memory() {
    let default = MountOptions::default().arena;
    assert!(fits_in_memory(default, Some(default / 4)).is_ok());
    assert!(fits_in_memory(4 * default, Some(4 * default)).is_ok());
    assert!(fits_in_memory(4 * default, None).is_ok());
    let said = fits_in_memory(4 * default, Some(2 * default)).unwrap_err().to_string();
    assert!(said.contains("arena=256M is more than the 128M of memory"), "{said}");
}
