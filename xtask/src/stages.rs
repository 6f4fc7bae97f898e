//! The stages of `cargo xtask test`, one line each.

/// A stage is a command with a time limit; it passes if the command exits with 0, and was skipped if with 77.
pub struct Stage {
    /// For `--only` and the log's name.
    pub name: &'static str,
    /// Runs with `--long` only.
    pub long: bool,
    /// One processor is enough for it, and it measures nothing: it runs beside its neighbours of which the same is said.
    pub beside: bool,
    /// What the machine may lack beside root and /dev/fuse: without it the stage is skipped, and told.
    pub needs: Option<&'static str>,
    /// The hang guard: killed after so many minutes (four times as many with `--long`).
    pub minutes_max: u64,
    /// Program and arguments, from the root of the workspace.
    pub command: &'static [&'static str],
}

const fn stage(name: &'static str, minutes_max: u64, command: &'static [&'static str]) -> Stage {
    Stage {
        name,
        long: false,
        beside: false,
        needs: None,
        minutes_max,
        command,
    }
}

impl Stage {
    /// With `--long` only.
    const fn long(self) -> Stage {
        Stage { long: true, ..self }
    }

    /// Is skipped where the machine lacks this.
    const fn needs(self, what: &'static str) -> Stage {
        Stage {
            needs: Some(what),
            ..self
        }
    }

    /// Beside its neighbours.
    const fn beside(self) -> Stage {
        Stage { beside: true, ..self }
    }
}

/// A command of cargo.
macro_rules! cargo {
    ($($word:literal),*) => {
        &["cargo" $(, $word)*]
    };
}

/// The command that runs a program of the lab; `with` says what cargo needs besides.
macro_rules! lab {
    ($bin:literal $(, $arg:literal)*) => {
        lab!(with ["--release"] $bin $(, $arg)*)
    };
    (with [$($more:literal),*] $bin:literal $(, $arg:literal)*) => {
        cargo!("run", "--quiet", "-p", "keepfs-lab", $($more,)* "--bin", $bin, "--" $(, $arg)*)
    };
}

/// The command of a program of the lab that can misbehave, whether it does or not: one build for all of them, with overflow checks
/// and assertions, linked without optimization across packages, which takes longer than these programs run faster for it.
macro_rules! planted {
    ($bin:literal $(, $arg:literal)*) => {
        lab!(with ["--profile", "planted", "--features", "planted"] $bin $(, $arg)*)
    };
}

/// The command of a suite on a real mount.
macro_rules! suite {
    ($name:literal $(, $arg:literal)*) => {
        cargo!("xtask", "suite", $name $(, $arg)*)
    };
}

/// What suites need that mount with `transport=uring`.
const RINGS: &str = "FUSE over io_uring";

const FMT: Stage = stage("fmt", 2, cargo!("fmt", "--all", "--check", "--", "--color=never"));
const TIDY: Stage = stage("tidy", 2, cargo!("xtask", "tidy"));
const CLIPPY: Stage = stage(
    "clippy",
    15,
    cargo!("clippy", "--workspace", "--all-targets", "--", "-D", "warnings"),
);

/// What is shipped in no program: the options that exist to be measured.
const COMPARISON: Stage = stage(
    "clippy_comparison",
    15,
    cargo!(
        "clippy",
        "-p",
        "keepfs",
        "-p",
        "keepfs-server",
        "--features",
        "keepfs/comparison",
        "--all-targets",
        "--",
        "-D",
        "warnings"
    ),
);

/// Links of comments lead somewhere, also those of items that nobody outside sees. It takes half a minute, as whatever imports
/// a changed package is read anew.
const DOC: Stage = stage(
    "doc",
    10,
    &[
        "env",
        "RUSTDOCFLAGS=-D warnings",
        "cargo",
        "doc",
        "--quiet",
        "--no-deps",
        "--workspace",
        "--document-private-items",
    ],
)
.long();

/// The quick ring: what somebody runs behind each change, a minute and a half at most where one package was changed. Crash states
/// are of another profile, so they are built and run beside the rest, which is built in turn.
pub const QUICK: &[Stage] = &[
    FMT.beside(),
    TIDY.beside(),
    stage("crash", 15, planted!("crash", "--goal", "20000", "--budget", "60")).beside(),
    CLIPPY.beside(),
    stage("changed", 15, cargo!("xtask", "changed")).beside(),
];

/// In the order in which they run: cheap ones first, and what others need before them.
pub const STAGES: &[Stage] = &[
    FMT,
    TIDY,
    CLIPPY,
    COMPARISON,
    DOC,
    stage("deny", 5, cargo!("xtask", "deny")),
    // Their limits are for what hangs: a slow machine builds for ten minutes before the first test.
    stage("miri", 40, cargo!("xtask", "miri")).needs("Miri").beside(),
    stage("unit", 40, cargo!("test", "--workspace", "--no-fail-fast")).beside(),
    // What can be made to misbehave is built once for both.
    stage(
        "misbehaving",
        10,
        cargo!(
            "test",
            "-p",
            "keepfs",
            "-p",
            "keepfs-server",
            "-p",
            "keepfs-store",
            "--features",
            "keepfs/planted,keepfs-server/comparison,keepfs-store/planted",
            "--lib",
            "--test",
            "planted",
            "--test",
            "store",
            "--",
            "--test-threads",
            "1",
            "a_server_that_was_taken_over",
            "a_server_that_is_taken_over",
            "a_server_alone_starts_no_programs",
            "a_keeper_believes_no_server",
            "a_keeper_does_not_grow_by_what_its_server_leaves",
            "a_store_that_misses_the_door",
            "a_request_that_kills_every_server",
            "a_rung_that_ignores_something",
            "options_for_comparison",
            "without_compaction"
        ),
    ),
    stage(
        "model",
        10,
        cargo!(
            "run",
            "--quiet",
            "--profile",
            "planted",
            "-p",
            "keepfs-model",
            "--",
            "ci"
        ),
    ),
    stage(
        "model_long",
        30,
        cargo!(
            "run",
            "--quiet",
            "--profile",
            "planted",
            "-p",
            "keepfs-model",
            "--",
            "long"
        ),
    )
    .long(),
    stage("bare", 5, cargo!("xtask", "bare")).needs("the bare target"),
    stage("planted", 25, planted!("crash", "--planted", "all")),
    // Without being told where, within the budget of the stage `crash`.
    stage(
        "planted_blind",
        20,
        planted!(
            "crash",
            "--planted",
            "lead given away before the old group's flush",
            "--blind",
            "--budget",
            "960"
        ),
    ),
    // Each of these has one thread that works.
    stage("second_mutants", 10, planted!("second", "mutants")).beside(),
    stage("second_points", 10, planted!("second", "points")).beside(),
    stage("second", 5, planted!("second", "--kills", "200")).beside(),
    stage("storm", 5, planted!("storm", "--seconds", "60")).beside(),
    stage("onebad", 10, planted!("onebad")).beside(),
    stage("audits", 15, planted!("audits", "matrix")).beside(),
    stage("inject_planted", 10, planted!("inject", "all", "2000", "--plant")).beside(),
    stage("inject", 10, planted!("inject", "all", "5000")).beside(),
    stage("inject_neutral", 10, planted!("inject", "paper", "M-23")).beside(),
    stage("inject_targeted", 10, planted!("inject", "paper", "M-2")).beside(),
    stage("targeted", 10, planted!("targeted", "--tries", "0")).beside(),
    stage("scribble_planted", 5, planted!("scribble", "--planted")).beside(),
    // Threads that race want processors of their own.
    stage(
        "scribble",
        10,
        planted!("scribble", "--puts", "10000000", "--flips", "50"),
    ),
    stage("scribble_long", 30, planted!("scribble", "--long", "--flips", "150")).long(),
    stage("inject_wild", 10, planted!("inject", "paper", "M-1")),
    stage(
        "second_long",
        20,
        planted!("second", "--kills", "5000", "--seed", "100"),
    )
    .long(),
    stage(
        "storm_long",
        10,
        planted!("storm", "--first", "100000", "--seconds", "1800"),
    )
    .long(),
    stage(
        "every_byte",
        20,
        &[
            "env",
            "KEEPFS_EVERY_BYTE=1",
            "cargo",
            "test",
            "--release",
            "-p",
            "keepfs-store",
            "--lib",
            "ladder::",
        ],
    )
    .long(),
    stage(
        "judge",
        10,
        &[
            "env",
            "KEEPFS_JUDGE=1",
            "cargo",
            "test",
            "-p",
            "keepfs",
            "--test",
            "command",
            "judge::",
        ],
    )
    .long(),
    stage("onebad_long", 10, planted!("onebad", "--long")).long(),
    stage("inject_long", 20, planted!("inject", "all", "100000", "7")).long(),
    stage("inject_targeted_long", 20, planted!("inject", "paper", "M-2", "--long")).long(),
    stage(
        "targeted_long",
        60,
        planted!("targeted", "--count", "100000", "--tries", "400"),
    )
    .long(),
    stage("inject_wild_long", 20, planted!("inject", "paper", "M-1", "--long")).long(),
    stage(
        "million",
        10,
        lab!("million", "--files", "250000", "--changes", "20000", "--arena", "32"),
    )
    .beside(),
    stage(
        "hostile",
        15,
        planted!("hostile", "--shapes", "--eight", "--every", "4", "--budget", "10"),
    )
    .beside(),
    stage(
        "hostile_all",
        20,
        planted!("hostile", "--shapes", "--eight", "--alien", "--budget", "600"),
    )
    .long(),
    stage(
        "crash_long",
        20,
        lab!(
            "crash",
            "--budget",
            "3600",
            "--seed",
            "1000003",
            "--goal",
            "10000000",
            "--each",
            "100000",
            "--schedules",
            "1000000"
        ),
    )
    .long(),
    stage("million_long", 20, lab!("million")).long(),
    // One program and its server, of which one waits for the other.
    stage("pjdfstest", 10, suite!("pjdfstest")).beside(),
    stage("fsx", 15, suite!("fsx")).beside(),
    stage("pjdfstest_uring", 5, suite!("pjdfstest", "--transport", "uring"))
        .needs(RINGS)
        .beside(),
    stage("fsx_uring", 15, suite!("fsx", "--transport", "uring"))
        .needs(RINGS)
        .beside(),
    stage("bench", 15, &["cargo", "xtask", "bench", "smoke"]),
    stage("keeper", 10, suite!("keeper")),
    stage("keeper_controls", 30, suite!("keeper_controls")).long(),
    stage("pkey", 5, suite!("pkey")).needs("a guest of QEMU").long(),
    stage("deb", 10, suite!("deb")).needs("an archive of Debian").long(),
    stage("systemd", 10, suite!("systemd"))
        .needs("an archive of Debian")
        .long(),
    // The first that wants the real programs, and brings them.
    stage("strays", 15, suite!("strays")),
    stage("strays_long", 30, suite!("strays_long")).long(),
    stage("full", 10, suite!("full")).beside(),
    stage("full_uring", 10, suite!("full", "--transport", "uring"))
        .needs(RINGS)
        .beside(),
    stage("full_long", 20, suite!("full_long")).long(),
    stage("full_long_uring", 20, suite!("full_long", "--transport", "uring"))
        .needs(RINGS)
        .long(),
    stage("stalls", 10, suite!("stalls")).long(),
    // Each of these waits for one processor most of the time.
    stage("postgres", 10, suite!("postgres")).beside(),
    stage("git", 10, suite!("git")).beside(),
    stage("enospc", 10, suite!("enospc")).beside(),
    stage("sqlite", 10, suite!("sqlite")).beside(),
    stage("upgrade", 15, suite!("upgrade"))
        .needs("the last commit in git")
        .beside(),
    stage("kill", 10, suite!("kill")).beside(),
    stage("kill_uring", 10, suite!("kill", "--transport", "uring"))
        .needs(RINGS)
        .beside(),
    stage("media_errors", 5, suite!("media_errors")).beside(),
    stage("strays_planted", 5, suite!("strays_planted")).beside(),
    stage("block_device", 5, suite!("block_device")).beside(),
    stage("cargo", 5, suite!("cargo")).beside(),
    stage("rsync", 5, suite!("rsync")).beside(),
    stage("tar", 5, suite!("tar")).beside(),
    // Last, as it takes what is left of the run, its budget at most.
    stage(
        "crash",
        20,
        lab!(
            "crash",
            "--goal",
            "1000000",
            "--each",
            "10000",
            "--budget",
            "960",
            "--schedules",
            "100000"
        ),
    ),
];
