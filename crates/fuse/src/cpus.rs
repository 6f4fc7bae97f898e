//! Where threads run, and what the kernel is told of them.

use rustix::process::configure_io_flusher_behavior;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;

/// The CPUs the calling thread may run on, in order.
pub(crate) fn allowed() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => vec![0],
    }
}

/// Keeps the calling thread on `cpu`.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Tells the kernel that the calling thread serves a file system: when memory is short, its allocations must not
/// wait for that file system, nor its writes be slowed down on its behalf. Errors: `EPERM` without CAP_SYS_RESOURCE.
pub(crate) fn mark_io_flusher() -> io::Result<()> {
    Ok(configure_io_flusher_behavior(true)?)
}
