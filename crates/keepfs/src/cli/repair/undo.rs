//! The undo file of a repair: the pages that it writes over, as they were (S-21.6).

use keepfs_check::Image;
use keepfs_check::mend::Plan;
use keepfs_check::read::superblock_of;
use keepfs_codes::crc64;
use keepfs_format::superblock::Superblock;
use keepfs_format::{PAGE, PoolId};
use keepfs_server::Failure;
use keepfs_server::image::DeviceImage;
use keepfs_server::visible::Shown;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const MAGIC: [u8; 8] = *b"KEEPUNDO";
const VERSION: u64 = 1;
/// Bytes of the head: magic, version, pool id, pages of the pool, pages kept, generations before and behind, their CRC-64.
const HEAD: usize = 64;

/// What a repair writes over.
pub struct Undo {
    pool: [u8; 16],
    device_pages: u64,
    before: u64,
    after: u64,
    /// In the order in which they are put back; superblocks are the last ones.
    pages: Vec<(u64, Box<[u8; PAGE]>)>,
}

fn bad(file: &Path, what: &str) -> Failure {
    Failure::Other(format!("{} {what}; nothing was changed", file.shown()))
}

fn superblock(image: &DeviceImage) -> Option<Box<Superblock>> {
    superblock_of(image)
}

impl Undo {
    /// What the pages of a plan hold. A page that cannot be read holds zeros.
    pub fn of(image: &DeviceImage, plan: &Plan) -> Undo {
        let read = |page: u64| {
            let mut bytes = Box::new([0; PAGE]);
            // What a repair writes over is bad, or was given up.
            if image.read(page, &mut bytes).is_err() {
                bytes.fill(0);
            }
            (page, bytes)
        };
        Undo {
            pool: plan.pool.0,
            device_pages: plan.pages,
            before: plan.before.generation,
            after: plan.generation,
            pages: plan.writes.iter().map(|write| read(write.page)).collect(),
        }
    }

    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    fn head(&self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&MAGIC);
        head[8..24].copy_from_slice(&self.pool);
        let numbers = [
            VERSION << 32 | self.pages.len() as u64 & 0xffff_ffff,
            self.device_pages,
            self.before,
            self.after,
        ];
        for (at, number) in (24..).step_by(8).zip(numbers) {
            head[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let crc = crc64::full(&head[..HEAD - 8]);
        head[HEAD - 8..].copy_from_slice(&crc.to_le_bytes());
        head
    }

    /// Writes the file, which must not exist; it and its name are durable.
    pub fn keep(&self, file: &Path) -> Result<(), Failure> {
        let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
        let mut to = BufWriter::new(opened.map_err(|source| {
            let what = "make the undo file (another one: --undo-file)";
            Failure::io(what, file)(source)
        })?);
        let written = self
            .write(&mut to)
            .and_then(|()| to.flush())
            .and_then(|()| to.get_ref().sync_all());
        let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
        let durable = written.and_then(|()| File::open(folder.unwrap_or(Path::new(".")))?.sync_all());
        durable.map_err(|source| {
            // It is ours, and of no use.
            let _ = std::fs::remove_file(file);
            Failure::io("write the undo file", file)(source)
        })
    }

    fn write(&self, to: &mut impl Write) -> std::io::Result<()> {
        to.write_all(&self.head())?;
        for (page, bytes) in &self.pages {
            let number = page.to_le_bytes();
            to.write_all(&number)?;
            to.write_all(&crc64::full(&[&number[..], &bytes[..]].concat()).to_le_bytes())?;
            to.write_all(&bytes[..])?;
        }
        Ok(())
    }

    /// Reads and verifies all of a file.
    pub fn read(file: &Path) -> Result<Undo, Failure> {
        let mut all = Vec::new();
        let opened = File::open(file).and_then(|mut from| from.read_to_end(&mut all));
        opened.map_err(Failure::io("read", file))?;
        let is_head = all.len() >= HEAD && all[..8] == MAGIC;
        let (head, mut rest) = all.split_at(all.len().min(HEAD));
        if !is_head || crc64::full(&head[..HEAD - 8]).to_le_bytes() != head[HEAD - 8..] {
            return Err(bad(file, "is no undo file of a repair, or is damaged"));
        }
        let number = |at: usize| head[at..].first_chunk().copied().map_or(0, u64::from_le_bytes);
        let mut undo = Undo {
            pool: head[8..].first_chunk().copied().unwrap_or_default(),
            device_pages: number(32),
            before: number(40),
            after: number(48),
            pages: Vec::new(),
        };
        if number(24) >> 32 != VERSION {
            return Err(bad(file, "was written by a later version"));
        }
        for _ in 0..number(24) & 0xffff_ffff {
            let (page, left) = rest.split_at_checked(16 + PAGE).ok_or_else(|| bad(file, "is cut"))?;
            let mut bytes = Box::new([0; PAGE]);
            bytes.copy_from_slice(&page[16..]);
            if crc64::full(&[&page[..8], &page[16..]].concat()).to_le_bytes() != page[8..16] {
                return Err(bad(file, "is damaged"));
            }
            let at = page.first_chunk().copied().map_or(0, u64::from_le_bytes);
            undo.pages.push((at, bytes));
            rest = left;
        }
        Ok(undo)
    }

    /// Refuses a pool that is another one, or that was written since.
    pub fn fits(&self, image: &DeviceImage, pool: &Path, file: &Path) -> Result<(), Failure> {
        let found = superblock(image);
        // What had no superblock, and got none because the repair was cut short.
        let is_cut_short = found.is_none() && self.before == 0 && self.device_pages <= image.pages();
        let Some(sb) = found else {
            return match is_cut_short {
                true => self.has_pages(file),
                false => Err(bad(pool, "has no superblock")),
            };
        };
        if sb.pool != self.pool || sb.pages.get() != self.device_pages || self.device_pages > image.pages() {
            let (id, own) = (PoolId(self.pool), PoolId(sb.pool));
            return Err(bad(file, &format!("is of pool {id}, not of {own}")));
        }
        // Where there was none, the repair's has one beside it.
        let ours = [self.after, self.after - u64::from(self.before == 0)];
        if !ours.contains(&sb.generation.get()) && sb.generation.get() > self.before {
            let what = "was written to since it was repaired, and what was there before fits no more";
            return Err(bad(pool, what));
        }
        self.has_pages(file)
    }

    fn has_pages(&self, file: &Path) -> Result<(), Failure> {
        match self.pages.iter().all(|(page, _)| *page < self.device_pages) {
            true => Ok(()),
            false => Err(bad(file, "names pages that the pool does not have")),
        }
    }

    /// Puts everything back, superblocks last.
    pub fn put_back(&self, image: &DeviceImage) -> Result<(), Failure> {
        for (n, (page, bytes)) in self.pages.iter().enumerate() {
            let is_superblock = n + 2 >= self.pages.len();
            if is_superblock {
                image.flush()?;
            }
            image.write(*page, bytes, is_superblock)?;
        }
        image.flush()
    }
}
