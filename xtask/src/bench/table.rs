//! The table of results, as Markdown between two markers of docs/RESULTS.md.

use std::fmt::Write as _;
use std::path::Path;

use super::Row;

const BEGIN: &str = "<!-- bench: begin (written by `cargo xtask bench`) -->";
const END: &str = "<!-- bench: end -->";

/// All rows, each with its speed beside Keepfs.
pub fn render(rows: &[Row], seconds: u32, rounds: u32) -> String {
    let mut text = format!(
        "{rounds} rounds of {seconds} s, the median; every file system on a loop device of its own over a file, direct \
         I/O. Bytes and flushes are what the kernel counted on the device. Load average at the end: {}.\n\n\
         | workload | file system | speed | Keepfs has | KiB written an operation | flushes an operation |\n\
         |---|---|---|---|---|---|\n",
        load()
    );
    for row in rows {
        let ours = rows
            .iter()
            .find(|other| other.workload == row.workload && other.peer == "keepfs");
        let ratio = ours.map_or_else(String::new, |ours| format!("{:.2}x", speed(ours).0 / speed(row).0));
        let (value, unit) = speed(row);
        let (count, of) = denominator(row);
        let kib = row.device.written as f64 / 1024.0 / count;
        let flushes = row.device.flushes as f64 / count;
        // Writing into a String cannot fail.
        let _ = writeln!(
            text,
            "| {} | {} | {value:.0} {unit} | {ratio} | {kib:.1}{of} | {flushes:.2}{of} |",
            row.workload, row.peer
        );
    }
    text
}

/// Speed and its unit.
fn speed(row: &Row) -> (f64, &'static str) {
    match row.workload {
        "write" | "read" => (row.bytes / row.seconds / f64::from(1 << 20), "MiB/s"),
        _ => (row.operations / row.seconds, "op/s"),
    }
}

/// What bytes and flushes are divided by: fsyncs where there are many, operations elsewhere.
fn denominator(row: &Row) -> (f64, &'static str) {
    if row.workload == "varmail" {
        (row.fsyncs.max(1.0), " (fsync)")
    } else {
        (row.operations.max(1.0), "")
    }
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// Puts the table between the markers of the file; makes them at its end, or the file, if they are not there.
pub fn store(path: &Path, table: &str) -> Result<(), String> {
    let old = std::fs::read_to_string(path).unwrap_or_else(|_| "# Results\n".to_owned());
    std::fs::write(path, replace(&old, table)).map_err(|e| format!("{}: {e}", path.display()))
}

fn replace(old: &str, table: &str) -> String {
    let marked = format!("{BEGIN}\n{table}{END}");
    match (old.find(BEGIN), old.find(END)) {
        (Some(begin), Some(end)) if begin < end => format!("{}{marked}{}", &old[..begin], &old[end + END.len()..]),
        _ => format!("{}\n\n## Speed beside others\n\n{marked}\n", old.trim_end()),
    }
}

#[cfg(test)]
mod tests;
