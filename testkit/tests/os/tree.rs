//! The tree below a directory of the running system, as a snapshot with times.

use std::fs::{self, File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;

use keepfs_testkit::tree::{DataHash, Found, Node, Snapshot};
use keepfs_vfs::{FileKind, Time};

use super::{Place, Run, Stop, calls};

/// Everything below `base`. Panics if a call fails, with what failed: no call may, on a sound system.
pub fn snapshot(base: &str) -> Snapshot {
    let mut found = Vec::new();
    if let Err(Stop::Errno(errno)) = walk(base, &[], &mut found) {
        panic!("walking {base}: {errno}");
    }
    Snapshot::of(found)
}

fn walk(base: &str, path: &[u8], found: &mut Vec<Found>) -> Run<()> {
    let whole = format!("{base}/{}", String::from_utf8_lossy(path));
    let metadata = if path.is_empty() {
        fs::metadata(&whole)?
    } else {
        fs::symlink_metadata(&whole)?
    };
    found.push((
        path.to_vec(),
        metadata.ino(),
        node(
            &Place {
                path: whole.clone(),
                is_slot: false,
            },
            &metadata,
        )?,
    ));
    if !metadata.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(&whole)? {
        let name = entry?.file_name();
        let mut below = path.to_vec();
        if !below.is_empty() {
            below.push(b'/');
        }
        below.extend_from_slice(name.as_bytes());
        walk(base, &below, found)?;
    }
    Ok(())
}

fn node(place: &Place, metadata: &Metadata) -> Run<Node> {
    let kind = FileKind::of_mode(metadata.mode()).expect("a known kind");
    let has_flags = matches!(kind, FileKind::File | FileKind::Dir);
    let file = if has_flags {
        Some(File::open(&place.path)?)
    } else {
        None
    };
    let is_file = kind == FileKind::File;
    Ok(Node {
        kind,
        mode: metadata.mode() & 0o7777,
        nlink: metadata.nlink() as u32,
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        size: if is_file { metadata.size() } else { 0 },
        data: match &file {
            Some(file) if is_file => data(file)?,
            _ => DataHash::default(),
        },
        target: if kind == FileKind::Symlink {
            fs::read_link(&place.path)?.into_os_string().into_vec()
        } else {
            Vec::new()
        },
        xattrs: xattrs(place)?,
        flags: file.as_ref().map_or(Ok(0), calls::flags)?,
        times: Some((
            Time {
                sec: metadata.mtime(),
                nsec: metadata.mtime_nsec() as u32,
            },
            Time {
                sec: metadata.ctime(),
                nsec: metadata.ctime_nsec() as u32,
            },
        )),
    })
}

fn xattrs(place: &Place) -> Run<Vec<(Vec<u8>, Vec<u8>)>> {
    let names = calls::list_xattr(place)?.into_iter();
    names
        .map(|name| calls::get_xattr_named(place, calls::os_name(&name)).map(|value| (name, value)))
        .collect()
}

/// Contents by their data only: files may be sparse and huge.
fn data(mut file: &File) -> Run<DataHash> {
    const PAGE_BYTES: u64 = 4096;
    let mut hash = DataHash::default();
    let mut at = 0;
    loop {
        let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Err(rustix::io::Errno::NXIO) => return Ok(hash),
            other => other?,
        };
        let start = start - start % PAGE_BYTES;
        let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start.max(at)))?.next_multiple_of(PAGE_BYTES);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        file.take(end - start).read_to_end(&mut bytes)?;
        hash.add(start, &bytes);
        at = end;
    }
}
