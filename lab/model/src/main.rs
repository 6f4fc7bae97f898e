//! A model of commit, checkpoint, reuse, recovery and resume, written from docs/SPEC.md 8 to 11 alone and searched to the end:
//! `ci`, `long`, `one` instance (without one rule), `table` (for docs/MODEL.md); `--json`.

mod action;
mod changes;
mod checkpoint;
mod chunks;
mod disk;
mod dropped;
mod instances;
mod kernel;
mod log;
mod recover;
mod reopen;
mod rotten;
mod rules;
mod search;
mod state;
mod table;
mod tree;

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let json = args.iter().any(|a| a == "--json");
    match args.iter().map(String::as_str).find(|a| *a != "--json") {
        Some("ci") => table::run(false, json),
        Some("long") => table::run(true, json),
        Some("one") => table::one(&args[1..], json),
        Some("table") => {
            print!("{}", table::page());
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("keepfs-model ci|long|one INSTANCE [RULE]|table [--json]");
            ExitCode::from(2)
        }
    }
}
