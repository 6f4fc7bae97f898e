//! The kernel's line of counters.

use super::Counters;

#[test]
fn the_stat_file_is_read() {
    let line = "  100 0 800 5 200 0 1600 9 0 10 14 0 0 0 0 33 7\n";
    let counters = Counters::parse(line).expect("a line of 17 fields");
    assert_eq!(
        counters,
        Counters {
            written: 1600 * 512,
            flushes: 33
        }
    );
    assert_eq!(
        counters.since(Counters {
            written: 512,
            flushes: 30
        }),
        Counters {
            written: 1599 * 512,
            flushes: 3
        }
    );
    assert_eq!(Counters::parse("1 2 3"), None);
}
