//! How programs end.

use super::*;

/// A page that was mapped and cannot be read is damage that the program was told of, whoever of the two dies of it.
#[test]
fn a_bus_error_is_told() {
    let shell = |script: &str| call(Path::new("/"), &["sh", "-c", script]);
    for script in [
        "kill -BUS $$",
        "exit 135",
        "echo x: Input/output error >&2; exit 1",
        "echo error: pack-objects died of signal 7 >&2; exit 128",
    ] {
        let ran = shell(script);
        assert!(ran.told && !ran.ok && !ran.hung, "{script}: {}", ran.said);
    }
    let ran = shell("kill -SEGV $$");
    assert!(!ran.told && !ran.ok, "{}", ran.said);
}

/// What does not end in its time is a hang, be it killed or not.
#[test]
fn what_does_not_end_hangs() {
    let within = |seconds, script| call_within(Duration::from_secs(seconds), Path::new("/"), &["sh", "-c", script]);
    assert!(within(1, "exec sleep 60").hung);
    assert!(!within(60, "exit 124").ok);
    assert!(!within(60, "exit 1").hung);
}

/// Whoever is told and asks again for ever is told, and does not hang.
#[test]
fn what_asks_for_ever_is_told() {
    let ran = call(
        Path::new("/"),
        &["sh", "-c", "while echo x: Input/output error >&2; do :; done"],
    );
    assert!(ran.told && !ran.ok && !ran.hung, "{}", ran.said);
}
