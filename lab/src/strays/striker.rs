//! Who writes: a thread that hits a server's memory so many times a second, and kills the server between two blows.

use super::Setting;
use super::memory::{Memory, PAGE, Region};
use super::product::Product;
use super::work::second;
use crate::inject::Dice;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a server may take to serve behind another.
const TAKEOVER_MAX: Duration = Duration::from_secs(40);

/// One stray.
#[derive(Clone, Debug)]
pub struct Stray {
    /// Milliseconds since the first.
    pub ms: u64,
    /// Seconds since 1970.
    pub second: i64,
    /// Whose memory ([`Memory::number`]).
    pub memory: u64,
    /// Where.
    pub region: Region,
    /// The first byte in it.
    pub at: u64,
    /// What stood there.
    pub before: Vec<u8>,
    /// What stands there now.
    pub after: Vec<u8>,
    /// Of which metablock its frame was ([`Memory::identity`]).
    pub identity: u64,
}

impl Stray {
    /// Bytes that are others than before.
    pub fn changed(&self) -> usize {
        self.before
            .iter()
            .zip(&self.after)
            .filter(|(old, new)| old != new)
            .count()
    }

    /// A line of the log.
    pub fn line(&self) -> String {
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (name, at) = (self.region.name(), self.at);
        format!(
            "{} ms {name} {at} {} -> {}",
            self.ms,
            hex(&self.before),
            hex(&self.after)
        )
    }
}

/// What came of it.
#[derive(Default)]
pub struct Struck {
    /// All strays, in order.
    pub strays: Vec<Stray>,
    /// Servers killed by it.
    pub kills: usize,
    /// Servers that ended by themselves.
    pub ended: usize,
    /// What became of those in frames, by the words of [`super::judge::Fate`].
    pub fates: BTreeMap<&'static str, usize>,
    /// The memory hit last.
    pub memory: Option<Memory>,
}

/// The bytes of one stray over `page` at `at`.
fn bytes(dice: &mut Dice, old: &[u8], near: Option<usize>) -> Vec<u8> {
    let flip = |dice: &mut Dice, old: &[u8]| {
        let mut new = old[..1].to_vec();
        new[0] ^= 1 << dice.below(8);
        new
    };
    let longest = near.unwrap_or(256).min(old.len());
    let new = match dice.below(6) {
        0 => flip(dice, old),
        1 if longest >= 8 => dice.bytes(8),
        2 => vec![*dice.one_of(&[0, 0xff, 0x5a]); longest.min(64)],
        3 => dice.bytes(longest),
        _ => {
            let len = 1 + dice.below(longest.min(64));
            dice.bytes(len)
        }
    };
    match new[..] == old[..new.len()] {
        true => flip(dice, old),
        false => new,
    }
}

/// Hits until `strays` were written, at `setting.rate` a second. `done` is set when there will be no more.
pub fn strike(setting: &Setting, product: &Product, point: &Path, done: &AtomicBool) -> Result<Struck, String> {
    let struck = blows(setting, product, point);
    done.store(true, Ordering::Release);
    struck
}

fn blows(setting: &Setting, product: &Product, point: &Path) -> Result<Struck, String> {
    let mut dice = Dice::new(setting.seed ^ 0x57a7);
    let deaths: BTreeSet<usize> = match setting.deaths {
        0 => BTreeSet::new(),
        n => (0..n)
            .map(|_| setting.strays / 8 + dice.below(setting.strays * 3 / 4 + 1))
            .collect(),
    };
    let mut struck = Struck::default();
    let mut hit = BTreeSet::new();
    let mut memory = next(product, point, None)?;
    let begin = Instant::now();
    for n in 0..setting.strays {
        let due = begin + Duration::from_secs_f64(n as f64 / setting.rate as f64);
        std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        if deaths.contains(&n) && is_alive(memory.server) {
            let server = Pid::from_raw(memory.server).ok_or("no process")?;
            kill_process(server, Signal::KILL).map_err(|e| format!("server {server:?}: {e}"))?;
            struck.kills += 1;
            // Some strays meet the memory that the next server looks at.
            for _ in 0..dice.below(4) {
                let stray = one(setting, &memory, &mut hit, &mut dice, begin, None);
                struck.strays.extend(stray);
            }
            memory = next(product, point, Some(&memory))?;
            hit.clear();
        } else if !is_alive(memory.server) {
            struck.ended += 1;
            memory = next(product, point, Some(&memory))?;
            hit.clear();
        }
        let first = struck.strays.last();
        let first = first.filter(|last| setting.pairs && n % 2 == 1 && last.memory == memory.number());
        let stray = one(setting, &memory, &mut hit, &mut dice, begin, first);
        struck.strays.extend(stray);
    }
    struck.memory = Some(memory);
    Ok(struck)
}

