//! Two threads on one frame with a verifier at their heels, and single bits flipped behind the door's back
//! (S-15.19).

use keepfs_format::plog::{self, Record};
use keepfs_format::{Kind, MetaId, PAGE};
use keepfs_media::Class;
use keepfs_media::ram::RamDevice;
use keepfs_store::{Error, FormatOptions, Meaning, Ref, Source, Store, StoreOptions};
use keepfs_testkit::sim::{Event, SimDevice};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// First byte that the threads write; before it stand the header and what the kind has.
const FIRST: usize = 64;
/// Puts of one transaction.
const BATCH: u64 = 500;

/// What a run of puts came to.
pub struct Tally {
    /// Puts made, by both threads.
    pub puts: u64,
    /// Looks of the verifier meanwhile.
    pub verifies: u64,
    /// From the first put to the last.
    pub time: Duration,
}

fn small_pool(device: Arc<dyn keepfs_media::Device>) -> Result<(Arc<Store>, Ref), Error> {
    Store::format(device.clone(), &FormatOptions::default())?;
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 4 << 20,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options)?;
    let node = store.transact::<_, Error>(|t| Ok(t.new_node(Kind::Xattr, 0, 1)?))?;
    Ok((store, node))
}

/// Bytes of a word; the writers have the words of the frame by turns, so that whatever a sum is of, both change it.
const WORD: usize = 8;
/// Words of a writer.
const WORDS: usize = (PAGE - FIRST) / WORD / 2;

/// One writer: it owns every second word of the frame and knows what it wrote there.
struct Writer {
    half: usize,
    model: Vec<u8>,
    state: u64,
}

impl Writer {
    fn new(half: usize) -> Writer {
        Writer {
            half,
            model: vec![0; WORDS * WORD],
            state: 1 + half as u64,
        }
    }

    /// Where a word of its own lies in the frame.
    fn place(&self, word: usize) -> usize {
        FIRST + (2 * word + self.half) * WORD
    }

    fn next(&mut self) -> u64 {
        self.state = self
            .state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        self.state >> 24
    }

    /// `count` puts of 1 to 8 bytes below 0x80, in one transaction.
    fn batch(&mut self, store: &Store, node: Ref, count: u64) -> Result<(), Error> {
        let puts: Vec<(usize, usize, [u8; WORD])> = (0..count)
            .map(|_| {
                let (word, len) = (self.next() as usize % WORDS, 1 + self.next() as usize % WORD);
                (word, len, (self.next() & 0x7f7f_7f7f_7f7f_7f7f).to_le_bytes())
            })
            .collect();
        store.transact::<_, Error>(|t| {
            for (word, len, bytes) in &puts {
                t.put(node, self.place(*word), &bytes[..*len], Meaning::Xattr)?;
            }
            Ok(())
        })?;
        for (word, len, bytes) in &puts {
            self.model[word * WORD..word * WORD + len].copy_from_slice(&bytes[..*len]);
        }
        Ok(())
    }

    fn check(&self, store: &Store, node: Ref) -> Result<(), Error> {
        let mut found = [0; PAGE];
        store.transact::<_, Error>(|t| Ok(t.read(node, 0, &mut found)?))?;
        let right = |word: usize| found[self.place(word)..][..WORD] == self.model[word * WORD..][..WORD];
        match (0..WORDS).all(right) {
            true => Ok(()),
            false => Err(Error::Damaged("the frame lost a put".into())),
        }
    }
}

/// One look of the verifier: the whole frame is read by a transaction, then all frames are swept. Both verify, whatever was
/// verified when; what either finds is told, mended or not, and nothing is there to be found.
fn look(store: &Store, node: Ref) -> Result<(), Error> {
    store.transact::<_, Error>(|t| Ok(t.read(node, 0, &mut [0; PAGE])?))?;
    for frame in store.frames_by_age() {
        store.sweep_frame(frame)?;
    }
    match store.damages().is_empty() {
        true => Ok(()),
        false => Err(Error::Damaged("nothing was damaged, and damage was told".into())),
    }
}

