//! Values as people read them.

use super::*;

#[test]
fn when_a_pool_was_made_is_told_by_the_local_clock_unless_it_is_wanted_exact() {
    let made = Property {
        name: CREATED.into(),
        value: "1764187200".into(),
        is_size: false,
        source: "-".into(),
    };
    assert_eq!(value(&made, false), times::moment(1_764_187_200));
    assert_eq!(value(&made, true), "1764187200");
}
