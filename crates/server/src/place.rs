//! Where the server of a mount is found, as servers hand it on.

use crate::held::{Held, Item};
use crate::registry::{self, Record};
use crate::rooms::PLACE;
use crate::{said, told_path};
use serde::{Deserialize, Serialize};
use std::io;

/// Where the server of a mount is found, and what no later server can find out.
#[derive(Serialize, Deserialize)]
pub struct Place {
    /// It is of this version ([`Place::version_of`]).
    #[serde(default = "said::first")]
    pub version: u32,
    /// What is published of it.
    pub record: Record,
    /// With an anchor.
    pub anchored: bool,
    /// Of the claim by which other machines are kept out, as a number (S-2.12).
    #[serde(default)]
    pub nonce: Option<u128>,
    /// Whether the pool is written, or was and is not closed (S-20.22). `None`: as the options say, by a server older than this.
    #[serde(default)]
    pub writing: Option<bool>,
}

impl Place {
    /// The first version that can tell of this mount.
    pub fn version_of(record: &Record) -> u32 {
        match told_path::is_text(&record.pool) && told_path::is_text(&record.dir) {
            true => said::FIRST,
            false => said::PATHS_ARE_BYTES,
        }
    }

    /// Of what a server handed on. Errors: it makes no sense, or is of a later release.
    pub fn read(bytes: &[u8]) -> io::Result<Place> {
        let place: Place = serde_json::from_slice(bytes)?;
        said::understood(place.version, "the server before this one").map_err(io::Error::other)?;
        Ok(place)
    }
}

/// The mount of the keeper `before` has the keeper `pid` from now on, which holds `held`: where others look for it follows. What
/// was published counts, not what a server says. Errors: those of the file system; there is nothing of the place in `held`.
pub fn moved(held: &mut Held, before: u32, pid: u32) -> io::Result<()> {
    let record = registry::of(before)?.moved_to(pid)?;
    let item = held.get(PLACE).ok_or(io::ErrorKind::NotFound)?;
    let mut place = Place::read(&item.bytes)?;
    place.record = record;
    let (bytes, descriptors) = (serde_json::to_vec(&place)?, Vec::new());
    held.put(PLACE, Item { bytes, descriptors });
    Ok(())
}