/// One stray anywhere, as far as any code's distance. Whether there was a place for it.
pub fn anywhere(memory: &Memory, dice: &mut Dice) -> bool {
    let at = region(dice).and_then(|region| Some((region, memory.pick(region, dice)?)));
    let stray = at.and_then(|(region, at)| {
        let mut before = vec![0; (PAGE - at as usize % PAGE).min(256)];
        memory.read(region, at, &mut before).ok()?;
        memory.write(region, at, &bytes(dice, &before, None)).ok()
    });
    stray.is_some()
}

/// A region, each as often as [`Region::ALL`] says.
fn region(dice: &mut Dice) -> Option<Region> {
    let mut part = dice.below(100);
    let row = Region::ALL.iter().find(|row| {
        let is_here = part < row.2;
        part -= if is_here { 0 } else { row.2 };
        is_here
    });
    row.map(|row| row.0)
}

/// One that lies within the code's distance if the setting says so: few bytes of one frame that was not hit yet.
/// `last`: the first of a pair, whose frame is hit again.
fn one(
    setting: &Setting,
    memory: &Memory,
    hit: &mut BTreeSet<u64>,
    dice: &mut Dice,
    begin: Instant,
    last: Option<&Stray>,
) -> Option<Stray> {
    let mut region = region(dice)?;
    if setting.near.is_some() && region == Region::Session {
        region = Region::Arena;
    }
    let mut at = memory.pick(region, dice)?;
    if let Some(last) = last.filter(|last| region == Region::Arena && last.region == region) {
        // The second of a pair: anywhere in the frame of the first.
        at = last.at / PAGE as u64 * PAGE as u64 + dice.below(PAGE) as u64;
    }
    if region == Region::Sums && setting.near.is_some() {
        // A code knows how to correct the sum of a line.
        at = memory.in_line_sums(at);
    } else if region == Region::Sums && at < memory.control_words() && at % 64 < 8 && !dice.once_in(40) {
        at += 8 * (1 + dice.below(6)) as u64;
    }
    let frame = memory.frame_of(region, at);
    if let (Some(_), Some(frame)) = (setting.near, frame)
        && !hit.insert(frame)
    {
        return None;
    }
    let end = match (setting.near, region) {
        (Some(width), Region::Arena) => (at / width as u64 + 1) * width as u64,
        (Some(_), Region::Sums) => at + 1,
        (Some(_), Region::Parity) => (at / memory.a_frame(region) + 1) * memory.a_frame(region),
        _ => (at / PAGE as u64 + 1) * PAGE as u64,
    };
    let mut before = vec![0; (end - at).min(256) as usize];
    memory.read(region, at, &mut before).ok()?;
    let mut after = bytes(dice, &before, setting.near);
    if setting.near.is_some() && region == Region::Sums {
        after = vec![before[0] ^ (1 << dice.below(8))];
    }
    before.truncate(after.len());
    let identity = frame.map_or(0, |frame| memory.identity(frame));
    memory.write(region, at, &after).ok()?;
    Some(Stray {
        ms: begin.elapsed().as_millis() as u64,
        second: second(),
        memory: memory.number(),
        region,
        at,
        before,
        after,
        identity,
    })
}

/// The memory of the server that serves now, once it has one of its own.
pub fn next(product: &Product, point: &Path, before: Option<&Memory>) -> Result<Memory, String> {
    let end = Instant::now() + TAKEOVER_MAX;
    loop {
        let wrong = match product.server(point) {
            Ok(server) if before.is_some_and(|memory| memory.server == server) => "the same server".to_owned(),
            Ok(server) => match Memory::of(server, before) {
                Ok(memory) => return Ok(memory),
                Err(wrong) => wrong,
            },
            Err(wrong) => wrong,
        };
        if Instant::now() > end {
            return Err(format!("no server took over in {} s: {wrong}", TAKEOVER_MAX.as_secs()));
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

fn is_alive(server: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).unwrap_or_default();
    stat.rsplit(") ")
        .next()
        .is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
}
