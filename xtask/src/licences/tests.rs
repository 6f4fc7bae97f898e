//! Expressions of licences, the list of deny.toml, packages that are refused.

use serde_json::json;

use super::{REGISTRY, Refusal, allowed, permits, refusals};

const ALLOWED: &[&str] = &["MIT", "Apache-2.0", "Unicode-3.0", "Apache-2.0 WITH LLVM-exception"];

#[test]
fn an_expression_leaves_a_choice_or_not() {
    for good in [
        "MIT",
        "MIT OR GPL-3.0-only",
        "GPL-3.0-only/MIT",
        "(MIT OR Apache-2.0) AND Unicode-3.0",
        "Apache-2.0 WITH LLVM-exception",
        "GPL-2.0-only OR (MIT AND Apache-2.0)",
    ] {
        assert!(permits(good, ALLOWED), "{good}");
    }
    for bad in [
        "GPL-3.0-only",
        "MIT AND GPL-3.0-only",
        "none given",
        "",
        "MIT OR",
        "(MIT",
        "MIT WITH LLVM-exception",
    ] {
        assert!(!permits(bad, ALLOWED), "{bad}");
    }
}

#[test]
fn the_list_is_read() {
    let deny = "[bans]\nallow = []\n[licenses]\nallow = [\"MIT\", \"Zlib\"]\nx = 1\n";
    assert_eq!(allowed(deny), Some(vec!["MIT", "Zlib"]));
    assert_eq!(allowed("[licenses]\n"), None);
}

#[test]
fn packages_are_refused_for_licence_and_source() {
    let package = |name: &str, licence: &str, source| json!({"name": name, "version": "1.0.0", "license": licence, "source": source});
    let packages = [
        package("a", "MIT", Some(REGISTRY)),
        package("b", "GPL-3.0-only", None),
        package("c", "MIT", Some("git+x")),
    ];
    let expected = [
        Refusal::Licence {
            package: "b 1.0.0".into(),
            licence: "GPL-3.0-only".into(),
        },
        Refusal::Source {
            package: "c 1.0.0".into(),
            source: "git+x".into(),
        },
    ];
    assert_eq!(refusals(&packages, ALLOWED), expected);
}
