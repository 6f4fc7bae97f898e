//! What outlives a server: its memory files by name, for the keeper that holds them and the server that comes after
//! (X-1.1; SPEC section 16).

use crate::Store;
use crate::error::Error;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The names of all memory files of a server (S-16.1).
pub const NAMES: [&str; 7] = [ARENA, SUMS, PARITY, SESSION, STAGING, REQUESTS, LOOKUPS];
/// Frames.
pub const ARENA: &str = "arena";
/// Control words of the frames.
pub const SUMS: &str = "sums";
/// Their parity.
pub const PARITY: &str = "parity";
/// Undo slots.
pub const SESSION: &str = "session";
/// Redo ring and staged pages.
pub const STAGING: &str = "staging";
/// Requests under way.
pub const REQUESTS: &str = "requests";
/// Lookup counts; whoever keeps names adds them.
pub const LOOKUPS: &str = "lookups";

/// Memory files of one server, by name. A set belongs together: the keeper replaces it as a whole. And what the server told last.
#[derive(Debug, Default)]
pub struct Remains(Vec<(&'static str, OwnedFd)>, Vec<u8>);

impl Remains {
    /// What a keeper held; names that this version does not know are dropped, of a name that comes twice the last counts.
    pub fn from_named(named: Vec<(String, OwnedFd)>) -> Remains {
        let mut remains = Remains::default();
        for (name, memory) in named {
            if let Some(known) = NAMES.into_iter().find(|known| *known == name) {
                remains.add(known, memory);
            }
        }
        remains
    }

    /// Adds a file, in the place of one of that name.
    pub fn add(&mut self, name: &'static str, memory: OwnedFd) {
        self.0.retain(|(other, _)| *other != name);
        self.0.push((name, memory));
    }

    /// The same with what the server had set aside of its history (S-18.7).
    pub fn with_findings(self, findings: Vec<u8>) -> Remains {
        Remains(self.0, findings)
    }

    /// What it had set aside of its history.
    pub(crate) fn findings(&self) -> &[u8] {
        &self.1
    }

    /// Names and descriptors, for the keeper.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, BorrowedFd<'_>)> {
        self.0.iter().map(|(name, memory)| (*name, memory.as_fd()))
    }

    /// The same, given away.
    pub fn into_named(self) -> Vec<(&'static str, OwnedFd)> {
        self.0
    }

    /// The same descriptors once more. Errors: `Memory` if there are no descriptors left.
    pub fn duplicate(&self) -> Result<Remains, Error> {
        let mut again = Remains::default();
        for (name, memory) in self.named() {
            again.add(name, duplicate(memory)?);
        }
        again.1.clone_from(&self.1);
        Ok(again)
    }

    /// Takes a file out.
    pub fn take(&mut self, name: &str) -> Option<OwnedFd> {
        let at = self.0.iter().position(|(other, _)| *other == name)?;
        Some(self.0.swap_remove(at).1)
    }
}

/// Another descriptor of the same file. Errors: `Memory`.
pub(crate) fn duplicate(memory: BorrowedFd<'_>) -> Result<OwnedFd, Error> {
    let again = memory.try_clone_to_owned();
    again.map_err(|source| Error::Memory {
        bytes: 0,
        source: std::sync::Arc::new(source),
    })
}

/// The memory that a restarted server needs, of a store opened with `lasting`; without, and of a store that took over
/// from a dead one and may not write, what stands for it (S-16.6). Errors: `Memory`.
pub(crate) fn of(store: &Store) -> Result<Remains, Error> {
    if let Some(kept) = store.life.inherited.as_ref().filter(|_| store.ground.is_read_only()) {
        return kept.duplicate();
    }
    let [arena, sums, parity] = store.frames.arena.descriptors();
    let requests = store.life.requests.as_ref().and_then(|requests| requests.descriptor());
    let all = [
        (ARENA, arena),
        (SUMS, sums),
        (PARITY, parity),
        (SESSION, store.frames.undo.descriptor()),
        (STAGING, store.home.memory().region().descriptor()),
        (REQUESTS, requests),
    ];
    let mut remains = Remains::default();
    for (name, memory) in all {
        if let Some(memory) = memory {
            remains.add(name, duplicate(memory)?);
        }
    }
    Ok(remains)
}

#[cfg(test)]
mod tests;
