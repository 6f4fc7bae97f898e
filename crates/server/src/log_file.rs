//! The file of `log=`: lines of text are appended to it, so it is nothing that they would ruin, or that would make a server wait
//! (S-18.17).

use crate::failure::Failure;
use crate::visible::Shown;
use keepfs_format::superblock::MAGIC;
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens the log of a mount of `pool`, made if it is not there. Errors: it cannot be, or is nothing for a log.
pub fn open(path: &Path, pool: &Path) -> Result<File, Failure> {
    check(path, pool)?;
    let failed = Failure::io("open the log", path);
    // What it says of the pool's names is root's to know. Whatever comes to stand there meanwhile is not waited for.
    let opened = File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .and_then(|log| Ok((log.metadata()?, log)));
    let (found, log) = opened.map_err(failed)?;
    fits(path, &found, pool)?;
    fcntl_setfl(&log, OFlags::APPEND).map_err(|error| Failure::io("open the log", path)(error.into()))?;
    Ok(log)
}

/// Errors: what stands there is nothing for a log. Makes nothing.
pub fn check(path: &Path, pool: &Path) -> Result<(), Failure> {
    let failed = |error| Failure::io("look at the log", path)(error);
    let found = match fs::metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
    };
    fits(path, &found, pool)?;
    if found.is_file() && begins_as_pool(path).map_err(failed)? {
        return Err(refused(path, "begins as a Keepfs pool does, which a log would ruin"));
    }
    match found.is_file() && has_superblock(path) {
        true => Err(refused(path, "has a Keepfs pool in it, which a log would ruin")),
        false => Ok(()),
    }
}

fn fits(path: &Path, found: &Metadata, pool: &Path) -> Result<(), Failure> {
    let kind = found.file_type();
    let kinds = [
        (kind.is_fifo(), "is a FIFO"),
        (kind.is_socket(), "is a socket"),
        (kind.is_block_device(), "is a block device"),
        (kind.is_dir(), "is a directory"),
    ];
    if let Some((_, what)) = kinds.into_iter().find(|(is_one, _)| *is_one) {
        return Err(refused(path, what));
    }
    let is_pool = fs::metadata(pool).is_ok_and(|pool| (pool.dev(), pool.ino()) == (found.dev(), found.ino()));
    match is_pool {
        true => Err(refused(path, "is the pool itself")),
        false => Ok(()),
    }
}

fn begins_as_pool(path: &Path) -> io::Result<bool> {
    // S-2.19: so much of it every version has.
    let magic = &MAGIC[..6];
    let mut first = [0; 6];
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path);
    match file.and_then(|mut file| file.read_exact(&mut first)) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        read => read.map(|()| first == magic),
    }
}

/// Whether a pool is found there though its first page is damaged (S-2.26).
fn has_superblock(path: &Path) -> bool {
    let device = FileDevice::open(path, OpenMode::ReadOnly, FileOptions::default());
    device.is_ok_and(|device| keepfs_store::Pool::on(&device).is_ok())
}

fn refused(path: &Path, what: &str) -> Failure {
    Failure::Other(format!(
        "the log {} {what}: give a regular file, or a name that does not exist yet",
        path.shown()
    ))
}

#[cfg(test)]
mod tests;
