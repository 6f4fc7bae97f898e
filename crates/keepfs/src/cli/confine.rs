//! What a server with a keeper may ask of the kernel once it serves: nothing that opens, makes or names a file, no new program,
//! no other process, no new socket (decision 0581).
//!
//! The list below is everything that a server was seen to call and what its allocator, threads and signal handlers may call.
//! A call that is not on it fails with EPERM: the caller goes on with an error, as after any other that fails.
//! Calls without conditions cost nothing: the kernel keeps a bitmap of what a filter always allows.

use super::{set, table};
use keepfs_store::arena;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq};
use seccompiler::{BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule};
use std::collections::BTreeMap;

/// Memory of files and of the process: what a pool and a mount are read and written with.
const FILES: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_fallocate,
    libc::SYS_ftruncate,
    libc::SYS_fadvise64,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup2,
    libc::SYS_dup3,
    libc::SYS_getdents64,
];

/// Threads, memory, time and signals.
const PROCESS: &[c_long] = &[
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_membarrier,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_geteuid,
    libc::SYS_getuid,
    libc::SYS_getegid,
    libc::SYS_getgid,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_getrusage,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_setitimer,
    libc::SYS_getrandom,
];

/// Waiting, and talking over sockets that are there: the keeper's, the control socket's and those of its clients.
const SOCKETS: &[c_long] = &[
    libc::SYS_ppoll,
    libc::SYS_accept4,
    libc::SYS_recvmsg,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
    libc::SYS_shutdown,
    libc::SYS_eventfd2,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_ctl,
];

/// What newer architectures do without.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[
    libc::SYS_poll,
    libc::SYS_dup2,
    libc::SYS_alarm,
    libc::SYS_epoll_wait,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Ioctls: telling a block device which pages are free.
const IOCTLS: &[u64] = &[0x1277];

/// Confines this process, all its threads, for good. What cannot be is said and the server goes on: a kernel without the
/// filter, or one process that is traced.
pub fn begin() {
    set::remember_program();
    if let Err(error) = table::keep_open().and_then(|()| arena::report_by_others()) {
        tracing::warn!(%error, "what happens around this server is not seen");
    }
    match program().and_then(|program| seccompiler::apply_filter_all_threads(&program).map_err(|e| e.to_string())) {
        Ok(()) => {}
        Err(error) => tracing::warn!(%error, "this server may ask more of the kernel than it needs"),
    }
}

fn program() -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|e| format!("{e}"))?;
    let refuse = SeccompAction::Errno(libc::EPERM.unsigned_abs());
    let filter = rules()
        .and_then(|rules| SeccompFilter::new(rules, refuse, SeccompAction::Allow, architecture))
        .map_err(|e| e.to_string())?;
    filter.try_into().map_err(|e: seccompiler::BackendError| e.to_string())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let always = [FILES, PROCESS, SOCKETS, OLD].concat();
    let mut rules: Rules = always.into_iter().map(|call| (call, Vec::new())).collect();
    let one = |condition| SeccompRule::new(vec![condition]);
    // No memory becomes code.
    let data = |argument| SeccompCondition::new(argument, Dword, MaskedEq(libc::PROT_EXEC as u64), 0);
    rules.insert(libc::SYS_mmap, vec![one(data(2)?)?]);
    rules.insert(libc::SYS_mprotect, vec![one(data(2)?)?]);
    rules.insert(libc::SYS_pkey_mprotect, vec![one(data(2)?)?]);
    // Signals to threads of its own, for the guard's report and for abort(3).
    let own = SeccompCondition::new(0, Dword, Eq, u64::from(std::process::id()))?;
    rules.insert(libc::SYS_tgkill, vec![one(own)?]);
    // Names for threads.
    let name = SeccompCondition::new(0, Dword, Eq, libc::PR_SET_NAME as u64)?;
    rules.insert(libc::SYS_prctl, vec![one(name)?]);
    let ioctls = IOCTLS
        .iter()
        .map(|number| one(SeccompCondition::new(1, Qword, Eq, *number)?));
    rules.insert(
        libc::SYS_ioctl,
        ioctls.collect::<Result<_, seccompiler::BackendError>>()?,
    );
    Ok(rules)
}

#[cfg(test)]
mod tests;
