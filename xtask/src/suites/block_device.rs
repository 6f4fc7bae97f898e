//! The tests of block devices on a real one: a loop device, over a file that is theirs.

use std::fs::File;

use super::Bench;
use super::process::{command, run};
use crate::{install, paths};

/// Size of the device.
const BYTES: u64 = 64 << 20;

/// Makes the device, runs the tests, takes it away.
pub fn run_tests(bench: &Bench) -> Result<String, String> {
    install::mount()?;
    let file = bench.scratch.path().join("device");
    File::create(&file)
        .and_then(|made| made.set_len(BYTES))
        .map_err(|e| format!("{}: {e}", file.display()))?;
    let made = run(command("losetup", &paths::root()).args(["--find", "--show"]).arg(&file))?;
    let device = made.trim();
    let mut tests = command("cargo", &paths::root());
    tests.args(["test", "--package", "keepfs-media", "--test", "block_device"]);
    let tested = run(tests.env("KEEPFS_TEST_BLOCK_DEVICE", device));
    let gone = run(command("losetup", &paths::root()).args(["-d", device]));
    tested?;
    gone?;
    Ok(format!("block_device: used alone and whole, {} MiB", BYTES >> 20))
}
