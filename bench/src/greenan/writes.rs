//! Figures 8 and 9: 16-byte writes to a protected region in the paper's four ways and in ours, in the 160,000 bytes and the
//! 200 MB that the paper has; and the parts of a metadata update, ns.

use keepfs_codes::Protection;
use keepfs_lab::audits::cost::{LEVELS, Level};
use keepfs_lab::cpu::thread_ns;
use keepfs_lab::million::{Failure, new_inode};
use keepfs_lab::told::Told;
use keepfs_store::Guard;
use keepfs_store::measure::{self, Way};
use keepfs_vfs::{Direct, FileKind, Ino, SetAttr, Vfs};
use std::time::Duration;

/// The paper's regions: name, bytes.
pub const REGIONS: [(&str, usize); 2] = [("160,000 bytes", 160_000), ("200 MB", 200 << 20)];

/// Ways: name, way, code.
const WAYS: [(&str, Way, Protection); 10] = [
    ("NOTHING", Way::Bare, Protection::Off),
    ("NPND 64", Way::Encode, Protection::Evenodd64),
    ("NPND 256", Way::Encode, Protection::Evenodd256),
    ("NO_PROT 64", Way::Check, Protection::Evenodd64),
    ("NO_PROT 256", Way::Check, Protection::Evenodd256),
    ("ALL 64", Way::Printed, Protection::Evenodd64),
    ("ALL 256", Way::Printed, Protection::Evenodd256),
    ("keepfs crc", Way::Rolling, Protection::Crc),
    ("keepfs pcrc", Way::Rolling, Protection::Pcrc),
    ("keepfs pq", Way::Rolling, Protection::Pq),
];

/// Each way in each region, about `time` each.
pub fn compare(regions: &[(&str, usize)], time: Duration, mut tell: impl FnMut(Told)) -> Result<(), Failure> {
    for (region, bytes) in regions {
        for (name, way, code) in WAYS {
            let ns = measure::writes(way, code, *bytes, time)?;
            tell(Told::new(format!("16 bytes in {region}"), name, ns, "ns"));
        }
    }
    Ok(())
}

/// Bytes of an update in the breakdown: a field of an inode.
const FIELD: usize = 8;

/// The parts of a put of 8 bytes by guard `alias`, each the least of `trials` batches; what of a transaction comes besides.
pub fn breakdown(trials: usize, mut tell: impl FnMut(Told)) -> Result<(), Failure> {
    let sum = measure::put(Protection::Crc, Guard::Alias, FIELD, trials)?;
    let both = measure::put(Protection::Pcrc, Guard::Alias, FIELD, trials)?;
    let (audited, unaudited) = (
        chmod(&LEVELS[3], trials)?,
        chmod(&LEVELS[3].without_audits("no audits"), trials)?,
    );
    let parts = [
        ("read old bytes", sum.read_ns),
        ("undo", sum.undo_ns),
        ("sum: delta", sum.delta_ns),
        ("sum: fold, lines written", sum.fold_ns),
        ("parity (pcrc)", both.fold_ns - sum.fold_ns),
        ("frame word", sum.word_ns),
        ("copy", sum.copy_ns),
        ("dirty", sum.dirty_ns),
        ("whole put, crc", sum.put_ns),
        ("whole put, pcrc", both.put_ns),
        ("digest: audits of a chmod", audited - unaudited),
        ("whole chmod, no audits", unaudited),
    ];
    for (part, ns) in parts {
        tell(Told::new("8-byte update", part, ns, "ns"));
    }
    Ok(())
}

/// Calls that are timed together.
const CALLS: usize = 500;

/// Processor time of a chmod of a file, ns: the least of as many batches as `trials` calls fill.
fn chmod(level: &Level, trials: usize) -> Result<f64, Failure> {
    let volume = level.volume()?;
    let file = volume.mknod(Ino::ROOT, b"file", &new_inode(FileKind::File))?.attr.ino;
    let mut least = f64::MAX;
    for batch in 0..(trials / 20).max(2) {
        let before = thread_ns();
        for call in 0..CALLS {
            let change = SetAttr {
                mode: Some(0o600 + (batch + call) as u32 % 8),
                ..SetAttr::default()
            };
            volume.setattr(file, &change)?;
        }
        least = least.min((thread_ns() - before) as f64 / CALLS as f64);
    }
    Ok(least)
}

#[cfg(test)]
mod tests;
