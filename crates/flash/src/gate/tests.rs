//! Who may shut the gate.

use super::*;
use std::sync::mpsc;

/// S-11.3 (G-4): while the gate is shut nobody else can shut it, so nobody else opens it, and nobody is inside.
#[test]
fn the_gate_is_shut_by_one() {
    let (gate, times) = (Gate::default(), Times::default());
    let shut = gate.own().close(&times).expect("nobody is inside");
    assert!(gate.owner.try_lock().is_none(), "a second owner");
    let (tell, told) = mpsc::channel();
    std::thread::scope(|scope| {
        let (gate, times, other) = (&gate, &times, tell.clone());
        scope.spawn(move || {
            drop(gate.own().close(times));
            other.send("shut").expect("told");
        });
        scope.spawn(move || {
            drop(gate.enter(times));
            tell.send("entered").expect("told");
        });
        assert_eq!(*gate.phase.lock(), Phase::Closed);
        assert!(told.try_recv().is_err(), "the gate was opened under who shut it");
        drop(shut);
        let mut both = [told.recv().expect("one"), told.recv().expect("another")];
        both.sort_unstable();
        assert_eq!(both, ["entered", "shut"]);
    });
    assert_eq!(gate.inside.load(Ordering::Acquire), 0);
}

/// A gate that could not be shut in time has no owner left behind.
#[test]
fn who_could_not_shut_it_owns_it_no_more() {
    let (gate, times) = (Gate::default(), Times::default());
    let inside = gate.enter(&times);
    assert!(gate.own().close(&times).is_none());
    assert!(gate.owner.try_lock().is_some());
    drop(inside);
    assert!(gate.own().close(&times).is_some());
}
