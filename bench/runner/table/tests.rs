//! The table.

use super::super::figure::FIGURES;
use super::super::run::Missing;
use super::super::sample::Sample;
use super::*;

fn sample(peer: &str, value: f64) -> Sample {
    let mut sample = Sample::new("create", peer, value, "op/s");
    let numbers = [
        ("operations", 100.0),
        ("written", 4096.0 * 100.0),
        ("flushes", 150.0),
        ("p50_us", 7.25),
        ("p99_us", 1234.0),
    ];
    sample.more = numbers.map(|(name, value)| (name.to_owned(), value)).into();
    sample
}

fn results(samples: Vec<Sample>) -> Results {
    Results {
        figure: &FIGURES[0],
        how: "3 rounds".into(),
        samples,
        missing: vec![Missing {
            peer: "xfs".into(),
            why: "mkfs.xfs not found".into(),
        }],
    }
}

#[test]
fn a_row_has_its_ratio_spread_percentiles_bytes_and_flushes() {
    let samples = vec![
        sample("keepfs", 100.0),
        sample("ext4", 40.0),
        sample("ext4", 50.0),
        sample("ext4", 60.0),
    ];
    let text = section(&results(samples));
    let head = "| workload | file system | median | least–greatest | keepfs has | p50 us | p99 us | KiB an operation | flushes an operation |\n";
    assert!(text.contains(head), "{text}");
    let ours = "| create | keepfs | 100 op/s | 1 round | 1.00x | 7.2 | 1234 | 4.0 | 1.500 |\n";
    assert!(text.contains(ours), "{text}");
    let theirs = "| create | ext4 | 50.0 op/s | 40.0–60.0 | 2.00x | 7.2 | 1234 | 4.0 | 1.500 |\n";
    assert!(text.contains(theirs), "{text}");
    assert!(
        text.contains("\nNot measured, or not to the end: xfs: mkfs.xfs not found\n"),
        "{text}"
    );
    assert!(text.contains("(plots/varmail.svg)"), "{text}");
}

#[test]
fn requests_are_told_by_kind_the_most_first() {
    let mut job = Sample::new("cp", "keepfs", 1.5, "s");
    let counts = [
        ("requests", 7.0),
        ("request WRITE", 2.0),
        ("request LOOKUP", 5.0),
        ("request READ", 0.0),
    ];
    job.more = counts.map(|(name, count)| (name.to_owned(), count)).into();
    let text = section(&results(vec![job, Sample::new("cp", "ext4", 0.5, "s")]));
    assert!(text.contains("| cp | LOOKUP 5, WRITE 2 |\n"), "{text}");
    assert!(!section(&results(vec![sample("keepfs", 1.0)])).contains("Requests"));
}

#[test]
fn compaction_is_told_with_its_histogram() {
    let mut samples = Vec::new();
    for workload in ["varmail", "webproxy"] {
        let mut sample = Sample::new(workload, "keepfs", 1.0, "op/s");
        let numbers = [
            ("compaction_pages", 10.0),
            ("compaction_bytes", 2048.0),
            ("dirty_0", 3.0),
            ("dirty_7", 1.0),
        ];
        sample.more = numbers.map(|(name, value)| (name.to_owned(), value)).into();
        samples.push(sample);
    }
    let mut results = results(samples);
    assert!(!section(&results).contains("5.00 %"), "not in every table");
    results.figure = FIGURES
        .iter()
        .find(|figure| figure.name == COMPACTION)
        .expect("the figure");
    let text = section(&results);
    assert!(text.contains("| 5.00 % |"), "{text}");
    assert!(
        text.contains("| varmail | 75.0 | 0.0 | 0.0 | 0.0 | 0.0 | 0.0 | 0.0 | 25.0 |\n"),
        "{text}"
    );
}
