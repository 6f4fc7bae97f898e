//! `cargo xtask bench`: Keepfs beside other file systems on the same device, with bytes and flushes from the kernel's
//! block statistics; tables go into docs/TABLES.md, plots into docs/plots/, all figures into docs/results/.

use std::process::ExitCode;
use std::time::Instant;

use xtask::sweep::Scratch;
use xtask::{gates, paths};

mod bars;
mod device;
mod figure;
mod floor;
mod glance;
mod mounted;
mod papers;
mod peers;
mod plot;
mod programs;
mod results;
mod run;
mod sample;
mod session;
mod smoke;
mod table;
mod words;
mod work;

use device::Profile;
use figure::{FIGURES, Figure};
use peers::Peer;
use results::Results;
use session::Bench;

const USAGE: &str = "usage: cargo xtask bench NAME... | all (without huge, everyday and papers) | list | render | smoke
  --seconds N   seconds of a workload [2]
  --rounds N    most rounds of a figure; peers take turns within each [3]
  --only PEER   this peer (again for more); printed, not stored
  --profile P   the device: ssd (modelled) or none (this machine's disk) instead of the figure's own; not stored
  --quick       everything small, once and for half a second; printed, not stored";

/// What was asked for.
#[derive(Clone, Debug, PartialEq)]
struct Wishes<'a> {
    names: Vec<&'a str>,
    seconds: f64,
    rounds: u32,
    only: Vec<&'a str>,
    /// Percent of the size of file sets.
    percent: Option<usize>,
    device_mib: u64,
    profile: Option<Profile>,
}

impl<'a> Wishes<'a> {
    fn parse(args: &[&'a str]) -> Result<Self, String> {
        let mut wishes = Self {
            names: Vec::new(),
            seconds: 2.0,
            rounds: 3,
            only: Vec::new(),
            percent: None,
            device_mib: 12 << 10,
            profile: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().copied().ok_or(format!("{arg} needs a value"));
            match *arg {
                "--seconds" => wishes.seconds = positive(value()?)?,
                "--rounds" => wishes.rounds = positive(value()?)? as u32,
                "--only" => wishes.only.push(peer(value()?)?),
                "--profile" => wishes.profile = Some(Profile::named(value()?)?),
                "--quick" => {
                    (wishes.seconds, wishes.rounds, wishes.percent) = (0.5, 1, Some(2));
                    wishes.device_mib = 2 << 10;
                }
                name if name.starts_with('-') => return Err(format!("unknown argument {name}\n{USAGE}")),
                name => wishes.names.push(name),
            }
        }
        Ok(wishes)
    }

    /// Whether the results are worth keeping.
    fn is_stored(&self) -> bool {
        self.only.is_empty() && self.percent.is_none() && self.profile.is_none()
    }

    /// Whether a peer of these figures needs the program for comparison.
    fn compares(&self, figures: &[&Figure]) -> bool {
        let names = figures.iter().flat_map(|figure| figure.peers);
        let mut peers = names
            .filter(|name| self.only.is_empty() || self.only.contains(name))
            .filter_map(|name| peers::named(name));
        peers.any(Peer::is_for_comparison)
    }

    fn figures(&self) -> Result<Vec<&'static Figure>, String> {
        if self.names == ["all"] {
            return Ok(FIGURES.iter().filter(|figure| figure.in_all()).collect());
        }
        let named = |name: &&str| figure::named(name).ok_or_else(|| format!("no figure {name}\n{}", list()));
        self.names.iter().map(named).collect()
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|n: &f64| n.is_finite() && *n > 0.0);
    number.ok_or_else(|| format!("{text} is not a number above 0"))
}

fn peer(name: &str) -> Result<&str, String> {
    let names = || peers::PEERS.iter().map(|peer| peer.name).collect::<Vec<_>>().join(", ");
    peers::named(name)
        .map(|_| name)
        .ok_or_else(|| format!("no peer {name}; peers: {}", names()))
}

