//! What each code costs at 4 KiB, and whether any repairs wrongly.
//!
//! `cargo bench -p keepfs-codes [-- COMMAND]`; commands: `times [ROUNDS]` (default: nanoseconds beside a copy of 4 KiB
//! and a bare store), `writes [MIB]` (the 16-byte writes of Greenan & Miller's figure 8), `threads` (one sum, one and two
//! threads), `trials [COUNT]` (damage beyond each code; exit code 1 if one verdict was wrong), `count` (instructions of
//! each row, by valgrind, which has no AVX-512: the CLMUL kernels), `all`.

mod count;
mod rows;
mod threads;
mod timing;
mod trials;
mod writes;

use std::process::ExitCode;

fn main() -> ExitCode {
    // cargo bench adds `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let number = |default: usize| words.get(1).and_then(|word| word.parse().ok()).unwrap_or(default);
    match words.first().map_or("times", String::as_str) {
        "times" => rows::table(number(5)),
        "writes" => writes::table(number(200)),
        "threads" => threads::table(),
        "trials" => return trials::table(number(1_000_000)),
        "count" => return count::table(),
        "run" => return rows::run(words.get(1).map_or("", String::as_str), words.get(2)),
        "all" => {
            rows::table(5);
            writes::table(200);
            threads::table();
            return trials::table(1_000_000);
        }
        other => {
            eprintln!("no command {other}: times, writes, threads, trials, count, all");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
