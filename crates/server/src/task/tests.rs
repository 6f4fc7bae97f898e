//! What is read of a thread, from lines as the kernel writes them.

use super::{Stat, written_to};

fn stat(state: char, flags: u64, pending: u64, exit: i32) -> String {
    let middle = "0 0 0 0 0 0 0 0 20 0 1 0 4321 1 1 0 0 0 0 0 0";
    let rest = ["0"; 20].join(" ");
    format!("77 (a) b (c) {state} 1 77 77 0 -1 {flags} {middle} {pending} {rest} {exit}")
}

#[test]
fn fields_stand_behind_any_name() {
    let found = Stat::parse(&stat('T', 4194304, 256, 9)).unwrap();
    assert_eq!((found.state, found.flags, found.started), ('T', 4194304, 4321));
    assert_eq!((found.pending, found.exit), (256, 9));
    assert_eq!(Stat::parse("77 (a"), None);
    let own = Stat::of("/proc/self".as_ref()).unwrap();
    assert!(!own.is_killed(), "{own:?}");
}

/// S-16.11: a thread that was killed is out of its program; one that has not taken the signal may be in a write to the pool.
#[test]
fn who_is_killed_may_still_be_in_a_call() {
    let of = |state, flags, pending| {
        let found = Stat::parse(&stat(state, flags, pending, 0)).unwrap();
        (found.is_killed(), found.is_out())
    };
    assert_eq!(of('S', 0x40_0040, 0), (false, false));
    assert_eq!(of('D', 0x40_0040, 1 << 8), (true, false));
    assert_eq!(of('D', 0x40_0040, 1 << 14), (false, false));
    assert_eq!(of('Z', 0x40_0040, 0), (true, true));
    assert_eq!(of('D', 0x40_0404, 0), (true, true));
    // A worker of io_uring has its signal, and its work goes on.
    assert_eq!(of('D', 0x40_4410, 0), (false, false));
}

#[test]
fn a_call_is_told_with_its_descriptor() {
    assert_eq!(
        written_to("1 0x1f 0x7f 0x28 0x0 0x0 0x0 0x7ffd 0x7f12\n"),
        Some((1, 31))
    );
    assert_eq!(written_to("running\n"), None);
    assert_eq!(written_to("-1 0x7ffd 0x7f12\n"), Some((-1, 0x7ffd)));
    assert_eq!(written_to(""), None);
}
