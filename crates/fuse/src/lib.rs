//! The kernel's side: serves any [`keepfs_vfs::Vfs`] as a mount through `/dev/fuse` or io_uring.
//!
//! From the bottom up: [`protocol`] is the wire format; [`Dispatcher`] turns the bytes of a request into the bytes
//! of a reply and needs no kernel; a transport moves those bytes; [`mount`] and [`Session`] join them to a mount point.
//!
//! Why not a crate from the registry: `docs/decisions/0120-own-fuse-transport.md`.

pub mod anchor;
mod caught;
mod config;
mod connection;
mod cpus;
mod dispatch;
mod ended;
mod error;
mod group;
mod init;
mod mountpoint;
mod notify;
mod pace;
pub mod protocol;
mod reply;
mod seat;
mod server;
mod session;
mod syncs;
mod sys;
mod tally;
pub mod transport;
mod tune;
mod uring;
mod workers;

pub use caught::{caught, is_caught};
pub use config::{CacheMode, MountConfig, TransportKind};
pub use connection::Connection;
pub use dispatch::{Dispatcher, Outcome};
pub use error::FuseError;
pub use init::{Granted, negotiate};
pub use mountpoint::{How, remount, unmount};
pub use notify::Notifier;
pub use reply::ReplyBuf;
pub use session::{Lifeline, Session, Unmounter, attach, mount, mount_attached, resume};
pub use sys::{forget_inherited_signals, keep_descriptors_private};
pub use tally::{OpTimes, Tally};
