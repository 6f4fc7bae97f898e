//! What a server with a keeper may ask of the kernel once it serves: nothing that opens, makes or names a file, no new program,
//! no other process, no new socket, no signal to others (decision 0612).
//!
//! Before that, from before it reads the first byte of its pool, the worst is refused already (decision 0612), and no file is
//! opened, made or removed but a few ([`paths`], decision 0612).
//!
//! The list below is everything that a server was seen to call and what its allocator, threads and signal handlers may call.
//! A call that is not on it fails with EPERM: the caller goes on with an error, as after any other that fails.
//! Calls without conditions cost nothing: the kernel keeps a bitmap of what a filter always allows.

mod paths;

use crate::table;
use keepfs_store::memory;
use libc::c_long;
use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{BpfProgram, SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule};
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
    // Answered ENOSYS by the filter before this one ([`no_structs`]).
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
    libc::SYS_capget,
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

/// What fcntl(2) is asked for: copies of descriptors, and the seals of memory. Not whom a file sends signals and which.
const FCNTLS: &[libc::c_int] = &[
    libc::F_GETFL,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GET_SEALS,
    libc::F_ADD_SEALS,
];

/// The same by ioctl(2): FIOASYNC, FIOSETOWN, SIOCSPGRP; and words that a terminal takes for typed: TIOCSTI.
const NEVER_IOCTLS: [u64; 4] = [0x5452, 0x8901, 0x8902, 0x5412];

/// What clone(2) may not make, nor without [`libc::CLONE_THREAD`] anything.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// What nothing that opens a pool and mounts it needs, and what makes more of a process that was taken over: other programs and
/// processes, mounts and namespaces, the kernel's own programs and modules, users, files' owners and modes.
const NEVER: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setgroups,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_symlinkat,
    libc::SYS_linkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
];

/// The same by the names that newer architectures do without.
#[cfg(target_arch = "x86_64")]
const NEVER_OLD: &[c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_setrlimit,
    libc::SYS_mknod,
    libc::SYS_symlink,
    libc::SYS_link,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
];
#[cfg(not(target_arch = "x86_64"))]
const NEVER_OLD: &[c_long] = &[];

/// What a server without a keeper does itself, of [`NEVER`].
const ALONE: &[c_long] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_io_uring_setup,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
];

/// Confines a server without a keeper before it reads its pool, as far as who mounts, listens and unmounts itself can be: no
/// programs, no signals to other processes, namespaces, modules, users, and no memory that becomes code (decision 0612).
pub fn alone() {
    let rules = first_rules().and_then(|mut rules| {
        rules.retain(|call, _| !ALONE.contains(call));
        // It unmounts in a process of its own.
        rules.insert(libc::SYS_clone, namespaces()?);
        Ok(rules)
    });
    set_first(compiled(rules, SeccompAction::Allow, REFUSE));
}

/// Confines this process before it reads a pool: it may still open the files of [`paths`], which it does until it serves, but
/// nothing of [`NEVER`], no memory that becomes code (decision 0612). [`begin`] adds to it.
pub fn before_reading() {
    match paths::limit() {
        Ok(true) => {}
        Ok(false) => tracing::warn!("this kernel has no Landlock: until it serves this server could open any file"),
        Err(error) => tracing::warn!(%error, "until it serves this server could open any file"),
    }
    set_first(first_program());
}

fn set_first(program: Result<BpfProgram, String>) {
    for program in [no_structs(), program] {
        let set = program.and_then(|program| seccompiler::apply_filter(&program).map_err(|e| e.to_string()));
        if let Err(error) = set {
            tracing::warn!(%error, "this server reads the pool with more rights than it needs");
        }
    }
}

/// The filter against clone3(2), whose flags lie in memory where no filter sees them. The answer is that there is none, and libc
/// makes its threads by clone(2).
fn no_structs() -> Result<BpfProgram, String> {
    let clone3 = Rules::from([(libc::SYS_clone3, Vec::new())]);
    compiled(
        Ok(clone3),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
    )
}

