//! filebench's varmail, fileserver, webserver and webproxy in our own words: what each thread does over and over.
//!
//! As in 1.5-alpha3: an append is one write of 0 to 16 KiB, uniform, at the end; whole files are read and written in
//! pieces of 1 MiB; a file that somebody has open is passed over by delete, which does not count then.

use crate::figures::Done;
use crate::fileset::{Fileset, Shape, Size, write_size};
use crate::random::Random;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const PIECE: usize = 1 << 20;
const APPEND: u64 = 16 << 10;
const KIB: f64 = 1024.0;

/// One step; each counts as an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Delete the next file.
    Delete,
    /// Make a file under the next free name, and keep it open.
    Create,
    /// Write as many bytes as were drawn for it.
    WriteWhole,
    /// Append to the open file.
    Append,
    /// fsync the open file.
    Fsync,
    /// Close it.
    Close,
    /// Open the next file.
    Open,
    /// Read it from its beginning.
    ReadWhole,
    /// stat(2) of the next file.
    Stat,
    /// Append to the log that all threads share.
    Log,
}

/// A kind of server.
pub struct Personality {
    /// filebench's name.
    pub name: &'static str,
    /// Its files.
    pub shape: Shape,
    /// How many threads.
    pub threads: u64,
    /// Percent of filebench's files that are used, so that all fits on the device and is made in seconds.
    pub percent: usize,
    /// What a thread does, again and again.
    pub steps: &'static [Step],
}

use Step::{Append, Close, Create, Delete, Fsync, Log, Open, ReadWhole, Stat, WriteWhole};

/// The four that ReconFS was measured with (section 5.1).
pub const PERSONALITIES: [Personality; 4] = [
    Personality {
        name: "varmail",
        shape: Shape {
            entries: 1000,
            width: 1_000_000,
            prealloc: 80,
            size: Size::Gamma(16.0 * KIB),
        },
        threads: 16,
        percent: 100,
        steps: &[
            Delete, Create, Append, Fsync, Close, Open, ReadWhole, Append, Fsync, Close, Open, ReadWhole, Close,
        ],
    },
    Personality {
        name: "fileserver",
        shape: Shape {
            entries: 10_000,
            width: 20,
            prealloc: 80,
            size: Size::Gamma(128.0 * KIB),
        },
        threads: 50,
        percent: 25,
        steps: &[
            Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat,
        ],
    },
    Personality {
        name: "webserver",
        shape: Shape {
            entries: 1000,
            width: 20,
            prealloc: 100,
            size: Size::Gamma(16.0 * KIB),
        },
        threads: 100,
        percent: 100,
        steps: &[
            Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open,
            ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
            Close, Open, ReadWhole, Close, Log,
        ],
    },
    Personality {
        name: "webproxy",
        shape: Shape {
            entries: 10_000,
            width: 1_000_000,
            prealloc: 80,
            size: Size::Fixed(16 << 10),
        },
        threads: 100,
        percent: 50,
        steps: &[
            Delete, Create, Append, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close,
            Open, ReadWhole, Close, Open, ReadWhole, Close,
        ],
    },
];

impl Personality {
    /// The one of this name.
    pub fn named(name: &str) -> Option<&'static Personality> {
        PERSONALITIES.iter().find(|personality| personality.name == name)
    }

    /// Its files; `percent` instead of its own if given.
    pub fn fileset(&self, dir: &Path, percent: Option<usize>) -> Fileset {
        let shape = self.shape.scaled(percent.unwrap_or(self.percent));
        Fileset::new(&dir.join(self.name), &shape)
    }

    /// Makes the files.
    pub fn prepare(&self, dir: &Path, percent: Option<usize>) -> io::Result<Done> {
        let operations = self.fileset(dir, percent).make()?;
        Ok(Done {
            operations,
            ..Done::default()
        })
    }

    /// Runs all threads for `time`.
    pub fn run(&self, dir: &Path, time: Duration, percent: Option<usize>) -> io::Result<Done> {
        self.run_on(&self.fileset(dir, percent), &dir.join("log"), time)
    }

    /// The same on files that are known.
    pub fn run_on(&self, files: &Fileset, log: &Path, time: Duration) -> io::Result<Done> {
        let start = Instant::now();
        let results: Vec<io::Result<Done>> = std::thread::scope(|scope| {
            let thread = |seed| scope.spawn(move || Thread::new(files, log, seed, start + time).run(self.steps));
            let threads: Vec<_> = (1..=self.threads).map(thread).collect();
            let results = threads.into_iter().map(|thread| thread.join());
            results
                .map(|result| result.unwrap_or_else(|_| Err(io::Error::other("a thread panicked"))))
                .collect()
        });
        let mut sum = Done {
            seconds: start.elapsed().as_secs_f64(),
            threads: self.threads,
            ..Done::default()
        };
        for done in results {
            sum.join(&done?);
        }
        Ok(sum)
    }
}

