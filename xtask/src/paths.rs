//! Where things lie: the workspace, the logs of a test run, the installed suites.

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// `target/` of the workspace, whatever directory cargo builds into.
pub fn target() -> PathBuf {
    root().join("target")
}

/// The log of a stage.
pub fn log(stage: &str) -> PathBuf {
    target().join("xtask").join(format!("{stage}.log"))
}

/// Test suites that `cargo install` puts aside, kept between runs.
pub fn tools() -> PathBuf {
    target().join("tools")
}
