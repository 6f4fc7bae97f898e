//! What a server, which reads what may be a hostile image, gives up before it reads any of it (decisions 0612, 0580).

use rustix::io;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// What reading and writing pools needs that belong to others than root.
const POOLS: CapabilitySet = CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::DAC_READ_SEARCH);

/// What a server does for itself that has no keeper: mount(2), umount(2) and loop devices; rings in locked memory.
const ALONE: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::IPC_LOCK);

/// Gives up every other right, for this thread and all that it starts, programs included; nothing brings one back. Call it
/// before there are other threads. `kept`: a keeper does what needs more. Errors: none on a kernel that we run on.
pub fn give_up(kept: bool) -> io::Result<()> {
    let needed = match kept {
        true => POOLS,
        false => POOLS | ALONE,
    };
    set_no_new_privs(true)?;
    let had = capabilities(None)?;
    let left = CapabilitySets {
        effective: had.effective & needed,
        permitted: had.permitted & needed,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, left)
}
