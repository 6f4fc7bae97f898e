//! Loads whose cost is compared with and without protection: the OLTP mix of SPC-1 as it is published, deleting large
//! files, the life of small files (BARS M-9, M-10, P-6).
//!
//! A load does the same in the same order each time, whatever is measured with it.

use keepfs_fs::Volume;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, NewInode, RenameFlags, Result, Vfs, WriteHow};

/// Bytes of a page.
const PAGE: usize = 4096;
/// Pages of a data store of the OLTP mix, of which there are two; the log has a quarter.
const STORE: u64 = 2048;
/// Writes to the log between two calls that make it durable.
const LOG_SYNC: u64 = 16;
/// Operations of a turn of the OLTP mix.
const OLTP_TURN: usize = 2000;
/// Files that a turn deletes, and pages of each: a file of two levels.
const DELETED: usize = 8;
const DELETED_PAGES: usize = 512;
/// Small files that live through a turn.
const SMALL: usize = 400;

/// Which load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pages of 4 KiB: 29 % read and 32 % written at places that are used again and again, 11 % read and 28 % written one
    /// after the other; what is written to the log is made durable every 16 pages (Gill and Modha 2005, the mix of SPC-1).
    Oltp,
    /// Large files are deleted and their pages freed.
    Delete,
    /// Files are made, appended to, looked up, renamed and removed.
    Small,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Oltp, Kind::Delete, Kind::Small];

    /// Its name in tables.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Oltp => "oltp",
            Kind::Delete => "delete",
            Kind::Small => "small files",
        }
    }

    /// What one turn does, and how often: what the time of a turn is divided by.
    pub fn unit(self) -> (&'static str, u64) {
        match self {
            Kind::Oltp => ("operation", OLTP_TURN as u64),
            Kind::Delete => ("freed page", (DELETED * DELETED_PAGES) as u64),
            Kind::Small => ("file", SMALL as u64),
        }
    }
}

/// A load on a volume.
pub struct Load<'v> {
    volume: &'v Volume,
    kind: Kind,
    dir: Ino,
    /// The two stores and the log.
    files: Vec<Ino>,
    random: u64,
    /// Where the sequential streams are.
    read_at: u64,
    written: u64,
}

fn make(volume: &Volume, dir: Ino, name: &str, kind: FileKind) -> Result<Ino> {
    let new = NewInode::by_root(kind.type_bits() | 0o644);
    Ok(volume.mknod(dir, name.as_bytes(), &new)?.attr.ino)
}

fn write(volume: &Volume, file: Ino, offset: u64, data: &[u8]) -> Result<()> {
    match volume.write(file, offset, data, WriteHow::default())? {
        n if n == data.len() => Ok(()),
        _ => Err(Errno::ENOSPC),
    }
}

/// A new file of `pages` pages.
fn filled(volume: &Volume, dir: Ino, name: &str, pages: usize) -> Result<Ino> {
    let file = make(volume, dir, name, FileKind::File)?;
    let piece = vec![7; 256 * PAGE];
    for first in (0..pages).step_by(256) {
        let count = (pages - first).min(256);
        write(volume, file, (first * PAGE) as u64, &piece[..count * PAGE])?;
    }
    Ok(file)
}

impl<'v> Load<'v> {
    /// What has to be there before the first turn.
    pub fn new(volume: &'v Volume, kind: Kind) -> Result<Load<'v>> {
        let dir = make(volume, Ino::ROOT, "load", FileKind::Dir)?;
        let mut files = Vec::new();
        if kind == Kind::Oltp {
            for (name, pages) in [("asu1", STORE), ("asu2", STORE), ("asu3", STORE / 4)] {
                files.push(filled(volume, dir, name, pages as usize)?);
            }
        }
        Ok(Load {
            volume,
            kind,
            dir,
            files,
            random: 0x9E37_79B9_7F4A_7C15,
            read_at: 0,
            written: 0,
        })
    }

    /// What a turn needs and does not count.
    pub fn prepare(&mut self) -> Result<()> {
        if self.kind == Kind::Delete {
            for file in 0..DELETED {
                let made = filled(self.volume, self.dir, &format!("large-{file}"), DELETED_PAGES)?;
                self.volume.forget(made, 1);
            }
        }
        self.volume.syncfs()
    }

    /// One operation of the OLTP mix.
    pub fn step(&mut self) -> Result<()> {
        self.oltp()
    }

    /// One turn.
    pub fn turn(&mut self) -> Result<()> {
        match self.kind {
            Kind::Oltp => (0..OLTP_TURN).try_for_each(|_| self.oltp()),
            Kind::Delete => self.delete(),
            Kind::Small => self.small(),
        }
    }

    /// A number that looks random (xorshift64*).
    fn next(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A page of one of the two stores: near the beginning far more often than near the end.
    fn popular(&mut self) -> (Ino, u64) {
        let (store, draw) = (self.next() >> 63, self.next() >> 32);
        // 2^(11 x) of an even x is nearly Zipf's law.
        let exponent = draw as f64 / f64::from(u32::MAX);
        let page = ((STORE as f64).powf(exponent) as u64 - 1) % STORE;
        (self.files[store as usize], page)
    }

    fn oltp(&mut self) -> Result<()> {
        let mut page = [0; PAGE];
        match self.next() % 100 {
            0..29 => {
                let (file, at) = self.popular();
                self.volume.read(file, at * PAGE as u64, &mut page).map(drop)
            }
            29..61 => {
                let (file, at) = self.popular();
                page.fill(at as u8);
                write(self.volume, file, at * PAGE as u64, &page)
            }
            61..72 => {
                self.read_at = (self.read_at + 1) % STORE;
                let at = self.read_at * PAGE as u64;
                self.volume.read(self.files[0], at, &mut page).map(drop)
            }
            _ => self.log(&page),
        }
    }

    fn log(&mut self, page: &[u8]) -> Result<()> {
        let at = self.written % (STORE / 4) * PAGE as u64;
        self.written += 1;
        write(self.volume, self.files[2], at, page)?;
        match self.written % LOG_SYNC {
            0 => self.volume.fsync(self.files[2], true),
            _ => Ok(()),
        }
    }

    fn delete(&mut self) -> Result<()> {
        for file in 0..DELETED {
            self.volume.unlink(self.dir, format!("large-{file}").as_bytes())?;
        }
        self.volume.reclaim_now().map_err(Errno::from)?;
        self.volume.syncfs()
    }

    fn small(&mut self) -> Result<()> {
        let volume = self.volume;
        for file in 0..SMALL {
            let (name, other) = (format!("file-{file:06}"), format!("name-{file:06}"));
            let made = make(volume, self.dir, &name, FileKind::File)?;
            write(volume, made, 0, &[1; 1024])?;
            volume.forget(made, 1);
            let found = volume.lookup(self.dir, name.as_bytes())?.attr.ino;
            volume.forget(found, 1);
            let flags = RenameFlags::default();
            volume.rename(self.dir, name.as_bytes(), self.dir, other.as_bytes(), flags)?;
        }
        for file in 0..SMALL {
            volume.unlink(self.dir, format!("name-{file:06}").as_bytes())?;
        }
        volume.reclaim_now().map_err(Errno::from)
    }
}
