//! The pool a workload runs on: how it is made and opened, in a few words that a seed file can hold.

use keepfs_codes::crc64;
use keepfs_format::superblock::{CRC_OFFSET, INCOMPAT_STRIPES, SLOTS, Superblock, slot_page};
use keepfs_format::{FromBytes, PoolId};
use keepfs_fs::{AccessTimes, Remains, Resumed, Volume, VolumeOptions};
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::{FormatOptions, Guard, Protection, Purpose, Reuse, Rungs, Store, StoreOptions};
use keepfs_testkit::image::Image;
use keepfs_testkit::ops::{Op, Outcome, Session};
use keepfs_testkit::sim::{Faults, Operation, SECTOR, SimDevice, When};
use keepfs_vfs::{Time, Vfs};
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

/// Everything about a pool and its mount that a workload chooses.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Setting {
    /// Pages of the device.
    pub pages: u64,
    /// Pages of the log.
    pub log_pages: u64,
    /// Pages of a zone.
    pub zone_pages: u64,
    /// Frames of the arena; the store takes at least what the largest transaction needs.
    pub frames: u64,
    /// Copies of metadata.
    pub copies: u32,
    /// How frames are guarded.
    pub guard: Guard,
    /// What guards the frames (S-2.6).
    pub protect: Protection,
    /// Staged pages above which they are written out.
    pub staged: usize,
    /// Sparse files there from the beginning, with two metablocks each: more than the arena holds.
    pub crowd: u32,
    /// Whether reading stamps access times (relatime).
    pub atime: bool,
    /// Files there from the beginning until so few pages are left for new data; 0 = none (S-11.1).
    pub free: u32,
    /// A file without content there from the beginning that leaves so many pages for new data; 0 = none.
    pub left: u32,
    /// Whether the device is told which pages are not needed, behind each checkpoint that a step asks for.
    pub discard: bool,
    /// Whether every transaction is made durable before the next one begins, so that a crash may fall between the
    /// transactions of one operation.
    pub each: bool,
    /// Whether frames are overwritten that no rung mends: a pool for tests, opened without a rung (S-15.17).
    pub fence: bool,
    /// The page of the log, counted from 1, that cannot be written from the first mount on (S-8.12); 0 = none.
    pub bad: u32,
    /// Whether the pool has one stripe of totals, as those of earlier versions (S-2.10).
    pub old: bool,
}

impl Default for Setting {
    fn default() -> Setting {
        Setting {
            pages: 1024,
            log_pages: 64,
            zone_pages: 128,
            frames: 320,
            copies: 2,
            guard: Guard::Alias,
            protect: Protection::Crc,
            staged: 8,
            crowd: 0,
            atime: false,
            free: 0,
            left: 0,
            discard: false,
            each: false,
            fence: false,
            bad: 0,
            old: false,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "pages={} log={} zone={} frames={} copies={} guard={} protect={} staged={} crowd={} atime={} free={} left={} discard={} each={} fence={} bad={} old={}",
            self.pages,
            self.log_pages,
            self.zone_pages,
            self.frames,
            self.copies,
            word_of(self.guard),
            self.protect,
            self.staged,
            self.crowd,
            u8::from(self.atime),
            self.free,
            self.left,
            u8::from(self.discard),
            u8::from(self.each),
            u8::from(self.fence),
            self.bad,
            u8::from(self.old)
        )
    }
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(line: &str) -> Result<Setting, String> {
        let mut setting = Setting::default();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').ok_or(format!("{word}: no ="))?;
            if name == "protect" {
                setting.protect = value.parse().map_err(|e| format!("{word}: {e}"))?;
                continue;
            }
            if name == "guard" {
                setting.guard = guard_of(value).ok_or(format!("{word}: no such guard"))?;
                continue;
            }
            let value: u64 = value.parse().map_err(|e| format!("{word}: {e}"))?;
            match name {
                "pages" => setting.pages = value,
                "log" => setting.log_pages = value,
                "zone" => setting.zone_pages = value,
                "frames" => setting.frames = value,
                "copies" => setting.copies = value as u32,
                "staged" => setting.staged = value as usize,
                "crowd" => setting.crowd = value as u32,
                "atime" => setting.atime = value != 0,
                "free" => setting.free = value as u32,
                "left" => setting.left = value as u32,
                "discard" => setting.discard = value != 0,
                "each" => setting.each = value != 0,
                "fence" => setting.fence = value != 0,
                "bad" => setting.bad = value as u32,
                "old" => setting.old = value != 0,
                _ => return Err(format!("{name}: unknown")),
            }
        }
        Ok(setting)
    }
}

