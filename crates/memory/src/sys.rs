//! Mappings of guarded memory, and the signals by which a store that misses its door is told. The only file of this package
//! and of those that keep metadata with `unsafe`.
//!
//! Invariants that callers keep, beside R-2 and R-4 ([`crate::Region`]):
//! R-1 No `&` or `&mut` into a region ever exists. Bytes go in and out by copy, word-wise, with atomics.
//! R-3 The writable address is masked in memory ([`hidden`]); it is given to a system call by who makes the mapping and
//!     who ends it only.
#![allow(unsafe_code)]

use crate::guard::Guard;
use crate::hidden::{self, Hidden};
use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use keepfs_format::PAGE;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

/// Bytes that [`load_wide`] copies at a time.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) const WIDE: usize = 256;

/// Copies four cache lines at a time out of memory that others may write meanwhile, which makes a mixture of words.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
pub(crate) fn load_wide(at: usize, buf: &mut [u8]) {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(from: usize, to: &mut [u8; WIDE]) {
        // SAFETY: the region has 256 bytes at `from`, `to` is as many that may be written; nothing else is touched. The
        // compiler makes nothing of what an assembler reads, so that racing stores are no races of Rust's.
        unsafe {
            core::arch::asm!(
                "vmovdqu64 {a}, [{from}]",
                "vmovdqu64 {b}, [{from} + 64]",
                "vmovdqu64 {c}, [{from} + 128]",
                "vmovdqu64 {d}, [{from} + 192]",
                "vmovdqu64 [{to}], {a}",
                "vmovdqu64 [{to} + 64], {b}",
                "vmovdqu64 [{to} + 128], {c}",
                "vmovdqu64 [{to} + 192], {d}",
                a = out(zmm_reg) _,
                b = out(zmm_reg) _,
                c = out(zmm_reg) _,
                d = out(zmm_reg) _,
                from = in(reg) from,
                to = in(reg) to.as_mut_ptr(),
                options(nostack, preserves_flags),
            );
        }
    }
    for (i, part) in buf.as_chunks_mut().0.iter_mut().enumerate() {
        // SAFETY: the caller asked the processor for AVX-512.
        unsafe { load(at.wrapping_add(WIDE * i), part) }
    }
}

/// The atomic byte at an address inside a region.
#[inline]
pub(crate) fn byte<'a>(at: usize) -> &'a AtomicU8 {
    // SAFETY: the caller checked the address against its region, which stays mapped while it is borrowed;
    // all accesses to regions are atomic.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }
}

/// The atomic 16-bit word at an aligned address inside a region.
#[inline]
pub(crate) fn word16<'a>(at: usize) -> &'a AtomicU16 {
    // SAFETY: as for `byte`, and the caller checked the alignment.
    unsafe { AtomicU16::from_ptr(at as *mut u16) }
}

/// The atomic 32-bit word at an aligned address inside a region.
#[inline]
pub(crate) fn word32<'a>(at: usize) -> &'a AtomicU32 {
    // SAFETY: as for `byte`, and the caller checked the alignment.
    unsafe { AtomicU32::from_ptr(at as *mut u32) }
}

/// The atomic word at an aligned address inside a region.
#[inline]
pub(crate) fn word64<'a>(at: usize) -> &'a AtomicU64 {
    // SAFETY: as for `byte`, and the caller checked the alignment.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }
}

