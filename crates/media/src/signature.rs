//! Signatures of file systems and volume managers, so that a pool is never created over someone's data.

use std::fmt;

use crate::{Device, DeviceError, PAGE, PAGE_BYTES, PageNo};

/// What was found on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The name of the format, as users know it.
    pub name: &'static str,
    /// Where its magic is, in bytes from the start of the device.
    pub offset: u64,
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {})", self.name, self.offset)
    }
}

struct Magic {
    name: &'static str,
    offset: usize,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, offset: usize, bytes: &'static [u8]) -> Magic {
    Magic { name, offset, bytes }
}

/// The name of our own signature.
pub const KEEPFS: &str = "keepfs";

/// S-2.2, without the version byte.
const KEEPFS_MAGIC: &[u8] = b"KEEPFS\0";

/// Magics near the start of a device, strong ones first (a FAT boot sector also looks like an MBR).
const MAGICS: &[Magic] = &[
    magic(KEEPFS, 0, KEEPFS_MAGIC),
    magic("ext2/ext3/ext4", 0x438, &[0x53, 0xEF]),
    magic("xfs", 0, b"XFSB"),
    magic("btrfs", 0x1_0040, b"_BHRfS_M"),
    magic("ntfs", 3, b"NTFS    "),
    magic("exfat", 3, b"EXFAT   "),
    magic("vfat", 0x52, b"FAT32   "),
    magic("vfat", 0x36, b"FAT16   "),
    magic("vfat", 0x36, b"FAT12   "),
    magic("swap", 4086, b"SWAPSPACE2"),
    magic("swap", 4086, b"SWAP-SPACE"),
    magic("hibernation image", 4086, b"S1SUSPEND"),
    magic("LVM2", 0x18, b"LVM2 001"),
    magic("LVM2", 0x218, b"LVM2 001"),
    magic("LVM2", 0x418, b"LVM2 001"),
    magic("LVM2", 0x618, b"LVM2 001"),
    magic("LUKS", 0, b"LUKS\xBA\xBE"),
    magic("LUKS", 0x4000, b"SKUL\xBA\xBE"),
    magic("Linux RAID", 0, &[0xFC, 0x4E, 0x2B, 0xA9]),
    magic("Linux RAID", 4096, &[0xFC, 0x4E, 0x2B, 0xA9]),
    magic("bcache or bcachefs", 4120, BCACHE),
    magic("squashfs", 0, b"hsqs"),
    magic("erofs", 1024, &[0xE2, 0xE1, 0xF5, 0xE0]),
    magic("f2fs", 1024, &[0x10, 0x20, 0xF5, 0xF2]),
    magic("nilfs2", 1030, &[0x34, 0x34]),
    magic("jfs", 0x8000, b"JFS1"),
    magic("reiserfs", 0x1_0034, b"ReIsEr"),
    magic("iso9660", 0x8001, b"CD001"),
    magic("udf", 0x8001, b"BEA01"),
    magic("minix", 1040, &[0x7F, 0x13]),
    magic("minix", 1040, &[0x8F, 0x13]),
    magic("minix", 1040, &[0x68, 0x24]),
    magic("minix", 1040, &[0x78, 0x24]),
    magic("minix", 1048, &[0x5A, 0x4D]),
    magic("bfs", 0, &[0xCE, 0xFA, 0xAD, 0x1B]),
    magic("cramfs", 0, &[0x45, 0x3D, 0xCD, 0x28]),
    magic("cramfs", 0, &[0x28, 0xCD, 0x3D, 0x45]),
    magic("hfs", 1024, b"BD"),
    magic("hfsplus", 1024, b"H+"),
    magic("hfsplus", 1024, b"HX"),
    magic("apfs", 32, b"NXSB"),
    magic("ocfs2", 1024, b"OCFSV2"),
    magic("ocfs2", 2048, b"OCFSV2"),
    magic("ocfs2", 4096, b"OCFSV2"),
    magic("ocfs2", 8192, b"OCFSV2"),
    magic("gfs2", 0x1_0000, &[0x01, 0x16, 0x19, 0x70]),
    magic("Ceph BlueStore", 0, b"bluestore block device"),
    magic("VDO", 0, b"dmvdo001"),
    magic("Stratis", 512, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("Stratis", 4608, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("GPT partition table", 512, b"EFI PART"),
    magic("GPT partition table", 4096, b"EFI PART"),
    magic("MBR partition table", 510, &[0x55, 0xAA]),
];

const BCACHE: &[u8] = &[
    0xC6, 0x85, 0x73, 0xF6, 0x4E, 0x1A, 0x45, 0xCA, 0x82, 0x65, 0xF5, 0x7F, 0x48, 0xBA, 0x6D, 0x81,
];

/// Bytes at the start that hold every magic of [`MAGICS`].
const HEAD: u64 = 0x1_1000;

/// ZFS: a label of 256 KiB whose second half is uberblocks; two labels at the start, two at the end.
const ZFS_LABEL: u64 = 256 << 10;
const ZFS_UBERBLOCKS: u64 = 128 << 10;
const ZFS_MAGIC: u64 = 0x00BA_B10C;

/// The first signature found on `device`, or none.
///
/// # Errors
/// Those of reading the device.
pub fn detect(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let head = read_at(device, 0, HEAD)?;
    if let Some(found) = MAGICS.iter().find_map(|magic| magic.found_in(&head)) {
        return Ok(Some(found));
    }
    if let Some(found) = keepfs_elsewhere(device)? {
        return Ok(Some(found));
    }
    match zfs(device)? {
        Some(found) => Ok(Some(found)),
        None => raid(device),
    }
}

impl Magic {
    fn found_in(&self, head: &[u8]) -> Option<Signature> {
        let bytes = head.get(self.offset..)?.get(..self.bytes.len())?;
        (bytes == self.bytes).then_some(Signature {
            name: self.name,
            offset: self.offset as u64,
        })
    }
}

/// Up to `len` bytes (whole pages) from `offset` (whole pages) on, cut at the end of the device.
fn read_at(device: &dyn Device, offset: u64, len: u64) -> Result<Vec<u8>, DeviceError> {
    let at = offset / PAGE_BYTES;
    let pages = (len / PAGE_BYTES).min(device.pages().saturating_sub(at));
    let mut bytes = vec![0; pages as usize * PAGE];
    device.read(PageNo(at), &mut bytes)?;
    Ok(bytes)
}

/// Our superblock slots that are not at the start (S-2.1).
fn keepfs_elsewhere(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let pages = device.pages();
    for slot in (1..4).map(|quarter| u128::from(pages) * quarter / 4) {
        let slot = slot as u64;
        let offset = slot * PAGE_BYTES;
        if read_at(device, offset, PAGE_BYTES)?.starts_with(KEEPFS_MAGIC) {
            return Ok(Some(Signature { name: KEEPFS, offset }));
        }
    }
    Ok(None)
}

/// Any of the four ZFS labels.
fn zfs(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    let bytes = device.pages() * PAGE_BYTES;
    let end = bytes / ZFS_LABEL * ZFS_LABEL;
    if end < 4 * ZFS_LABEL {
        return Ok(None);
    }
    for label in [0, ZFS_LABEL, end - 2 * ZFS_LABEL, end - ZFS_LABEL] {
        let from = label + ZFS_UBERBLOCKS;
        let ring = read_at(device, from, ZFS_LABEL - ZFS_UBERBLOCKS)?;
        let is_magic =
            |word: &[u8; 8]| u64::from_le_bytes(*word) == ZFS_MAGIC || u64::from_be_bytes(*word) == ZFS_MAGIC;
        let found = ring
            .chunks(1024)
            .position(|block| block.first_chunk().is_some_and(is_magic));
        if let Some(block) = found {
            return Ok(Some(Signature {
                name: "zfs",
                offset: from + 1024 * block as u64,
            }));
        }
    }
    Ok(None)
}

/// The members of arrays that say so at their end: Linux RAID 0.90 and 1.0, DRBD, DDF and Intel's.
fn raid(device: &dyn Device) -> Result<Option<Signature>, DeviceError> {
    const TAIL: u64 = 128 << 10;
    let end = device.pages() * PAGE_BYTES;
    if end < TAIL {
        return Ok(None);
    }
    let from = end - TAIL;
    let tail = read_at(device, from, TAIL)?;
    let ends: [(&str, u64, &[u8]); 5] = [
        (
            "Linux RAID",
            end / (64 << 10) * (64 << 10) - (64 << 10),
            &[0xFC, 0x4E, 0x2B, 0xA9],
        ),
        ("Linux RAID", end - (8 << 10), &[0xFC, 0x4E, 0x2B, 0xA9]),
        ("DRBD", end - PAGE_BYTES + 60, &[0x83, 0x74, 0x02]),
        ("DDF RAID", end - 512, &[0xDE, 0x11, 0xDE, 0x11]),
        ("Intel RAID", end - 1024, b"Intel Raid ISM Cfg Sig. "),
    ];
    let found = ends
        .into_iter()
        .find(|(_, offset, bytes)| tail[(offset - from) as usize..].starts_with(bytes));
    Ok(found.map(|(name, offset, _)| Signature { name, offset }))
}

#[cfg(test)]
mod tests;
