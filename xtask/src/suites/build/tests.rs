//! Reading cargo's messages.

use std::path::PathBuf;

use super::{compiled, executable};

#[test]
fn the_executable_is_named_by_its_artifact() {
    let messages = concat!(
        r#"{"reason":"compiler-artifact","executable":null}"#,
        "\n",
        r#"{"reason":"compiler-artifact","executable":"/t/release/keepfs"}"#,
        "\n",
        r#"{"reason":"build-finished","success":true}"#,
    );
    assert_eq!(executable(messages), Some(PathBuf::from("/t/release/keepfs")));
    assert_eq!(executable("nothing"), None);
}

#[test]
fn a_unit_that_is_built_is_named() {
    let unit = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"clap_builder"},"fresh":true}"#;
    assert_eq!(compiled(unit).as_deref(), Some("clap_builder"));
    for other in [
        r#"{"reason":"compiler-artifact","target":{"kind":["custom-build"],"name":"build-script-build"}}"#,
        r#"{"reason":"build-script-executed"}"#,
        "nothing",
    ] {
        assert_eq!(compiled(other), None, "{other}");
    }
}
