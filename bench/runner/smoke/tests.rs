//! Counts that differ are found.

use super::*;

fn sample(own: f64, own_flushes: f64) -> Sample {
    let mut sample = Sample::new("create", "keepfs", 1.0, "op/s");
    let counts = [
        ("written", 2e6),
        ("own_written", own),
        ("flushes", 500.0),
        ("own_flushes", own_flushes),
    ];
    sample.more = counts.map(|(name, value)| (name.to_owned(), value)).into();
    sample
}

#[test]
fn one_percent_is_the_limit() {
    assert!(judge(&sample(2e6, 500.0), LITTLE).is_ok());
    assert!(judge(&sample(2.019e6, 504.0), LITTLE).is_ok());
    assert!(judge(&sample(2.03e6, 500.0), LITTLE).is_err());
    assert!(judge(&sample(1.97e6, 500.0), LITTLE).is_err());
    assert!(judge(&sample(2e6, 520.0), LITTLE).is_err());
    assert!(judge(&sample(1e6, 500.0), 3e6).is_ok(), "too little to judge");
}
