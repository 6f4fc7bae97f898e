//! A plot has a bar for each row.

use super::super::figure::FIGURES;
use super::super::sample::Sample;
use super::*;

#[test]
fn every_row_is_drawn() {
    let mut samples = vec![Sample::new("create", "keepfs", 2.0, "op/s")];
    samples.extend([1.0, 3.0].map(|value| Sample::new("create", "ext4", value, "op/s")));
    samples.push(Sample::new("delete", "ext4", 1.0, "op/s"));
    let results = Results {
        figure: &FIGURES[0],
        how: String::new(),
        samples,
        missing: Vec::new(),
    };
    let text = svg(&results).expect("an SVG");
    for part in ["<svg", "keepfs", "ext4", "create, op/s", "delete, op/s"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    // The background, and three bars.
    assert_eq!(text.matches("<rect").count(), 4);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("plots/a.svg");
    draw(&results, &path).expect("written");
    assert_eq!(std::fs::read_to_string(path).expect("read"), text);
}
