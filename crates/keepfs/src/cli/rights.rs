//! What a server, which reads what may be a hostile image, gives up before it reads any of it (decision 0532).

use rustix::io;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

/// What mounting, unmounting and serving need: mount(2), umount(2) and loop devices; locked memory; being an I/O flusher and
/// the last to be killed; pools that belong to others than root.
const NEEDED: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH);

/// Gives up every other right, for this thread and all that it starts, programs included; nothing brings one back. Call it
/// before there are other threads. Errors: none on a kernel that we run on.
pub fn give_up() -> io::Result<()> {
    set_no_new_privs(true)?;
    let had = capabilities(None)?;
    let kept = CapabilitySets {
        effective: had.effective & NEEDED,
        permitted: had.permitted & NEEDED,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept)
}
