//! The injector: pools of all codes one after the other, faults of all classes in each, and two files of lines.

use super::Dice;
use super::fault::{Class, damage};
use super::lines::{Change, Served, Truth};
use super::mount::{self, Mount};
use super::rest;
use super::subject::{Subject, failed, legal};
use keepfs_codes::Protection;
use keepfs_format::PAGE;
use std::fmt::Write;
use std::ops::Range;

/// Codes that are tried; `off` tells nothing and is left out.
pub const CODES: [Protection; 5] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];
/// Faults after which a pool is made anew.
const LIFE: u64 = 500;

/// What was done and what was told.
#[derive(Default)]
pub struct Lines {
    /// [`Truth`], a line each.
    pub truth: String,
    /// [`super::lines::told`].
    pub told: String,
}

/// `count` faults, the same for the same seed but for what depends on the pools' own random numbers.
pub fn run(count: u64, seed: u64) -> Result<Lines, String> {
    let mut dice = Dice::new(seed);
    let mut lines = Lines::default();
    let life = LIFE.min(count / CODES.len() as u64).max(20);
    let mut number = 0;
    while number < count {
        for code in CODES {
            let all = number..count.min(number + life);
            let files = all.end - (all.end - all.start) / FILES_SHARE;
            number = lines.blocks(code, all.start..files, &mut dice)?;
            number = lines.files(code, number..all.end, &mut dice)?;
        }
    }
    Ok(lines)
}

/// Classes of faults in memory.
const MEMORY: &[Class] = &[
    Class::Flip,
    Class::TwoFlips,
    Class::Flips,
    Class::Stray,
    Class::Stray,
    Class::Large,
    Class::Header,
    Class::Copy,
    Class::Parity,
    Class::Sum,
    Class::Words,
    Class::UnderPut,
    Class::Wild,
];

/// Classes of faults at rest.
const REST: &[Class] = &[
    Class::RestFlip,
    Class::RestFew,
    Class::RestMany,
    Class::RestTorn,
    Class::RestCopy,
    Class::RestMedium,
    Class::RestBoth,
];

/// Classes that need files.
const FILES: &[Class] = &[Class::Door, Class::Door, Class::Data];
/// One in so many injections is into a pool with files.
const FILES_SHARE: u64 = 5;
/// One in so many of these plants a bug, if the build has any.
const PLANTED_SHARE: usize = 20;

impl Lines {
    /// Faults of metablocks, until the pool has had enough of them. Behind the last.
    fn blocks(&mut self, code: Protection, numbers: Range<u64>, dice: &mut Dice) -> Result<u64, String> {
        let mut subject = Subject::new(code, dice)?;
        let mut number = numbers.start;
        let mut is_right = true;
        while number < numbers.end && is_right && subject.is_well() {
            let class = if dice.once_in(5) { REST } else { MEMORY };
            let class = *dice.one_of(class);
            let done = inject(&mut subject, class, number, dice);
            let done = done.map_err(|e| format!("injection {number}, {class}, {code}: {e}"))?;
            if let Some((change, served)) = done {
                is_right = served != Served::Wrong;
                let truth = (code, class, change, served);
                self.add(number, truth, subject.heard(number));
                number += 1;
            }
        }
        Ok(number)
    }

    /// Faults of a pool with files. Behind the last.
    fn files(&mut self, code: Protection, numbers: Range<u64>, dice: &mut Dice) -> Result<u64, String> {
        let mut mount = Mount::new(code)?;
        for number in numbers.clone() {
            if cfg!(feature = "planted") && dice.once_in(PLANTED_SHARE) {
                let (told, served) = mount::planted(number, dice)?;
                self.add(number, (code, Class::Planted, Change::default(), served), told);
                continue;
            }
            let class = *dice.one_of(FILES);
            mount.heard(number);
            let (change, served) = mount.inject(class, dice)?;
            self.add(number, (code, class, change, served), mount.heard(number));
        }
        Ok(numbers.end)
    }

    /// What was done, and what the pool has told meanwhile.
    fn add(&mut self, number: u64, truth: (Protection, Class, Change, Served), told: Vec<String>) {
        let (code, class, change, served) = truth;
        let truth = Truth {
            number,
            code: code.to_string(),
            class,
            change,
            served,
        };
        // Writing to a string cannot fail.
        let _ = writeln!(self.truth, "{truth}");
        for line in told {
            let _ = writeln!(self.told, "{line}");
        }
    }
}