/// A thread of a personality.
struct Thread<'f> {
    files: &'f Fileset,
    log_path: PathBuf,
    log: Option<File>,
    open: Option<(usize, File)>,
    random: Random,
    end: Instant,
    done: Done,
    buffer: Vec<u8>,
}

impl<'f> Thread<'f> {
    fn new(files: &'f Fileset, log: &Path, seed: u64, end: Instant) -> Self {
        Thread {
            files,
            log_path: log.to_owned(),
            log: None,
            open: None,
            random: Random(seed),
            end,
            done: Done::default(),
            buffer: vec![b'm'; PIECE],
        }
    }

    fn run(mut self, steps: &[Step]) -> io::Result<Done> {
        for step in steps.iter().cycle() {
            let before = Instant::now();
            if before >= self.end {
                break;
            }
            let counts = self
                .step(*step)
                .map_err(|e| io::Error::other(format!("{step:?}: {e}")))?;
            if counts {
                let took = before.elapsed();
                self.done.operations += 1;
                self.done.times.count(took);
                if *step == Fsync {
                    self.done.fsyncs += 1;
                    self.done.fsync_times.count(took);
                }
            }
        }
        Ok(self.done)
    }

    /// Takes one step; `false` if there was nothing to do.
    fn step(&mut self, step: Step) -> io::Result<bool> {
        match step {
            Delete => return self.delete(),
            Create => return self.create(),
            Open => self.open()?,
            Stat => {
                let index = self.files.pick_file();
                let found = std::fs::metadata(self.files.path(index));
                self.files.is_file(index, false);
                found?;
            }
            Log => {
                let log = match &mut self.log {
                    Some(log) => log,
                    none => none.insert(
                        File::options()
                            .create(true)
                            .truncate(false)
                            .write(true)
                            .open(&self.log_path)?,
                    ),
                };
                self.done.bytes += append(log, &mut self.random, &self.buffer)?;
            }
            Close => {
                let Some((index, file)) = self.open.take() else {
                    return Ok(false);
                };
                drop(file);
                self.files.closed(index);
            }
            WriteWhole | Append | Fsync | ReadWhole => return self.on_open(step),
        }
        Ok(true)
    }

    /// A step on the open file; nothing if a create found no free name.
    fn on_open(&mut self, step: Step) -> io::Result<bool> {
        let Some((index, file)) = &mut self.open else {
            return Ok(false);
        };
        match step {
            WriteWhole => {
                let size = self.files.size(*index);
                write_size(file, size, &self.buffer)?;
                self.done.bytes += size;
            }
            Append => self.done.bytes += append(file, &mut self.random, &self.buffer)?,
            Fsync => file.sync_all()?,
            _ => self.done.bytes += read_all(file, &mut self.buffer)?,
        }
        Ok(true)
    }

    fn delete(&mut self) -> io::Result<bool> {
        let index = self.files.pick_file();
        if self.files.is_open(index) {
            self.files.is_file(index, false);
            return Ok(false);
        }
        std::fs::remove_file(self.files.path(index))?;
        self.files.is_free(index);
        Ok(true)
    }

    fn create(&mut self) -> io::Result<bool> {
        let Some(index) = self.files.pick_free() else {
            return Ok(false);
        };
        let file = File::create_new(self.files.path(index))?;
        self.files.is_file(index, true);
        self.open = Some((index, file));
        Ok(true)
    }

    fn open(&mut self) -> io::Result<()> {
        let index = self.files.pick_file();
        let opened = OpenOptions::new().read(true).write(true).open(self.files.path(index));
        self.files.is_file(index, opened.is_ok());
        self.open = Some((index, opened?));
        Ok(())
    }
}

/// One write of 0 to 16 KiB at the end.
fn append(file: &mut File, random: &mut Random, buffer: &[u8]) -> io::Result<u64> {
    let length = random.below(APPEND);
    file.seek(SeekFrom::End(0))?;
    file.write_all(&buffer[..length as usize])?;
    Ok(length)
}

fn read_all(file: &mut File, buffer: &mut [u8]) -> io::Result<u64> {
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = 0;
    loop {
        match file.read(buffer)? {
            0 => return Ok(bytes),
            count => bytes += count as u64,
        }
    }
}
