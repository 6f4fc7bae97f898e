//! `keepfs completion`: what a shell needs to complete the command line. The script asks this program, which knows its commands,
//! its values and what is mounted.

mod bash;
pub mod values;

use super::args::{Args, Completion};
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use keepfs_server::Outcome;
use std::ffi::OsString;

/// Where the scripts go, for `--help`.
pub const HELP: &str = "\
`keepfs install-links` puts those of bash, zsh and fish where the shells find them. By hand:
  bash   keepfs completion bash > /usr/share/bash-completion/completions/keepfs
  zsh    keepfs completion zsh > /usr/local/share/zsh/site-functions/_keepfs
  fish   keepfs completion fish > /usr/share/fish/vendor_completions.d/keepfs.fish";

/// By this variable a script says that it asks, and which shell's it is.
const VARIABLE: &str = "KEEPFS_COMPLETE";

/// Prints the script.
pub fn run(args: &Completion) -> Outcome {
    print!("{}", script(args.shell));
    Ok(0)
}

/// The script of a shell.
pub fn script(shell: Shell) -> String {
    let mut script = Vec::new();
    // Writing to memory cannot fail.
    let _ = adapter(shell).write_registration(VARIABLE, "keepfs", "keepfs", "keepfs", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Answers a script, if it is one that asks.
pub fn answered(words: &[OsString]) -> Result<bool, clap::Error> {
    let shells: [&dyn EnvCompleter; 5] = [&bash::Bash, &Elvish, &Fish, &Powershell, &Zsh];
    let asked = CompleteEnv::with_factory(visible).var(VARIABLE).shells(Shells(&shells));
    asked.try_complete(words.iter().cloned(), std::env::current_dir().ok().as_deref())
}

fn adapter(shell: Shell) -> &'static dyn EnvCompleter {
    match shell {
        Shell::Elvish => &Elvish,
        Shell::Fish => &Fish,
        Shell::PowerShell => &Powershell,
        Shell::Zsh => &Zsh,
        _ => &bash::Bash,
    }
}

/// The command line without what only processes of a mount use.
fn visible() -> Command {
    let all = Args::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    let shown: Vec<Command> = shown.cloned().collect();
    let kept = Command::new("keepfs").version(env!("CARGO_PKG_VERSION"));
    kept.args(all.get_arguments().cloned()).subcommands(shown)
}
