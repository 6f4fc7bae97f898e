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
    assert!(lines[1].contains("< 0.25 flushes an fsync: 0.1000, met"), "{lines:?}");
}

#[test]
fn every_bar_has_its_figure_and_peers() {
    for bar in BARS {
        let figure = figure::named(bar.figure).unwrap_or_else(|| panic!("{} has no figure {}", bar.id, bar.figure));
        if let Kind::Works(works) = &figure.kind {
            let is_job = works.iter().all(|work| work.share == 0.0);
            let is_about = works.iter().any(|work| bar.is_about(work.name));
            assert!(is_about || (is_job && bar.workload == "sum"), "{}", bar.id);
        }
        let other = match bar.bound {
            LeastOf(_, other) | MostOf(_, other) => Some(other),
            Most(_) | Less(_) | Least(_) | Flat(_) | InArena(_) | Threads(..) => None,
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

/// What docs/BARS.md has for protection, which each level has its own bar of.
#[test]
fn protection_may_cost_what_is_told() {
    let cost = |peer: &str, value| Sample::new("delete, freed page", peer, value, "ns");
    let samples = [
        cost("off", 100.0),
        cost("sums", 101.9),
        cost("sums + audits", 105.1),
        cost("keepfs", 104.9),
    ];
    let expected = [
        "M-10: delete, freed page, sums ≤ 1.02x off: 1.02x, met.",
        "M-10: delete, freed page, sums + audits ≤ 1.05x off: 1.05x, **not met**.",
        "P-6: delete, freed page, keepfs ≤ 1.05x off: 1.05x, met.",
    ];
    assert_eq!(lines("wafl-cost", &samples), expected);
    let saturated = |peer: &str, value| Sample::new("OLTP, saturated, beside off", peer, value, "op/s");
    let samples = [saturated("off", 105.0), saturated("keepfs", 100.0)];
    let expected = "M-9: OLTP, saturated, beside off, keepfs ≥ 0.952x off: 0.95x, met.";
    assert_eq!(lines("wafl-curve", &samples), [expected]);
}

#[test]
fn two_threads_have_what_two_programs_have() {
    let second = |peer: &str, per_second| {
        let mut sample = Sample::new("rename", peer, 1.0, "us");
        sample.more = [("per_second".to_owned(), per_second)].into();
        sample
    };
    let of = |both, two| {
        let samples = [
            second("in memory", 100.0),
            second("in memory, 2 programs", both),
            second("keepfs", 50.0),
            second("keepfs, 2 threads", two),
        ];
        lines("inproc", &samples)
            .into_iter()
            .find(|line| line.starts_with("P-8"))
    };
    let asked = "P-8: rename, keepfs, 2 threads ≥ 1.7x keepfs, or 0.95x of two programs";
    assert_eq!(of(190.0, 85.0), Some(format!("{asked}: 1.70x, met.")));
    assert_eq!(of(120.0, 57.0), Some(format!("{asked}: 1.14x, met.")));
    let miss = "1.12x, **not met**; its floor gives 1.20x: out of reach here.";
    assert_eq!(of(120.0, 56.0), Some(format!("{asked}: {miss}")));
}

#[test]
fn growth_is_judged_in_the_arena_and_beyond() {
    let row = |files: &str, value, evictions| {
        let mut sample = Sample::new("lookup, one directory", files, value, "us");
        sample.more = [("operations", 100.0), ("evictions", evictions)]
            .map(|(name, value)| (name.to_owned(), value))
            .into();
        sample
    };
    let samples = [
        row("10^3 files", 0.1, 0.0),
        row("10^4 files", 1.0, 0.0),
        row("10^5 files", 1.9, 0.0),
        row("10^6 files", 6.0, 30.0),
        row("10^7 files", 20.0, 250.0),
    ];
    let expected = [
        "P-8: lookup, one directory, within 2x over 2 sizes in the arena: 1.90x, met.",
        "P-8: lookup, one directory, ≤ 2 frames read an operation by 10^6 files: 0.3000, met.",
        "P-8: lookup, one directory, ≤ 2 frames read an operation by 10^7 files: 2.50, **not met**.",
    ];
    assert_eq!(lines("huge", &samples), expected);
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
