//! A curve for each setting, by the medians.

use super::super::super::figure;
use super::super::super::sample::Sample;
use super::*;

fn point(load: &str, peer: &str, per_second: f64, us: f64) -> Sample {
    let mut sample = Sample::new(load, peer, us, "us");
    sample.more.insert("per_second".into(), per_second);
    sample
}

#[test]
fn settings_become_curves_in_the_order_of_the_loads() {
    let samples = vec![
        Sample::new("OLTP, saturated", "off", 900.0, "op/s"),
        point("OLTP at 10 %", "off", 90.0, 3.0),
        point("OLTP at 10 %", "keepfs", 90.0, 4.0),
        point("OLTP at 50 %", "off", 450.0, 6.0),
        point("OLTP at 50 %", "keepfs", 440.0, 50_000.0),
    ];
    let rows = rounds(&samples);
    let curves = curves(&rows);
    assert_eq!(curves.len(), 2);
    assert_eq!(curves[0], ("off", vec![(90.0, 3.0), (450.0, 6.0)]));
    let results = Results {
        figure: figure::named("wafl-curve").expect("a figure"),
        how: String::new(),
        samples,
        missing: Vec::new(),
    };
    let text = svg(&results).expect("a plot");
    assert!(text.contains("keepfs") && text.contains("mean latency"), "{text}");
    assert!(text.matches("<polyline").count() >= 2, "{text}");
}
