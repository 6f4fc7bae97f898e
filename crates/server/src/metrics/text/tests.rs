//! What stands in labels is whatever a user made it.

use super::{Kind, Sample, family};

#[test]
fn labels_are_escaped_and_empty_ones_left_out() {
    let mut text = String::new();
    let samples = [
        Sample::of(3).with("dir", "/a \"b\"\\\nc").with("label", ""),
        Sample::of(0.25),
    ];
    family(&mut text, "keepfs_x", Kind::Gauge, "A \\ \"help\".", samples);
    assert_eq!(
        text,
        "# HELP keepfs_x A \\\\ \"help\".\n# TYPE keepfs_x gauge\nkeepfs_x{dir=\"/a \\\"b\\\"\\\\\\nc\"} 3\nkeepfs_x 0.25\n"
    );
}
