//! How much data no flush has covered, where two flushes are under way at one time.

use super::state::Given;

/// Two flushes that overlap, as a checkpoint's and a sync's: what both cover counts once, what came behind both stays
/// unflushed, and the one that began later and returned first is not taken back by the other. S-9.3
#[test]
fn overlapping_flushes_cover_each_byte_once() {
    for later_returns_first in [false, true] {
        let given = Given::default();
        given.add(1000);
        let earlier = given.before_flush();
        given.add(200);
        let later = given.before_flush();
        given.add(30);
        let order = if later_returns_first {
            [later, earlier]
        } else {
            [earlier, later]
        };
        given.flushed(order[0]);
        assert_eq!(given.unflushed(), if later_returns_first { 30 } else { 230 });
        given.flushed(order[1]);
        assert_eq!(given.unflushed(), 30);
        given.flushed(given.before_flush());
        assert_eq!(given.unflushed(), 0);
    }
}
