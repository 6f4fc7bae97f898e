//! Which files a server with a keeper may open between giving up its rights and serving: those that say what the machine and
//! this process are, for reading; `/dev/fuse`. Its pool and its events are open by then (decisions 0612, 0580). And for good: no
//! signal leaves its threads, nobody is talked to over the net or by a socket of no file, where the kernel can see to that.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, make_bitflags,
};
use std::path::Path;

/// What the kernel may be asked to refuse, as far as it can: the newest that the crate knows.
const KNOWN: ABI = ABI::V10;

/// What tells of this machine and this process. Other processes are out of reach: reading their memory is tracing them.
const LOOKED_AT: [&str; 2] = ["/proc", "/sys"];
const LOOK: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});

/// What is talked to.
const TALKED_TO: [&str; 2] = ["/dev/fuse", "/dev/null"];
const TALK: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | WriteFile | IoctlDev});

/// Limits this thread, and those that it starts, to these. Whether the kernel can do so. Errors: what the kernel says.
pub fn limit() -> Result<bool, RulesetError> {
    let mut rules = Ruleset::default()
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?;
    for folder in LOOKED_AT {
        rules = allow(rules, folder.as_ref(), LOOK)?;
    }
    for file in TALKED_TO {
        rules = allow(rules, file.as_ref(), TALK)?;
    }
    let status = rules.restrict_self()?;
    Ok(status.ruleset != RulesetStatus::NotEnforced)
}

/// What is not there need not be allowed.
fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, RulesetError> {
    match PathFd::new(path) {
        Ok(found) => rules.add_rule(PathBeneath::new(found, access)),
        Err(_) => Ok(rules),
    }
}
