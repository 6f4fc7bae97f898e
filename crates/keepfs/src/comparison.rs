//! `keepfs` as the benchmark measures it for comparison: with mount options that exist to be measured (decision 0421).

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    keepfs::serve_if_asked();
    cli::run(std::env::args_os().collect())
}
