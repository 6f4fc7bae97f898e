//! The tables, as the Markdown of docs/TABLES.md.

use std::fmt::Write as _;

use super::figure::Kind;
use super::results::Results;
use super::sample::{Rounds, rounds};
use super::session::REQUEST;
use super::{bars, glance, papers};

/// Upper bounds of the histogram of changed bytes, as the store counts them (ReconFS Fig. 9).
const DIRTY_SIZES: [u32; 8] = [64, 128, 256, 512, 1024, 2048, 3072, 4096];

/// All figures, each with its table, its bars and its plot.
pub fn render(all: &[Results]) -> String {
    let mut text = "# Speed beside other file systems\n\n\
                    Written by `cargo xtask bench` from docs/results/; `cargo xtask bench render` writes it anew and measures nothing. \
                    Each figure is `cargo xtask bench NAME`; speed is the median of the rounds with the least and the \
                    greatest, \"keepfs has\" is Keepfs's median divided by the row's. Bytes and flushes are what the \
                    kernel counted on the loop device that the file system lies on, until the sync behind the \
                    workload returned. Percentiles are of single calls.\n"
        .to_owned();
    let glance = glance::table(all);
    if !glance.is_empty() {
        let _ = write!(text, "\n{glance}");
    }
    let papers = papers::table(all);
    if !papers.is_empty() {
        let _ = write!(text, "\n{papers}");
    }
    for results in all {
        text.push('\n');
        text.push_str(&section(results));
    }
    text
}

/// One figure.
pub fn section(results: &Results) -> String {
    let figure = results.figure;
    let mut text = format!("## {}\n\n{}. {}.\n\n", figure.name, capital(figure.about), results.how);
    let rows = rounds(&results.samples);
    text.push_str(&table(&rows, figure.name));
    if matches!(figure.kind, Kind::Where(_)) {
        text.push_str(PARTS);
    }
    if figure.name == COMPACTION {
        text.push_str(&dirty(&rows));
    }
    text.push_str(&requests(&rows));
    for verdict in bars::verdicts(figure.name, &rows) {
        // Writing into a String cannot fail.
        let _ = writeln!(text, "\n{}", verdict.line());
    }
    for missing in &results.missing {
        let _ = writeln!(
            text,
            "\nNot measured, or not to the end: {}: {}",
            missing.peer, missing.why
        );
    }
    if !rows.is_empty() {
        let _ = writeln!(text, "\n![{0}](plots/{0}.svg)", figure.name);
    }
    text
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// What the columns of a profile mean.
const PARTS: &str = "\nPerf's `cpu-clock` on all processors, by the innermost frame of ours with all that it calls: the \
                     caller's program; the kernel for the caller (VFS, FUSE); transport (taking requests and giving replies, \
                     the kernel's side too); dispatch; fs; door (the store: transactions, codes, log); device (reads, writes \
                     and flushes of the pool, and the loop device below); waking and switching threads; idle is what is \
                     left of the time. Parts that ran side by side add up to more than the time.\n";

/// A column: its head, and what stands in it for a row, if anything.
type Column = (&'static str, fn(&Rounds<'_>) -> Option<String>);

