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
            assert!(peer.has_device() || figure.profile == Profile::None);
        }
    }
}

#[test]
fn the_whole_set_takes_minutes() {
    let all: f64 = FIGURES.iter().map(|figure| figure.estimate_s(2.0, 3)).sum();
    assert!((600.0..1500.0).contains(&all), "{all} s");
}
