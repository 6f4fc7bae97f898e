//! Lines of the lab's programs become samples; other lines do not.

use super::*;

#[test]
fn a_line_is_a_sample() {
    let text = r#"{"workload":"metadata, 100 files","peer":"ALL_PROT 64","value":1.5,"unit":"op/s","more":{"low":1}}"#;
    let sample = line(text).expect("a sample");
    assert_eq!(
        (sample.workload.as_str(), sample.peer.as_str()),
        ("metadata, 100 files", "ALL_PROT 64")
    );
    assert_eq!((sample.value, sample.get("low")), (1.5, Some(1.0)));
    assert!(line("building").is_none() && line("{}").is_none());
}
