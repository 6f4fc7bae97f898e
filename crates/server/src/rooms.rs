//! What is held under which name, and how much of it.

use crate::held::Room;
use crate::wire;
use keepfs_store::FINDINGS_ROOM;

/// The pool's device, open and locked, what lies beneath it, and its witness ([`keepfs_media::file::Handed`]).
pub const DEVICE: &str = "device";
/// The connection to the kernel; its bytes say which mount it is.
pub const CONNECTION: &str = "connection";
/// The control socket, listening.
pub const CONTROL: &str = "control";
/// The memory that a restarted server needs; its bytes are the names of the descriptors, a line each.
pub const REMAINS: &str = "remains";
/// The file of events.
pub const EVENTS: &str = "events";
/// What is told and not on the device yet (S-18.7).
pub const FINDINGS: &str = "findings";
/// [`crate::place::Place`].
pub const PLACE: &str = "place";
/// The lock of the pool's id ([`crate::namesake`]).
pub const ID: &str = "id";

/// What a server may leave with its keeper, which holds no more of it than this (decision 0530). Bytes of the connection and of the
/// place are paths and options of the mount; memory has a name of its own for each descriptor.
pub const ROOMS: [Room; 8] = [
    room(DEVICE, BENEATH_MAX + 1, BENEATH_MAX + 2),
    room(CONNECTION, 32 << 10, wire::DESCRIPTORS_MAX),
    room(CONTROL, 0, 1),
    room(REMAINS, 4 << 10, 64),
    room(EVENTS, 0, 1),
    room(PLACE, 60 << 10, 0),
    room(FINDINGS, FINDINGS_ROOM, 0),
    room(ID, 0, 1),
];

/// Files beneath a pool's device that are kept locked with it.
const BENEATH_MAX: usize = 16;

const fn room(name: &'static str, bytes: usize, descriptors: usize) -> Room {
    Room {
        name,
        bytes,
        descriptors,
    }
}

/// The other end of the socket of the keeper that stands ready; the bytes are its process number. The keeper's own.
pub const SPARE: &str = "spare";
