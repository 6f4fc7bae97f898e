//! Workloads of `cargo xtask bench`: `bench WORKLOAD DIR SECONDS` works in DIR and prints one line of JSON.
//!
//! The device's counters are read by the caller, before and after; here only operations and time are counted.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

mod random;
mod sequential;
mod single;
mod varmail;

/// What a workload did.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Done {
    /// Operations, as the workload counts them.
    operations: u64,
    /// fsync calls among them.
    fsyncs: u64,
    /// Bytes of file data read or written.
    bytes: u64,
    /// How long the measured part took.
    seconds: f64,
}

impl Done {
    fn json(&self) -> String {
        let Self {
            operations,
            fsyncs,
            bytes,
            seconds,
        } = self;
        format!(r#"{{"operations":{operations},"fsyncs":{fsyncs},"bytes":{bytes},"seconds":{seconds}}}"#)
    }
}

/// Prepares what `run` needs (not measured), or measures.
fn dispatch(workload: &str, dir: &Path, time: Duration) -> std::io::Result<Done> {
    match workload {
        "create" => single::create(dir, time),
        "stat" => single::stat(dir, time),
        "stat-prepare" => single::stat_prepare(dir),
        "varmail" => varmail::run(dir, time),
        "varmail-prepare" => varmail::prepare(dir),
        "write" => sequential::write(dir),
        "read" => sequential::read(dir),
        other => Err(std::io::Error::other(format!("no workload {other}"))),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [workload, dir, seconds] = args.as_slice() else {
        eprintln!("usage: bench create|stat|varmail|write|read (and …-prepare) DIR SECONDS");
        return ExitCode::from(2);
    };
    let time = Duration::from_secs(seconds.parse().unwrap_or(5));
    match dispatch(workload, Path::new(dir), time) {
        Ok(done) => {
            println!("{}", done.json());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("{workload}: {e}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests;
