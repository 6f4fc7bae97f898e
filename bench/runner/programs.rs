//! The programs that the benchmark runs: built once, before anything is measured.

use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::paths;
use xtask::suites::build;
use xtask::suites::process::{command, run};

/// The source of libfuse's example, from the package libfuse3-dev.
pub const PASSTHROUGH: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c";

/// Where they are.
pub struct Programs {
    /// `keepfs`.
    pub keepfs: PathBuf,
    /// The same with the mount options that exist to be measured (decision 0421), if a peer of this run needs them.
    pub comparison: Option<PathBuf>,
    /// The workloads (bench/workloads).
    pub bench: PathBuf,
    /// The modelled SSD (bench/ssd).
    pub ssd: PathBuf,
    /// The empty file system in memory.
    pub memory: PathBuf,
    /// Many files in process (lab/src/million).
    pub million: PathBuf,
    /// Single operations and varmail in process (bench/src/inproc).
    pub inproc: PathBuf,
    /// The papers' experiments in process (lab/src/bin/papers.rs).
    pub papers: PathBuf,
    scratch: PathBuf,
}

impl Programs {
    /// Builds them, that for comparison if it is `compared`; servers will be marked with `scratch`.
    pub fn build(scratch: &Path, compared: bool) -> Result<Self, String> {
        println!("building the programs");
        Ok(Self {
            keepfs: build::keepfs()?,
            comparison: compared.then(comparison).transpose()?,
            bench: build::release("keepfs-bench", "bench")?,
            ssd: build::release("keepfs-bench", "ssd")?,
            million: build::release("keepfs-lab", "million")?,
            inproc: build::release("keepfs-bench", "inproc")?,
            papers: build::release("keepfs-bench", "papers")?,
            memory: build::example("keepfs-fuse", "memory")?,
            scratch: scratch.to_owned(),
        })
    }

    /// Where the sweep finds what is left of servers.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// A program that has the library in itself, in `dir`: with one heap, as servers of mounts have (decision 0673).
    pub fn in_process(program: &Path, dir: &Path) -> Command {
        let mut command = command(program, dir);
        command.env("MALLOC_ARENA_MAX", "1");
        command
    }

    /// libfuse's passthrough_ll, compiled once.
    pub fn passthrough(&self) -> Result<PathBuf, String> {
        let built = paths::tools().join("bin/passthrough_ll");
        if built.exists() {
            return Ok(built);
        }
        let dir = built.parent().unwrap_or(&built);
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let flags = run(command("pkg-config", Path::new("/")).args(["--cflags", "--libs", "fuse3"]))?;
        let part = built.with_extension("part");
        let mut cc = command("cc", Path::new("/"));
        cc.arg("-O2").arg(PASSTHROUGH).arg("-o").arg(&part);
        run(cc.args(flags.split_whitespace()))?;
        std::fs::rename(&part, &built).map_err(|e| format!("{}: {e}", built.display()))?;
        Ok(built)
    }
}

fn comparison() -> Result<PathBuf, String> {
    build::release_with("keepfs", "keepfs-comparison", "comparison")
}
