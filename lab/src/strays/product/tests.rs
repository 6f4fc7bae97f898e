//! How programs end.

use super::*;

/// A page that was mapped and cannot be read is damage that the program was told of, whoever of the two dies of it.
#[test]
fn a_bus_error_is_told() {
    let shell = |script: &str| call(Path::new("/"), &["sh", "-c", script]);
    for script in ["kill -BUS $$", "exit 135", "echo x: Input/output error >&2; exit 1"] {
        let ran = shell(script);
        assert!(ran.told && !ran.ok && !ran.hung, "{script}: {}", ran.said);
    }
    let ran = shell("kill -SEGV $$");
    assert!(!ran.told && !ran.ok, "{}", ran.said);
}
