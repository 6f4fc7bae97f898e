//! What of a pool may change while it lives: its protection and its label, by a checkpoint (S-2.9).

use super::{Pool, protect};
use crate::checkpoint::{Keeper, Wish};
use crate::error::Error;
use crate::{Protection, Store};
use keepfs_codes::Code;
use keepfs_format::superblock::{RO_COMPAT_MMP_ON, Superblock};
use keepfs_vault::planted::{self, Bug};

/// What is to change; `None` stays as it is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Settings {
    /// What guards frames in memory, from the next opening on (S-2.6).
    pub protect: Option<Protection>,
    /// Label, at most 64 bytes.
    pub label: Option<String>,
    /// Whether multi-mount protection is on (S-2.20). It is [`Store::set_mmp`]'s to change, which sees to the block.
    pub mmp_is_on: Option<bool>,
}

impl Settings {
    /// Writes what is to change into a superblock. Errors: `BadPool`, no pool can have it; some may be written then.
    fn store(&self, sb: &mut Superblock) -> Result<(), Error> {
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

impl Store {
    /// Changes settings of the pool (S-2.9): when this returns they and everything before are durable, and whoever opens the
    /// pool next has them. This store goes on with the memory that it has. Returns whether anything was to change.
    ///
    /// Errors: `ReadOnly`; `BadPool`, no pool can have them; those of a checkpoint. With `NoSpace` nothing has changed.
    pub fn set(&self, settings: &Settings) -> Result<bool, Error> {
        self.alive()?;
        let mut keeper = self.keeper.lock();
        self.unless_read_only()?;
        let before = self.superblock_in_force(&mut keeper)?;
        let mut after = before;
        settings.store(&mut after)?;
        if after == before {
            return Ok(false);
        }
        // The next checkpoint has what stands here; nobody else makes one meanwhile.
        keeper.superblock = Keeper::of(&after);
        let done = self.checkpoint_with(&mut keeper, Wish::default());
        match done {
            Ok(()) => *self.in_force.lock() = Pool::of(&after),
            Err(_) => keeper.superblock = Keeper::of(&before),
        }
        drop(keeper);
        self.keep_history();
        done.map(|()| true)
    }

    /// Tries whether this process could have the memory that `code` needs more than the code that it has, and gives it back: address
    /// space for the file of parity and the window on it, and memory for the file.
    ///
    /// Errors: `NoRoom`.
    pub fn try_room(&self, code: Protection) -> Result<(), Error> {
        let more = code.parity_len().saturating_sub(self.arena.code().parity_len());
        let bytes = more * self.arena.count() as usize;
        let failed = |_| Error::NoRoom { bytes };
        let mut window = Vec::<u8>::new();
        window.try_reserve_exact(bytes).map_err(failed)?;
        let mut file = Vec::<u8>::new();
        file.try_reserve_exact(bytes).map_err(failed)?;
        // Every page is had, not only promised.
        file.resize(bytes, 1);
        core::hint::black_box((&file, &window));
        Ok(())
    }

    /// The pool as the superblock in force tells it: its settings are those of the next opening. Waits for no checkpoint.
    pub fn pool_in_force(&self) -> Pool {
        let _waits = planted::is(Bug::SettingsWait).then(|| self.keeper.lock());
        self.in_force.lock().clone()
    }
}

#[cfg(test)]
mod tests;