/// The levels of protection that take turns.
pub const LEVELS: [Protection; 6] = [
    Protection::Crc,
    Protection::Pcrc,
    Protection::Off,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
];

/// The guards that take turns where the machine has them, with their words.
pub const GUARDS: [(&str, Guard); 5] = [
    ("alias", Guard::Alias),
    ("off", Guard::Off),
    ("sealed", Guard::Sealed),
    ("mprotect", Guard::Mprotect),
    ("pkey", Guard::Pkey),
];

/// Those that this machine has.
pub fn guards() -> &'static [Guard] {
    static HERE: LazyLock<Vec<Guard>> = LazyLock::new(|| {
        let all = GUARDS.iter().map(|(_, guard)| *guard);
        all.filter(|guard| guard.available().is_ok()).collect()
    });
    &HERE
}

/// The word of a guard.
pub fn word_of(guard: Guard) -> &'static str {
    let known = GUARDS.iter().find(|(_, known)| *known == guard);
    known.map_or("?", |(word, _)| word)
}

fn guard_of(word: &str) -> Option<Guard> {
    // Older seeds know of two.
    match word {
        "0" => Some(Guard::Off),
        "1" => Some(Guard::Alias),
        _ => GUARDS.iter().find(|(known, _)| *known == word).map(|(_, guard)| *guard),
    }
}

/// The one behind `own`, around.
fn next<T: Copy + PartialEq>(all: &[T], own: T) -> T {
    let at = all.iter().position(|one| *one == own);
    all[at.map_or(0, |at| (at + 1) % all.len())]
}

/// Where the log of a new pool begins.
const LOG_START: u64 = 1;
/// Pages for new data that a pool which is nearly full has left.
const SCARCE: u32 = 40;

impl Setting {
    /// The same at the next guard and at the next level of protection.
    #[must_use]
    pub fn other(&self) -> Setting {
        Setting {
            guard: if self.guard == Guard::Alias {
                Guard::Off
            } else {
                Guard::Alias
            },
            protect: next(&LEVELS, self.protect),
            ..*self
        }
    }

    /// The same at the guard, the level of protection and the fullness of this turn. As many turns as there are guards and
    /// levels bring each pair once, three times as many each pair empty, half full and nearly full; a pool that is filled
    /// already is left as it is.
    #[must_use]
    pub fn at_turn(&self, turn: u64) -> Setting {
        let (guards, levels) = (guards(), LEVELS.len() as u64);
        let pairs = guards.len() as u64 * levels;
        let pair = turn % pairs;
        let left = match (turn + turn / pairs) % 3 {
            0 => 0,
            1 => (self.pages - self.log_pages) as u32 / 2,
            _ => SCARCE,
        };
        Setting {
            guard: guards[((pair + pair / levels) % guards.len() as u64) as usize],
            protect: LEVELS[(pair % levels) as usize],
            left: if self.free == 0 { left } else { 0 },
            old: (turn / 2).is_multiple_of(2),
            ..*self
        }
    }
}

/// A clock that stands still until it is told the time.
#[derive(Clone, Default)]
pub struct LabClock(Arc<AtomicU64>);

impl LabClock {
    /// From now on it is `seconds` after the lab's epoch.
    pub fn set(&self, seconds: u64) {
        self.0.store(seconds, Ordering::SeqCst);
    }

    fn clock(&self) -> keepfs_fs::Clock {
        let seconds = self.0.clone();
        Arc::new(move || Time {
            sec: 1_000_000_000 + seconds.load(Ordering::SeqCst) as i64,
            nsec: 7,
        })
    }
}

