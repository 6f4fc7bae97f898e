//! A tree of files that is the same for the same seed: what the real programs work on.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// How large a tree is made.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Regular files.
    pub files: u64,
    /// Bytes in all of them together, about.
    pub bytes: u64,
}

/// SplitMix64 (Steele, Lea and Flood 2014).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// The next 64 bits.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end` (which is not 0).
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Makes the tree under the new directory `root`: text and binary files of skewed sizes in nested directories, every
/// 40th executable, and one symbolic and one hard link for every 50 files.
pub fn make(root: &Path, size: Size, seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let mean = size.bytes / size.files.max(1);
    let mut content = Vec::new();
    for number in 0..size.files {
        let path = place(root, number);
        if number % 64 == 0 {
            in_words(&path, fs::create_dir_all(path.parent().unwrap_or(root)))?;
        }
        fill(&mut content, length(&mut random, mean), &mut random);
        in_words(&path, fs::write(&path, &content))?;
        if number % 40 == 0 {
            in_words(&path, fs::set_permissions(&path, fs::Permissions::from_mode(0o755)))?;
        }
        if number % 50 == 7 {
            let target = path.file_name().unwrap_or_default();
            in_words(&path, symlink(target, path.with_extension("soft")))?;
            in_words(&path, fs::hard_link(&path, path.with_extension("hard")))?;
        }
    }
    Ok(())
}

/// 64 files a directory, 16 directories in each above.
fn place(root: &Path, number: u64) -> PathBuf {
    let (leaf, upper) = (number / 64 % 16, number / 1024);
    root.join(format!("part{upper:03}"))
        .join(format!("dir{leaf:02}"))
        .join(format!("file{number:06}.txt"))
}

/// Nine in ten files have a fifth of the mean, one in ten makes up for them; uniform within each.
fn length(random: &mut Random, mean: u64) -> usize {
    let top = if random.below(10) == 0 { 16 * mean } else { 2 * mean / 5 };
    usize::try_from(random.below(top + 1)).unwrap_or(usize::MAX)
}

/// Lines of numbers for three files in four (they compress), random bytes for the fourth.
fn fill(content: &mut Vec<u8>, length: usize, random: &mut Random) {
    content.clear();
    if random.below(4) == 0 {
        while content.len() < length {
            content.extend(random.next().to_le_bytes());
        }
    } else {
        let mut line = String::new();
        while content.len() < length {
            line.clear();
            // Writing into a String cannot fail.
            let _ = writeln!(
                line,
                "line {:>8} says {:016x} and {}",
                content.len(),
                random.next(),
                random.below(1000)
            );
            content.extend(line.as_bytes());
        }
    }
    content.truncate(length);
}

fn in_words<T>(path: &Path, result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|e| format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests;
