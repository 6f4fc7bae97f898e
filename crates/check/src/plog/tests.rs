//! Tests of which pages behind the log's end are looked at.

use super::*;

/// S-9.15: pages q + 1 to q + 8 and q + 16, q + 32, ... of the 8192 behind q.
#[test]
fn near_pages_and_some_far_ones_are_looked_at_first() {
    let is_asked = |distance: &u64| *distance <= 8 || distance.is_power_of_two();
    for (sequence, end) in [
        (0, 20_000),
        (1 << 40, u64::MAX),
        (77, 78),
        (77, 79),
        (77, 93),
        (77, 94),
        (5, 8196),
        (5, 8198),
    ] {
        let asked: Vec<u64> = (1..=BEHIND)
            .filter(is_asked)
            .map(|distance| sequence + distance)
            .collect();
        let before_end: Vec<u64> = asked.into_iter().filter(|number| *number < end).collect();
        assert_eq!(
            looked_at(sequence, end).collect::<Vec<u64>>(),
            before_end,
            "{sequence} {end}"
        );
    }
}
