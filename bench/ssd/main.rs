//! A disk with the latency of an SSD, in memory: `ssd DIR MIB` mounts DIR with one file, `device`, until DIR is unmounted.
//!
//! A loop device with direct I/O on that file is a block device that every file system can be given (decision 0421): reads,
//! writes and flushes of the loop device become READ, WRITE and FSYNC here, and are answered when the model says so. The
//! file `counters` tells how many there were, and how long a flush and a byte in order take.

use keepfs_fuse::{CacheMode, MountConfig, TransportKind, mount};
use std::num::NonZeroU64;
use std::process::ExitCode;
use std::sync::Arc;

mod disk;
mod model;

fn serve(dir: &str, mib: u64) -> Result<(), Box<dyn std::error::Error>> {
    // Inherited by all threads: waits are of 20 us and more.
    rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?;
    let config = MountConfig {
        mountpoint: dir.into(),
        fsname: "ssd".into(),
        subtype: "ssd".into(),
        cache: CacheMode::Direct,
        transport: TransportKind::Dev,
        // Every request waits, so none may stop a reader.
        offload_bytes: 1,
        ..MountConfig::default()
    };
    let session = mount(Arc::new(disk::Disk::new(mib << 20, model::RECONFS)?), &config)?;
    println!("ready");
    session.run()?;
    Ok(())
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parsed = match args.as_slice() {
        [dir, mib] => mib.parse().ok().map(|mib| (dir, mib)),
        _ => None,
    };
    let Some((dir, mib)) = parsed else {
        eprintln!("usage: ssd DIR MIB");
        return ExitCode::from(2);
    };
    match serve(dir, mib) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
