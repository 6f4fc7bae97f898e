//! Writes behind a cut that was not finished.

use super::*;
use crate::VolumeOptions;
use keepfs_media::ram::RamDevice;
use keepfs_store::FormatOptions;
use keepfs_vfs::{Direct, Ino, NewInode, Vfs};
use std::sync::Arc;

/// Pages of the file: more than one transaction frees.
const PAGES: usize = 1800;

/// C-1: a write behind the end of a file whose cut an error ended finishes the cut first, and goes on from the inode that
/// this leaves, not from the one before.
#[test]
fn a_write_goes_on_from_what_a_cut_leaves() {
    let device = Arc::new(RamDevice::new(16_384));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let mut options = VolumeOptions {
        background: false,
        ..VolumeOptions::default()
    };
    options.store.background = false;
    let volume = Volume::open(device, &options).expect("open");
    let entry = volume.mknod(Ino(1), b"f", &NewInode::by_root(0o100_644)).expect("made");
    let ino = entry.attr.ino;
    for at in (0..PAGES).step_by(200) {
        let offset = (at * PAGE) as u64;
        let written = volume.write(ino, offset, &[7; 200 * PAGE], WriteHow::default());
        assert_eq!(written, Ok(200 * PAGE));
    }

    let inode = volume.see(|view| volume.usable(view, ino.0)).expect("live");
    let cut = volume.prepare_cut(ino.0, &inode, 0).expect("prepared");
    let unfinished = volume.change(|txn| {
        let mut file = Held::load(txn, ino.0)?;
        file.step();
        let unfinished = cut.apply(txn, &mut file)?;
        file.put(txn)?;
        Ok(unfinished)
    });
    assert!(unfinished.expect("cut"));
    volume.orphans.trim_starts(ino.0);

    let offset = (300 * PAGE + 50) as u64;
    assert_eq!(volume.write(ino, offset, &[9; 100], WriteHow::default()), Ok(100));
    let mut bytes = vec![1; 301 * PAGE];
    let read = volume.read(ino, 0, &mut bytes).expect("read");
    let mut expected = vec![0; 300 * PAGE + 150];
    expected[300 * PAGE + 50..].fill(9);
    assert!(bytes[..read] == expected, "old pages are seen again");
}
