//! Shows the watch over metadata in memory: `scribble [--long | --puts N] [--flips N]` (S-15.19). `scribble
//! --planted` (with that feature) makes the folds of sums torn, and fails if nobody notices.
//!
//! Two threads make N puts to one frame (10^6, with `--long` 10^8) while a third verifies it all the time: no
//! Finding, no lost byte. Then single bits are flipped behind the door's back: each is told, or in no byte that a
//! recording device received.

use keepfs_lab::scribble::{self, Fate};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("scribble: {why}");
            ExitCode::from(2)
        }
    }
}

/// Puts after which torn folds are not found.
#[cfg(feature = "planted")]
const TORN_MAX: u64 = 20_000_000;

#[cfg(feature = "planted")]
fn planted() -> Result<bool, String> {
    let noticed = scribble::torn(TORN_MAX);
    match noticed {
        Some(puts) => println!("torn folds were noticed within {puts} puts"),
        None => println!("torn folds were not noticed in {TORN_MAX} puts"),
    }
    Ok(noticed.is_some())
}

#[cfg(not(feature = "planted"))]
fn planted() -> Result<bool, String> {
    Err("this build has no planted bugs; add --features planted".into())
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<bool, String> {
    let (mut puts, mut flips) = (1_000_000, 50);
    while let Some(argument) = arguments.next() {
        let mut number = || {
            let text = arguments.next().ok_or(format!("{argument} needs a number"))?;
            text.parse::<u64>().map_err(|e| format!("{argument} {text}: {e}"))
        };
        match argument.as_str() {
            "--long" => puts = 100_000_000,
            "--puts" => puts = number()?,
            "--flips" => flips = number()?,
            "--planted" => return planted(),
            _ => return Err(format!("{argument} is not known; use --long, --puts N, --flips N")),
        }
    }
    let tally = scribble::puts(puts).map_err(|e| e.to_string())?;
    println!(
        "{} puts by two threads on one frame in {:.1} s ({:.0} ns a put), {} looks of the verifier, no Finding, no lost delta",
        tally.puts,
        tally.time.as_secs_f64(),
        tally.time.as_secs_f64() * 1e9 / tally.puts.max(1) as f64,
        tally.verifies
    );
    let mut fates = [0; 3];
    for round in 0..flips {
        let fate = scribble::flip(round * 37 % 1000, round as usize * 1117).map_err(|e| e.to_string())?;
        fates[fate as usize] += 1;
    }
    let [told, absent, escaped] = fates;
    println!("{flips} bits flipped: {told} told, {absent} on no device byte, {escaped} escaped");
    Ok(fates[Fate::Escaped as usize] == 0)
}