/// `count` puts by two threads on one frame, a verifier running all the time. Fails on a Finding or a lost byte.
pub fn puts(count: u64) -> Result<Tally, Error> {
    let (store, node) = small_pool(Arc::new(RamDevice::new(8192)))?;
    let (stop, verifies) = (AtomicBool::new(false), AtomicU64::new(0));
    let start = Instant::now();
    std::thread::scope(|scope| {
        let writer = |half| {
            let (store, stop) = (&store, &stop);
            scope.spawn(move || -> Result<Writer, Error> {
                let mut writer = Writer::new(half);
                let mut left = count / 2;
                while left > 0 && !stop.load(Ordering::Relaxed) {
                    writer.batch(store, node, left.min(BATCH))?;
                    left -= left.min(BATCH);
                }
                Ok(writer)
            })
        };
        let writers = [writer(0), writer(1)];
        let verifier = scope.spawn(|| -> Result<(), Error> {
            while !stop.load(Ordering::Relaxed) {
                // The first Finding ends the run.
                look(&store, node).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
                verifies.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        });
        let writers = writers.map(|w| w.join().unwrap_or(Err(Error::Dead)));
        let time = start.elapsed();
        stop.store(true, Ordering::Relaxed);
        verifier.join().unwrap_or(Err(Error::Dead))?;
        for writer in writers {
            writer?.check(&store, node)?;
        }
        look(&store, node)?;
        store.checkpoint()?;
        Ok(Tally {
            puts: count,
            verifies: verifies.load(Ordering::Relaxed),
            time,
        })
    })
}

/// Folds are planted torn: how many puts of at most `count` it took until somebody noticed; `None`: nobody did.
#[cfg(feature = "planted")]
pub fn torn(count: u64) -> Option<u64> {
    const TURN: u64 = 100_000;
    keepfs_store::planted::plant_torn(true);
    let noticed = (1..=count.div_ceil(TURN)).find(|_| puts(TURN).is_err());
    keepfs_store::planted::plant_torn(false);
    noticed.map(|turns| turns * TURN)
}

/// What became of a flipped bit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The store told it, and mended it or stopped.
    Told,
    /// Nobody told it, and it is in no byte that the device received.
    Absent,
    /// The device received it.
    Escaped,
}

/// Flips bit 7 of one byte of a frame after `puts` puts of a running writer, while another thread syncs and checkpoints
/// all the time. All honest bytes are below 0x80, so a flipped one is known wherever it turns up.
pub fn flip(puts: u64, offset: usize) -> Result<Fate, Error> {
    let device = Arc::new(SimDevice::new(2048));
    let (store, node) = small_pool(device.clone())?;
    store.checkpoint()?;
    let window = Window::of(node.id).map_err(|e| Error::Logic(format!("the frame was not found: {e}")))?;
    let (done, rounds) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let until_stopped = |step: &mut dyn FnMut() -> Result<(), Error>| {
        while !stop.load(Ordering::Relaxed) {
            step()?;
        }
        Ok::<_, Error>(())
    };
    let told = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut writer = Writer::new(0);
            until_stopped(&mut || {
                writer.batch(&store, node, 3)?;
                done.fetch_add(3, Ordering::Release);
                Ok(())
            })
        });
        let saver = scope.spawn(|| {
            until_stopped(&mut || {
                store.sync()?;
                store.checkpoint()?;
                rounds.fetch_add(1, Ordering::Release);
                Ok(())
            })
        });
        let ended = || writer.is_finished() || saver.is_finished();
        let reach = |count: &AtomicU64, least: u64| {
            while count.load(Ordering::Acquire) < least && !ended() {
                std::thread::yield_now();
            }
        };
        reach(&done, puts);
        let flipped = window.flip(FIRST + offset % (PAGE - FIRST));
        // The round that is under way, and a whole one.
        reach(&rounds, rounds.load(Ordering::Acquire) + 2);
        stop.store(true, Ordering::Relaxed);
        let ends = [writer, saver].map(|t| t.join().unwrap_or(Err(Error::Dead)));
        flipped.map_err(|e| Error::Logic(format!("no bit was flipped: {e}")))?;
        Ok::<_, Error>(ends.iter().any(Result::is_err) || !store.damages().is_empty())
    })?;
    Ok(match (escaped(&device, node.id), told) {
        (true, _) => Fate::Escaped,
        (false, true) => Fate::Told,
        (false, false) => Fate::Absent,
    })
}

