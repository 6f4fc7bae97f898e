//! Tests on real mounts: the oracle `keepfs_testkit::model` behind our own transports, used through ordinary system calls.
//!
//! They need root and `/dev/fuse`; where one is missing each says so and passes. Every mount is taken down in `Drop`.
//! Every test runs on every transport.

#![allow(clippy::duplicate_mod, reason = "the files are the same for every transport")]

mod caches;
mod probe;
mod ring;
mod sys;

#[path = "."]
mod dev {
    /// What the tests of this module mount with.
    pub const TRANSPORT: keepfs_fuse::TransportKind = keepfs_fuse::TransportKind::Dev;
    mod basic;
    mod durable;
    mod killed;
    mod life;
    mod linux;
    mod stores;
    mod stress;
    mod support;
}

#[path = "."]
mod uring {
    /// What the tests of this module mount with.
    pub const TRANSPORT: keepfs_fuse::TransportKind = keepfs_fuse::TransportKind::Uring;
    mod basic;
    mod durable;
    mod killed;
    mod life;
    mod linux;
    mod stores;
    mod stress;
    pub mod support;
}
