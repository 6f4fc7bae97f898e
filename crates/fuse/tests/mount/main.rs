//! Tests on real mounts: the oracle `keepfs_vfs::model` behind our own transport, used through ordinary system calls.
//!
//! They need root and `/dev/fuse`; where one is missing each says so and passes. Every mount is taken down in `Drop`.

mod basic;
mod durable;
mod killed;
mod life;
mod linux;
mod probe;
mod stress;
mod support;
mod sys;