const COLUMNS: &[Column] = &[
    ("p50 us", |row| percentile(row, "p50_us")),
    ("p99 us", |row| percentile(row, "p99_us")),
    ("fsync p50 us", |row| percentile(row, "fsync_p50_us")),
    ("fsync p99 us", |row| percentile(row, "fsync_p99_us")),
    ("KiB an operation", |row| {
        row.median.each("written").map(|bytes| format!("{:.1}", bytes / 1024.0))
    }),
    ("flushes an operation", |row| {
        row.median.each("flushes").map(|n| format!("{n:.3}"))
    }),
    ("KiB an fsync", |row| {
        row.median
            .each_fsync("written")
            .map(|bytes| format!("{:.1}", bytes / 1024.0))
    }),
    ("flushes an fsync", |row| {
        row.median.each_fsync("flushes").map(|n| format!("{n:.2}"))
    }),
    ("own count", |row| {
        let difference = own_difference(row)?;
        Some(format!("{:+.1} %", 100.0 * difference))
    }),
    ("compaction", |row| {
        let ratio = compaction(row)?;
        Some(format!("{:.2} %", 100.0 * ratio))
    }),
    ("op/s", |row| row.median.get("per_second").map(|n| format!("{n:.0}"))),
    ("its ratio to the first, 95 %", ratio_bounds),
    ("processor us", |row| percentile(row, "processor_us")),
    ("with threads behind us", |row| percentile(row, "process_us")),
    ("evictions an operation", |row| row.median.each("evictions").map(number)),
    ("caller us", |row| part(row, "client_us")),
    ("kernel us", |row| part(row, "kernel_us")),
    ("transport us", |row| part(row, "transport_us")),
    ("dispatch us", |row| part(row, "dispatch_us")),
    ("fs us", |row| part(row, "fs_us")),
    ("door us", |row| part(row, "door_us")),
    ("device us", |row| part(row, "device_us")),
    ("not known us", |row| part(row, "unknown_us")),
    ("switches us", |row| part(row, "switch_us")),
    ("idle us", |row| part(row, "idle_us")),
    ("requests", |row| row.median.get("requests").map(|n| format!("{n:.0}"))),
    ("checkpoints", |row| {
        row.median.get("checkpoints").map(|n| format!("{n:.0}"))
    }),
];

fn percentile(row: &Rounds<'_>, name: &str) -> Option<String> {
    let us = row.median.get(name).filter(|us| *us > 0.0)?;
    Some(if us < 100.0 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    })
}

/// Between which bounds the ratio of a setting to the first one lies.
fn ratio_bounds(row: &Rounds<'_>) -> Option<String> {
    let number = |name: &str| row.median.get(name);
    let (ratio, low, high) = (number("ratio")?, number("ratio_low")?, number("ratio_high")?);
    Some(format!("{ratio:.3} ({low:.3} to {high:.3})"))
}

/// A part of the time of an operation.
fn part(row: &Rounds<'_>, name: &str) -> Option<String> {
    row.median.get(name).map(|us| format!("{us:.1}"))
}

/// By what part Keepfs's own count of bytes differs from the kernel's.
pub fn own_difference(row: &Rounds<'_>) -> Option<f64> {
    let (own, kernel) = (row.median.get("own_written")?, row.median.get("written")?);
    (kernel > 0.0).then(|| own / kernel - 1.0)
}

/// Bytes of compacted records by bytes of the whole pages (ReconFS Table 3).
pub fn compaction(row: &Rounds<'_>) -> Option<f64> {
    let pages = row.median.get("compaction_pages").filter(|pages| *pages > 0.0)?;
    Some(row.median.get("compaction_bytes")? / (pages * 4096.0))
}

/// The figure that compaction belongs to; elsewhere its columns would only make the table wide.
const COMPACTION: &str = "compaction";

/// Columns that stand in the figures of this name only.
fn belongs(column: &str, figure: &str) -> bool {
    match column {
        "compaction" => figure == COMPACTION,
        "KiB an fsync" | "flushes an fsync" => figure.starts_with("varmail") || figure == COMPACTION,
        _ => true,
    }
}

