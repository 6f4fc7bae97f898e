//! Ways for the tests to make a server misbehave: only in a build with the feature `planted`, which is never shipped.
//!
//! `KEEPFS_PLANTED` in the environment of `keepfs mount`, which all servers of the mount inherit, names a thing that each of
//! them forgets ([`Second`]). The control socket takes `planted store` (a store that misses the door) and `planted try WHAT`
//! (asks of the kernel what a server may not have; the answer is the error). With `try:DIR` in the environment each server asks
//! for the same, for files in `DIR` and its pool, and for a record of the name of `DIR`, when it is about to read its pool;
//! `planted tried` tells the answers. `planted lie ended FILE` and `planted lie upgrade PROGRAM` tell the keeper what is not true, and
//! `planted lie put NAME` gives it more than it holds.

use crate::kept::Kept;
use crate::registry;
use crate::said::Said;
use keepfs_fs::Volume;
use keepfs_store::memory;
use keepfs_store::planted::{Second, plant_second};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Where in a frame the store goes.
const OFFSET: usize = 100;

/// What is tried before the pool is read: a folder with a file `victim`, and `pool` beside it.
const TRY: &str = "try:";

/// What came of it.
static TRIED: OnceLock<Value> = OnceLock::new();

fn planted() -> Option<String> {
    std::env::var("KEEPFS_PLANTED").ok()
}

/// Tries what the environment says, of a server that is about to read its pool.
pub fn before_reading(kept: bool) {
    let planted = planted();
    let Some(folder) = planted.as_deref().and_then(|planted| planted.strip_prefix(TRY)) else {
        return;
    };
    let of_files = FILES.map(|what| (what, in_folder(what, Path::new(folder))));
    if !kept {
        let tried: serde_json::Map<String, Value> = REFUSED_ALONE
            .into_iter()
            .filter_map(|what| Some((what.to_owned(), said(attempt(what)?))))
            .collect();
        let _ = TRIED.set(tried.into());
        return;
    }
    let tried: serde_json::Map<String, Value> = REFUSED
        .into_iter()
        .chain(REFUSED_EARLY)
        .map(|what| (what, attempt(what)))
        .chain(of_files)
        .chain(RECORDS.map(|what| (what, in_registry(what, Path::new(folder)))))
        .filter_map(|(what, came)| Some((what.to_owned(), said(came?))))
        .collect();
    let _ = TRIED.set(tried.into());
}

/// What of [`attempt`] is refused from before the pool is read on.
pub const REFUSED: [&str; 30] = [
    "open",
    "socket",
    "exec",
    "spawn",
    "ptrace",
    "kill",
    "write to a process",
    "mount",
    "unmount",
    "memory as code",
    "io_uring",
    "bpf",
    "owner of signals",
    "owner of signals with a kind",
    "number of signals",
    "signals of files",
    "signals by ioctl",
    "owner by ioctl",
    "owner of a socket",
    "typed words",
    "a process",
    "a namespace of users",
    "a thread with a net",
    "fork",
    "vfork",
    "queued signal",
    "signal to a thread",
    "dumpable",
    "limits",
    "unshare",
];

/// And besides, before the pool is read.
pub const REFUSED_EARLY: [&str; 2] = ["connect", "listen"];

/// And besides, when it serves; before, [`FILES`] are tried.
pub const REFUSED_SERVING: [&str; 4] = ["create", "unlink", "rename", "mkdir"];

/// What is refused to a server without a keeper.
pub const REFUSED_ALONE: [&str; 13] = [
    "exec",
    "spawn",
    "ptrace",
    "write to a process",
    "memory as code",
    "bpf",
    "unshare",
    "kill",
    "owner of signals",
    "signals of files",
    "a namespace of users",
    "fork",
    "dumpable",
];

/// What [`in_folder`] tries.
pub const FILES: [&str; 8] = [
    "read a file",
    "write a file",
    "empty a file",
    "create",
    "unlink",
    "rename",
    "mkdir",
    "write the pool",
];

