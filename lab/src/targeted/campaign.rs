//! The campaign: all looks of a script, a stray at one of them, and the mutants that do not compare.

use super::{Judge, Subject, open, sound, tree_of};
use crate::inject::Dice;
use crate::inject::fault::Regions;
use keepfs_codes::Protection;
use keepfs_fs::Volume;
use keepfs_store::planted::{Look, Place, Use, plant_blind, plant_use, set_look};
use keepfs_testkit::ops::Session;
use keepfs_vfs::Vfs;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

const PAGE: usize = 4096;
/// Bytes of a line (S-15.20).
const LINE: usize = 256;
/// Longest stray, which pcrc and pq are made for (S-15.6).
const BURST: usize = 64;
/// Looks of a run that never ends: a mutant that walks in circles.
const ENDLESS: u64 = 3_000_000;
/// Codes by turns.
pub const CODES: [Protection; 5] = [
    Protection::Pcrc,
    Protection::Pq,
    Protection::Crc,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

/// A look of the script.
#[derive(Clone, Copy, Debug)]
pub struct Aim {
    /// In this step.
    pub step: usize,
    /// Which of its looks, from 0.
    pub look: usize,
    /// From where.
    pub place: Place,
    /// A planted bug uses what is read without comparing it.
    pub is_blind: bool,
}

/// The function in which a place stands, by its source; empty if that is not there.
pub fn function(place: Place) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = std::fs::read_to_string(root.join(place.file())).unwrap_or_default();
    let above: Vec<&str> = text.lines().take(place.line() as usize).collect();
    let name = above.iter().rev().find_map(|line| {
        let (_, name) = line.split_once("fn ")?;
        name.split(['(', '<']).next()
    });
    name.unwrap_or_default().to_owned()
}

/// A place as people read it.
pub fn named(place: Place) -> String {
    let file = place.file();
    let file = file.split_once("crates/").map_or(file, |(_, file)| file);
    format!("{file}:{}:{}", place.line(), place.column())
}

/// What a run came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// All was right, and the stray was told.
    Told,
    /// All was right, and nothing was told.
    Untold,
    /// It was beyond what can be mended: EIO, and told.
    Refused,
    /// There was no such look.
    Missed,
}

/// What was written, where.
#[derive(Clone, Debug)]
struct Struck {
    place: Place,
    text: String,
}

/// What the hook sees.
#[derive(Default)]
struct State {
    step: usize,
    looks: Vec<Vec<(Place, bool)>>,
    total: u64,
    here: usize,
    aim: Option<Aim>,
    dice: Option<Dice>,
    regions: Option<Regions>,
    struck: Option<Struck>,
}

impl State {
    fn look(&mut self, look: Look) {
        self.total += 1;
        assert!(self.total < ENDLESS || std::thread::panicking(), "the run does not end");
        let number = self.here;
        self.here += 1;
        if let Some(looks) = self.looks.get_mut(self.step) {
            looks.push((look.place, look.is_blind));
        }
        if self.aim.is_some_and(|aim| aim.step == self.step && aim.look == number) && self.struck.is_none() {
            self.strike(look);
        }
    }

    /// 1 to 64 bytes, a bit or a word, in the line that is read next.
    fn strike(&mut self, look: Look) {
        let (Some(dice), Some(regions)) = (&mut self.dice, &self.regions) else {
            return;
        };
        let line = look.line.unwrap_or_else(|| dice.below(PAGE / LINE));
        let (len, kind) = match dice.below(4) {
            0 => (1, "a bit"),
            1 => (8, "a word"),
            _ => (1 + dice.below(BURST), "bytes"),
        };
        let at = line * LINE
            + match kind {
                "a word" => dice.below(LINE / 8) * 8,
                _ => dice.below(LINE - len + 1),
            };
        let before = regions.frame(look.frame).expect("a frame is read");
        let old = &before[at..at + len];
        let mut new = match kind {
            "a bit" => vec![old[0] ^ (1 << dice.below(8))],
            _ => dice.bytes(len),
        };
        if new == old {
            new[0] ^= 1;
        }
        regions.write(look.frame, at, &new).expect("a frame is written");
        self.struck = Some(Struck {
            place: look.place,
            text: format!(
                "{kind}, {len} at {at} of frame {}: {old:02x?} to {new:02x?}",
                look.frame
            ),
        });
    }
}

