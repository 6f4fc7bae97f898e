//! Reading cargo's messages.

use std::path::PathBuf;

use super::executable;

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
