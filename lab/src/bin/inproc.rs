//! The library in process: single operations by one thread and by two, and varmail. Prints one JSON object.
//!
//! `cargo run --release -p keepfs-lab --bin inproc -- [--files N] [--threads N] [--arena MIB]
//! [--varmail SECONDS] [--image PATH]`: without an image the pool lies in memory.

use keepfs_lab::inproc::{Medium, Row, ops, varmail};
use keepfs_lab::million::Failure;
use std::path::PathBuf;
use std::time::Duration;

/// What the command line asks for.
struct Wishes {
    files: usize,
    /// Most threads.
    threads: usize,
    arena_mib: usize,
    /// Seconds of varmail; 0 = none.
    varmail_s: u64,
    image: Option<PathBuf>,
}

fn wishes() -> Result<Wishes, String> {
    let mut w = Wishes {
        files: 50_000,
        threads: 2,
        arena_mib: 64,
        varmail_s: 5,
        image: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|e| format!("{flag} {value}: {e}"));
        match flag.as_str() {
            "--files" => w.files = number()?,
            "--threads" => w.threads = number()?,
            "--arena" => w.arena_mib = number()?,
            "--varmail" => w.varmail_s = number()? as u64,
            "--image" => w.image = Some(value.into()),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(w)
}

fn run(w: &Wishes) -> Result<String, Failure> {
    let medium = w.image.as_deref().map_or(Medium::Ram, Medium::File);
    let all = ops::Wishes {
        medium,
        arena_mib: w.arena_mib,
        files: w.files,
    };
    let mut rows: Vec<Row> = Vec::new();
    for threads in 1..=w.threads {
        rows.extend(ops::run(&all, threads)?);
    }
    let rows: Vec<String> = rows.iter().map(Row::json).collect();
    let mail = match w.varmail_s {
        0 => "null".into(),
        s => varmail::run(medium, w.arena_mib, Duration::from_secs(s))?.json(),
    };
    if let Some(image) = &w.image {
        std::fs::remove_file(image)?;
    }
    Ok(format!(
        r#"{{"bench":"inproc","medium":"{}","arena_mib":{},"files":{},"rows":[{}],"varmail":{mail}}}"#,
        if w.image.is_some() { "file" } else { "memory" },
        w.arena_mib,
        w.files,
        rows.join(",")
    ))
}

fn main() {
    match wishes().map_err(Into::into).and_then(|w| run(&w)) {
        Ok(line) => println!("{line}"),
        Err(error) => {
            eprintln!("inproc: {error}");
            std::process::exit(1);
        }
    }
}
