//! What the steps of a put cost at each level of protection: `door [--trials N] [--guard NAME]` (BARS M-4).
//!
//! Nanoseconds, each the least of N batches, so that a busy machine tells the same; `fold` is lines written, sum and parity.

use keepfs_store::{Guard, Protection, measure};
use std::process::ExitCode;

const CODES: [Protection; 6] = [
    Protection::Off,
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("door: {why}");
            ExitCode::from(2)
        }
    }
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), String> {
    let (mut trials, mut guard) = (2000, Guard::Alias);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("{argument} needs a value"))?;
        match (argument.as_str(), value.as_str()) {
            ("--trials", number) => trials = number.parse().map_err(|e| format!("--trials {number}: {e}"))?,
            ("--guard", "alias") => guard = Guard::Alias,
            ("--guard", "sealed") => guard = Guard::Sealed,
            ("--guard", "pkey") => guard = Guard::Pkey,
            ("--guard", "mprotect") => guard = Guard::Mprotect,
            ("--guard", "off") => guard = Guard::Off,
            _ => return Err(format!("{argument} {value} is not known; use --trials N, --guard NAME")),
        }
    }
    println!(
        "{:<11}{:>6}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}",
        "code", "bytes", "read", "delta", "undo", "word", "fold", "copy", "put"
    );
    for len in [8, 32, 256] {
        for code in CODES {
            let s = measure::put(code, guard, len, trials).map_err(|e| e.to_string())?;
            let cells = [
                s.read_ns, s.delta_ns, s.undo_ns, s.word_ns, s.fold_ns, s.copy_ns, s.put_ns,
            ];
            let cells: String = cells.iter().map(|ns| format!("{ns:>8.1}")).collect();
            println!("{:<11}{len:>6}{cells}", code.name());
        }
    }
    Ok(())
}