impl Setting {
    fn store(&self, read_only: bool) -> StoreOptions {
        StoreOptions {
            read_only,
            arena_bytes: self.frames as usize * keepfs_format::PAGE,
            tiny_arena: true,
            guard: self.guard,
            protect: Some(self.protect),
            background: false,
            discard: self.discard,
            sync_each: self.each,
            rungs: if self.fence { Rungs::NONE } else { Rungs::ALL },
            // Planted ordering bugs are for the crash checks to find.
            audit: if cfg!(feature = "planted") {
                keepfs_store::Equations::NONE
            } else {
                keepfs_store::Equations::ALL
            },
            ..StoreOptions::default()
        }
    }

    /// What the device does not do in this workload. Of a write that fails nothing arrives, a part or all, by the page's number.
    pub fn faults(&self) -> Faults {
        let Some(page) = self.bad.checked_sub(1) else {
            return Faults::none();
        };
        let when = When::Page(PageNo(LOG_START + u64::from(page)));
        match page % 3 {
            0 => Faults::none().fail(Operation::Write, when),
            1 => Faults::none().short_write(when, 3),
            _ => Faults::none().short_write(when, usize::MAX / SECTOR),
        }
    }

    /// Opens the pool on `device`, recovering it if need be. Nothing runs in the background.
    pub fn open(&self, device: Arc<dyn Device>, clock: &LabClock) -> Result<Arc<Volume>, keepfs_fs::Error> {
        self.open_as(device, clock, false)
    }

    /// The same without a write: the log is applied in memory only.
    pub fn open_read_only(&self, device: Arc<dyn Device>, clock: &LabClock) -> Result<Arc<Volume>, keepfs_fs::Error> {
        self.open_as(device, clock, true)
    }

    /// As [`Setting::open`], by a server that leaves its memory behind when it dies.
    pub fn open_mortal(&self, device: Arc<dyn Device>, clock: &LabClock) -> Result<Arc<Volume>, keepfs_fs::Error> {
        let mut options = self.volume(clock, false);
        options.store.lasting = true;
        Reuse::without(|| Volume::open(device, &options))
    }

    /// As [`Setting::open_read_only`], by a server that leaves its memory behind when it dies.
    pub fn open_to_read_mortal(
        &self,
        device: Arc<dyn Device>,
        clock: &LabClock,
    ) -> Result<Arc<Volume>, keepfs_fs::Error> {
        let mut options = self.volume(clock, true);
        options.store.lasting = true;
        Volume::open(device, &options)
    }

    /// Opens the pool of a server that died.
    pub fn resume(
        &self,
        device: Arc<dyn Device>,
        clock: &LabClock,
        left: Remains,
    ) -> Result<(Arc<Volume>, Resumed), keepfs_fs::Error> {
        let options = self.volume(clock, false);
        Reuse::without(|| Volume::resume(device, &options, left))
    }

    fn open_as(
        &self,
        device: Arc<dyn Device>,
        clock: &LabClock,
        read_only: bool,
    ) -> Result<Arc<Volume>, keepfs_fs::Error> {
        Volume::open(device, &self.volume(clock, read_only))
    }

    fn volume(&self, clock: &LabClock, read_only: bool) -> VolumeOptions {
        VolumeOptions {
            store: self.store(read_only),
            access_times: if self.atime {
                AccessTimes::Relative
            } else {
                AccessTimes::Never
            },
            background: false,
            staged_pages_max: Some(self.staged),
            clock: clock.clock(),
            ..VolumeOptions::default()
        }
    }

