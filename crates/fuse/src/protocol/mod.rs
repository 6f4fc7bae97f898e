//! The wire format of the kernel's FUSE protocol, version 7.45: opcodes, flags and structures, no behaviour.
//!
//! Sizes and offsets are those of `include/uapi/linux/fuse.h`; sizes are proved at compile time beside each
//! structure, offsets by the tests of this module. All numbers are in the byte order of the machine.

pub mod flags;
mod opcode;
pub mod reply;
pub mod request;
pub mod ring;

pub use opcode::Opcode;

/// Major version of the protocol.
pub const MAJOR: u32 = 7;
/// Newest minor version that is understood.
pub const MINOR: u32 = 45;
/// Oldest minor version that is served: 7.36 (Linux 5.16) has the 64-byte INIT with `flags2`.
pub const MINOR_MIN: u32 = 36;

/// Bit of `unique` that the kernel sets on requests that it sends again after `FUSE_NOTIFY_RESEND`.
pub const UNIQUE_RESEND: u64 = 1 << 63;

/// Notification code: drop cached attributes and pages of an inode.
pub const NOTIFY_INVAL_INODE: i32 = 2;
/// Notification code: drop a cached name.
pub const NOTIFY_INVAL_ENTRY: i32 = 3;
/// Notification code: send again what was read and not answered.
pub const NOTIFY_RESEND: i32 = 7;
/// Notification code: ask again for every name before it is believed (7.44, Linux 6.16; older kernels refuse it).
pub const NOTIFY_INC_EPOCH: i32 = 8;

/// Alignment of directory entries in READDIR replies.
pub const fn align8(n: usize) -> usize {
    (n + 7) & !7
}

#[cfg(test)]
mod tests;
