//! filebench's varmail in our own words: a mail server's directory under 16 threads, an fsync for every message.
//!
//! 1,000 names in one directory, four in five of them files of 16 KiB on average (gamma, shape 1.5). Each thread, in
//! turn: delete; create, append, fsync, close; open, read all, append, fsync, close; open, read all, close: 13
//! operations. An append is 0 to 16 KiB, uniform. Files are picked round robin, those in use are passed over.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Done;
use crate::random::Random;

const NAMES: usize = 1000;
const FILES: usize = 800;
const MEAN: f64 = 16384.0;
const APPEND: u64 = 16384;
const THREADS: u64 = 16;

/// Makes the files.
pub fn prepare(dir: &Path) -> std::io::Result<Done> {
    fs::create_dir_all(dir.join("mail"))?;
    let mut random = Random(1);
    for index in 0..FILES {
        let length = random.gamma(MEAN) as usize;
        fs::write(path(dir, index), vec![b'm'; length])?;
    }
    File::open(dir)?.sync_all()?;
    Ok(Done {
        operations: FILES as u64,
        ..Done::default()
    })
}

/// Runs all threads for `time`.
pub fn run(dir: &Path, time: Duration) -> std::io::Result<Done> {
    let box_ = Mailbox::new();
    let start = Instant::now();
    let results: Vec<std::io::Result<Done>> = std::thread::scope(|scope| {
        let box_ = &box_;
        let thread = |seed| scope.spawn(move || deliver(dir, box_, seed, start + time));
        let threads: Vec<_> = (1..=THREADS).map(thread).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(std::io::Error::other("panicked"))))
            .collect()
    });
    let mut sum = Done {
        seconds: start.elapsed().as_secs_f64(),
        ..Done::default()
    };
    for done in results {
        let done = done?;
        sum.operations += done.operations;
        sum.fsyncs += done.fsyncs;
        sum.bytes += done.bytes;
    }
    Ok(sum)
}

fn path(dir: &Path, index: usize) -> PathBuf {
    dir.join(format!("mail/{index:08}"))
}

fn deliver(dir: &Path, mailbox: &Mailbox, seed: u64, end: Instant) -> std::io::Result<Done> {
    let mut random = Random(seed);
    let mut done = Done::default();
    let mut buffer = vec![0; 1 << 20];
    while Instant::now() < end {
        let gone = mailbox.take(State::File);
        fs::remove_file(path(dir, gone))?;
        mailbox.give(gone, State::Free);

        let new = mailbox.take(State::Free);
        let mut file = File::create_new(path(dir, new))?;
        done.bytes += append(&mut file, &mut random)?;
        drop(file);
        mailbox.give(new, State::File);

        let old = mailbox.take(State::File);
        let mut file = OpenOptions::new().read(true).write(true).open(path(dir, old))?;
        done.bytes += read_all(&mut file, &mut buffer)?;
        done.bytes += append(&mut file, &mut random)?;
        drop(file);
        mailbox.give(old, State::File);

        let read = mailbox.take(State::File);
        done.bytes += read_all(&mut File::open(path(dir, read))?, &mut buffer)?;
        mailbox.give(read, State::File);
        done.operations += 13;
        done.fsyncs += 2;
    }
    Ok(done)
}

/// One write at the end, and fsync.
fn append(file: &mut File, random: &mut Random) -> std::io::Result<u64> {
    let length = random.below(APPEND);
    file.seek(SeekFrom::End(0))?;
    file.write_all(&vec![b'a'; length as usize])?;
    file.sync_all()?;
    Ok(length)
}

fn read_all(file: &mut File, buffer: &mut [u8]) -> std::io::Result<u64> {
    let mut bytes = 0;
    loop {
        match file.read(buffer)? {
            0 => return Ok(bytes),
            count => bytes += count as u64,
        }
    }
}

/// What a name stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    File,
    /// A thread has it.
    Taken,
}

/// All names, and where the search for the next one begins.
struct Mailbox {
    names: Mutex<Names>,
    given: Condvar,
}

struct Names {
    states: Vec<State>,
    next_free: usize,
    next_file: usize,
}

impl Mailbox {
    fn new() -> Self {
        let states = (0..NAMES)
            .map(|index| if index < FILES { State::File } else { State::Free })
            .collect();
        Self {
            names: Mutex::new(Names {
                states,
                next_free: 0,
                next_file: 0,
            }),
            given: Condvar::new(),
        }
    }

    /// The next name in the state `wanted`; waits if there is none.
    fn take(&self, wanted: State) -> usize {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(index) = names.next(wanted) {
                return index;
            }
            names = self.given.wait(names).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give(&self, index: usize, state: State) {
        self.names.lock().unwrap_or_else(PoisonError::into_inner).states[index] = state;
        self.given.notify_all();
    }
}

impl Names {
    fn next(&mut self, wanted: State) -> Option<usize> {
        let rotor = if wanted == State::Free {
            &mut self.next_free
        } else {
            &mut self.next_file
        };
        let order = (0..NAMES).map(|step| (*rotor + step) % NAMES);
        let index = order.into_iter().find(|index| self.states[*index] == wanted)?;
        *rotor = index + 1;
        self.states[index] = State::Taken;
        Some(index)
    }
}
