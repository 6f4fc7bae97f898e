//! What the processes of a mount say to each other: keeper and server, whoever stands ready to be the keeper, and who mounts for a
//! server (S-16.15). Bytes and descriptors go beside it ([`crate::wire`]).

use serde::{Deserialize, Serialize};

/// The version of all that is said, and of what servers hand on by their keeper ([`crate::place`]). Whoever hears of a later one refuses
/// what it cannot know.
pub const VERSION: u32 = 2;
/// What says nothing that only later versions have is of this one, so that earlier programs can serve too.
pub const FIRST: u32 = 1;
/// Since this one paths may be no UTF-8 ([`crate::told_path`]).
pub const PATHS_ARE_BYTES: u32 = 2;

/// Who says nothing of a version says what the first one has.
pub fn first() -> u32 {
    FIRST
}

/// Whether what is told in this version can be understood; `who` told it. Errors: a sentence.
pub fn understood(version: u32, who: &str) -> Result<(), String> {
    match version <= VERSION {
        true => Ok(()),
        false => Err(format!(
            "{who} is of a later release (it speaks version {version}, and this program knows them up to {VERSION}); upgrade to a later \
             program, or unmount it and mount it again"
        )),
    }
}

/// One thing that is said.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// This is held under this name from now on, in the place of all that was.
    Put(String),
    /// Keeper to server: begin; bytes: [`crate::lives::Begin`].
    Begin,
    /// Server to keeper: it serves.
    Ready,
    /// Server to keeper: somebody wants the end of the mount.
    Unmount,
    /// Server to keeper: all is done, with this exit code, and no other server shall come. Descriptors: to be closed when the pool is
    /// free.
    Ended(u8),
    /// Server to keeper: it makes room for another program.
    Upgrade,
    /// Keeper to server: what was put has no room; bytes: why.
    Refused,
    /// Keeper to server: the mount could not be taken down; bytes: why. To who mounts for a server: the mount stays.
    Stays,
    /// Keeper to server: what is to be told for it; bytes: that.
    Says,
    /// Server to its next keeper: this process serves; bytes: [`crate::lives::Begin`].
    Serving(u32),
    /// To who stands ready: be the keeper when nobody else has your socket any more; bytes: [`crate::lives::Begin`].
    StandIn,
    /// To who stands ready: that is over, and what came before is not held any more.
    StandDown,
    /// Server to who mounts for it: mount.
    Attach,
    /// Who mounts to its server: what is not as it was asked for; bytes: that.
    Warning,
    /// Who mounts to its server: it is done; bytes and descriptors: the connection.
    Attached(Attached),
    /// Who mounts to its server: it cannot be done; bytes: why.
    Failed,
}

/// How it is mounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attached {
    /// With an anchor.
    Anchored,
    /// Without one.
    Plain,
}

#[cfg(test)]
mod tests;