/// Flips a bit of a frame at the moment between the two looks of a planted bug, while a checkpoint writes the frame.
#[cfg(feature = "planted")]
pub fn flip_between() -> Result<Fate, Error> {
    use keepfs_store::planted::set_between;
    let device = Arc::new(SimDevice::new(2048));
    let (store, node) = small_pool(device.clone())?;
    Writer::new(0).batch(&store, node, 3)?;
    // What goes to the log is not the frame; only the checkpoint looks at it then.
    store.sync()?;
    let window = Window::of(node.id).map_err(|e| Error::Logic(format!("the frame was not found: {e}")))?;
    let flipped = AtomicBool::new(false);
    set_between(Some(Box::new(move |id| {
        if id == node.id && !flipped.swap(true, Ordering::Relaxed) {
            window.flip(FIRST + 3000).expect("a bit flips");
        }
    })));
    let told = store.checkpoint().is_err() || !store.damages().is_empty();
    set_between(None);
    Ok(match (escaped(&device, node.id), told) {
        (true, _) => Fate::Escaped,
        (false, true) => Fate::Told,
        (false, false) => Fate::Absent,
    })
}

/// Flips a bit of a frame that is clean and evicts it. Returns how many scribbles were told, and whether the metablock is
/// whole when it is fetched again.
pub fn flip_evicted(offset: usize) -> Result<(u64, bool), Error> {
    let (store, node) = small_pool(Arc::new(RamDevice::new(2048)))?;
    let mut writer = Writer::new(0);
    writer.batch(&store, node, BATCH)?;
    store.checkpoint()?;
    let window = Window::of(node.id).map_err(|e| Error::Logic(format!("the frame was not found: {e}")))?;
    let flipped = window.flip(FIRST + offset % (PAGE - FIRST));
    flipped.map_err(|e| Error::Logic(format!("no bit was flipped: {e}")))?;
    store.drop_clean_frames();
    let whole = writer.check(&store, node).is_ok();
    Ok((store.stats().scribbles_dropped, whole))
}

/// Whether a byte of 0x80 or more stands among the bytes of metablock `id` in anything that the device received.
fn escaped(device: &SimDevice, id: MetaId) -> bool {
    let mut group = Vec::new();
    let mut found = false;
    for entry in device.recording().log {
        let Event::Write { pages, class, .. } = entry.event else {
            continue;
        };
        for page in pages.iter() {
            let bytes = page.bytes();
            match class {
                Class::Metadata => {
                    found |= bytes[8..16] == id.0.to_le_bytes() && bytes[FIRST..].iter().any(|b| *b >= 0x80);
                }
                Class::Plog => {
                    let used = usize::from(u16::from_le_bytes([bytes[4], bytes[5]]));
                    group.extend_from_slice(&bytes[48..48 + used.min(PAGE - 48)]);
                    if bytes[6] & 1 != 0 {
                        let records = plog::decode(&group).expect("a group is whole");
                        found |= records.iter().any(|r| is_flipped(r, id));
                        group.clear();
                    }
                }
                _ => {}
            }
        }
    }
    found
}

fn is_flipped(record: &Record, node: MetaId) -> bool {
    match record {
        Record::Update { id, ranges, .. } if *id == node => {
            ranges.iter().any(|(_, bytes)| bytes.iter().any(|b| *b >= 0x80))
        }
        _ => false,
    }
}

/// The writable mapping of a frame, found as a stray pointer would: by luck (here by /proc/self).
struct Window {
    memory: File,
    frame: u64,
}

impl Window {
    fn of(id: MetaId) -> std::io::Result<Window> {
        let memory = OpenOptions::new().read(true).write(true).open("/proc/self/mem")?;
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let arenas = maps
            .lines()
            .filter(|l| l.contains("rw-s") && l.contains("memfd:keepfs-arena"));
        for range in arenas.filter_map(|line| line.split(' ').next()?.split_once('-')) {
            let parse = |s| u64::from_str_radix(s, 16).map_err(std::io::Error::other);
            let mut at = parse(range.0)?;
            while at < parse(range.1)? {
                let mut head = [0; 16];
                if memory.read_exact_at(&mut head, at).is_ok() && head[8..] == id.0.to_le_bytes() {
                    return Ok(Window { memory, frame: at });
                }
                at += PAGE as u64;
            }
        }
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn flip(&self, offset: usize) -> std::io::Result<()> {
        let mut byte = [0];
        let at = self.frame + offset as u64;
        self.memory.read_exact_at(&mut byte, at)?;
        self.memory.write_all_at(&[byte[0] ^ 0x80], at)
    }
}
