//! Tests of the detection: each magic alone, near misses, small devices.

use super::*;
use crate::Class;
use crate::ram::RamDevice;

fn with(pages: u64, offset: u64, bytes: &[u8]) -> RamDevice {
    let device = RamDevice::new(pages);
    let page = PageNo(offset / PAGE_BYTES);
    let mut content = vec![0; 2 * PAGE];
    let within = (offset % PAGE_BYTES) as usize;
    content[within..within + bytes.len()].copy_from_slice(bytes);
    let len = if page.0 + 1 == pages { PAGE } else { 2 * PAGE };
    device.write(page, &content[..len], Class::Data).unwrap();
    device
}

#[test]
fn every_magic_is_found_and_named() {
    for magic in MAGICS {
        let offset = magic.offset as u64;
        let device = with(512, offset, magic.bytes);
        let found = detect(&device).unwrap().expect(magic.name);
        assert_eq!((found.name, found.offset), (magic.name, offset));
        let mut damaged = magic.bytes.to_vec();
        damaged[0] ^= 1;
        let device = with(512, offset, &damaged);
        assert_eq!(detect(&device).unwrap(), None, "{}", magic.name);
    }
}

/// Formats that `create` once overwrote without a word, as their own tools write them: what is taken off the table is missed.
#[test]
fn formats_that_were_overwritten_once_are_known() {
    let formats: [(&str, u64, &[u8]); 16] = [
        ("minix", 0x410, &[0x7F, 0x13]),
        ("minix", 0x410, &[0x8F, 0x13]),
        ("minix", 0x410, &[0x68, 0x24]),
        ("minix", 0x410, &[0x78, 0x24]),
        ("minix", 0x418, &[0x5A, 0x4D]),
        ("bfs", 0, &[0xCE, 0xFA, 0xAD, 0x1B]),
        ("cramfs", 0, &[0x45, 0x3D, 0xCD, 0x28]),
        ("cramfs", 0, &[0x28, 0xCD, 0x3D, 0x45]),
        ("hfsplus", 1024, b"H+"),
        ("hfsplus", 1024, b"HX"),
        ("apfs", 32, b"NXSB"),
        ("ocfs2", 4096, b"OCFSV2"),
        ("gfs2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
        ("Ceph BlueStore", 0, b"bluestore block device"),
        ("VDO", 0, b"dmvdo001"),
        ("Stratis", 512, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ];
    for (name, offset, bytes) in formats {
        let found = detect(&with(512, offset, bytes)).unwrap();
        assert_eq!(found, Some(Signature { name, offset }));
    }
}

#[test]
fn our_own_slots_are_found_anywhere() {
    for (pages, slot) in [(514, 128), (514, 257), (515, 386)] {
        let device = with(pages, slot * PAGE_BYTES, b"KEEPFS\0\x01");
        let found = detect(&device).unwrap().expect("a slot");
        assert_eq!((found.name, found.offset), (KEEPFS, slot * PAGE_BYTES));
    }
}

#[test]
fn zfs_is_found_in_all_labels_and_byte_orders() {
    let pages = 1024;
    let end = pages * PAGE_BYTES;
    let word = ZFS_MAGIC.to_le_bytes();
    let mut swapped = word;
    swapped.reverse();
    for label in [0, ZFS_LABEL, end - 2 * ZFS_LABEL, end - ZFS_LABEL] {
        for word in [word, swapped] {
            let offset = label + ZFS_UBERBLOCKS + 5 * 1024;
            let found = detect(&with(pages, offset, &word)).unwrap();
            assert_eq!(found.map(|it| (it.name, it.offset)), Some(("zfs", offset)));
        }
    }
}

#[test]
fn members_of_arrays_are_found_by_their_ends() {
    for pages in [32, 1000, 1024] {
        let end = pages * PAGE_BYTES;
        let superblock = end / 65_536 * 65_536 - 65_536;
        let ends: [(&str, u64, &[u8]); 5] = [
            ("Linux RAID", superblock, &[0xFC, 0x4E, 0x2B, 0xA9]),
            ("Linux RAID", end - 8192, &[0xFC, 0x4E, 0x2B, 0xA9]),
            ("DRBD", end - 4036, &[0x83, 0x74, 0x02, 0x6B]),
            ("DDF RAID", end - 512, &[0xDE, 0x11, 0xDE, 0x11]),
            ("Intel RAID", end - 1024, b"Intel Raid ISM Cfg Sig. 1.0"),
        ];
        for (name, offset, bytes) in ends {
            let found = detect(&with(pages, offset, bytes)).unwrap();
            assert_eq!(found, Some(Signature { name, offset }), "{pages} pages");
        }
    }
}

#[test]
fn empty_and_tiny_devices_have_none() {
    for pages in [1, 2, 17, 18, 255, 1000] {
        assert_eq!(detect(&RamDevice::new(pages)).unwrap(), None);
    }
    let tiny = with(1, 0x438, &[0x53, 0xEF]);
    assert_eq!(detect(&tiny).unwrap().unwrap().name, "ext2/ext3/ext4");
}
