//! What a status says where writing has ended: what ended it decides what helps.

use crate::figures::Status;
use keepfs_media::DeviceError;
use keepfs_store::Error;

/// Nothing is written any more because of `fault`.
pub fn by(fault: &Error, status: &mut Status) {
    status.errors.push(fault.to_string());
    let (what, action) = match fault {
        Error::Device(why) if matches!(**why, DeviceError::Taken { .. } | DeviceError::Late { .. }) => (
            "another machine has the pool, or may have it, which ended all writing",
            "unmount it here; mount it on one machine at a time",
        ),
        Error::Device(why) if matches!(**why, DeviceError::Cut { .. }) => (
            "the pool's file was cut, which ended all writing",
            "unmount it, give the file its length back (truncate -s), run `keepfs check --repair`, first with --dry-run; what lay behind the cut is lost",
        ),
        _ if fault.is_host_full() => (
            "the file system under the pool is full, which ended all writing",
            "make room there, then unmount and mount it again; what was synced is there",
        ),
        // A server that takes over from one whose device failed says why in words.
        Error::Device(_) | Error::ReadOnly(_) => (
            "the device failed, which ended all writing",
            "see to the device, then unmount and mount it again; what was synced is there",
        ),
        Error::Damaged(_) | Error::DamagedOne { .. } => (
            "metadata that all need is damaged, which ended all writing",
            "unmount it, run `keepfs check --repair` on it, first with --dry-run, and mount it again; if that is refused, mount it read-only (-o ro) and copy what you need",
        ),
        Error::BadPool(_) => (
            "the pool is not as this server knows it, which ended all writing",
            "unmount it, run `keepfs check` on it, with --repair if it finds errors, and mount it again",
        ),
        Error::Scribble { .. }
        | Error::Heap { .. }
        | Error::NotBrought { .. }
        | Error::Redo { .. }
        | Error::Records
        | Error::Fenced { .. } => (
            "memory was damaged, which ended all writing",
            "test the memory (memtest86+, EDAC in dmesg); unmount and mount it again; what was synced is there",
        ),
        _ => (
            "a failure ended all writing",
            "unmount and mount it again; what was synced is there",
        ),
    };
    status.say("FAULTED", what, action);
}
