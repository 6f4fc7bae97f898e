//! The memory behind this process's guarded regions, as another mapping of it would reach it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The file behind a region, by its name in the table of mappings.
pub struct Behind {
    file: File,
    /// Its bytes.
    pub len: u64,
}

impl Behind {
    /// The region of this name that was mapped last. Errors: there is none; only root may open it.
    pub fn of(name: &str) -> io::Result<Behind> {
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let named = format!("/memfd:{name} ");
        let mut best: Option<(u64, &str, u64)> = None;
        for line in maps.lines().filter(|line| line.contains(&named)) {
            let mut words = line.split_ascii_whitespace();
            let Some(range) = words.next() else { continue };
            let inode: u64 = words.nth(3).and_then(|word| word.parse().ok()).unwrap_or(0);
            let Some((start, end)) = range.split_once('-') else {
                continue;
            };
            let number = |text| u64::from_str_radix(text, 16).map_err(io::Error::other);
            let len = number(end)? - number(start)?;
            if best.is_none_or(|(newest, ..)| inode > newest) {
                best = Some((inode, range, len));
            }
        }
        let (_, range, len) = best.ok_or(io::ErrorKind::NotFound)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(format!("/proc/self/map_files/{range}"))?;
        Ok(Behind { file, len })
    }

    /// Reads the bytes at `offset`.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    /// Overwrites bytes at `offset`.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }
}