/// One fault: what it changed, and what a reader got behind it. `None`: nothing was changed.
fn inject(
    subject: &mut Subject,
    class: Class,
    number: u64,
    dice: &mut Dice,
) -> Result<Option<(Change, Served)>, String> {
    subject.age(dice)?;
    let at = dice.below(subject.blocks.len());
    if dice.once_in(2) {
        subject.put(at, 1 + dice.below(4), dice)?;
    }
    let place = subject.look(at)?;
    subject.heard(number);
    if REST.contains(&class) {
        return rest::inject(subject, class, at, dice);
    }
    let change = match class {
        Class::Parity | Class::Sum | Class::Words => {
            let changed = subject.regions.beside(class, place.frame, dice).map_err(failed)?;
            changed.then(Change::default)
        }
        Class::UnderPut | Class::Wild if !subject.blocks[at].is_ours() => None,
        Class::UnderPut => under_put(subject, at, place.frame, dice)?,
        Class::Wild => beside_puts(subject, at, place.frame, dice)?,
        _ => over(subject, class, at, place.frame, dice)?,
    };
    let Some(change) = change else { return Ok(None) };
    subject.find(at, place.frame, dice)?;
    Ok(Some((change, subject.served(at))))
}

/// What another metablock holds.
fn another(subject: &mut Subject, at: usize, dice: &mut Dice) -> Result<[u8; PAGE], String> {
    let other = (at + 1 + dice.below(subject.blocks.len() - 1)) % subject.blocks.len();
    subject.look(other)?;
    Ok(*subject.blocks[other].right)
}

/// Bytes of a frame that nobody is using.
fn over(subject: &mut Subject, class: Class, at: usize, frame: u32, dice: &mut Dice) -> Result<Option<Change>, String> {
    let other = another(subject, at, dice)?;
    let right = *subject.blocks[at].right;
    let mut bytes = right;
    damage(class, &mut bytes, &other, dice);
    subject.regions.change(frame, &right, &bytes).map_err(failed)?;
    Ok(Some(Change::between(&right, &bytes)).filter(|change| change.bits > 0))
}

/// Bytes that a transaction which is open then overwrites: the same, a part of them, or more.
fn under_put(subject: &mut Subject, at: usize, frame: u32, dice: &mut Dice) -> Result<Option<Change>, String> {
    let other = another(subject, at, dice)?;
    let first = legal(dice);
    let (from, bytes) = legal(dice);
    let stray = super::fault::noise(bytes.len(), &other, dice);
    let cut = if dice.once_in(2) { dice.below(bytes.len()) } else { 0 };
    let second = (from + cut, bytes[cut..].to_vec());
    let mut change = Change::default();
    subject.put_twice(at, &[first, second], |subject| {
        let old = subject.regions.frame(frame).map_err(failed)?;
        let mut new = old;
        new[from..from + stray.len()].copy_from_slice(&stray);
        subject.regions.change(frame, &old, &new).map_err(failed)?;
        change = Change::between(&old, &new);
        Ok(())
    })?;
    Ok(Some(change).filter(|change| change.bits > 0))
}

/// Bytes that a thread writes while this one writes legally to the same frame.
fn beside_puts(subject: &mut Subject, at: usize, frame: u32, dice: &mut Dice) -> Result<Option<Change>, String> {
    let other = another(subject, at, dice)?;
    let len = 1 + dice.below(64);
    let (from, stray) = (dice.below(PAGE - len + 1), super::fault::noise(len, &other, dice));
    let wait = dice.below(3000);
    let regions = super::fault::Regions::find(subject.code).map_err(failed)?;
    let change = std::thread::scope(|scope| {
        let wild = scope.spawn(move || -> std::io::Result<Change> {
            (0..wait).for_each(|_| core::hint::spin_loop());
            let old = regions.frame(frame)?;
            let mut new = old;
            new[from..from + len].copy_from_slice(&stray);
            regions.change(frame, &old, &new)?;
            Ok(Change::between(&old, &new))
        });
        let mut legal = Ok(());
        while !wild.is_finished() && legal.is_ok() {
            legal = subject.put(at, 2, dice);
        }
        // A metablock that was fenced meanwhile refuses the puts; that is told.
        wild.join().map_err(|_| "the thread died".to_owned())?.map_err(failed)
    })?;
    Ok(Some(change).filter(|change| change.bits > 0))
}
