//! Whose time a sample is, by the frames of its call stack.
//!
//! The innermost frame of one of our crates decides, with all that is called below it (libc, the kernel): reading
//! /dev/fuse is the transport's, pwrite(2) to the pool the device's. Waking and switching threads is told apart wherever it is.

use std::collections::{BTreeMap, BTreeSet};

/// A part of the way of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The program that calls, outside of the kernel.
    Client,
    /// The kernel on behalf of the caller: VFS, page cache, FUSE.
    Kernel,
    /// Waking threads and switching between them.
    Switch,
    /// Taking requests from the kernel and giving replies back (the kernel's side of it too).
    Transport,
    /// Decoding requests, encoding replies.
    Dispatch,
    /// The file system.
    Fs,
    /// The store: transactions, the door, codes, the log.
    Door,
    /// Reading, writing and flushing the pool, and the loop device below it.
    Device,
    /// The server, and no frame says where.
    Unknown,
}

impl Part {
    /// The name of its figure in a sample.
    pub fn key(self) -> &'static str {
        match self {
            Self::Client => "client_us",
            Self::Kernel => "kernel_us",
            Self::Switch => "switch_us",
            Self::Transport => "transport_us",
            Self::Dispatch => "dispatch_us",
            Self::Fs => "fs_us",
            Self::Door => "door_us",
            Self::Device => "device_us",
            Self::Unknown => "unknown_us",
        }
    }
}

/// Counts the samples of each part in what `perf script` says; those of others are left out.
pub fn parts(text: &str, client: &str, server: i64) -> BTreeMap<Part, u64> {
    let mut all = BTreeMap::new();
    for block in text.split("\n\n") {
        let mut lines = block.lines().filter(|line| !line.trim().is_empty());
        let Some((comm, pid)) = lines.next().and_then(|head| head.trim().rsplit_once(' ')) else {
            continue;
        };
        let frames: Vec<Frame<'_>> = lines.filter_map(Frame::parse).collect();
        let part = if is_called(comm, client) {
            Some(of_client(&frames))
        } else if pid.parse() == Ok(server) {
            Some(of_server(&frames))
        } else {
            frames.iter().any(|frame| frame.is_loop()).then_some(Part::Device)
        };
        if let Some(part) = part {
            *all.entry(part).or_default() += 1;
        }
    }
    all
}

/// The processes whose stacks are needed, of lines `command pid`: the client, the server, the kernel's workers.
pub fn asked_for(heads: &str, client: &str, server: i64) -> BTreeSet<i64> {
    let heads = heads.lines().filter_map(|line| line.trim().rsplit_once(' '));
    let needed = heads.filter(|(comm, _)| is_called(comm, client) || comm.starts_with("kworker"));
    let workers = needed.filter_map(|(_, pid)| pid.parse().ok());
    workers.chain([server]).collect()
}

/// The kernel keeps 15 bytes of a name.
fn is_called(comm: &str, name: &str) -> bool {
    let comm = comm.trim();
    name.starts_with(comm) && comm.len() >= name.len().min(15)
}

/// A frame: whether it is the kernel's, and its symbol.
struct Frame<'t> {
    kernel: bool,
    symbol: &'t str,
}

impl<'t> Frame<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let (address, symbol) = line.trim().split_once(' ')?;
        Some(Self {
            // Addresses of the upper half, except the end of an unwinding that failed.
            kernel: address.len() == 16 && address.starts_with("ffff") && address != "ffffffffffffffff",
            symbol,
        })
    }

    fn switches(&self) -> bool {
        let wakes = ["schedule", "__schedule", "try_to_wake_up", "finish_task_switch"];
        self.kernel && (wakes.iter().any(|wake| self.symbol.starts_with(wake)) || self.symbol.starts_with("__wake_up"))
    }

    fn is_loop(&self) -> bool {
        let own = [
            "loop_process_work",
            "loop_workfn",
            "loop_rootcg_workfn",
            "lo_complete_rq",
            "lo_rw_aio",
        ];
        self.kernel && own.iter().any(|name| self.symbol.starts_with(name))
    }

    /// The part that one of our crates stands for.
    fn crate_part(&self) -> Option<Part> {
        if self.kernel {
            return None;
        }
        let at = self.symbol.find("keepfs")?;
        let path = &self.symbol[at..];
        let of = |names: &[&str]| names.iter().any(|name| path.starts_with(name));
        Some(match () {
            () if of(&["keepfs_media::"]) => Part::Device,
            () if of(&[
                "keepfs_store::",
                "keepfs_vault::",
                "keepfs_memory::",
                "keepfs_codes::",
                "keepfs_format::",
            ]) =>
            {
                Part::Door
            }
            () if of(&["keepfs_fs::", "keepfs_vfs::", "keepfs_digest::"]) => Part::Fs,
            () if of(&[
                "keepfs_fuse::dispatch::",
                "keepfs_fuse::reply::",
                "keepfs_fuse::protocol::",
            ]) =>
            {
                Part::Dispatch
            }
            () if of(&["keepfs_fuse::", "keepfs::"]) => Part::Transport,
            () => return None,
        })
    }

    fn is_transport(&self) -> bool {
        let beginnings = ["fuse_dev_", "fuse_uring_", "io_uring_enter", "__do_sys_io_uring_enter"];
        self.kernel && beginnings.iter().any(|name| self.symbol.starts_with(name))
    }
}

fn of_client(frames: &[Frame<'_>]) -> Part {
    match frames.first() {
        _ if frames.iter().any(Frame::switches) => Part::Switch,
        Some(frame) if frame.kernel => Part::Kernel,
        _ => Part::Client,
    }
}

fn of_server(frames: &[Frame<'_>]) -> Part {
    if frames.iter().any(Frame::switches) {
        return Part::Switch;
    }
    let transport = || frames.iter().any(Frame::is_transport).then_some(Part::Transport);
    let part = frames.iter().find_map(Frame::crate_part).or_else(transport);
    part.unwrap_or(Part::Unknown)
}

#[cfg(test)]
mod tests;
