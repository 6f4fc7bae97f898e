//! What of a pool may change while it lives: its protection and its label, by a checkpoint (S-2.9).

use super::protect;
use crate::error::Error;
use keepfs_codes::Protection;
use keepfs_format::superblock::{RO_COMPAT_MMP_ON, Superblock};

/// What is to change; `None` stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// What guards frames in memory, from the next opening on (S-2.6).
    pub protect: Option<Protection>,
    /// Label, at most 64 bytes.
    pub label: Option<String>,
    /// Whether multi-mount protection is on (S-2.20). Who changes it sees to the block.
    pub mmp_is_on: Option<bool>,
}

impl Settings {
    /// Writes what is to change into a superblock. Errors: `BadPool`, no pool can have it; some may be written then.
    pub fn store(&self, sb: &mut Superblock) -> Result<(), Error> {
        if let Some(code) = self.protect {
            protect::store(sb, code)?;
        }
        if let Some(is_on) = self.mmp_is_on {
            let others = sb.ro_compat.get() & !RO_COMPAT_MMP_ON;
            sb.ro_compat = (others | if is_on { RO_COMPAT_MMP_ON } else { 0 }).into();
        }
        self.label.as_deref().map_or(Ok(()), |label| store_label(sb, label))
    }
}

/// Writes the label into a superblock. Errors: it is too long, or has a NUL.
pub(super) fn store_label(sb: &mut Superblock, label: &str) -> Result<(), Error> {
    let too_long = || Error::BadPool("a label has at most 64 bytes, and no NUL".into());
    if label.contains('\0') {
        return Err(too_long());
    }
    let mut bytes = [0; 64];
    bytes
        .get_mut(..label.len())
        .ok_or_else(too_long)?
        .copy_from_slice(label.as_bytes());
    sb.label = bytes;
    Ok(())
}
