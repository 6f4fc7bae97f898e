//! What a metablock holds when it begins to exist (S-3.3).

use keepfs_format::inode::{self, Inode};
use keepfs_format::metablock::HEADER;
use keepfs_format::{FromZeros, Header, IntoBytes, Kind, MetaId, PAGE, Space};

/// The header of a metablock born now, as bytes followed by zeros.
pub fn newborn(header: &Header) -> Box<[u8; PAGE]> {
    let mut bytes = Box::new([0; PAGE]);
    bytes[..HEADER].copy_from_slice(header.as_bytes());
    bytes
}

/// All inodes of a metablock born now are dead, and their versions go on where no earlier life of these numbers, up to
/// `generation` of the metablock, came to (S-3.3).
pub fn dead_since(bytes: &mut [u8; PAGE], generation: u32) {
    let mut slot = Inode::new_zeroed();
    slot.state.set(inode::DEAD);
    slot.cur.set(u64::from(generation) << 32);
    for i in 0..inode::PER_BLOCK as usize {
        let at = HEADER + i * inode::SIZE;
        bytes[at..at + inode::SIZE].copy_from_slice(slot.as_bytes());
    }
}

/// The kind of a metablock that is zero until it is first changed (S-3.3).
pub fn zero_kind(id: MetaId) -> Option<Kind> {
    Some(match id.space()? {
        Space::Inodes => Kind::Inodes,
        Space::Pages | Space::NodeNumbers | Space::InodeNumbers | Space::Orphans => Kind::Bitmap,
        Space::Shares => Kind::Shares,
        Space::Totals => Kind::Totals,
        Space::Nodes | Space::Homes => return None,
    })
}
