//! Latency and throughput up to saturation: the OLTP mix arrives at a rate, whether or not what came before is done (WAFL 2017,
//! figures 1 and 2; BARS M-9).
//!
//! Operations arrive as a Poisson process does. An operation's latency runs from its arrival to its end, so what waits for
//! others counts; as in the paper a level is left out at rates beyond the one where it passed 30 ms. One thread does all,
//! checkpoints too, on a pool in memory: what is told apart is what the processor does.

use super::cost::{Level, median};
use super::load::{Kind, Load};
use crate::told::Told;
use keepfs_vfs::Errno;
use std::time::{Duration, Instant};

/// Rates, percent of what the first level does when nothing waits.
const LOADS: [u32; 8] = [10, 25, 50, 70, 80, 90, 100, 110];
/// Mean latency beyond which a level is not asked again, ms (as SPC-1 has it).
const LATENCY_MAX_MS: f64 = 30.0;
/// Operations that every level does before anything is measured.
const WARM: usize = 4000;

/// What a level did at a rate.
#[derive(Clone, Copy, Debug)]
struct Point {
    mean_us: f64,
    p99_us: f64,
    per_second: f64,
}

/// Every level of WAFL's figures at every rate, in turns, in so many runs; `time` each. At the end, what each level does when
/// saturated beside the first one in the same run.
pub fn tell(runs: usize, time: Duration, mut tell: impl FnMut(Told)) -> Result<(), Errno> {
    let levels = Level::of_wafl();
    let mut ratios = vec![Vec::new(); levels.len()];
    for number in 0..runs {
        let saturated = run(&levels, number, time, &mut tell)?;
        for (own, ratios) in saturated.iter().zip(&mut ratios) {
            ratios.push(own / saturated[0]);
        }
    }
    for (level, ratios) in levels.iter().zip(&mut ratios) {
        let (ratio, (low, high)) = median(ratios);
        let told = Told::new("OLTP, saturated, beside off", level.name, 100.0 * ratio, "%");
        tell(
            told.with("ratio", ratio)
                .with("ratio_low", low)
                .with("ratio_high", high),
        );
    }
    Ok(())
}

/// One run on new pools; returns what each level does when saturated. Each begins as often as any other.
fn run(levels: &[Level], number: usize, time: Duration, tell: &mut impl FnMut(Told)) -> Result<Vec<f64>, Errno> {
    let turns = || (0..levels.len()).map(|at| (at + number) % levels.len());
    let volumes = levels.iter().map(Level::volume).collect::<Result<Vec<_>, Errno>>()?;
    let loads = volumes.iter().map(|volume| Load::new(volume, Kind::Oltp));
    let mut loads = loads.collect::<Result<Vec<_>, Errno>>()?;
    for load in &mut loads {
        (0..WARM).try_for_each(|_| load.step())?;
    }
    let mut saturated = vec![0.0; levels.len()];
    for at in turns() {
        saturated[at] = closed(&mut loads[at], time)?;
        tell(Told::new("OLTP, saturated", levels[at].name, saturated[at], "op/s"));
    }
    let mut late = vec![false; levels.len()];
    for percent in LOADS {
        let rate = saturated[0] * f64::from(percent) / 100.0;
        for at in turns() {
            if late[at] {
                continue;
            }
            let point = open(&mut loads[at], rate, time, u64::from(percent))?;
            late[at] = point.mean_us > LATENCY_MAX_MS * 1000.0;
            let told = Told::new(format!("OLTP at {percent} %"), levels[at].name, point.mean_us, "us");
            tell(told.with("per_second", point.per_second).with("p99_us", point.p99_us));
        }
    }
    Ok(saturated)
}

/// Operations a second when each begins as soon as the one before is done.
fn closed(load: &mut Load<'_>, time: Duration) -> Result<f64, Errno> {
    let begun = Instant::now();
    let mut count = 0u32;
    while begun.elapsed() < time || count == 0 {
        load.step()?;
        count += 1;
    }
    Ok(f64::from(count) / begun.elapsed().as_secs_f64())
}

/// Operations that arrive at `rate` a second for `time`; what has not begun by twice that is given up.
fn open(load: &mut Load<'_>, rate: f64, time: Duration, seed: u64) -> Result<Point, Errno> {
    let mut arrivals = Arrivals::new(rate, seed);
    let begun = Instant::now();
    let mut latencies = Vec::new();
    loop {
        let arrival = arrivals.next();
        let over = begun.elapsed() > time * 2 && !latencies.is_empty();
        if arrival > time.as_secs_f64() || over {
            break;
        }
        while begun.elapsed().as_secs_f64() < arrival {
            core::hint::spin_loop();
        }
        load.step()?;
        latencies.push((begun.elapsed().as_secs_f64() - arrival) * 1e6);
    }
    Ok(point(&mut latencies, begun.elapsed().max(time)))
}

fn point(latencies: &mut [f64], took: Duration) -> Point {
    latencies.sort_unstable_by(f64::total_cmp);
    let count = latencies.len().max(1);
    Point {
        mean_us: latencies.iter().sum::<f64>() / count as f64,
        p99_us: latencies
            .get(count * 99 / 100)
            .or(latencies.last())
            .copied()
            .unwrap_or(0.0),
        per_second: latencies.len() as f64 / took.as_secs_f64(),
    }
}

/// Times of arrival, seconds from the beginning.
struct Arrivals {
    mean_s: f64,
    last_s: f64,
    random: u64,
}

impl Arrivals {
    fn new(rate: f64, seed: u64) -> Arrivals {
        Arrivals {
            mean_s: 1.0 / rate.max(1.0),
            last_s: 0.0,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
        }
    }

    fn next(&mut self) -> f64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let draw = (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64;
        self.last_s -= self.mean_s * (1.0 - draw).ln();
        self.last_s
    }
}

#[cfg(test)]
mod tests;
