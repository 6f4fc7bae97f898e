//! What protection costs: the same load at each level, in turns, by the processor time of the thread (BARS M-9, M-10, P-6).

use super::load::{Kind, Load};
use super::script;
use crate::told::Told;
use keepfs_digest::Equations;
use keepfs_fs::{Volume, VolumeOptions};
use keepfs_media::ram::RamDevice;
use keepfs_store::{FormatOptions, Guard, PROTECT_DEFAULT, Protection, StoreOptions};
use keepfs_vfs::Errno;
use std::sync::Arc;

/// Pages of a pool.
const PAGES: u64 = 64 << 10;

/// How much is protected.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// In tables.
    pub name: &'static str,
    guard: Guard,
    protect: Protection,
    audit: Equations,
    /// The operation log.
    oplog: bool,
    /// Audits compare copies besides.
    recon: bool,
}

/// One more protection a level; the first is what the others are compared with.
pub const LEVELS: [Level; 5] = [
    Level {
        name: "off",
        guard: Guard::Off,
        protect: Protection::Off,
        audit: Equations::NONE,
        oplog: true,
        recon: false,
    },
    Level {
        name: "sums",
        guard: Guard::Off,
        protect: PROTECT_DEFAULT,
        audit: Equations::NONE,
        oplog: true,
        recon: false,
    },
    Level {
        name: "sums + audits",
        guard: Guard::Off,
        protect: PROTECT_DEFAULT,
        audit: Equations::ALL,
        oplog: true,
        recon: false,
    },
    Level {
        name: "+ alias (default)",
        guard: Guard::Alias,
        protect: PROTECT_DEFAULT,
        audit: Equations::ALL,
        oplog: true,
        recon: false,
    },
    Level {
        name: "+ mprotect",
        guard: Guard::Mprotect,
        protect: PROTECT_DEFAULT,
        audit: Equations::ALL,
        oplog: true,
        recon: false,
    },
];

impl Level {
    /// The settings of Greenan & Miller's figure 7, and whether each is one of the slow ones. `NO_MPROT` has the codes
    /// follow each change, `ALL_PROT` runs their figure 3 as printed; audits, which the paper does not have, are off.
    pub fn of_greenan() -> [(Level, bool); 6] {
        let level = |name, guard, protect, oplog| Level {
            name,
            guard,
            protect,
            audit: Equations::NONE,
            oplog,
            recon: false,
        };
        use Protection::{Evenodd64, Evenodd256, Off};
        [
            (level("none", Guard::Off, Off, false), false),
            (level("log only", Guard::Off, Off, true), false),
            (level("NO_MPROT 64", Guard::Off, Evenodd64, true), false),
            (level("NO_MPROT 256", Guard::Off, Evenodd256, true), false),
            (level("ALL_PROT 64", Guard::Mprotect, Evenodd64, true), true),
            (level("ALL_PROT 256", Guard::Mprotect, Evenodd256, true), true),
        ]
    }

    /// The levels of WAFL's figures: [`LEVELS`], and sums and audits in the style of Recon.
    pub fn of_wafl() -> [Level; 6] {
        let [off, sums, audits, alias, mprotect] = LEVELS;
        let recon = Level {
            name: "sums + Recon",
            recon: true,
            ..audits
        };
        [
            off,
            sums,
            audits,
            alias.named("keepfs"),
            mprotect.named("keepfs, mprotect"),
            recon,
        ]
    }

    /// The same by another name.
    pub fn named(self, name: &'static str) -> Level {
        Level { name, ..self }
    }

    /// The same without audits, by another name.
    pub fn without_audits(self, name: &'static str) -> Level {
        Level {
            name,
            audit: Equations::NONE,
            ..self
        }
    }

    /// The default with other equations.
    pub fn audited(audit: Equations) -> Level {
        Level {
            name: "",
            audit,
            ..LEVELS[3]
        }
    }

