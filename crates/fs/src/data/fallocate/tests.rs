//! What is given back of an allocation that found no space.

use super::*;
use crate::VolumeOptions;
use keepfs_media::ram::RamDevice;
use keepfs_store::FormatOptions;
use keepfs_vfs::{Direct, Ino, NewInode, Vfs, WriteHow};
use std::sync::Arc;

/// S-20.3: pages that somebody wrote while the allocation gave way stay.
#[test]
fn what_was_written_meanwhile_is_not_given_back() {
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
    let page = PAGE_BYTES;
    volume
        .fallocate(ino, FallocMode::Allocate, 0, 10 * page)
        .expect("allocated");
    let write = |at, data: &[u8]| {
        let written = volume.write(ino, at, data, WriteHow::default());
        assert_eq!(written, Ok(data.len()));
    };
    write(3 * page, &vec![3; page as usize]);
    write(5 * page + 100, b"part of a page");
    volume.take_back(ino.0, (0, 10)).expect("given back");
    let mut bytes = vec![1; 10 * page as usize];
    assert_eq!(volume.read(ino, 0, &mut bytes), Ok(bytes.len()));
    let mut expected = vec![0; 10 * page as usize];
    expected[3 * page as usize..4 * page as usize].fill(3);
    expected[5 * page as usize + 100..][..14].copy_from_slice(b"part of a page");
    assert!(bytes == expected, "what was written is there");
    let blocks = volume.getattr(ino).expect("attributes").blocks;
    // What is staged may count twice.
    assert!(blocks <= 3 * page / 512, "the others are holes: {blocks}");
}