/// Stores two words at an address inside a region, in one instruction where there is one: then no death of the process comes between.
#[inline]
pub(crate) fn store_pair(at: usize, pair: [u64; 2]) {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2", not(miri)))]
    // SAFETY: as for `byte`, and like an atomic for the compiler; one store, which asks for no alignment.
    unsafe {
        let pair = core::arch::x86_64::_mm_set_epi64x(pair[1].cast_signed(), pair[0].cast_signed());
        core::arch::asm!("movdqu xmmword ptr [{at}], {pair}", at = in(reg) at, pair = in(xmm_reg) pair, options(nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", target_feature = "sse2", not(miri))))]
    for (i, word) in pair.into_iter().enumerate() {
        word64(at + 8 * i).store(word, core::sync::atomic::Ordering::Relaxed);
    }
}

/// Clears the registers that a call need not keep: an address that is left there would be stored by who saves them next (H-2).
#[inline(always)]
pub(crate) fn clear_registers() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: the compiler is told of each register; it takes flags and memory for changed, so that no access moves behind this.
    unsafe {
        core::arch::asm!(
            "xor eax, eax", "xor ecx, ecx", "xor edx, edx", "xor esi, esi", "xor edi, edi",
            "xor r8d, r8d", "xor r9d, r9d", "xor r10d, r10d", "xor r11d, r11d",
            out("rax") _, out("rcx") _, out("rdx") _, out("rsi") _, out("rdi") _,
            out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            options(nostack),
        );
    }
}

/// Asks the processor for a cache line, where it takes such hints.
#[inline]
pub(crate) fn prefetch(at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a hint never faults, whatever the address is, and nothing of what is there comes into the program.
    unsafe {
        core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(at as *const i8);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

pub(crate) fn memfd(name: &str, len: usize) -> io::Result<OwnedFd> {
    let name = CString::new(name)?;
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `fd` was just made and belongs to nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: plain call on an open descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), len as libc::off_t) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: plain call on an open descriptor; the size can never change again.
    unsafe {
        libc::fcntl(
            fd.as_raw_fd(),
            libc::F_ADD_SEALS,
            libc::F_SEAL_SHRINK | libc::F_SEAL_GROW,
        )
    };
    Ok(fd)
}

/// Whether the size of shared memory can never change again.
pub(crate) fn is_fixed(memory: &OwnedFd) -> bool {
    // SAFETY: plain call on an open descriptor.
    let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
    let fixed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    seals >= 0 && seals & fixed == fixed
}

/// The least number of a descriptor that is kept: far from those that a mistake would hit.
const OUT_OF_THE_WAY: libc::c_int = 900;

/// Moves a descriptor to a high number, if there is one.
pub(crate) fn out_of_the_way(memory: OwnedFd) -> OwnedFd {
    // SAFETY: plain call on an open descriptor.
    let fd = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    if fd < 0 {
        return memory;
    }
    // SAFETY: `fd` was just made and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Maps the memfd; returns (address to read, address to write).
pub(crate) fn map_both(fd: &OwnedFd, len: usize, guard: Guard, align: usize) -> io::Result<(usize, Hidden)> {
    hidden::draw()?;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let alone = |prot| map_shown(fd, len, prot, align).map(|at| (at, Hidden::from_address(at)));
    match guard {
        Guard::Off => return alone(both),
        Guard::Mprotect => return alone(libc::PROT_READ),
        Guard::Alias | Guard::Sealed | Guard::Pkey => {}
    }
    // A read-only re-open: mprotect cannot make this mapping writable.
    let file = std::fs::File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
    let shown = map_shown(&OwnedFd::from(file), len, libc::PROT_READ, align)?;
    let window = match guard {
        Guard::Sealed => Ok(Hidden::NONE),
        _ => map_window(fd, len, guard, align),
    };
    // SAFETY: the range was just mapped and nothing points into it.
    window.map(|window| (shown, window)).inspect_err(|_| unsafe {
        libc::munmap(shown as *mut libc::c_void, len);
    })
}

/// The region of an arena's frames.
pub const FRAMES: &str = "keepfs-arena";

/// Bytes of a large page of the processor, on most.
pub const LARGE: usize = 2 << 20;

/// What the addresses of a region are multiples of. Only of frames: all regions aligned alike would take the same places of the
/// processor's tables of addresses (decision 0673).
pub(crate) fn alignment(name: &str, len: usize) -> usize {
    if name == FRAMES && len >= LARGE { LARGE } else { PAGE }
}

/// Maps where everybody reads, where the kernel chooses.
fn map_shown(fd: &OwnedFd, len: usize, prot: libc::c_int, align: usize) -> io::Result<usize> {
    if align == PAGE {
        return map(fd, len, prot, 0, 0);
    }
    // As much more as is needed to begin at a multiple; what is too much before and behind it goes, and all if that fails.
    let place = map_at(None, len + align, libc::PROT_NONE, NOTHING, 0)?;
    let at = place.next_multiple_of(align);
    // SAFETY: a part of what was just mapped, and nothing points into it.
    let cut = |start, end| unsafe {
        libc::munmap(start as *mut libc::c_void, end - start);
    };
    cut(place, at);
    cut(at + len, place + len + align);
    map(fd, len, prot, libc::MAP_FIXED, at).inspect_err(|_| cut(at, at + len))
}

/// Bytes on both sides of a window where nothing can be mapped, so that nobody's neighbour runs over into it.
pub(crate) const GAP: usize = 1 << 20;
/// How often an address is drawn until one is free.
const DRAWS: u32 = 16;

/// Maps a window at an address drawn from all that a program has, a gap before and behind it.
#[inline(never)]
fn map_window(fd: &OwnedFd, len: usize, guard: Guard, align: usize) -> io::Result<Hidden> {
    let at = free_place(len + 2 * GAP, align)? + GAP;
    let mapped = map(fd, len, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_FIXED, at);
    let locked = mapped.and_then(|at| match guard {
        Guard::Pkey => lock_by_key(at, len),
        _ => Ok(()),
    });
    let window = Hidden::from_address(at);
    locked.inspect_err(|_| unmap_window(window, len))?;
    Ok(window)
}

/// Takes a place for so many bytes where nothing is. Where most of the address space cannot be had (a smaller one, a program
/// that watches this one), the kernel chooses; else [`GAP`] behind its beginning is a multiple of `align`. Errors: the system's.
fn free_place(len: usize, align: usize) -> io::Result<usize> {
    for _ in 0..DRAWS {
        // Kernels before 4.17 know no MAP_FIXED_NOREPLACE, and take the address if it is free.
        let drawn = map_at(
            None,
            len,
            libc::PROT_NONE,
            NOTHING | libc::MAP_FIXED_NOREPLACE,
            secret_hint(align)?,
        );
        if drawn.is_ok() {
            return drawn;
        }
    }
    map_at(None, len, libc::PROT_NONE, NOTHING, 0)
}

/// Unmaps where everybody reads. A sealed mapping refuses, which leaks it on purpose.
pub(crate) fn unmap_shown(shown: usize, len: usize) {
    // SAFETY: `map_both` mapped the range with this length, and nothing points into it any more.
    unsafe { libc::munmap(shown as *mut libc::c_void, len) };
}

/// Unmaps a window and its gaps. A sealed one stays, gaps and all.
pub(crate) fn unmap_window(window: Hidden, len: usize) {
    // SAFETY: `map_window` mapped it, and nothing points into it any more.
    unsafe {
        libc::munmap((window.address() - GAP) as *mut libc::c_void, len + 2 * GAP);
    }
}

/// Makes pages that a region mapped writable, or read-only again ([`Guard::Mprotect`]).
pub(crate) fn set_writable(at: usize, len: usize, writable: bool) -> io::Result<()> {
    let write = if writable { libc::PROT_WRITE } else { 0 };
    // SAFETY: whole pages of a mapping that the caller's region owns; nothing but atomic accesses go there.
    match unsafe { libc::mprotect(at as *mut libc::c_void, len, libc::PROT_READ | write) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The protection key of all windows; every thread is born without the right to it.
static KEY: OnceLock<Option<u32>> = OnceLock::new();

/// Takes a key for all windows, once a process, closed for the thread that asks, too.
fn key() -> io::Result<u32> {
    const NO_ACCESS: libc::c_long = 1;
    // SAFETY: a plain system call; it answers with an error where the processor or the kernel has no keys.
    let key = KEY.get_or_init(|| u32::try_from(unsafe { libc::syscall(libc::SYS_pkey_alloc, 0, NO_ACCESS) }).ok());
    key.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, NO_KEYS))
}

impl Guard {
    /// Whether this machine can have it. Errors: what it lacks, and what to ask for instead.
    pub fn available(self) -> io::Result<()> {
        match self {
            Guard::Pkey => key().map(drop),
            _ => Ok(()),
        }
    }
}

/// What is said where there are none.
const NO_KEYS: &str =
    "this processor (or kernel) has no memory protection keys; mount with -o guard=alias or guard=sealed";

/// Puts a mapping under the key.
fn lock_by_key(at: usize, len: usize) -> io::Result<()> {
    let (key, prot) = (key()?, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: the range was just mapped by the caller.
    match unsafe { libc::syscall(libc::SYS_pkey_mprotect, at, len, prot, key) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens (or closes) the key's memory for this thread; returns what its rights were.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_rights(rights: Option<u32>) -> u32 {
    let mut before: u32;
    // SAFETY: reads this thread's rights; the processor has keys, for a region with one exists.
    unsafe { core::arch::asm!("rdpkru", in("ecx") 0, out("eax") before, out("edx") _) };
    let open = KEY
        .get()
        .copied()
        .flatten()
        .map_or(before, |key| before & !(3 << (2 * key)));
    let after = rights.unwrap_or(open);
    // SAFETY: changes this thread's rights to memory that only windows use; a barrier for the compiler.
    unsafe { core::arch::asm!("wrpkru", in("eax") after, in("ecx") 0, in("edx") 0) };
    before
}

/// No keys here: no region has one.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn set_rights(_rights: Option<u32>) -> u32 {
    0
}

/// [`GAP`] before a random multiple of `align`, nearly anywhere in the 47 bits that a program has. Errors: the system's.
fn secret_hint(align: usize) -> io::Result<usize> {
    Ok(0x100_0000_0000 - GAP + hidden::random()? % 0x7e00_0000_0000 / align * align)
}

/// A mapping that only holds its place.
const NOTHING: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn map(fd: &OwnedFd, len: usize, prot: libc::c_int, how: libc::c_int, at: usize) -> io::Result<usize> {
    let mapped = map_at(Some(fd), len, prot, libc::MAP_SHARED | how, at);
    mapped.inspect(|at| advise(*at, len, libc::MADV_DONTDUMP)) // S-13.11
}

/// Asks the kernel for something that changes no content; what it cannot do is not done.
pub(crate) fn advise(at: usize, len: usize, what: libc::c_int) {
    // SAFETY: a range that this file mapped; its content stays what it is.
    unsafe { libc::madvise(at as *mut libc::c_void, len, what) };
}

/// Maps a file, or nothing. `how` with MAP_FIXED: over what the caller mapped itself.
fn map_at(fd: Option<&OwnedFd>, len: usize, prot: libc::c_int, how: libc::c_int, at: usize) -> io::Result<usize> {
    let fd = fd.map_or(-1, AsRawFd::as_raw_fd);
    // SAFETY: a new mapping where nothing is, or over a range that the caller mapped to hold the place; checked below.
    let at = unsafe { libc::mmap(at as *mut libc::c_void, len, prot, how, fd, 0) };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(at as usize)
}

/// Seals a mapping against mprotect, munmap and MADV_REMOVE where the kernel can (6.10 on).
pub(crate) fn mseal(at: usize, len: usize) {
    const SYS_MSEAL: libc::c_long = 462;
    // SAFETY: a system call on a range that this file mapped; an older kernel answers ENOSYS.
    unsafe { libc::syscall(SYS_MSEAL, at, len, 0) };
}

/// Has `handler` called at each `signal`; calls that it interrupts go on.
pub(crate) fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    set_action(signal, handler as usize, libc::SA_RESTART | libc::SA_NODEFER);
}

/// What tells of a fault: the signal, the address that was aimed at, the instruction.
type Report = fn(libc::c_int, usize, usize);

static REPORT: OnceLock<Report> = OnceLock::new();

/// Has `report` called at each fault. On the thread's own stack: an alternate one is too small to name the functions of the
/// backtrace.
pub(crate) fn handle_faults(report: Report) {
    extern "C" fn on_segv(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
        // SAFETY: the kernel gives a valid siginfo for SIGSEGV.
        let address = unsafe { (*info).si_addr() } as usize;
        match REPORT.get() {
            Some(report) => report(signal, address, instruction(context.cast())),
            None => default_action(signal),
        }
    }
    let _ = REPORT.set(report);
    let handler = on_segv as *const () as usize;
    set_action(libc::SIGSEGV, handler, libc::SA_SIGINFO | libc::SA_NODEFER);
}

/// The bug that the guard is for: a store that misses the door.
#[cfg(feature = "planted")]
#[inline(never)]
pub fn stray_store(at: usize) {
    // SAFETY: none: that is what is planted. The page is mapped, and read-only wherever there is a guard.
    unsafe { (at as *mut u8).write_volatile(0xA5) };
}

/// Any system call, for tests of what a process may still do.
#[cfg(feature = "planted")]
pub fn call(number: libc::c_long, arguments: [usize; 5]) -> io::Result<i64> {
    let [a, b, c, d, e] = arguments;
    // SAFETY: the tests give calls that change nothing of this process, or must be refused.
    match unsafe { libc::syscall(number, a, b, c, d, e) } {
        -1 => Err(io::Error::last_os_error()),
        value => Ok(value),
    }
}

/// The instruction that was interrupted; 0 where it is not known how to tell.
fn instruction(context: *const libc::ucontext_t) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a valid context to a handler with SA_SIGINFO.
    return unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize;
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the kernel gives a valid context to a handler with SA_SIGINFO.
    return unsafe { (*context).uc_mcontext.pc } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return 0;
}

fn set_action(signal: libc::c_int, handler: usize, flags: libc::c_int) {
    // SAFETY: all-zero is a valid sigaction; it is filled before use.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    // SAFETY: the callers above give functions with the signatures that their flags ask for, and functions live for ever.
    unsafe {
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
    }
}

/// Back to the default action: the next occurrence ends the process.
pub(crate) fn default_action(signal: libc::c_int) {
    set_action(signal, libc::SIG_DFL, 0);
}

/// SIGALRM after so many seconds.
pub(crate) fn alarm(seconds: libc::c_uint) {
    // SAFETY: plain system call.
    unsafe {
        libc::alarm(seconds);
    }
}

/// Sends a signal to a thread of this process; `false` if it has ended.
pub(crate) fn send(thread: i32, signal: libc::c_int) -> bool {
    // SAFETY: plain system call; a thread that is not of this process is refused.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}
