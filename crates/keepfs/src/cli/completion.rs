//! `keepfs completion`: what a shell needs to complete the command line.

use super::Outcome;
use super::args::{Args, Completion};
use clap::CommandFactory;
use std::io;

/// Where the scripts go, for `--help`.
pub const HELP: &str = "\
Where it goes:
  bash   keepfs completion bash > /usr/share/bash-completion/completions/keepfs
  zsh    keepfs completion zsh > /usr/local/share/zsh/site-functions/_keepfs
  fish   keepfs completion fish > /usr/share/fish/vendor_completions.d/keepfs.fish";

/// Prints the script.
pub fn run(args: &Completion) -> Outcome {
    clap_complete::generate(args.shell, &mut Args::command(), "keepfs", &mut io::stdout());
    Ok(0)
}
