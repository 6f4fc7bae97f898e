//! A fenced object in a history (S-15.17): its frame is overwritten from outside, no rung mends it, all else goes on. What a
//! checkpoint writes of it is what device, log and redo tell, so that no crash may lose anything of it.

use keepfs_format::{MetaId, PAGE, inode};
use keepfs_fs::{Part, Volume};
use keepfs_store::Structure;
use keepfs_vfs::{Ino, Vfs};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;

/// Where in the frame bytes are overwritten, and with what.
const AT: usize = 1000;
const STRAY: [u8; 64] = [0xE7; 64];

/// Fences a metablock of what stands at `path`: the root node of its block map or directory, or else its inode's. `false`: there
/// is no such path. Errors: the stray write was not noticed, or it ended writing.
pub fn put_up(volume: &Volume, path: &str) -> Result<bool, String> {
    let Some(ino) = find(volume, path) else {
        return Ok(false);
    };
    let part = |part| {
        let found = volume.part_of(ino, part).map_err(|e| e.to_string())?;
        Ok::<_, String>(found.map(|(id, _)| id))
    };
    let id: MetaId = match (part(Part::Map)?, part(Part::Dir)?) {
        (Some(id), _) | (None, Some(id)) => id,
        _ => inode::block_of(ino),
    };
    let store = volume.store();
    let place = store.structure(id, false).map_err(|e| format!("{id}: {e}"))?;
    scribble(&place).map_err(|e| format!("{id}: no stray write: {e}"))?;
    match store.sweep_frame(place.frame) {
        Ok(Some(false)) if store.fenced() == 1 => Ok(true),
        other => Err(format!("{id}: a stray write gave {other:?}, {} fenced", store.fenced())),
    }
}

fn find(volume: &Volume, path: &str) -> Option<u64> {
    let mut at = Ino::ROOT;
    for name in path.split('/') {
        let found = volume.lookup(at, name.as_bytes()).ok()?.attr.ino;
        volume.forget(found, 1);
        at = found;
    }
    Some(at.0)
}

/// Writes past the door: through the file of a shared mapping, else as this process sees its memory.
fn scribble(place: &Structure) -> std::io::Result<()> {
    let offset = place.frame as usize * PAGE + AT;
    let start = format!("{:x}-", place.arena);
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let range = maps.lines().find(|line| line.starts_with(&start));
    let range = range.and_then(|line| line.split(' ').next()).unwrap_or_default();
    let shared = OpenOptions::new()
        .write(true)
        .open(format!("/proc/self/map_files/{range}"));
    match shared {
        Ok(file) => file.write_all_at(&STRAY, offset as u64),
        Err(_) => {
            let memory: File = OpenOptions::new().write(true).open("/proc/self/mem")?;
            memory.write_all_at(&STRAY, (place.arena + offset) as u64)
        }
    }
}
