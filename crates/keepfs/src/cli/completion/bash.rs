//! The script of bash(1). It differs from clap's in one thing: bash cuts words at `=` and `:`, and options of mounts have both,
//! so words are taken from the line as it was typed.

use clap::Command;
use clap_complete::engine::complete;
use clap_complete::env::EnvCompleter;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// See the head of this file.
pub struct Bash;

/// In place of a question: the last word is the one to complete.
const SCRIPT: &str = r#"_keepfs() {
    local line=${COMP_LINE:0:COMP_POINT} word=
    local -a words
    read -ra words <<< "$line"
    if [[ $line != *[[:space:]] ]]; then
        word=${words[-1]}
    else
        words+=("")
    fi
    local IFS=$'\n'
    COMPREPLY=($(VARIABLE=bash "${COMP_WORDS[0]}" -- "${words[@]}" 2> /dev/null))
    # What readline takes for words before this one is not to be typed again.
    local before=${word%"$2"}
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/,] ]]; then
        compopt -o nospace 2> /dev/null
    fi
}
complete -o bashdefault -o default -F _keepfs keepfs
"#;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(&self, var: &str, _: &str, _: &str, _: &str, to: &mut dyn Write) -> io::Result<()> {
        to.write_all(SCRIPT.replace("VARIABLE", var).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        to: &mut dyn Write,
    ) -> io::Result<()> {
        let last = words.len().saturating_sub(1);
        for candidate in complete(command, words, last, folder)? {
            writeln!(to, "{}", candidate.get_value().display())?;
        }
        Ok(())
    }
}