/// What [`in_registry`] tries.
pub const RECORDS: [&str; 4] = ["write a record", "remove a record", "rename a record", "make a record"];

/// What would be done to the record of another mount: a file there with the name of `folder`.
fn in_registry(what: &str, folder: &Path) -> Option<io::Result<()>> {
    let victim = Path::new(registry::FOLDER).join(folder.file_name()?);
    let new = victim.with_extension("new");
    Some(match what {
        "write a record" => fs::write(victim, "spoilt"),
        "remove a record" => fs::remove_file(victim),
        "rename a record" => fs::rename(victim, new),
        "make a record" => File::create(new).map(drop),
        _ => return None,
    })
}

/// What would be done to files of others; each would succeed for root.
fn in_folder(what: &str, folder: &Path) -> Option<io::Result<()>> {
    let (victim, new) = (folder.join("victim"), folder.join(what));
    let write = |path: &Path| File::options().write(true).open(path).map(drop);
    Some(match what {
        "read a file" => File::open(victim).map(drop),
        "write a file" => write(&victim),
        "empty a file" => fs::write(victim, ""),
        "create" => File::create(new).map(drop),
        "unlink" => fs::remove_file(victim),
        "rename" => fs::rename(victim, new),
        "mkdir" => fs::create_dir(new),
        "write the pool" => write(&folder.join("pool")),
        _ => return None,
    })
}

/// As the control socket tells it.
fn said(came: io::Result<()>) -> Value {
    match came {
        Ok(()) => json!("not refused"),
        Err(error) => json!(error.raw_os_error()),
    }
}

/// Plants what the environment names. Errors: what it names is not known.
pub fn begin() -> Result<(), String> {
    let Some(name) = planted().filter(|name| !name.starts_with(TRY)) else {
        return Ok(());
    };
    let bug = Second::ALL.iter().find(|bug| bug.word() == name);
    plant_second(Some(
        *bug.ok_or_else(|| format!("nothing is planted under the name {name:?}"))?,
    ));
    Ok(())
}

/// Answers what stands behind `planted`.
pub fn answer(volume: &Volume, kept: Option<&Kept>, what: &str) -> Option<Value> {
    if let (Some(kept), Some((lie, about))) = (kept, what.strip_prefix("lie ").and_then(|lie| lie.split_once(' '))) {
        return Some(said(tell_keeper(kept, lie, about)));
    }
    match what.strip_prefix("try ") {
        None if what == "store" => {
            memory::stray_store(volume.store().guarded_address() + OFFSET);
            Some(json!("not refused"))
        }
        None if what == "tried" => TRIED.get().cloned(),
        None => None,
        Some(what) => attempt(what).map(said),
    }
}

