//! Lines of `million --grow` are understood.

use super::*;

#[test]
fn sizes_are_rows_of_one_workload() {
    let line =
        r#"{"what":"create","files":100000,"operations":20000,"mean_us":6.5,"p50_us":4.1,"p99_us":40.0,"evictions":7}"#;
    let told = sample(line, "one directory").expect("a figure");
    assert_eq!(
        (told.workload.as_str(), told.peer.as_str()),
        ("create, one directory", "10^5 files")
    );
    assert_eq!((told.value, told.unit.as_str()), (6.5, "us"));
    assert_eq!(told.each("evictions"), Some(7.0 / 20000.0));
    let peak = sample("peak beside the arena: 54 MiB", "one directory").expect("a figure");
    assert_eq!(
        (peak.workload.as_str(), peak.value),
        ("peak beside the arena, one directory", 54.0)
    );
    assert_eq!(sample("arena: 3 frames", "one directory"), None);
    assert_eq!(size(12_345.0), "12345 files");
}
