//! What an installation brings beside the program and its links.

use super::super::{completion, manual};
use clap_complete::Shell;
use std::path::{Path, PathBuf};

/// What is the same everywhere but for the program's path: below which directory, name, text.
const FILES: &[(&str, &str, &str)] = &[
    (
        "lib/udev/rules.d",
        "60-keepfs.rules",
        include_str!("../../../kit/60-keepfs.rules"),
    ),
    (
        "lib/systemd/system",
        "keepfs-scrub@.service",
        include_str!("../../../kit/keepfs-scrub@.service"),
    ),
    (
        "lib/systemd/system",
        "keepfs-scrub@.timer",
        include_str!("../../../kit/keepfs-scrub@.timer"),
    ),
    (
        "lib/systemd/system",
        "keepfs-hooks.service",
        include_str!("../../../kit/keepfs-hooks.service"),
    ),
    (
        "lib/systemd/system",
        "keepfs-metrics.service",
        include_str!("../../../kit/keepfs-metrics.service"),
    ),
    (
        "lib/systemd/system",
        "keepfs-metrics-textfile.service",
        include_str!("../../../kit/keepfs-metrics-textfile.service"),
    ),
    (
        "lib/systemd/system",
        "keepfs-metrics-textfile.timer",
        include_str!("../../../kit/keepfs-metrics-textfile.timer"),
    ),
    (
        "share/keepfs",
        "grafana-dashboard.json",
        include_str!("../../../kit/grafana-dashboard.json"),
    ),
    ("lib/keepfs/hooks.d", "mail", include_str!("../../../kit/mail")),
    ("share/keepfs", "hooks.conf", include_str!("../../../kit/hooks.conf")),
    ("share/keepfs", "magic", include_str!("../../../kit/magic")),
];
/// Stands for the program's path.
const PROGRAM: &str = "@KEEPFS@";

/// A file to be.
pub struct File {
    /// Where.
    pub path: PathBuf,
    /// What stands in it.
    pub text: String,
    /// Whether it is a program.
    pub is_program: bool,
    /// Whether administrators may have reasons to change it.
    pub is_changed_by_hand: bool,
}

/// All of them, below `prefix`; `program` is where the program is.
pub fn files(prefix: &Path, program: &Path) -> Vec<File> {
    let file = |folder: &str, name: &str, text: String| File {
        path: prefix.join(folder).join(name),
        is_program: text.starts_with("#!"),
        text,
        is_changed_by_hand: false,
    };
    let pages = manual::pages()
        .into_iter()
        .map(|page| file("share/man/man8", &page.name, page.roff));
    // Only programs of the distribution itself have the first of these.
    let zsh = match prefix == Path::new("/usr") {
        true => "share/zsh/vendor-completions",
        false => "share/zsh/site-functions",
    };
    let scripts = [
        ("share/bash-completion/completions", "keepfs", Shell::Bash),
        (zsh, "_keepfs", Shell::Zsh),
        ("share/fish/vendor_completions.d", "keepfs.fish", Shell::Fish),
    ];
    let scripts = scripts.map(|(folder, name, shell)| file(folder, name, completion::script(shell)));
    let program = program.to_string_lossy();
    let fixed = FILES.iter().map(|(folder, name, text)| File {
        is_changed_by_hand: true,
        ..file(folder, name, text.replace(PROGRAM, &program))
    });
    pages.chain(scripts).chain(fixed).collect()
}