/// The table, with those columns that have anything in them.
fn table(rows: &[Rounds<'_>], figure: &str) -> String {
    let columns: Vec<&Column> = COLUMNS
        .iter()
        .filter(|(name, _)| belongs(name, figure))
        .filter(|(_, cell)| rows.iter().any(|row| cell(row).is_some()))
        .collect();
    let compared = rows.iter().any(|row| beside(rows, row).is_some());
    let mut head = "| workload | file system | median | least–greatest |".to_owned();
    let mut rule = "|---|---|---|---|".to_owned();
    if compared {
        head.push_str(" keepfs has |");
        rule.push_str("---|");
    }
    for (name, _) in &columns {
        let _ = write!(head, " {name} |");
        rule.push_str("---|");
    }
    let mut text = format!("{head}\n{rule}\n");
    for row in rows {
        let sample = row.median;
        let _ = write!(
            text,
            "| {} | {} | {} {} | {} |",
            sample.workload,
            sample.peer,
            number(sample.value),
            sample.unit,
            spread(row)
        );
        if compared {
            let ratio = beside(rows, row).map_or_else(String::new, |ratio| format!("{ratio:.2}x"));
            let _ = write!(text, " {ratio} |");
        }
        for (_, cell) in &columns {
            let _ = write!(text, " {} |", cell(row).unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

/// Keepfs's median divided by this one's; nothing in a table without others.
fn beside(rows: &[Rounds<'_>], row: &Rounds<'_>) -> Option<f64> {
    let ours = rows
        .iter()
        .find(|other| other.median.workload == row.median.workload && other.median.peer == "keepfs")?;
    let others = rows
        .iter()
        .any(|other| other.median.workload == row.median.workload && other.median.peer != "keepfs");
    (others && row.median.value > 0.0).then(|| ours.median.value / row.median.value)
}

fn spread(row: &Rounds<'_>) -> String {
    match row.count {
        1 => "1 round".into(),
        _ => format!("{}–{}", number(row.min), number(row.max)),
    }
}

/// Three digits or all before the point.
pub fn number(value: f64) -> String {
    match value {
        v if v.abs() >= 100.0 => format!("{v:.0}"),
        v if v.abs() >= 10.0 => format!("{v:.1}"),
        v if v.abs() >= 1.0 => format!("{v:.2}"),
        v => format!("{v:.4}"),
    }
}

/// What the kernel asked Keepfs for in each job, the kinds with the most first; nothing where it was not counted.
fn requests(rows: &[Rounds<'_>]) -> String {
    let mut text = String::new();
    let counted = rows.iter().filter(|row| row.median.peer == "keepfs");
    for sample in counted
        .map(|row| row.median)
        .filter(|sample| sample.get("requests").is_some())
    {
        let kinds = sample.more.iter();
        let kinds = kinds.filter_map(|(name, count)| Some((name.strip_prefix(REQUEST)?, *count)));
        let mut kinds: Vec<(&str, f64)> = kinds.filter(|(_, count)| *count > 0.0).collect();
        kinds.sort_by(|a, b| b.1.total_cmp(&a.1));
        let kinds: Vec<String> = kinds
            .iter()
            .take(8)
            .map(|(name, count)| format!("{name} {count:.0}"))
            .collect();
        if text.is_empty() {
            text.push_str(
                "\nRequests of the kernel to Keepfs, the most frequent kinds:\n\n| workload | requests |\n|---|---|\n",
            );
        }
        let _ = writeln!(text, "| {} | {} |", sample.workload, kinds.join(", "));
    }
    text
}

/// How much of each metablock groups changed, percent of them (ReconFS Fig. 9); nothing where it was not counted.
fn dirty(rows: &[Rounds<'_>]) -> String {
    let counted: Vec<&Rounds<'_>> = rows
        .iter()
        .filter(|row| row.median.peer == "keepfs" && compaction(row).is_some())
        .collect();
    if counted.len() < 2 {
        return String::new();
    }
    let bounds: Vec<String> = DIRTY_SIZES.iter().map(|bytes| format!("≤ {bytes} B")).collect();
    let mut text = format!(
        "\nChanged bytes of each page of metadata in a group of the log, percent of the pages:\n\n| workload | {} |\n|---|{}\n",
        bounds.join(" | "),
        "---|".repeat(bounds.len())
    );
    for row in counted {
        let counts: Vec<f64> = (0..DIRTY_SIZES.len())
            .map(|at| row.median.get(&format!("dirty_{at}")).unwrap_or_default())
            .collect();
        let all: f64 = counts.iter().sum();
        let parts: Vec<String> = counts
            .iter()
            .map(|n| format!("{:.1}", 100.0 * n / all.max(1.0)))
            .collect();
        let _ = writeln!(text, "| {} | {} |", row.median.workload, parts.join(" | "));
    }
    text
}

#[cfg(test)]
mod tests;
