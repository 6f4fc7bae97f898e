//! Measures the ways to a device, buffered and O_DIRECT, with the access patterns of a pool (decision 0751):
//! `cargo run --release -p keepfs-media --example ways -- PATH [ROUNDS]`. PATH is a file (made with 256 MiB) or a block device,
//! whose content is destroyed. Rounds of both ways alternate; the median of each pattern is printed.

use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_media::{Class, Device, DeviceError, PAGE, PageNo};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Pages of a file that is made.
const PAGES: u64 = 65_536;

/// One access pattern: its name, its unit, and how often it is done in a round.
type Pattern = (&'static str, u32, fn(&dyn Device, u32) -> Result<(), DeviceError>);

const PATTERNS: [Pattern; 7] = [
    ("fsync: 2 log pages and a flush", 50, fsync),
    ("fsync: 1 KiB file (1 data page, 2 log pages), flush", 50, small_file),
    ("checkpoint: 256 scattered pages and a flush", 2, checkpoint),
    ("data out: 16 x 256 KiB in a row and a flush", 2, stream_out),
    ("data in: 64 x 256 KiB in a row, cold", 1, stream_in),
    ("fetch: 256 scattered pages, cold", 1, fetch),
    ("fetch: the same pages again", 1, fetch),
];

/// Page `i` of a scattered sequence that never repeats within 65,536 steps.
fn scattered(i: u32, pages: u64) -> PageNo {
    PageNo(u64::from(i).wrapping_mul(40_503) % 65_536 % (pages - 1) + 1)
}

fn fsync(device: &dyn Device, i: u32) -> Result<(), DeviceError> {
    let at = 1 + u64::from(i) * 2 % 1024;
    device.write(PageNo(at), &[1; 2 * PAGE], Class::Plog)?;
    device.flush()
}

fn small_file(device: &dyn Device, i: u32) -> Result<(), DeviceError> {
    device.write(PageNo(2048 + u64::from(i)), &[2; PAGE], Class::Data)?;
    fsync(device, i)
}

fn checkpoint(device: &dyn Device, i: u32) -> Result<(), DeviceError> {
    for page in i * 256..(i + 1) * 256 {
        device.write(scattered(page, device.pages()), &[3; PAGE], Class::Metadata)?;
    }
    device.flush()
}

fn stream_out(device: &dyn Device, i: u32) -> Result<(), DeviceError> {
    let data = vec![4; 64 * PAGE];
    for part in 0..16 {
        let at = 8192 + (u64::from(i) * 16 + part) * 64;
        device.write(PageNo(at), &data, Class::Data)?;
    }
    device.flush()
}

fn stream_in(device: &dyn Device, _: u32) -> Result<(), DeviceError> {
    let mut data = vec![0; 64 * PAGE];
    (0..64).try_for_each(|part| device.read(PageNo(8192 + part * 64), &mut data))
}

fn fetch(device: &dyn Device, _: u32) -> Result<(), DeviceError> {
    let mut page = [0; PAGE];
    (0..256).try_for_each(|i| device.read(scattered(i * 7 + 3, device.pages()), &mut page))
}

/// Forgets what the kernel has cached of `path`; without it "cold" would say nothing.
fn forget_cached(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

fn round(
    path: &Path,
    device: &dyn Device,
    number: u32,
    times: &mut [Vec<Duration>],
) -> Result<(), Box<dyn std::error::Error>> {
    for ((name, count, run), times) in PATTERNS.iter().zip(times) {
        if name.ends_with("cold") {
            forget_cached(path)?;
        }
        let started = Instant::now();
        (0..*count).try_for_each(|i| run(device, number * count + i))?;
        times.push(started.elapsed() / *count);
    }
    Ok(())
}

fn measure(path: &Path, rounds: u32) -> Result<(), Box<dyn std::error::Error>> {
    if !path.exists() {
        drop(FileDevice::create(path, PAGES, FileOptions::default())?);
    }
    let ways = [false, true];
    let mut times = ways.map(|_| vec![Vec::new(); PATTERNS.len()]);
    for number in 0..rounds {
        for (direct, times) in ways.into_iter().zip(&mut times) {
            let device = FileDevice::open(path, OpenMode::ReadWrite, FileOptions { direct })?;
            round(path, &device, number, times)?;
        }
    }
    println!("{:>55} {:>12} {:>12}", "median of a step, µs", "buffered", "O_DIRECT");
    for (i, (name, ..)) in PATTERNS.iter().enumerate() {
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2].as_micros()
        };
        let [buffered, direct] = &mut times;
        println!(
            "{name:>55} {:>12} {:>12}",
            median(&mut buffered[i]),
            median(&mut direct[i])
        );
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let Some(path) = words.next() else {
        eprintln!("usage: ways PATH [ROUNDS]; PATH is overwritten");
        return ExitCode::from(2);
    };
    let rounds = words.next().and_then(|n| n.parse().ok()).unwrap_or(9);
    match measure(Path::new(&path), rounds) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