/// Looks of this thread, while it lives.
struct Watch(Rc<RefCell<State>>);

impl Watch {
    fn new(state: State) -> Watch {
        let state = Rc::new(RefCell::new(state));
        let hooked = state.clone();
        set_look(Some(Box::new(move |look| hooked.borrow_mut().look(look))));
        Watch(state)
    }

    fn step(&self, number: usize) {
        let mut state = self.0.borrow_mut();
        state.step = number;
        state.here = 0;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        set_look(None);
    }
}

impl Subject {
    /// All looks of the script, in their order. Errors: it does not run.
    pub fn looks(&self) -> Result<Vec<Aim>, String> {
        let (_device, volume) = self.mount()?;
        let watch = Watch::new(State {
            looks: vec![Vec::new(); self.script.len()],
            ..State::default()
        });
        self.run(&volume, &watch, &mut Judge::new(self, false))?;
        let looks = core::mem::take(&mut watch.0.borrow_mut().looks);
        let of_step = |(step, places): (usize, Vec<(Place, bool)>)| {
            let aim = move |(look, (place, is_blind))| Aim {
                step,
                look,
                place,
                is_blind,
            };
            places.into_iter().enumerate().map(aim)
        };
        Ok(looks.into_iter().enumerate().flat_map(of_step).collect())
    }

    fn run(&self, volume: &Volume, watch: &Watch, judge: &mut Judge<'_>) -> Result<(), String> {
        let before = last_event(volume);
        let mut session = Session::new(volume);
        for (number, step) in self.script.iter().enumerate() {
            watch.step(number);
            let is = step.run(volume, &mut session);
            judge.judge(number, &is, last_event(volume) > before)?;
        }
        watch.step(usize::MAX);
        Ok(())
    }

    /// A stray at one look, judged. Errors: a promise is broken, in words.
    pub fn strike(&self, aim: Aim, seed: u64) -> Result<Fate, String> {
        let (device, volume) = self.mount()?;
        let before = last_event(&volume);
        let watch = Watch::new(State {
            aim: Some(aim),
            dice: Some(Dice::new(seed)),
            regions: Some(Regions::find(self.code).map_err(|e| format!("the memory is not found: {e}"))?),
            ..State::default()
        });
        // Of the others a stray of 64 bytes is beyond the distance.
        let lenient = !matches!(self.code, Protection::Pcrc | Protection::Pq);
        let mut judge = Judge::new(self, lenient);
        let done = self
            .run(&volume, &watch, &mut judge)
            .and_then(|()| self.end(&volume, lenient));
        let struck = watch.0.borrow_mut().struck.take();
        let told = last_event(&volume) > before;
        let fault = volume.store().fault();
        let described = |why: String| {
            let struck = struck.as_ref().map_or("nothing".into(), |struck| {
                format!("{}; looked at from {}", struck.text, named(struck.place))
            });
            let step = &self.script[aim.step];
            let events = volume.store().history().events(before);
            let events: Vec<&str> = events.iter().map(|event| event.text.as_str()).collect();
            format!(
                "{} step {} ({step}) look {} seed {seed}: {why}\n  struck: {struck}\n  told: {events:?}",
                self.code, aim.step, aim.look
            )
        };
        done.map_err(described)?;
        let refused = !judge.failed.is_empty() || fault.is_some();
        match volume.unmount() {
            Err(errno) if fault.is_none() => return Err(described(format!("unmount: {errno}"))),
            _ => {}
        }
        let after = || {
            sound(&device)?;
            let again = open(device.clone(), self.guard)?;
            match refused {
                true => Ok(()),
                false => judge.tree(&tree_of(&*again)?),
            }
        };
        let description = described(String::new());
        drop(volume);
        after().map_err(|why: String| format!("{description}{why}"))?;
        Ok(match struck {
            None => Fate::Missed,
            Some(_) if refused => Fate::Refused,
            Some(_) if told => Fate::Told,
            Some(_) => Fate::Untold,
        })
    }

