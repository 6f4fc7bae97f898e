//! Stores that may fault, and a child process to make them in: what wild writes need and nothing else offers.
//! Each store is one instruction of sixteen bytes; where it faults, the next one runs.
#![allow(unsafe_code)]

use std::io;

/// A store of sixteen bytes to an address that nobody gave us. Whether it was made.
#[cfg(target_arch = "x86_64")]
pub fn store(at: usize, word: u64) -> bool {
    // SAFETY: none, on purpose: it faults, which `on_fault` answers, or lands in memory that the caller chose to lose.
    unsafe { keepfs_lab_store(at, word) != 0 }
}

/// No such store is known here: none is made.
#[cfg(not(target_arch = "x86_64"))]
pub fn store(_at: usize, _word: u64) -> bool {
    false
}

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".globl keepfs_lab_store",
    ".globl keepfs_lab_missed",
    "keepfs_lab_store:",
    "movq xmm0, rsi",
    "punpcklqdq xmm0, xmm0",
    "movups [rdi], xmm0",
    "mov eax, 1",
    "ret",
    "keepfs_lab_missed:",
    "xor eax, eax",
    "ret",
);

#[cfg(target_arch = "x86_64")]
// SAFETY: both are the labels above, with the C calling convention.
unsafe extern "C" {
    fn keepfs_lab_store(at: usize, word: u64) -> u32;
    fn keepfs_lab_missed() -> u32;
}

/// Has [`store`] answer `false` where it faults; every other fault ends the process. Takes the place of who reported faults
/// before. Errors: the system's.
#[cfg(target_arch = "x86_64")]
pub fn answer_faults() -> io::Result<()> {
    // SAFETY: all-zero is a valid sigaction; it is filled before use.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
    action.sa_sigaction = handler as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_NODEFER;
    [libc::SIGSEGV, libc::SIGBUS].into_iter().try_for_each(|signal| {
        // SAFETY: the handler has the signature that SA_SIGINFO asks for, and lives for ever.
        match unsafe { libc::sigaction(signal, &raw const action, core::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

/// Errors: always; nobody knows how to answer a fault here.
#[cfg(not(target_arch = "x86_64"))]
pub fn answer_faults() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_arch = "x86_64")]
extern "C" fn on_fault(signal: libc::c_int, _info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let (store, missed) = (
        keepfs_lab_store as *const () as i64,
        keepfs_lab_missed as *const () as i64,
    );
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel gives a valid context of the thread that faulted, which nobody else uses.
    let registers = unsafe { &mut (*context).uc_mcontext.gregs };
    let at = &mut registers[libc::REG_RIP as usize];
    match (store..missed).contains(at) {
        true => *at = missed,
        // SAFETY: plain system call; the instruction faults again and ends the process.
        false => drop(unsafe { libc::signal(signal, libc::SIG_DFL) }),
    }
}

/// Runs `work` in a child process that shares this one's guarded memory and has a copy of all else, and waits for its end.
/// `work` asks for no memory and takes no lock: other threads of this process may hold them for ever there. Whether the
/// child came to its end by itself. Errors: there can be no child.
pub fn in_child(work: impl FnOnce()) -> io::Result<bool> {
    // SAFETY: the child does nothing but `work`, which keeps to what a child of many threads may do.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends the child at once, without anything that the parent has yet to do.
            unsafe { libc::_exit(0) }
        }
        _ => {
            let mut status = 0;
            // SAFETY: waits for the child that was just made.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            Ok(ended == child && libc::WIFEXITED(status))
        }
    }
}