/// The names of a paper's figures, or of all papers'.
pub fn figures_of_paper(paper: &str) -> Vec<&'static str> {
    let names = FIGURES.iter().map(|figure| figure.name);
    let wanted = |name: &&str| papers::of(name).is_some_and(|of| paper == "all" || of == paper);
    names.filter(wanted).collect()
}

/// The figures, a line each.
fn list() -> String {
    let lines = FIGURES
        .iter()
        .map(|figure| format!("  {:<15} {}", figure.name, figure.about));
    format!("figures:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["bench", rest @ ..] => command_line(rest),
        ["papers", rest @ ..] => words::of_papers(rest).and_then(|words| command_line(&words)),
        _ => Err(USAGE.to_owned()),
    };
    result.unwrap_or_else(|message| {
        eprintln!("{message}");
        ExitCode::from(2)
    })
}

/// `cargo xtask bench` with the arguments after `bench`.
fn command_line(args: &[&str]) -> Result<ExitCode, String> {
    match args {
        [] => return Err(format!("{USAGE}\n{}", list())),
        ["list"] => {
            println!("{}", list());
            return Ok(ExitCode::SUCCESS);
        }
        ["render"] => {
            render()?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let wishes = Wishes::parse(args)?;
    if !rustix::process::geteuid().is_root() {
        return gates::skip("the benchmark needs root: it mounts file systems on loop devices");
    }
    let smoke = wishes.names == ["smoke"];
    let figures = if smoke { Vec::new() } else { wishes.figures()? };
    // Before anything is mounted: from here on a signal does not end this process at once.
    let stop = work::Stop::on_signals()?;
    let scratch = Scratch::new()?;
    let bench = Bench {
        programs: programs::Programs::build(scratch.path(), wishes.compares(&figures))?,
        stop,
        seconds: wishes.seconds,
        rounds: wishes.rounds,
        percent: wishes.percent,
        device_mib: wishes.device_mib,
        profile: wishes.profile,
    };
    let done = match smoke {
        true => smoke::run(bench),
        false => all(&bench, &wishes, &figures),
    };
    // Whatever a failure left: servers first, then mounts and loop devices.
    scratch.kill_stragglers();
    drop(scratch);
    done
}

fn all(bench: &Bench, wishes: &Wishes<'_>, figures: &[&'static Figure]) -> Result<ExitCode, String> {
    let estimate: f64 = figures
        .iter()
        .map(|figure| figure.estimate_s(bench.seconds, bench.rounds))
        .sum();
    println!("{} figures, about {:.0} min", figures.len(), (estimate / 60.0).ceil());
    let start = Instant::now();
    let mut took = Vec::new();
    for (at, figure) in figures.iter().enumerate() {
        let so_far = start.elapsed().as_secs();
        println!(
            "== {} ({} of {}, {so_far} s so far)",
            figure.name,
            at + 1,
            figures.len()
        );
        let results = Results::of(figure, bench, run::figure(bench, figure, &wishes.only)?);
        println!("\n{}", table::section(&results));
        if wishes.is_stored() && !results.samples.is_empty() {
            // After each figure, so that an interrupted run keeps what it has.
            results::store(&paths::root().join("docs/results"), &results)?;
            render()?;
        }
        took.push((figure.name, start.elapsed().as_secs() - so_far));
    }
    for (name, seconds) in &took {
        println!("{name:<15} {seconds:5} s");
    }
    println!("{} figures in {} s", figures.len(), start.elapsed().as_secs());
    Ok(ExitCode::SUCCESS)
}

/// Tables and plots from the files of results.
fn render() -> Result<(), String> {
    let docs = paths::root().join("docs");
    let all = results::load(&docs.join("results"))?;
    for results in &all {
        plot::draw(results, &docs.join(format!("plots/{}.svg", results.figure.name)))?;
    }
    let tables = docs.join("TABLES.md");
    std::fs::write(&tables, table::render(&all)).map_err(|e| format!("{}: {e}", tables.display()))
}

#[cfg(test)]
mod tests;
