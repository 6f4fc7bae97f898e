//! The stages of `cargo xtask test`, one line each.

/// A stage is a command with a time limit; it passes if the command exits with 0, and was skipped if with 77.
pub struct Stage {
    /// For `--only` and the log's name.
    pub name: &'static str,
    /// Runs with `--long` only.
    pub long: bool,
    /// The hang guard: killed after so many minutes (four times as many with `--long`).
    pub minutes_max: u64,
    /// Program and arguments, from the root of the workspace.
    pub command: &'static [&'static str],
}

const fn stage(name: &'static str, minutes_max: u64, command: &'static [&'static str]) -> Stage {
    Stage {
        name,
        long: false,
        minutes_max,
        command,
    }
}

/// In the order in which they run: cheap ones first, and what others need before them.
pub const STAGES: &[Stage] = &[
    stage("fmt", 2, &["cargo", "fmt", "--all", "--check", "--", "--color=never"]),
    stage("tidy", 2, &["cargo", "xtask", "tidy"]),
    stage(
        "clippy",
        15,
        &[
            "cargo",
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    ),
    stage("deny", 5, &["cargo", "xtask", "deny"]),
    stage("unit", 20, &["cargo", "test", "--workspace"]),
    stage("miri", 15, &["cargo", "xtask", "miri"]),
    stage(
        "crash",
        15,
        &[
            "cargo",
            "run",
            "--release",
            "--quiet",
            "-p",
            "keepfs-lab",
            "--bin",
            "crash",
            "--",
            "--budget",
            "360",
        ],
    ),
    stage(
        "planted",
        15,
        &[
            "cargo",
            "run",
            "--release",
            "--quiet",
            "-p",
            "keepfs-lab",
            "--features",
            "planted",
            "--bin",
            "crash",
            "--",
            "--planted",
            "all",
        ],
    ),
    stage(
        "million",
        10,
        &[
            "cargo",
            "run",
            "--release",
            "--quiet",
            "-p",
            "keepfs-lab",
            "--bin",
            "million",
            "--",
            "--files",
            "250000",
            "--changes",
            "20000",
            "--arena",
            "32",
        ],
    ),
    stage("pjdfstest", 5, &["cargo", "xtask", "suite", "pjdfstest"]),
    stage("fsx", 10, &["cargo", "xtask", "suite", "fsx"]),
    stage("kill", 10, &["cargo", "xtask", "suite", "kill"]),
    stage("enospc", 10, &["cargo", "xtask", "suite", "enospc"]),
    stage("media_errors", 5, &["cargo", "xtask", "suite", "media_errors"]),
    stage("tar", 5, &["cargo", "xtask", "suite", "tar"]),
    stage("rsync", 5, &["cargo", "xtask", "suite", "rsync"]),
    stage("cargo", 5, &["cargo", "xtask", "suite", "cargo"]),
    stage("sqlite", 5, &["cargo", "xtask", "suite", "sqlite"]),
    stage("postgres", 10, &["cargo", "xtask", "suite", "postgres"]),
    stage("git", 10, &["cargo", "xtask", "suite", "git"]),
];
