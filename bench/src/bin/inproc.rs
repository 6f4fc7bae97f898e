//! The library in process: single operations by one thread and by two, and varmail. Prints one JSON object.
//!
//! `cargo run --release -p keepfs-lab --bin inproc -- [--files N] [--threads N] [--arena MIB]
//! [--varmail SECONDS] [--protect CODE] [--audit on|off|without:NAME] [--image PATH | --device NODE | --dir DIR]`: without any
//! of the last three the pool lies in memory; with `--dir` there is no pool, and the file system mounted there is asked for
//! the same by system calls.

use keepfs_bench::inproc::kernel::Kernel;
use keepfs_bench::inproc::{AUDIT, Medium, PROTECT, Row, ops, varmail};
use keepfs_lab::million::Failure;
use std::path::PathBuf;
use std::time::Duration;

/// What the command line asks for.
struct Wishes {
    /// Files, which the threads share: the work is the same with two.
    files: usize,
    /// Most threads.
    threads: usize,
    arena_mib: usize,
    /// Seconds of varmail; 0 = none.
    varmail_s: f64,
    image: Option<PathBuf>,
    device: Option<PathBuf>,
    dir: Option<PathBuf>,
}

fn wishes() -> Result<Wishes, String> {
    let mut w = Wishes {
        files: 50_000,
        threads: 2,
        arena_mib: 64,
        varmail_s: 5.0,
        image: None,
        device: None,
        dir: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().ok_or(format!("{flag} needs a value"))?;
        let number = || value.parse::<usize>().map_err(|e| format!("{flag} {value}: {e}"));
        match flag.as_str() {
            "--files" => w.files = number()?,
            "--threads" => w.threads = number()?,
            "--arena" => w.arena_mib = number()?,
            "--varmail" => w.varmail_s = value.parse().map_err(|e| format!("{flag} {value}: {e}"))?,
            "--protect" => {
                let code = value.parse().map_err(|e| format!("{flag}: {e}"))?;
                let _ = PROTECT.set(code);
            }
            "--audit" => {
                let _ = AUDIT.set(value.parse().map_err(|e| format!("{flag}: {e}"))?);
            }
            "--image" => w.image = Some(value.into()),
            "--device" => w.device = Some(value.into()),
            "--dir" => w.dir = Some(value.into()),
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    Ok(w)
}

impl Wishes {
    fn medium(&self) -> Medium<'_> {
        match (&self.device, &self.image) {
            (Some(device), _) => Medium::Device(device),
            (None, Some(image)) => Medium::File(image),
            (None, None) => Medium::Ram,
        }
    }

    fn place(&self) -> &'static str {
        match (&self.dir, self.medium()) {
            (Some(_), _) => "kernel",
            (None, Medium::Ram) => "memory",
            (None, Medium::File(_)) => "file",
            (None, Medium::Device(_)) => "device",
        }
    }
}

/// Single operations, with 1 to the most threads.
fn operations(w: &Wishes) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    // Without files only varmail was asked for.
    for threads in (1..=w.threads).filter(|_| w.files > 0) {
        let files = w.files / threads;
        rows.extend(match &w.dir {
            Some(dir) => ops::on(&Kernel::at(dir)?, threads, files)?,
            None => ops::run(
                &ops::Wishes {
                    medium: w.medium(),
                    arena_mib: w.arena_mib,
                    files,
                },
                threads,
            )?,
        });
    }
    Ok(rows)
}

fn mail(w: &Wishes) -> Result<String, Failure> {
    let time = Duration::try_from_secs_f64(w.varmail_s)?;
    match &w.dir {
        _ if time.is_zero() => Ok("null".into()),
        Some(dir) => Ok(varmail::on(&Kernel::at(dir)?, time)?.json()),
        None => Ok(varmail::run(w.medium(), w.arena_mib, time)?.json()),
    }
}

fn run(w: &Wishes) -> Result<String, Failure> {
    let rows: Vec<String> = operations(w)?.iter().map(Row::json).collect();
    let mail = mail(w)?;
    if let Some(image) = &w.image {
        std::fs::remove_file(image)?;
    }
    Ok(format!(
        r#"{{"bench":"inproc","medium":"{}","arena_mib":{},"files":{},"rows":[{}],"varmail":{mail}}}"#,
        w.place(),
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
