//! A model of commit, checkpoint, reuse, recovery and resume, written from docs/SPEC.md 8 to 11 alone and searched to the end:
//! `ci`, `long`, `table` (for docs/MODEL.md); `--json`.

mod disk;
mod instances;
mod machine;
mod rules;
mod search;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let json = args.iter().any(|a| a == "--json");
    match args.iter().map(String::as_str).find(|a| *a != "--json") {
        Some("ci") => table::run(false, json),
        Some("long") => table::run(true, json),
        Some("table") => {
            print!("{}", table::table(&table::removals()));
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("keepfs-model ci|long|table [--json]");
            ExitCode::from(2)
        }
    }
}
