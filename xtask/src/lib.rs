//! Developer commands, and what they and the benchmark share: `cargo xtask tidy | quick | test | suite | install | deb | demo | bench`.

use std::process::ExitCode;

mod deb;
mod demo;
pub mod gates;
pub mod install;
mod licences;
pub mod paths;
mod quick;
mod run;
mod stages;
pub mod suites;
pub mod sweep;
mod tidy;

const USAGE: &str = "usage: cargo xtask COMMAND

  tidy                           checks the rules of the house (floors, unsafe fences, SPEC proofs, heads, bans)
  test [--long] [--only NAME]    runs every stage; ends in the line `N passed, N failed`
  test --list                    lists the stages with their time limits
  quick                          fmt, tidy, clippy, the tests of what was changed, 20,000 crash states: behind each change
  suite NAME [--transport dev|uring]  one suite on a pool of its own
  suite NAME --dir DIR           the same in DIR on whatever lies there
  demo                           makes a pool, works on it, kills its server, recovers; needs root
  deb [--revision N] [--output DIR]  a package for Debian, in target/debian unless told
  bench NAME | all | list        speed, bytes and flushes beside other file systems; needs root
  papers greenan | wafl | all     the papers' experiments on their terms, as figures of bench; needs root
  deny, miri, bare, changed      one stage each; what Miri and the bare target need is installed if rustup can
  install [WHAT]                 installs what the tests and the demo need (mount, suites, programs, peers, all)
";

/// Runs the command that the arguments of this process name.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["tidy"] => tidy::command(),
        ["test", rest @ ..] => run::command(rest),
        ["quick"] => run::quick(),
        ["changed"] => quick::changed(),
        [command @ ("bench" | "papers"), rest @ ..] => bench(command, rest),
        ["deb", rest @ ..] => deb::command(rest),
        ["demo"] => demo::command(),
        ["suite", rest @ ..] => suites::command(rest),
        ["deny"] => gates::deny(),
        ["miri"] => gates::miri(),
        ["bare"] => gates::bare(),
        ["install", rest @ ..] => install::command(rest),
        _ => Err(USAGE.to_owned()),
    };
    match result {
        Ok(code) => code,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// The figures are a package of their own, which nothing else waits for.
fn bench(command: &str, args: &[&str]) -> Result<ExitCode, String> {
    let mut cargo = suites::process::command("cargo", &paths::root());
    cargo.args([
        "run",
        "--quiet",
        "--package",
        "keepfs-bench",
        "--bin",
        "keepfs-bench",
        "--",
        command,
    ]);
    let status = cargo.args(args).status().map_err(|e| format!("cargo: {e}"))?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}
