//! Ways for the tests to make a server misbehave: only in a build with the feature `planted`, which is never shipped.
//!
//! `KEEPFS_PLANTED` in the environment of `keepfs mount`, which all servers of the mount inherit, names a thing that each of
//! them forgets ([`Second`]). The control socket takes `planted store` (a store that misses the door) and `planted try WHAT`
//! (asks of the kernel what a server may not have; the answer is the error).

use keepfs_fs::Volume;
use keepfs_store::arena::sys;
use keepfs_store::planted::{Second, plant_second};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Where in a frame the store goes.
const OFFSET: usize = 100;

/// Plants what the environment names. Errors: what it names is not known.
pub fn begin() -> Result<(), String> {
    let Ok(name) = std::env::var("KEEPFS_PLANTED") else {
        return Ok(());
    };
    let bug = Second::ALL.iter().find(|bug| bug.word() == name);
    plant_second(Some(
        *bug.ok_or_else(|| format!("nothing is planted under the name {name:?}"))?,
    ));
    Ok(())
}

/// Answers what stands behind `planted`.
pub fn answer(volume: &Volume, what: &str) -> Option<Value> {
    match what.strip_prefix("try ") {
        None if what == "store" => {
            sys::stray_store(volume.store().guarded_address() + OFFSET);
            Some(json!("not refused"))
        }
        None => None,
        Some(what) => Some(match attempt(what)? {
            Ok(()) => json!("not refused"),
            Err(error) => json!(error.raw_os_error()),
        }),
    }
}

/// What a program that has been taken over would try; each would succeed, or fail in another way, for root.
fn attempt(what: &str) -> Option<io::Result<()>> {
    let call = |number, arguments| sys::call(number, arguments).map(drop);
    Some(match what {
        "open" => File::open("/etc/passwd").map(drop),
        "create" => File::create("/run/keepfs/planted").map(drop),
        "unlink" => fs::remove_file("/run/keepfs/nothing"),
        "rename" => fs::rename("/run/keepfs/nothing", "/run/keepfs/planted"),
        "mkdir" => fs::create_dir("/run/keepfs/planted"),
        "socket" => UnixDatagram::unbound().map(drop),
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
        "unshare" => call(libc::SYS_unshare, [libc::CLONE_NEWUSER as usize, 0, 0, 0, 0]),
        _ => return None,
    })
}
