//! The kernel's table of mounts, as far as it is about Keepfs (proc(5), mountinfo). Never asks a server.

use keepfs_fs::AccessTimes;
use keepfs_media::mounts;
use parking_lot::Mutex;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mount {
    /// Device number as `major:minor`.
    pub device: String,
    /// Where.
    pub dir: PathBuf,
    /// Options of the mount, such as `rw,nosuid`.
    pub options: String,
    /// Type, such as `fuse.keepfs`.
    pub kind: String,
    /// What is mounted: of Keepfs the pool, an absolute path.
    pub source: PathBuf,
    /// Options of the file system, such as `rw,user_id=0`; the same at every place where it is mounted.
    pub super_options: String,
}

impl Mount {
    /// Whether it is one of Keepfs.
    pub fn is_keepfs(&self) -> bool {
        matches!(self.kind.as_str(), "fuse.keepfs" | "fuseblk.keepfs")
    }

    /// Whether the file system refuses all changes, wherever it is mounted.
    pub fn is_read_only(&self) -> bool {
        self.super_options.split(',').any(|word| word == "ro")
    }

    /// Whether access times of directories stay.
    pub fn is_nodiratime(&self) -> bool {
        self.options.split(',').any(|word| word == "nodiratime")
    }

    /// When reading stamps the access time.
    pub fn access_times(&self) -> AccessTimes {
        let has = |name| self.options.split(',').any(|word| word == name);
        match (has("noatime"), has("relatime")) {
            (true, _) => AccessTimes::Never,
            (_, true) => AccessTimes::Relative,
            _ => AccessTimes::Strict,
        }
    }
}

/// The table, open, in a process that may not open it when it wants to know.
static OPEN: Mutex<Option<File>> = Mutex::new(None);

const TABLE: &str = "/proc/self/mountinfo";

/// Opens the table for the rest of the life of this process. Errors: those of the file system.
pub fn keep_open() -> io::Result<()> {
    *OPEN.lock() = Some(File::open(TABLE)?);
    Ok(())
}

fn read() -> io::Result<Vec<u8>> {
    let mut open = OPEN.lock();
    let Some(table) = open.as_mut() else {
        return fs::read(TABLE);
    };
    let mut text = Vec::new();
    table.rewind()?;
    table.read_to_end(&mut text)?;
    Ok(text)
}

/// All mounts, in the order in which they were made.
pub fn mounts() -> Vec<Mount> {
    parsed(&read().unwrap_or_default())
}

/// All mounts that this process sees.
pub fn of_process(pid: u32) -> Vec<Mount> {
    parsed(&fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default())
}

fn parsed(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// The topmost mount at `dir` (an absolute path without links).
pub fn at(dir: &Path) -> Option<Mount> {
    mounts().into_iter().rfind(|mount| mount.dir == dir)
}

/// All places where the file system with this device number is mounted.
pub fn all_of_device(device: &str) -> Vec<Mount> {
    mounts().into_iter().filter(|mount| mount.device == device).collect()
}

/// The mount with this device number, at `dir` if it is seen at several places.
pub fn of_device(device: &str, dir: &Path) -> Option<Mount> {
    let (here, elsewhere): (Vec<Mount>, Vec<Mount>) =
        all_of_device(device).into_iter().partition(|mount| mount.dir == dir);
    here.into_iter().chain(elsewhere).next()
}

/// One line: id, parent, device, root, mount point, options, optional fields, `-`, type, source, options of the super block.
fn parse(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8(field.to_vec()).ok();
    let mut fields = line.split(|b| *b == b' ');
    let device = text(fields.nth(2)?)?;
    let path = |field: &[u8]| PathBuf::from(OsString::from_vec(mounts::unescape(field)));
    let dir = path(fields.nth(1)?);
    let options = text(fields.next()?)?;
    let mut fields = fields.skip_while(|field| *field != b"-");
    let kind = text(fields.nth(1)?)?;
    let source = path(fields.next()?);
    let super_options = text(fields.next()?)?;
    Some(Mount {
        device,
        dir,
        options,
        kind,
        source,
        super_options,
    })
}

#[cfg(test)]
mod tests;
