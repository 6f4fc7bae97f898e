//! Lines of `million` are understood.

use super::*;

#[test]
fn lines_become_samples_and_others_do_not() {
    let made = "create + 1 KiB + xattr up to 10000      10000 in    0.251 s =      25.10 us each,     20.00 us of processor; 3 MiB beside the arena";
    let made = line(made).expect("a figure");
    assert_eq!(made.workload, "create + 1 KiB + xattr up to 10000");
    assert_eq!((made.value, made.unit.as_str()), (25.1, "us"));
    let once = "mount after a power cut                    1 in    0.091 s =   91000.00 us each,     20.00 us of processor; 3 MiB beside the arena";
    let once = line(once).expect("a figure");
    assert_eq!((once.value, once.unit.as_str()), (0.091, "s"));
    let peak = line("peak beside the arena: 54 MiB").expect("a figure");
    assert_eq!(peak.value, 54.0);
    assert_eq!(line("arena: 16384 frames, 3 dirty, 0 evictions"), None);
    assert_eq!(line(""), None);
}