/// What a server that has been taken over would have its keeper do, which may do everything.
fn tell_keeper(kept: &Kept, lie: &str, about: &str) -> io::Result<()> {
    match lie {
        // It is all over, and this file is to be removed.
        "ended" => kept.say(&Said::Ended(0), format!("{about}\n\n{about}").as_bytes()),
        // This program is to be started.
        "upgrade" => {
            kept.say(&Said::Upgrade, about.as_bytes())?;
            std::process::exit(0)
        }
        // It is to hold more than it has room for.
        "put" => kept.say(&Said::Put(about.to_owned()), &[b'x'; 1000]),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

/// fcntl(2)'s number of the signal that a file sends, and whom it sends it to.
const F_SETSIG: usize = 10;
const F_SETOWN_EX: usize = 15;

/// What makes a process beside clone(2).
#[cfg(target_arch = "x86_64")]
const FORKS: [libc::c_long; 2] = [libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const FORKS: [libc::c_long; 2] = [libc::SYS_clone; 2];

/// Makes a process, which ends at once.
fn copy(call: libc::c_long, flags: libc::c_int) -> io::Result<()> {
    if memory::call(call, [flags as usize, 0, 0, 0, 0])? == 0 {
        memory::call(libc::SYS_exit_group, [0; 5])?;
    }
    Ok(())
}

/// What a program that has been taken over would try; each would succeed, or fail in another way, for root.
fn attempt(what: &str) -> Option<io::Result<()>> {
    let call = |number, arguments| memory::call(number, arguments).map(drop);
    Some(match what {
        "open" => File::open("/etc/passwd").map(drop),
        "create" => File::create("/run/keepfs/planted").map(drop),
        "unlink" => fs::remove_file("/run/keepfs/nothing"),
        "rename" => fs::rename("/run/keepfs/nothing", "/run/keepfs/planted"),
        "mkdir" => fs::create_dir("/run/keepfs/planted"),
        "socket" => UnixDatagram::unbound().map(drop),
        "connect" => call(libc::SYS_connect, [0, 0, 0, 0, 0]),
        "listen" => call(libc::SYS_listen, [0, 1, 0, 0, 0]),
        "exec" => Err(Command::new("/bin/true").exec()),
        "spawn" => Command::new("/bin/true").spawn().map(drop),
        "ptrace" => call(libc::SYS_ptrace, [libc::PTRACE_ATTACH as usize, 1, 0, 0, 0]),
        "kill" => call(libc::SYS_kill, [1, 0, 0, 0, 0]),
        "write to a process" => call(libc::SYS_process_vm_writev, [1, 0, 0, 0, 0]),
        "mount" => call(libc::SYS_mount, [0, 0, 0, libc::MS_REMOUNT as usize, 0]),
        "unmount" => call(libc::SYS_umount2, [0, 0, 0, 0, 0]),
        "memory as code" => call(libc::SYS_mprotect, [0, 4096, libc::PROT_EXEC as usize, 0, 0]),
        "io_uring" => call(libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
        "bpf" => call(libc::SYS_bpf, [0, 0, 0, 0, 0]),
        "owner of signals" => call(libc::SYS_fcntl, [0, libc::F_SETOWN as usize, 1, 0, 0]),
        "owner of signals with a kind" => call(libc::SYS_fcntl, [0, F_SETOWN_EX, 0, 0, 0]),
        "number of signals" => call(libc::SYS_fcntl, [0, F_SETSIG, 9, 0, 0]),
        "signals of files" => call(
            libc::SYS_fcntl,
            [0, libc::F_SETFL as usize, libc::O_ASYNC as usize, 0, 0],
        ),
        "signals by ioctl" => call(libc::SYS_ioctl, [0, libc::FIOASYNC as usize, 0, 0, 0]),
        "owner by ioctl" => call(libc::SYS_ioctl, [0, 0x8901, 0, 0, 0]),
        "owner of a socket" => call(libc::SYS_ioctl, [0, 0x8902, 0, 0, 0]),
        "typed words" => call(libc::SYS_ioctl, [0, libc::TIOCSTI as usize, 0, 0, 0]),
        "a process" => copy(libc::SYS_clone, libc::SIGCHLD),
        "a namespace of users" => copy(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD),
        "a thread with a net" => call(
            libc::SYS_clone,
            [(libc::CLONE_THREAD | libc::CLONE_NEWNET) as usize, 0, 0, 0, 0],
        ),
        "arguments that no filter sees" => call(libc::SYS_clone3, [0, 0, 0, 0, 0]),
        "fork" => copy(FORKS[0], libc::SIGCHLD),
        "vfork" => copy(FORKS[1], libc::SIGCHLD),
        "queued signal" => call(libc::SYS_rt_sigqueueinfo, [1, 0, 0, 0, 0]),
        "signal to a thread" => call(libc::SYS_tgkill, [1, 1, 0, 0, 0]),
        "dumpable" => call(libc::SYS_prctl, [libc::PR_SET_DUMPABLE as usize, 1, 0, 0, 0]),
        "limits" => call(libc::SYS_prlimit64, [0, libc::RLIMIT_CORE as usize, 8, 0, 0]),
        "unshare" => call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0]),
        _ => return None,
    })
}