    /// A new pool in memory with this level. Nothing runs beside the caller.
    pub fn volume(&self) -> Result<Arc<Volume>, Errno> {
        let device = Arc::new(RamDevice::new(PAGES));
        let format = FormatOptions {
            protect: self.protect,
            ..FormatOptions::default()
        };
        Volume::format(device.clone(), &format).map_err(Errno::from)?;
        let options = VolumeOptions {
            store: StoreOptions {
                guard: self.guard,
                oplog: self.oplog,
                recon: self.recon,
                ..script::options(self.audit).store
            },
            ..script::options(self.audit)
        };
        Volume::open(device, &options).map_err(Errno::from)
    }
}

/// What a level costs.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Processor time of a turn, nanoseconds, median.
    pub turn_ns: u64,
    /// How many times as much as the first level took in the same round: median, and the bounds between which it lies with
    /// a confidence of 95 %.
    pub ratio: f64,
    /// See `ratio`.
    pub bounds: (f64, f64),
}

/// [`compare`] at the levels of WAFL's figures: what each takes for the load's unit, and between which times of the first
/// level that lies with a confidence of 95 %.
pub fn tell(kind: Kind, rounds: usize, mut tell: impl FnMut(Told)) -> Result<(), Errno> {
    let levels = Level::of_wafl();
    let (unit, count) = kind.unit();
    for (level, cost) in levels.iter().zip(compare(kind, &levels, rounds)?) {
        let each = cost.turn_ns as f64 / count as f64;
        let told = Told::new(format!("{}, {unit}", kind.word()), level.name, each, "ns");
        let (low, high) = cost.bounds;
        tell(
            told.with("ratio", cost.ratio)
                .with("ratio_low", low)
                .with("ratio_high", high),
        );
    }
    Ok(())
}

/// Median, and between which values it lies with a confidence of 95 % whatever the values are distributed like: the order
/// statistics of ranks n/2 ± 0.98 √n.
pub fn median(values: &mut [f64]) -> (f64, (f64, f64)) {
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() as f64 / 2.0;
    let off = 0.98 * (values.len() as f64).sqrt();
    let at = |rank: f64| {
        let last = values.len().saturating_sub(1);
        values.get((rank.max(0.0) as usize).min(last)).copied().unwrap_or(0.0)
    };
    (at(half), (at((half - off).floor()), at((half + off).ceil())))
}

/// Does `rounds` turns of a load at each level, in turns, and tells what each costs.
pub fn compare(kind: Kind, levels: &[Level], rounds: usize) -> Result<Vec<Cost>, Errno> {
    let volumes: Result<Vec<Arc<Volume>>, Errno> = levels.iter().map(Level::volume).collect();
    let volumes = volumes?;
    let loads: Result<Vec<Load<'_>>, Errno> = volumes.iter().map(|volume| Load::new(volume, kind)).collect();
    let mut loads = loads?;
    let mut times = vec![Vec::with_capacity(rounds); levels.len()];
    // The first round fills caches and pages and does not count.
    for round in 0..=rounds {
        for at in 0..levels.len() {
            // Each level begins as often as any other.
            let level = (at + round) % levels.len();
            let load = &mut loads[level];
            load.prepare()?;
            let before = crate::cpu::thread_ns();
            load.turn()?;
            let spent = crate::cpu::thread_ns() - before;
            if round > 0 {
                times[level].push(spent);
            }
        }
    }
    Ok(times.iter().map(|own| cost(own, &times[0])).collect())
}

fn cost(own: &[u64], first: &[u64]) -> Cost {
    let mut turns: Vec<f64> = own.iter().map(|ns| *ns as f64).collect();
    let ratio = |(own, first): (&u64, &u64)| *own as f64 / (*first).max(1) as f64;
    let mut ratios: Vec<f64> = own.iter().zip(first).map(ratio).collect();
    let (ratio, bounds) = median(&mut ratios);
    Cost {
        turn_ns: median(&mut turns).0 as u64,
        ratio,
        bounds,
    }
}

#[cfg(test)]
mod tests;
