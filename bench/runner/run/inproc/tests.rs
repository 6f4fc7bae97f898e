//! What `inproc` prints is understood.

use super::*;

#[test]
fn rows_and_varmail_become_samples() {
    let text = r#"{"rows":[
        {"operation":"create","threads":1,"count":100,"median_ns":2500,"p99_ns":9000,"cpu_ns":2600,"all_cpu_ns":3000,"per_second":380000},
        {"operation":"create","threads":2,"count":200,"median_ns":2600,"p99_ns":9500,"cpu_ns":2700,"all_cpu_ns":3100,"per_second":700000}],
        "varmail":{"operations":130,"fsyncs":20,"per_second":65000,"kib_per_fsync":9.5,"flushes_per_fsync":0.2}}"#;
    let done = serde_json::from_str(text).expect("JSON");
    let all = samples("keepfs", &done);
    let rows: Vec<(&str, &str, f64, &str)> = all
        .iter()
        .map(|s| (s.workload.as_str(), s.peer.as_str(), s.value, s.unit.as_str()))
        .collect();
    assert_eq!(
        rows,
        [
            ("create", "keepfs", 2.5, "us"),
            ("create", "keepfs, 2 threads", 2.6, "us"),
            ("varmail", "keepfs", 65_000.0, "op/s"),
        ]
    );
    assert_eq!(all[1].get("per_second"), Some(700_000.0));
    assert_eq!(all[0].get("p99_us"), Some(9.0));
    assert_eq!(all[2].each_fsync("written"), Some(9.5 * 1024.0));
}

#[test]
fn without_varmail_there_is_none() {
    let done = serde_json::from_str(r#"{"rows":[],"varmail":null}"#).expect("JSON");
    assert!(samples("ext4", &done).is_empty());
}

#[test]
fn two_programs_are_added_up() {
    let row = |per_second: f64, median: f64| {
        let text = format!(
            r#"{{"rows":[{{"operation":"create","threads":1,"median_ns":{median},"p99_ns":9000,"cpu_ns":2600,"all_cpu_ns":3000,"per_second":{per_second}}}]}}"#
        );
        samples("in memory", &serde_json::from_str(&text).expect("JSON"))
    };
    let both = together(row(100.0, 2000.0), &row(50.0, 4000.0));
    assert_eq!(both[0].peer, "in memory, 2 programs");
    assert_eq!((both[0].value, both[0].get("per_second")), (3.0, Some(150.0)));
    assert_eq!(both[0].get("processor_us"), Some(2.6));
}
