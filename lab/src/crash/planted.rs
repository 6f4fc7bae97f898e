//! Bugs planted on purpose, to prove that the net still catches them (docs/PROTOCOLS.md section 10). Only in a build with the
//! feature `planted`; crates/vault/src/planted.rs says what each one does.

use super::campaign::{Campaign, Limits};
use super::seed::Seed;
use super::setting::Setting;
use super::sweep::Depth;
use super::workload::directed;
use super::{killed, schedule};
use crate::scribble::{self, Fate};
use keepfs_store::planted::{Bug, plant};
use keepfs_testkit::ops::Rng;
use std::time::{Duration, Instant};

/// Bits that are flipped before a bug of verification counts as not found.
const FLIPS: u64 = 400;

/// What became of one planted bug.
pub struct Caught {
    /// The bug.
    pub bug: Bug,
    /// Which check found it, in which workload; `None`: nothing did.
    pub by: Option<(String, String)>,
    /// Images judged until then.
    pub images: u64,
    /// Distinct states until then.
    pub states: u64,
    /// Time until then.
    pub time: Duration,
}

/// Bugs of verification show when bits flip (S-15.19).
fn by_flips(bug: Bug) -> Option<(String, String)> {
    if ![Bug::VerifyOff, Bug::VerifyThenRead, Bug::VerifyAfter].contains(&bug) {
        return None;
    }
    if bug == Bug::VerifyThenRead {
        let fate = scribble::flip_between();
        return matches!(fate, Ok(Fate::Escaped))
            .then(|| ("flipped bit".to_owned(), "it reached the device".to_owned()));
    }
    let escaped = (0..FLIPS).find(|i| matches!(scribble::flip(i * 7, *i as usize * 331), Ok(Fate::Escaped)))?;
    Some(("flipped bits".to_owned(), format!("flip {escaped} reached the device")))
}

/// What recovery does first shows in the order of its writes and flushes.
fn by_order(bug: Bug) -> Option<(String, String)> {
    if bug != Bug::NoFlushBeforeRecovery {
        return None;
    }
    // With a log, and behind a superblock that a killed server had not flushed.
    let what = [true, false].map(|has_log| killed::flushes_first(&Setting::default(), has_log).err());
    let what = what.into_iter().collect::<Option<Vec<String>>>()?.join("; ");
    Some(("order of recovery".to_owned(), what))
}

/// What is rare is looked for where it was found.
fn by_seed(bug: Bug) -> Option<(String, String)> {
    let text = match bug {
        Bug::LeadGivenEarly => include_str!("../../bugs/sync-beside-a-checkpoint-2.txt"),
        Bug::CarriedBehindNothing => include_str!("../../bugs/carried-behind-a-full-log.txt"),
        Bug::OwedInSameLog => include_str!("../../bugs/log-of-a-resume.txt"),
        _ => return None,
    };
    let seed = Seed::parse("bug", text).ok()?;
    let found = Campaign::new(1, Depth::USUAL, ONE).replay(&seed, Depth::USUAL)?;
    Some((found.check.to_owned(), format!("a seed of lab/bugs: {}", found.what)))
}

/// A campaign that ends with its first violation.
const ONE: Limits = Limits {
    time: None,
    goal: None,
    violations: 1,
    threads: 1,
    only: "",
    blind: false,
};

/// Workloads in which a missing rule shows, tried before a campaign.
const TRIED: u64 = 40;

/// What needs a sequence of its own is looked for in workloads made for it.
fn by_sequence(bug: Bug) -> Option<(String, String)> {
    // Of what was refused a server must have shown something, and died.
    let shown = if bug == Bug::RefusedBelieved { 1 } else { 0 };
    let depth = Depth {
        history: 600,
        again: 0,
        shown,
        ..Depth::USUAL
    };
    let campaign = Campaign::new(1, depth, ONE);
    (0..TRIED).find_map(|number| {
        let (name, setting, steps) = directed::against(bug, &mut Rng::new(number))?;
        let seed = Seed {
            number,
            name: name.into(),
            setting,
            steps,
        };
        let found = campaign.replay(&seed, depth)?;
        Some((
            found.check.to_owned(),
            format!("{name}, the {number}th: {}", found.what),
        ))
    })
}

/// Plants one bug and looks for it: first by schedules of transactions and in what was made for it, then by a campaign most of
/// whose workloads are swept deeply.
pub fn hunt(bug: Bug, seed: u64, limits: Limits) -> Caught {
    let campaign = Campaign::new(seed, Depth::USUAL, limits).deep(seed);
    planted(bug, &campaign, || {
        by_schedule(seed)
            .or_else(|| by_flips(bug))
            .or_else(|| by_order(bug))
            .or_else(|| by_sequence(bug))
            .or_else(|| by_seed(bug))
            .or_else(|| by_campaign(bug, &campaign))
    })
}

/// The same by somebody who does not know which bug it is: by what the stage `crash` does, without the workloads and seeds that
/// were made for one danger.
pub fn hunt_blind(bug: Bug, seed: u64, limits: Limits) -> Caught {
    let campaign = Campaign::new(seed, Depth::USUAL, limits);
    planted(bug, &campaign, || {
        by_schedule(seed).or_else(|| by_campaign(bug, &campaign))
    })
}

/// What `look` finds while the bug is planted.
fn planted(bug: Bug, campaign: &Campaign, look: impl FnOnce() -> Option<(String, String)>) -> Caught {
    let begun = Instant::now();
    plant(Some(bug));
    let by = look();
    plant(None);
    let tally = campaign.tally();
    Caught {
        bug,
        by,
        images: tally.images,
        states: tally.states,
        time: begun.elapsed(),
    }
}

/// Schedules of transactions.
fn by_schedule(seed: u64) -> Option<(String, String)> {
    let failed = schedule::campaign(seed, 300, 1).err()?;
    Some(("schedule".to_owned(), failed))
}

/// Workloads by number, until one shows it.
fn by_campaign(bug: Bug, campaign: &Campaign) -> Option<(String, String)> {
    let found = campaign.run(&|_, _| ()).into_iter().next();
    let by = found.map(|v| (v.check.to_owned(), format!("{}: {}", v.seed.name, v.what)));
    let idles = || ("stops".to_owned(), "too many ended by patience".to_owned());
    // Of the others it says that the machine is busy.
    by.or_else(|| (bug == Bug::SettingsWait && campaign.idles()).then(idles))
}
