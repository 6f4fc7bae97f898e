//! The papers' experiments in process, a line of JSON for each run (`cargo xtask papers`): `papers metadata [--dirs N]
//! [--slow N] [--rounds N] [--files N]` (Greenan & Miller 2006, figure 7), `papers writes [--ms N]` (figure 8), `papers
//! breakdown [--trials N]` (figure 9), `papers cost [--rounds N]` and `papers curve [--runs N] [--ms N]` (WAFL 2017, section 7); with `--percent N` less of it.

use keepfs_bench::greenan::metadata::{self, Wishes};
use keepfs_bench::greenan::writes;
use keepfs_lab::audits::load::Kind;
use keepfs_lab::audits::{cost, curve};
use keepfs_lab::million::Failure;
use keepfs_lab::told::Told;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// The numbers of the command line.
struct Numbers(BTreeMap<String, usize>);

impl Numbers {
    fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Numbers, Failure> {
        let mut all = BTreeMap::new();
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} needs a number"))?;
            let number = value.parse().map_err(|e| format!("{name} {value}: {e}"))?;
            all.insert(name, number);
        }
        Ok(Numbers(all))
    }

    /// Takes a number out.
    fn take(&mut self, name: &str, default: usize) -> usize {
        self.0.remove(name).unwrap_or(default)
    }

    /// Takes a number out that `--percent` makes smaller, not below 1.
    fn size(&mut self, name: &str, default: usize) -> usize {
        let percent = self.0.get("--percent").copied().unwrap_or(100);
        (self.take(name, default) * percent / 100).max(1)
    }

    /// Errors: a number that nobody took.
    fn end(mut self) -> Result<(), Failure> {
        self.0.remove("--percent");
        match self.0.keys().next() {
            Some(name) => Err(format!("{name} is not known here").into()),
            None => Ok(()),
        }
    }
}

fn tell(told: Told) {
    println!("{}", told.json());
}

fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let what = arguments.next().unwrap_or_default();
    let mut n = Numbers::parse(arguments)?;
    match what.as_str() {
        "metadata" => {
            let wishes = Wishes {
                dirs: n.size("--dirs", metadata::DIRS),
                dirs_slow: n.size("--slow", 5),
                rounds: n.take("--rounds", 1),
                files_max: n.take("--files", 500),
            };
            n.end()?;
            metadata::compare(&wishes, tell)
        }
        "writes" => {
            let time = Duration::from_millis(n.size("--ms", 300) as u64);
            n.end()?;
            writes::compare(&writes::REGIONS, time, tell)
        }
        "breakdown" => {
            let trials = n.size("--trials", 1000);
            n.end()?;
            writes::breakdown(trials, tell)
        }
        "cost" => {
            let rounds = n.size("--rounds", 25);
            n.end()?;
            Kind::ALL
                .into_iter()
                .try_for_each(|kind| cost::tell(kind, rounds, tell))?;
            Ok(())
        }
        "curve" => {
            let (runs, time) = (n.take("--runs", 5), Duration::from_millis(n.size("--ms", 200) as u64));
            n.end()?;
            Ok(curve::tell(runs, time, tell)?)
        }
        _ => Err("papers metadata | writes | breakdown | cost | curve".into()),
    }
}

fn main() -> ExitCode {
    match run(std::env::args().skip(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("papers: {error}");
            ExitCode::from(1)
        }
    }
}
