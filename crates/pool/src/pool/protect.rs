//! What guards a pool's frames in memory, as the superblock tells it (S-2.6), and whose a frame is (S-15.4, S-15.5).

use super::Pool;
pub use crate::code::{number, of};
use crate::error::Error;
use keepfs_codes::Protection;
use keepfs_codes::identity::{Binding, Group};
use keepfs_format::superblock::{INCOMPAT_PROTECT, Superblock};
use keepfs_format::{Kind, MetaId};

/// What a new pool gets unless told.
pub const PROTECT_DEFAULT: Protection = Protection::Pcrc;

/// Writes the code into a superblock. Errors: no pool can have it.
pub fn store(sb: &mut Superblock, code: Protection) -> Result<(), Error> {
    let number =
        number(code).ok_or_else(|| Error::BadPool(format!("{code} guards no pool; it is for comparison only")))?;
    sb.protect = number;
    let told = if number == 0 { 0 } else { INCOMPAT_PROTECT };
    sb.incompat = (sb.incompat.get() & !INCOMPAT_PROTECT | told).into();
    Ok(())
}

/// The field and its feature bit belong together, and the code is known.
pub fn is_right(sb: &Superblock) -> bool {
    of(sb.protect).is_some() && (sb.protect != 0) == (sb.incompat.get() & INCOMPAT_PROTECT != 0)
}

impl Pool {
    /// Whose the frame of `id` is, and who may change it, if it is of the kind with this number.
    #[inline]
    pub fn binding(&self, id: MetaId, kind: u8) -> Binding {
        Binding {
            identity: self.identities.of_metablock(id.0, kind),
            group: Kind::of(kind).map_or(Group::Log, group),
        }
    }
}

/// Who changes metablocks of a kind.
#[inline]
pub fn group(kind: Kind) -> Group {
    match kind {
        Kind::Inodes => Group::Inode,
        Kind::DirLeaf | Kind::DirIndex => Group::Directory,
        Kind::BlockMap | Kind::Map => Group::Map,
        Kind::Xattr => Group::Xattr,
        Kind::Bitmap | Kind::Shares | Kind::Totals | Kind::Homes => Group::Bitmap,
    }
}
