//! The list of figures is sound.

use super::super::peers;
use super::*;

#[test]
fn names_are_distinct_and_peers_exist() {
    for (at, figure) in FIGURES.iter().enumerate() {
        assert!(
            FIGURES[..at].iter().all(|other| other.name != figure.name),
            "{}",
            figure.name
        );
        for name in figure.peers {
            let peer = peers::named(name).unwrap_or_else(|| panic!("{}: no peer {name}", figure.name));
            let timed = matches!(figure.kind, Kind::Works(_));
            assert!(peer.has_device() || timed, "{}: {name} lies on nothing", figure.name);
        }
    }
}

#[test]
fn the_whole_set_takes_minutes() {
    let all = FIGURES.iter().filter(|figure| figure.in_all());
    let all: f64 = all.map(|figure| figure.estimate_s(2.0, 3)).sum();
    assert!((600.0..1500.0).contains(&all), "{all} s");
}
