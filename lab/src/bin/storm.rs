//! `storm [--pools N] [--first SEED] [--seconds S] [--keep DIR]`: strays and kills without pause; the device agrees with itself.

use keepfs_lab::args::{pool_of, value, word};
use keepfs_lab::second::child;
use keepfs_lab::storm::{self, Done};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match args.first().map(String::as_str) {
        Some("child") => live(&args),
        _ => all(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("storm: {why}");
            ExitCode::FAILURE
        }
    }
}

/// The server.
fn live(args: &[String]) -> Result<(), String> {
    let pool = PathBuf::from(args.get(1).ok_or("a server needs a pool")?);
    let guard = args
        .get(2)
        .and_then(|name| storm::guard(name))
        .ok_or("a server needs a guard")?;
    let control = child::control().map_err(|e| e.to_string())?;
    child::live(&pool, control, guard).map_err(|e| e.to_string())
}

fn all(args: &[String]) -> Result<(), String> {
    let (pools, first) = (value(args, "--pools", 1 << 20)?, value(args, "--first", 1)?);
    let end = Instant::now() + Duration::from_secs(value(args, "--seconds", 60)?);
    let keep = word(args, "--keep");
    let pool = pool_of("storm");
    let (mut done, mut wrong, mut made) = (Done::default(), 0, 0);
    for seed in (first..first + pools).take_while(|_| Instant::now() < end) {
        made += 1;
        if let Err(why) = storm::pool(&pool, seed, &mut done) {
            wrong += 1;
            println!("{why}");
            if let Some(dir) = keep {
                let image = PathBuf::from(dir).join(format!("storm-{seed}.pool"));
                std::fs::copy(&pool, image).map_err(|e| e.to_string())?;
            }
        }
    }
    let _ = std::fs::remove_file(&pool);
    println!(
        "storm: {made} pools, {} servers, {} strays, {} answers, {} servers opened nothing; {wrong} pools do not agree with themselves",
        done.lives, done.strays, done.answers, done.refused
    );
    match wrong {
        0 if done.strays == 0 || done.answers == 0 => {
            Err("nothing was hit, or nobody was answered: this shows nothing".into())
        }
        0 => Ok(()),
        _ => Err("what lies on the device must agree with itself at each death".into()),
    }
}