/// The filter that refuses what the rules name.
fn first_program() -> Result<BpfProgram, String> {
    compiled(first_rules(), SeccompAction::Allow, REFUSE)
}

/// What is refused.
fn first_rules() -> Result<Rules, seccompiler::BackendError> {
    let always = [NEVER, NEVER_OLD].concat();
    let mut rules: Rules = always.into_iter().map(|call| (call, Vec::new())).collect();
    let one = |condition| SeccompRule::new(vec![condition]);
    let exec = libc::PROT_EXEC as u64;
    for call in [libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_pkey_mprotect] {
        let code = SeccompCondition::new(2, Dword, MaskedEq(exec), exec)?;
        rules.insert(call, vec![one(code)?]);
    }
    let others = FCNTLS.iter().map(|command| word(1, Ne, *command as u64));
    rules.insert(
        libc::SYS_fcntl,
        vec![SeccompRule::new(others.collect::<Result<_, _>>()?)?],
    );
    let ioctls = NEVER_IOCTLS.iter().map(|number| one(word(1, Eq, *number)?));
    rules.insert(libc::SYS_ioctl, ioctls.collect::<Result<_, _>>()?);
    let mut clones = namespaces()?;
    clones.push(one(word(0, MaskedEq(libc::CLONE_THREAD as u64), 0)?)?);
    rules.insert(libc::SYS_clone, clones);
    // Signals to others, memory that others may read, and what it may use of the machine.
    rules.insert(libc::SYS_tgkill, vec![one(word(0, Ne, std::process::id().into())?)?]);
    rules.insert(libc::SYS_prctl, vec![one(word(0, Eq, libc::PR_SET_DUMPABLE as u64)?)?]);
    rules.insert(libc::SYS_prlimit64, vec![one(SeccompCondition::new(2, Qword, Ne, 0)?)?]);
    Ok(rules)
}

/// clone(2) with any of [`NAMESPACES`].
fn namespaces() -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flags = NAMESPACES.iter().map(|flag| *flag as u64);
    flags
        .map(|flag| SeccompRule::new(vec![word(0, MaskedEq(flag), flag)?]))
        .collect()
}

/// That the 32 bits of an argument, of which the kernel looks at no more, compare so.
fn word(argument: u8, compared: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, Dword, compared, value)
}

/// Confines this process, all its threads, for good. What cannot be is said and the server goes on: a kernel without the
/// filter, or one process that is traced.
pub fn begin() {
    if let Err(error) = table::keep_open().and_then(|()| memory::report_by_others()) {
        tracing::warn!(%error, "what happens around this server is not seen");
    }
    match program().and_then(|program| seccompiler::apply_filter_all_threads(&program).map_err(|e| e.to_string())) {
        Ok(()) => {}
        Err(error) => tracing::warn!(%error, "this server may ask more of the kernel than it needs"),
    }
}

/// The filter that refuses all but what the rules name.
fn program() -> Result<BpfProgram, String> {
    compiled(rules(), REFUSE, SeccompAction::Allow)
}

const REFUSE: SeccompAction = SeccompAction::Errno(libc::EPERM.unsigned_abs());

/// What the kernel runs: `named` for calls that a rule names, `others` for the others. Errors: as text.
fn compiled(
    rules: Result<Rules, seccompiler::BackendError>,
    others: SeccompAction,
    named: SeccompAction,
) -> Result<BpfProgram, String> {
    let architecture = std::env::consts::ARCH.try_into().map_err(|e| format!("{e}"))?;
    let filter = rules
        .and_then(|rules| SeccompFilter::new(rules, others, named, architecture))
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
    let commands = FCNTLS.iter().map(|command| one(word(1, Eq, *command as u64)?));
    rules.insert(libc::SYS_fcntl, commands.collect::<Result<_, _>>()?);
    let thread = libc::CLONE_THREAD as u64;
    let asked = NAMESPACES.iter().fold(thread, |flags, flag| flags | *flag as u64);
    rules.insert(libc::SYS_clone, vec![one(word(0, MaskedEq(asked), thread)?)?]);
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