    /// All frames are verified, all is made durable.
    fn end(&self, volume: &Volume, lenient: bool) -> Result<(), String> {
        let store = volume.store();
        for frame in store.frames_by_age() {
            if let Err(error) = store.sweep_frame(frame)
                && !lenient
            {
                return Err(format!("frame {frame}: {error}"));
            }
        }
        match (store.fault(), volume.syncfs()) {
            (None, Ok(())) => Ok(()),
            _ if lenient => Ok(()),
            (fault, synced) => Err(format!("fault {fault:?}, sync {synced:?}")),
        }
    }
}

fn last_event(volume: &Volume) -> u64 {
    let events = volume.store().history().events(0);
    events.last().map_or(0, |event| event.number)
}

/// [`Subject::strike`], where a panic is a broken promise too.
pub fn try_strike(subject: &Subject, aim: Aim, seed: u64) -> Result<Fate, String> {
    let caught = catch_unwind(AssertUnwindSafe(|| subject.strike(aim, seed)));
    set_look(None);
    caught.unwrap_or_else(|_| Err(format!("panic at step {} look {} seed {seed}", aim.step, aim.look)))
}

/// What strays came to, by the place that looked.
#[derive(Default, Debug)]
pub struct Tally {
    /// Strays.
    pub strays: u64,
    /// Fates by code.
    pub fates: BTreeMap<String, [u64; 4]>,
    /// Places whose strays nobody told.
    pub untold: BTreeMap<String, u64>,
    /// Broken promises.
    pub violations: Vec<String>,
}

/// Strays at `count` looks of each subject, or at all of them if there are fewer than a share.
pub fn campaign(subjects: &[(Subject, Vec<Aim>)], count: u64, seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut dice = Dice::new(seed);
    for n in 0..count {
        let (subject, aims) = &subjects[n as usize % subjects.len()];
        // The n-th of them first, then whatever comes.
        let turn = n as usize / subjects.len();
        let all = count as usize / subjects.len() >= aims.len();
        let aim = if all && turn < aims.len() {
            aims[turn]
        } else {
            *dice.one_of(aims)
        };
        tally.strays += 1;
        match try_strike(subject, aim, seed.wrapping_mul(1_000_003) + n) {
            Ok(fate) => {
                let fates = tally.fates.entry(subject.code.to_string()).or_default();
                fates[fate.clone() as usize] += 1;
                if fate == Fate::Untold {
                    *tally.untold.entry(named(aim.place)).or_default() += 1;
                }
            }
            Err(why) => tally.violations.push(why),
        }
    }
    tally
}

/// Bugs that are planted by name and that strays at looks show; the others have tests of their own (decision 0807).
pub const USES: [Use; 6] = [
    Use::VerifyThenLoad,
    Use::HeaderUnverified,
    Use::ShareUnverified,
    Use::AuditUnverified,
    Use::OldUnverified,
    Use::BitFromAtomic,
];

/// How many strays it took until a bug was noticed that is planted by name; `None`: none of them was. Errors: it does not even
/// run, or looks at nothing.
pub fn by_name(subject: &Subject, bug: Use, tries: u64) -> Result<Option<(u64, String)>, String> {
    plant_use(Some(bug));
    let aims = subject.looks();
    let blind: Result<Vec<Aim>, String> = aims.map(|aims| aims.into_iter().filter(|aim| aim.is_blind).collect());
    let noticed = blind.and_then(|aims| match aims.is_empty() {
        true => Err(format!("{} is planted, and nothing is looked at", bug.word())),
        false => Ok(first_noticed(subject, &aims, tries)),
    });
    plant_use(None);
    noticed
}

fn first_noticed(subject: &Subject, aims: &[Aim], tries: u64) -> Option<(u64, String)> {
    let mut dice = Dice::new(17);
    (1..=tries).find_map(|n| {
        let aim = *dice.one_of(aims);
        try_strike(subject, aim, n).err().map(|why| (n, why))
    })
}

/// How many strays it took until a mutant was noticed that does not compare at this place; `None`: none of them was.
pub fn mutant(subject: &Subject, aims: &[Aim], place: Place, tries: u64) -> Option<(u64, String)> {
    let of_place: Vec<Aim> = aims.iter().copied().filter(|aim| aim.place == place).collect();
    plant_blind(Some(place));
    let noticed = first_noticed(subject, &of_place, tries);
    plant_blind(None);
    noticed
}
