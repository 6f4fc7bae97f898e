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

fn lines(figure: &str, samples: &[Sample]) -> Vec<String> {
    verdicts(figure, &rounds(samples)).iter().map(Verdict::line).collect()
}

#[test]
fn ratios_and_bytes_are_judged() {
    let samples = [
        counted("keepfs", 160.0, 60_000.0),
        counted("ext2", 100.0, 100_000.0),
        counted("ext4", 120.0, 100_000.0),
    ];
    let lines = lines("varmail-ssd", &samples);
    assert_eq!(
        lines,
        [
            "M-16: varmail, keepfs ≥ 1.5x ext2: 1.60x, met.",
            "M-16: varmail, keepfs ≥ 1.5x ext4: 1.33x, **not met**.",
            "M-16: varmail, bytes an operation of keepfs ≤ 0.7x ext2: 0.60x, met.",
        ]
    );
    let lines = self::lines("varmail", &samples);
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
        let other = match bar.bound {
            LeastOf(_, other) | MostOf(_, other) => Some(other),
            Most(_) | Least(_) | Flat(_) => None,
        };
        // Rows of other kinds are called by sizes and threads.
        for peer in [Some(bar.peer), other].into_iter().flatten() {
            let known = peers::named(peer).is_some() && figure.peers.contains(&peer);
            assert!(known || !matches!(figure.kind, Kind::Works(_)), "{} {peer}", bar.id);
        }
    }
}

#[test]
fn every_bar_is_told_with_its_figure() {
    let told = include_str!("../../../docs/BARS.md");
    for bar in BARS {
        let row = told.lines().find(|line| line.starts_with(&format!("| {} |", bar.id)));
        let row = row.unwrap_or_else(|| panic!("docs/BARS.md has no row {}", bar.id));
        let figures = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let is_named = figures.split(',').any(|figure| figure.trim() == bar.figure);
        assert!(
            is_named,
            "docs/BARS.md does not say that {} is in {}",
            bar.id, bar.figure
        );
    }
}

#[test]
fn a_miss_tells_what_its_floor_would_give() {
    let speed = |peer: &str, value| Sample::new("delete", peer, value, "op/s");
    let rows = [speed("keepfs", 10.0), speed("memory-dev", 20.0), speed("ext2", 50.0)];
    let out_of_reach = "M-17: delete, keepfs ≥ 1x ext2: 0.20x, **not met**; its floor gives 0.40x: out of reach here.";
    assert_eq!(lines("sync-ssd", &rows), [out_of_reach]);
    let rows = [speed("keepfs", 40.0), speed("memory-dev", 60.0), speed("ext2", 50.0)];
    let reachable = "M-17: delete, keepfs ≥ 1x ext2: 0.80x, **not met**; its floor gives 1.20x.";
    assert_eq!(lines("sync-ssd", &rows), [reachable]);
}

#[test]
fn flatness_is_the_distance_from_the_greatest() {
    let samples = [95.0, 100.0, 88.0].map(|value| Sample::new("varmail", &format!("arena {value}"), value, "op/s"));
    let lines = lines("arenas", &samples);
    assert_eq!(lines, ["M-20: varmail, within 10 % over 3 sizes: 12.0 %, **not met**."]);
}
