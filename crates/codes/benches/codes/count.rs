//! Instructions of each row: what this process runs more under valgrind when the row runs more often.

use crate::rows;
use std::process::{Command, ExitCode};

/// Turns of the longer run beyond those of the shorter.
const MORE: u64 = 20;

/// Prints the instructions of one operation of every row.
pub fn table() -> ExitCode {
    println!("| operation | instructions |");
    println!("|---|---|");
    for row in rows::all() {
        let counts = (instructions(&row.name, 5), instructions(&row.name, 5 + MORE));
        let (Ok(few), Ok(many)) = counts else {
            eprintln!("valgrind does not answer");
            return ExitCode::from(77);
        };
        println!(
            "| {} | {:.0} |",
            row.name,
            (many - few) as f64 / (MORE * row.operations) as f64
        );
    }
    ExitCode::SUCCESS
}

/// Instructions of a process that runs a row `count` times.
fn instructions(row: &str, count: u64) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|e| e.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args(["run", row, &count.to_string()])
        .output()
        .map_err(|e| e.to_string())?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    collected
        .and_then(|number| number.trim().parse().ok())
        .ok_or_else(|| said.into_owned())
}
