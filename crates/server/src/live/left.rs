//! What a server leaves with its keeper while it serves.

use super::Live;
use super::follow::{ANEW, ENDS};
use crate::failure::Failure;
use crate::kept::Kept;
use crate::place::Place;
use crate::question::Told;
use crate::rooms::{PLACE, REMAINS};
use keepfs_fs::Volume;
use std::io;
use std::os::fd::OwnedFd;

impl Live {
    /// `Place` of a mount whose pool is written or not. Errors: it has no text.
    pub fn place_of(&self, volume: &Volume, writing: bool) -> Result<Vec<u8>, Failure> {
        let store = volume.store();
        let place = Place {
            version: Place::version_of(&self.record),
            record: self.record.clone(),
            anchored: self.anchored,
            nonce: store.mmp_nonce().map(u128::from_be_bytes),
            writing: Some(writing),
        };
        serde_json::to_vec(&place).map_err(|e| Failure::Other(e.to_string()))
    }

    /// Takes what was kept read-only in memory for this server's own from here on: it has begun to write (S-20.15).
    pub fn leave_own(&self, volume: &Volume) {
        let left = self.kept.as_ref().map_or(Ok(()), |kept| leave_remains(kept, volume));
        if let Err(error) = left {
            tracing::error!(%error, "a death of this server would lose what is not durable by then");
        }
    }

    /// The server behind this one opens the pool for writing from here on, or not (S-20.22).
    pub fn tell_writing(&self, volume: &Volume, writing: bool) {
        let Some(kept) = &self.kept else { return };
        let failed = |e: io::Error| Failure::Other(e.to_string());
        let place = self.place_of(volume, writing);
        let put = place.and_then(|place| kept.put(PLACE, &place, Vec::new()).map_err(failed));
        if let Err(error) = put {
            tracing::warn!(%error, writing, "the keeper does not take how the pool is used");
        }
    }

    /// Makes room for the program that was wished; the answer says why not. Everything is durable before, and of the log on the
    /// device, which may have gone bad, nothing is needed but what comes behind this (S-16.38).
    pub fn upgrade(&self) -> Told {
        let Some(kept) = &self.kept else {
            return Told::error("it has no keeper");
        };
        if let Some(why) = self.sync().error {
            return Told::error(format!(
                "not everything could be made durable ({why}): what the pool lacks is in this server's memory alone, which another \
                 program may not be able to use; copy out of it what you need, then {ANEW}"
            ));
        }
        let Some(volume) = self.volume.upgrade() else {
            return Told::error(ENDS);
        };
        if let Err(error) = volume.store().checkpoint() {
            return Told::error(format!(
                "no checkpoint could be made ({error}), without which another server would have only what it finds in the log on the \
                 device: this one goes on, see `keepfs status`"
            ));
        }
        drop(volume);
        tracing::warn!(
            pid = std::process::id(),
            "this server makes room, as `keepfs upgrade` asks"
        );
        let made = kept.make_room();
        made.map_err(|error| format!("its keeper was not told: {error}")).into()
    }
}

/// The memory of this server takes the place of the last one's, all of it at once. Errors: the keeper cannot take it.
pub fn leave_remains(kept: &Kept, volume: &Volume) -> Result<(), Failure> {
    let remains = volume.remains().map_err(|e| Failure::Other(e.to_string()))?;
    let (names, descriptors): (Vec<&str>, Vec<OwnedFd>) = remains.into_named().into_iter().unzip();
    let put = kept.put(REMAINS, names.join("\n").as_bytes(), descriptors);
    put.map_err(|e| Failure::Other(format!("the keeper cannot take this server's memory: {e}")))
}