    /// A new pool with an empty root directory, unmounted.
    pub fn fresh(&self) -> Result<Image, String> {
        let device = Arc::new(SimDevice::new(self.pages));
        let options = FormatOptions {
            meta_copies: self.copies,
            id: Some(PoolId(*b"keepfs-crash-lab")),
            name_seed: Some([1, 2]),
            log_pages: Some(self.log_pages),
            zone_pages: Some(self.zone_pages),
            protect: self.protect,
            test: self.fence,
            ..FormatOptions::default()
        };
        Store::format(device.clone(), &options).map_err(|e| format!("format: {e}"))?;
        let volume = self
            .open(device.clone(), &LabClock::default())
            .map_err(|e| format!("first open: {e}"))?;
        let mut session = Session::new(&*volume);
        for op in crowd(self.crowd) {
            let op: Op = op.parse().map_err(|e| format!("crowd: {e}"))?;
            if session.run(&op).is_err() {
                return Err(format!("crowd: {op} failed"));
            }
        }
        drop(session);
        self.fill(&volume)?;
        self.take(&volume)?;
        volume.unmount().map_err(|e| format!("first unmount: {e}"))?;
        if self.old {
            unstripe(&*device).map_err(|e| format!("making it old: {e}"))?;
        }
        Ok(device.image())
    }

    /// Makes files `big0`, `big1`, … of [`BIG`] bytes until at most `free` pages are left.
    fn fill(&self, volume: &Volume) -> Result<(), String> {
        let mut session = Session::new(volume);
        for file in 0..self.pages {
            let left = volume.store().figures().available(Purpose::New);
            if self.free == 0 || left <= u64::from(self.free) {
                break;
            }
            for op in [
                format!("create path=big{file} mode=644 who=22:0:0"),
                format!("write path=big{file} offset=0 len={BIG} seed={file} kill=no"),
                "syncfs".into(),
            ] {
                let op: Op = op.parse().map_err(|e| format!("filling: {e}"))?;
                if session.run(&op).is_err() {
                    // What is left is the checkpoint's reserve.
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Makes a file that holds all pages but those that are to be left. They are not written, so that it costs no reading.
    fn take(&self, volume: &Volume) -> Result<(), String> {
        if self.left == 0 {
            return Ok(());
        }
        let mut session = Session::new(volume);
        let mut run = |op: String| -> Result<bool, String> {
            let op: Op = op.parse().map_err(|e| format!("filling: {e}"))?;
            Ok(session.run(&op) == Outcome::Done)
        };
        run("create path=ballast mode=644 who=22:0:0".into())?;
        for piece in 0..self.pages {
            let available = volume.store().figures().available(Purpose::New);
            let taken = available.saturating_sub(u64::from(self.left)).min(TAKEN);
            let (offset, len) = (piece * TAKEN * PAGE, taken * PAGE);
            let op = format!("fallocate path=ballast mode=keep_size offset={offset} len={len}");
            if taken == 0 || !run(op)? {
                break;
            }
        }
        Ok(())
    }
}

/// Makes a pool of which one stripe of totals was ever changed one of an earlier version (S-2.10).
fn unstripe(device: &dyn Device) -> Result<(), keepfs_media::DeviceError> {
    for slot in 0..SLOTS {
        let (page, mut bytes) = (PageNo(slot_page(slot, device.pages())), [0; keepfs_format::PAGE]);
        device.read(page, &mut bytes)?;
        if let Ok(sb) = Superblock::mut_from_bytes(&mut bytes) {
            sb.incompat = (sb.incompat.get() & !INCOMPAT_STRIPES).into();
        }
        // A slot that was never written is zeros.
        if bytes.iter().any(|byte| *byte != 0) {
            let crc = crc64::full(&bytes[..CRC_OFFSET]);
            bytes[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
            device.write(page, &bytes, Class::Superblock)?;
        }
    }
    device.flush()
}

/// Pages that are taken at a time.
const TAKEN: u64 = 64;
const PAGE: u64 = keepfs_format::PAGE as u64;

/// Bytes of the files that fill a pool.
pub const BIG: u64 = 16 << 10;

/// The operations that make the crowd.
fn crowd(count: u32) -> Vec<String> {
    let mut ops = Vec::new();
    for file in 0..count {
        if file % 40 == 0 {
            ops.push(format!("mkdir path=crowd{} mode=755 who=22:0:0", file / 40));
        }
        let path = format!("crowd{}/{file}", file / 40);
        ops.push(format!("create path={path} mode=644 who=22:0:0"));
        ops.push(format!("write path={path} offset=2000000 len=9 seed={file} kill=no"));
    }
    ops
}
