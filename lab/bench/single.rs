//! One thread: create + 1 KiB + fsync, and stat.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Done;
use crate::random::Random;

/// Files that `stat` asks for.
const FILES: u64 = 10_000;

/// An operation is create, write 1 KiB, fsync, close, of a new file in one directory (BARS P-1).
pub fn create(dir: &Path, time: Duration) -> std::io::Result<Done> {
    let dir = dir.join("create");
    fs::create_dir_all(&dir)?;
    let mut done = Done::default();
    let start = Instant::now();
    while start.elapsed() < time {
        let mut file = File::create_new(dir.join(format!("{:08}", done.operations)))?;
        file.write_all(&[7; 1024])?;
        file.sync_all()?;
        done.operations += 1;
    }
    done.seconds = start.elapsed().as_secs_f64();
    done.fsyncs = done.operations;
    done.bytes = 1024 * done.operations;
    Ok(done)
}

/// Makes the files for [`stat`].
pub fn stat_prepare(dir: &Path) -> std::io::Result<Done> {
    for number in 0..FILES {
        let dir = dir.join(format!("stat/{:02}", number % 100));
        fs::create_dir_all(&dir)?;
        File::create(dir.join(format!("{number:08}")))?;
    }
    Ok(Done {
        operations: FILES,
        ..Done::default()
    })
}

/// An operation is the stat of one of 10,000 files in 100 directories, drawn at random.
pub fn stat(dir: &Path, time: Duration) -> std::io::Result<Done> {
    let mut random = Random(1);
    let mut done = Done::default();
    let start = Instant::now();
    while start.elapsed() < time {
        for _ in 0..64 {
            let number = random.below(FILES);
            fs::symlink_metadata(dir.join(format!("stat/{:02}/{number:08}", number % 100)))?;
        }
        done.operations += 64;
    }
    done.seconds = start.elapsed().as_secs_f64();
    Ok(done)
}
