//! What a package says of itself.

use super::{control, copyright, linked};
use serde_json::json;

#[test]
fn control_is_one_paragraph_of_fields() {
    let text = control("1.2.3-4", "amd64", "libc6 (>= 2.36)", 17);
    assert!(
        text.contains("\nVersion: 1.2.3-4\n") && text.contains("\nDepends: libc6 (>= 2.36), mount\n"),
        "{text}"
    );
    assert!(text.ends_with('\n') && !text.contains("\n\n"), "{text}");
    for line in text.lines() {
        assert!(line.starts_with(' ') || line.contains(": "), "{line}");
    }
}

#[test]
fn crates_that_only_build_or_test_are_not_named() {
    let edge = |to: &str, kind: Option<&str>| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
    let package = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source});
    let metadata = json!({
        "packages": [package("keepfs", None), package("keepfs-store", None), package("deep", Some("registry")),
            package("tests", Some("registry")), package("stranger", Some("registry"))],
        "resolve": {"nodes": [
            {"id": "keepfs", "deps": [edge("keepfs-store", None), edge("tests", Some("dev"))]},
            {"id": "keepfs-store", "deps": [edge("deep", None)]},
        ]},
    });
    let named: Vec<(String, String)> = linked(&metadata).into_iter().collect();
    assert_eq!(named, [("deep 1.0.0".to_owned(), "MIT".to_owned())]);
    let text = copyright(&metadata).unwrap();
    assert!(
        text.contains("\n deep 1.0.0: MIT\n") && text.contains("\nCopyright: 2026 "),
        "{text}"
    );
    assert!(
        text.contains("\nLicense: Expat\n Permission is hereby granted"),
        "{text}"
    );
}
