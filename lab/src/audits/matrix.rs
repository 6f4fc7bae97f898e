//! Every planted logic bug against every equation: a bug counts as found if a transaction is rolled back for it, its caller
//! gets EIO, and the pool that is left is sound.

use super::script;
use keepfs_check::{Image, Options, walk};
use keepfs_codes::identity::Group;
use keepfs_digest::{Equation, Equations};
use keepfs_format::history::Event;
use keepfs_fs::Volume;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Device, PageNo};
use keepfs_store::planted::{Logic, plant_caller, plant_logic};
use keepfs_vfs::{Errno, Vfs};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pages of a pool.
const PAGES: u64 = 16 << 10;

/// What became of one planted bug.
pub struct Caught {
    /// The bug; `None`: nothing was planted.
    pub bug: Option<Logic>,
    /// Equations that did not balance.
    pub by: BTreeSet<Equation>,
    /// Steps that were answered with EIO.
    pub refused: Vec<&'static str>,
    /// What the first transaction that was rolled back told.
    pub told: Option<String>,
    /// Frames that did not have their sum, and what was done.
    pub damages: Vec<String>,
    /// What stands in the history.
    pub events: Vec<Event>,
    /// Findings of a walk over the pool that is left.
    pub findings: Vec<String>,
}

impl Caught {
    /// The one equation that found the bug, if there is exactly one.
    pub fn alone(&self) -> Option<Equation> {
        match self.by.len() {
            1 => self.by.first().copied(),
            _ => None,
        }
    }

    /// Whether it was found as it should be: by its equation and nothing else; or, where a source of the auditor or the
    /// door was taken away, by some equations, or by the sum alone. The pool that is left is sound.
    pub fn is_right(&self) -> bool {
        let Some(bug) = self.bug else {
            return self.by.is_empty()
                && self.refused.is_empty()
                && self.damages.is_empty()
                && self.findings.is_empty();
        };
        let (equations, sums) = (
            !self.by.is_empty() && !self.refused.is_empty(),
            !self.damages.is_empty(),
        );
        let found = match bug {
            Logic::PastTheDoor => sums && self.by.is_empty(),
            Logic::BitsUnseen | Logic::CountersUnseen | Logic::LeavesUnseen => equations && !sums,
            bug => {
                let its = |e: Equation| bug.word().starts_with(&format!("E-{}:", e as u8));
                equations && !sums && self.alone().is_some_and(its)
            }
        };
        found && self.findings.is_empty()
    }
}

struct Seen<'a>(&'a dyn Device);

impl Image for Seen<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// What became of a call of the door by the wrong group (S-15.5).
pub struct Foreign {
    /// What was told of the call.
    pub told: Vec<String>,
    /// Frames that did not have their sum, and what was done.
    pub damages: Vec<String>,
    /// Steps that were answered with EIO.
    pub refused: Vec<&'static str>,
    /// Findings of a walk over the pool that is left.
    pub findings: Vec<String>,
}

/// Has one change made by `caller` instead of its own group (`None`: by its own), and goes through all steps. Errors: the pool
/// could not be made, or nobody made a change.
pub fn try_caller(caller: Option<Group>) -> Result<Foreign, String> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(PAGES));
    script::format(device.clone()).map_err(|e| e.to_string())?;
    let volume = Volume::open(device.clone(), &script::options(Equations::ALL)).map_err(|e| e.to_string())?;
    script::prepare(&volume).map_err(|e| e.to_string())?;
    plant_caller(caller);
    let refused = script::STEPS
        .iter()
        .filter(|(_, step)| step(&volume) == Err(Errno::EIO));
    let refused = refused.map(|(name, _)| *name).collect();
    if plant_caller(None) {
        return Err("no change was made".into());
    }
    let closed = volume.unmount();
    let told = volume.store().history().events(0).into_iter();
    let told = told.map(|event| event.text).collect();
    let damages = volume.store().damages();
    let damages: Vec<String> = damages.iter().map(|damage| format!("{damage:?}")).collect();
    drop(volume);
    closed.map_err(|e| format!("unmount: {e}, damages: {damages:?}"))?;
    let report = walk(&Seen(&*device), &Options { data: true, limit: 20 });
    Ok(Foreign {
        told,
        damages,
        refused,
        findings: report.findings.iter().map(ToString::to_string).collect(),
    })
}

/// Plants a bug and goes through all steps. Errors: the pool could not be made.
pub fn try_bug(bug: Option<Logic>, equations: Equations) -> Result<Caught, String> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(PAGES));
    script::format(device.clone()).map_err(|e| e.to_string())?;
    let options = script::options(equations);
    let volume = Volume::open(device.clone(), &options).map_err(|e| e.to_string())?;
    let unbalanced = |e: Errno| format!("{e}, unbalanced: {:?}", volume.store().unbalanced());
    script::prepare(&volume).map_err(unbalanced)?;
    volume.unmount().map_err(unbalanced)?;
    drop(volume);
    let volume = Volume::open(device.clone(), &options).map_err(|e| e.to_string())?;
    plant_logic(bug);
    let refused: Vec<&str> = script::STEPS
        .iter()
        .filter(|(_, step)| step(&volume) == Err(Errno::EIO))
        .map(|(name, _)| *name)
        .collect();
    plant_logic(None);
    let unbalanced = volume.store().unbalanced();
    let by = unbalanced
        .iter()
        .flat_map(|u| u.imbalances())
        .map(|i| i.equation)
        .collect();
    let told = unbalanced.first().map(ToString::to_string);
    let events = volume.store().history().events(0);
    volume.unmount().map_err(|e| e.to_string())?;
    let damages = volume.store().damages();
    let damages = damages.iter().map(|damage| format!("{damage:?}")).collect();
    drop(volume);
    let report = walk(&Seen(&*device), &Options { data: true, limit: 20 });
    Ok(Caught {
        bug,
        by,
        refused,
        told,
        damages,
        events,
        findings: report.findings.iter().map(ToString::to_string).collect(),
    })
}
