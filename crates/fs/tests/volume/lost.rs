//! Metadata that nobody knows any more, since its frame and redo were damaged together: it is lost and says so, in this life and
//! in each one behind it, and contradicts nothing (S-4.8, S-15.17; R-9).

use super::{Seen, find, lasting, make, write};
use keepfs_check::{Finding, Options, walk};
use keepfs_format::MetaId;
use keepfs_fs::{FormatOptions, Part, Volume};
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, Vfs, XattrHow};
use std::sync::Arc;

const PARTS: [Part; 4] = [Part::Inode, Part::Dir, Part::Map, Part::Xattr];
/// Files enough for several metablocks of inodes and of names.
const FILES: usize = 80;
/// A name that stands in redo alone.
const MARKER: &str = "stands-in-redo-alone";

/// A directory of files, one of which has a block map and attributes of its own.
fn fill(volume: &Volume, dir: &str) -> (Ino, Ino) {
    let dir = make(volume, Ino::ROOT, dir, FileKind::Dir).expect("made");
    for n in 0..FILES {
        make(volume, dir, &format!("a-file-with-a-longer-name-{n}"), FileKind::File).expect("made");
    }
    let file = make(volume, dir, "file", FileKind::File).expect("made");
    for page in (0..40).step_by(2) {
        write(volume, file, page * 4096, &[7; 4096]);
    }
    let set = volume.setxattr(file, b"user.long", &[9; 600], XattrHow::default());
    set.expect("set");
    (dir, file)
}

/// What stands in redo from here on is nothing that anybody believes.
fn damage_redo(volume: &Volume) {
    make(volume, Ino::ROOT, MARKER, FileKind::File).expect("made");
    let region = volume.store().staging();
    let mut all = vec![0; region.bytes()];
    region.load(0, &mut all);
    let at = all.windows(MARKER.len()).position(|bytes| bytes == MARKER.as_bytes());
    region.xor_u8(at.expect("it is there"), 1);
}

/// More than any code knows how to mend, in each line.
fn ruin(volume: &Volume, (dir, file): (Ino, Ino), part: Part) -> MetaId {
    let of = if part == Part::Dir { dir } else { file };
    let (id, _) = volume.part_of(of.0, part).expect("known").expect("there");
    let frame = volume.store().structure(id, false).expect("right").frame as usize;
    for word in 0..512 {
        volume
            .store()
            .strays()
            .xor_u64(frame * 4096 + word * 8, 0x0123_4567_89AB_CDEF << (word % 7));
    }
    id
}

/// Somebody needs what is lost.
fn needs(volume: &Volume, part: Part, dir: &str) -> Result<(), Errno> {
    let dir = find(volume, Ino::ROOT, dir)?;
    let file = find(volume, dir, "file")?;
    match part {
        Part::Xattr => volume.getxattr(file, b"user.long").map(drop),
        _ => volume.read(file, 8192, &mut [0; 4096]).map(drop),
    }
}

fn findings(device: &SimDevice) -> Vec<Finding> {
    walk(&Seen(device), &Options { data: true, limit: 20 }).findings
}

/// Each part of a file and a directory, never on the device or older there; the next life has it from the image alone, or takes
/// over from a server that was killed behind the fence, before or behind the checkpoint.
#[test]
fn what_is_lost_stays_known() {
    for part in PARTS {
        for (was_there, synced, takes_over) in [
            (false, true, false),
            (false, true, true),
            (false, false, true),
            (true, true, false),
            (true, true, true),
        ] {
            if part == Part::Dir && was_there {
                // It changes with a split alone, and what nobody changed is read again.
                continue;
            }
            let case = format!("{part:?}, on the device {was_there}, synced {synced}, takeover {takes_over}");
            let device = Arc::new(SimDevice::new(8192));
            let format = FormatOptions {
                test: true,
                ..FormatOptions::default()
            };
            Volume::format(device.clone(), &format).expect("format");
            let volume = Volume::open(device.clone(), &lasting()).expect("open");
            fill(&volume, "whole");
            let mut made = was_there.then(|| fill(&volume, "hit"));
            volume.store().checkpoint().expect("checkpoint");
            damage_redo(&volume);
            match made {
                None => made = Some(fill(&volume, "hit")),
                Some((dir, file)) => {
                    make(&*volume, dir, "one more", FileKind::File).expect("made");
                    write(&*volume, file, 3 * 4096, &[8; 4096]);
                    let set = volume.setxattr(file, b"user.more", &[9; 600], XattrHow::default());
                    set.expect("set");
                }
            }
            let id = ruin(&volume, made.expect("made"), part);
            assert_eq!(needs(&volume, part, "hit"), Err(Errno::EIO), "{case}");
            if synced {
                volume.syncfs().expect("a checkpoint makes it durable");
                assert!(volume.store().fault().is_none(), "{case}");
                let told = findings(&device);
                assert_eq!(told, [Finding::MetaLost { id: id.into() }], "{case}");
                // What an open transaction had changed of it, a replay finds lost already.
                make(&*volume, Ino::ROOT, "behind", FileKind::File).expect("made");
            }
            let remains = volume.remains().expect("memory");
            volume.store().kill();
            drop(volume);
            let volume = match takes_over {
                true => Volume::resume(device.clone(), &lasting(), remains).expect("resumes").0,
                false => Volume::open(device.clone(), &lasting()).expect("opens"),
            };
            assert_eq!(needs(&volume, part, "whole"), Ok(()), "{case}");
            match synced {
                true => assert_eq!(needs(&volume, part, "hit"), Err(Errno::EIO), "{case}"),
                // It is gone, and so is what names it, as it is told.
                false => assert_eq!(needs(&volume, part, "hit"), Err(Errno::ENOENT), "{case}"),
            }
            let listed = volume.store().history().damage();
            let is_listed = listed.iter().any(|entry| entry.id == id.0 && entry.done >= 8);
            assert!(is_listed || !synced, "{case}: {listed:?}");
            fill(&volume, "since");
            volume.unmount().expect("unmount");
            drop(volume);
            let lost = Finding::MetaLost { id: id.into() };
            assert_eq!(findings(&device), Vec::from_iter(synced.then_some(lost)), "{case}");
        }
    }
}
