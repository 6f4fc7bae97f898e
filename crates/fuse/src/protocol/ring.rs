//! FUSE over io_uring: what lies in the memory of a ring entry beside request and reply, and the commands.

use super::request::wire;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `FUSE_IO_URING_CMD_REGISTER`: gives the kernel an entry.
pub const CMD_REGISTER: u32 = 1;
/// `FUSE_IO_URING_CMD_COMMIT_AND_FETCH`: answers the request in an entry and gives the entry back.
pub const CMD_COMMIT_AND_FETCH: u32 = 2;

/// Where the head lies in `struct fuse_uring_req_header`: the request's, and after it the reply's.
pub const HEAD_AT: usize = 0;
/// Where the fixed part of the request lies.
pub const FIXED_AT: usize = 128;
/// Most bytes of the fixed part.
pub const FIXED_MAX: usize = 128;
/// Where [`RingEntry`] lies.
pub const ENTRY_AT: usize = 256;
/// Bytes of `struct fuse_uring_req_header`.
pub const HEADERS: usize = ENTRY_AT + size_of::<RingEntry>();
const _: () = assert!(HEADERS == 288);

wire! {
    /// `struct fuse_uring_ent_in_out`: number of the request and length of the payload, in both directions.
    RingEntry, 32 { flags: u64, commit_id: u64, payload_sz: u32, padding: u32, reserved: u64, }
    /// `struct fuse_uring_cmd_req`, in the second half of the submission entry.
    RingCommand, 24 { flags: u64, commit_id: u64, qid: u16, padding: [u8; 6], }
}
