//! Bars are judged by the medians, and each belongs to a figure.

use super::super::figure::{self, Kind};
use super::super::peers;
use super::super::sample::{Sample, rounds};
use super::*;

fn counted(peer: &str, value: f64, written: f64) -> Sample {
    let mut sample = Sample::new("varmail", peer, value, "op/s");
    sample.more = [
        ("operations", 100.0),
        ("fsyncs", 50.0),
        ("written", written),
        ("flushes", 5.0),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    sample
}

#[test]
fn ratios_and_bytes_are_judged() {
    let samples = [
        counted("keepfs", 160.0, 60_000.0),
        counted("ext2", 100.0, 100_000.0),
        counted("ext4", 120.0, 100_000.0),
    ];
    let lines = verdicts("varmail-ssd", &rounds(&samples));
    assert_eq!(
        lines,
        [
            "M-16: varmail, keepfs ≥ 1.5x ext2: 1.60x, met.",
            "M-16: varmail, keepfs ≥ 1.5x ext4: 1.33x, **not met**.",
            "M-16: varmail, bytes an operation of keepfs ≤ 0.7x ext2: 0.60x, met.",
        ]
    );
    let lines = verdicts("varmail", &rounds(&samples));
    assert_eq!(lines.len(), 2, "no rows of the other peers: {lines:?}");
    assert!(lines[0].contains("≤ 12 KiB an fsync: 1.17, met"), "{lines:?}");
}

#[test]
fn every_bar_has_its_figure_and_peers() {
    for bar in BARS {
        let figure = figure::named(bar.figure).unwrap_or_else(|| panic!("{} has no figure {}", bar.id, bar.figure));
        if let Kind::Works(works) = &figure.kind {
            assert!(works.iter().any(|work| bar.is_about(work.name)), "{}", bar.id);
        }
        if let Least(first, second, _) | Most(first, second, _) | Bytes(first, second, _) = bar.ask {
            for peer in [first, second] {
                assert!(
                    peers::named(peer).is_some() && figure.peers.contains(&peer),
                    "{} {peer}",
                    bar.id
                );
            }
        }
    }
}

#[test]
fn flatness_is_the_distance_from_the_greatest() {
    let samples = [95.0, 100.0, 88.0].map(|value| Sample::new("varmail", &format!("arena {value}"), value, "op/s"));
    let lines = verdicts("arenas", &rounds(&samples));
    assert_eq!(lines, ["M-20: varmail, within 10 % over 3 sizes: 12.0 %, **not met**."]);
}
