//! Guarded shared memory, and the signals by which a store that misses its door is told. The only file of the store with
//! `unsafe`.
//!
//! A [`Region`] is a memfd mapped twice: once read-only, where everybody reads, and once writable at a secret
//! random address, through which only the door writes (guard level `alias`, DESIGN section 5, PROTOCOLS section 9).
//!
//! Invariants of this file:
//! R-1 No `&` or `&mut` into a region ever exists. Bytes go in and out by copy, word-wise, with atomics.
//! R-2 Every offset is checked against the length of the region before a pointer is made.
//! R-3 The writable address stands in [`WINDOWS`] and nowhere else; it is never given to a system call after mmap.
//! R-4 A region is unmapped only when its `Region` is dropped, and nothing derived from its pointers outlives it.
#![allow(unsafe_code)]

use super::reuse::{self, Written};
use crate::failpoint;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Most regions that may live in one process at a time.
const REGIONS: usize = 4096;
/// Writable addresses by region number.
static WINDOWS: [AtomicUsize; REGIONS] = [const { AtomicUsize::new(0) }; REGIONS];
/// Read-only addresses and lengths by region number, for the fault handler.
static SHOWN: [(AtomicUsize, AtomicUsize); REGIONS] = [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; REGIONS];
/// Where a frame's header has the metablock id (S-3.2); what stands there in other regions names nothing.
const ID: usize = 8;
/// Which region numbers are taken.
static TAKEN: [AtomicBool; REGIONS] = [const { AtomicBool::new(false) }; REGIONS];
/// Greatest region number ever used + 1.
static HIGH: AtomicUsize = AtomicUsize::new(0);

/// How a region is protected against writes that do not come through the door (DESIGN section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Guard {
    /// Mapped read-only; the door writes through a second mapping at a secret address.
    #[default]
    Alias,
    /// One writable mapping, for comparison only.
    Off,
}

/// Guarded shared memory of a fixed length.
pub struct Region {
    shown: usize,
    len: usize,
    number: usize,
    guard: Guard,
    /// Where it was written, if it is kept for another life ([`reuse`]).
    written: Option<Written>,
    /// Kept only if somebody shall be able to adopt the memory.
    memory: Option<OwnedFd>,
}

impl Region {
    /// Makes a region of `len` bytes (rounded up to pages), zeroed, from a memfd called `name`.
    ///
    /// With `seal`, the mappings cannot be changed until the process ends (mseal), for servers; a sealed region's
    /// addresses are never given back.
    pub fn new(name: &str, len: usize, guard: Guard, seal: bool) -> io::Result<Region> {
        let len = len.next_multiple_of(4096).max(4096);
        let kept = !seal && reuse::is_on();
        if let Some(region) = kept.then(|| reuse::take(name, len, guard)).flatten() {
            return Ok(region);
        }
        let writable = memfd(name, len)?;
        let mut region = Region::mapped(&writable, len, guard, seal)?;
        region.written = kept.then(|| Written::new(name, len));
        Ok(region)
    }

    /// The same, and its descriptor is kept, so that who holds it too can adopt the memory after this process (S-14.8).
    pub fn lasting(name: &str, len: usize, guard: Guard, seal: bool) -> io::Result<Region> {
        let len = len.next_multiple_of(4096).max(4096);
        let memory = memfd(name, len)?;
        let mut region = Region::mapped(&memory, len, guard, seal)?;
        region.memory = Some(out_of_the_way(memory));
        Ok(region)
    }

    /// Maps memory that an earlier life of the server made. Errors: its size can still be changed, or is none of a region.
    pub fn adopt(memory: OwnedFd, guard: Guard, seal: bool) -> io::Result<Region> {
        let file = std::fs::File::from(memory);
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        let memory = OwnedFd::from(file);
        // SAFETY: plain call on an open descriptor.
        let seals = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_GET_SEALS) };
        let fixed = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
        if seals < 0 || seals & fixed != fixed || len == 0 || !len.is_multiple_of(4096) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the memory is none that a server left",
            ));
        }
        let mut region = Region::mapped(&memory, len, guard, seal)?;
        region.memory = Some(out_of_the_way(memory));
        Ok(region)
    }

    /// The descriptor of memory that lasts.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.memory.as_ref().map(AsFd::as_fd)
    }

    fn mapped(writable: &OwnedFd, len: usize, guard: Guard, seal: bool) -> io::Result<Region> {
        super::fault::install();
        let number = take_number()?;
        let mapped = map_both(writable, len, guard);
        let (shown, window) = mapped.inspect_err(|_| TAKEN[number].store(false, Ordering::Release))?;
        SHOWN[number].1.store(len, Ordering::Release);
        SHOWN[number]
            .0
            .store(if guard == Guard::Alias { shown } else { 0 }, Ordering::Release);
        WINDOWS[number].store(window, Ordering::Release);
        if seal && guard == Guard::Alias {
            mseal(shown, len);
            mseal(window, len);
        }
        Ok(Region {
            shown,
            len,
            number,
            guard,
            written: None,
            memory: None,
        })
    }

    /// Whether it is as good as the region asked for, once it is zeroed.
    pub(super) fn stands_for(&self, name: &str, len: usize, guard: Guard) -> bool {
        let named = self.written.as_ref().is_some_and(|w| w.name == name);
        named && self.len == len && self.guard == guard
    }

    /// Zeroes what was written, and keeps the mappings for the next region like this one.
    fn keep(&mut self, written: Written) {
        for piece in written.take() {
            let start = WINDOWS[self.number].load(Ordering::Relaxed) + piece;
            (start..start + 4096)
                .step_by(8)
                .for_each(|at| word64(at).store(0, Ordering::Relaxed));
        }
        reuse::keep(Region {
            shown: self.shown,
            len: self.len,
            number: self.number,
            guard: self.guard,
            written: Some(written),
            memory: None,
        });
    }

    /// Bytes of the region; never 0.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Where everybody reads. For tests and fault injection: a write there must fault.
    pub fn shown_address(&self) -> usize {
        self.shown
    }

    #[inline]
    fn check(&self, offset: usize, len: usize) {
        assert!(
            offset <= self.len && len <= self.len - offset,
            "access beyond the region"
        );
    }

    /// The address in the window through which `len` bytes at `offset` are going to be written.
    #[inline]
    fn window(&self, offset: usize, len: usize) -> usize {
        if let Some(written) = &self.written {
            written.mark(offset, len);
        }
        WINDOWS[self.number].load(Ordering::Relaxed) + offset
    }

    /// Copies bytes out of the region.
    #[inline]
    pub fn load(&self, offset: usize, buf: &mut [u8]) {
        self.check(offset, buf.len());
        let mut at = self.shown + offset;
        let mut rest = buf;
        while !at.is_multiple_of(8) && !rest.is_empty() {
            let (head, tail) = rest.split_at_mut(1);
            head[0] = byte(at).load(Ordering::Relaxed);
            rest = tail;
            at += 1;
        }
        let (words, rest) = rest.as_chunks_mut();
        for word in words {
            *word = word64(at).load(Ordering::Relaxed).to_ne_bytes();
            at += 8;
        }
        for b in rest {
            *b = byte(at).load(Ordering::Relaxed);
            at += 1;
        }
    }

    /// The word at `offset`, a multiple of 8.
    #[inline]
    pub fn load_u64(&self, offset: usize, order: Ordering) -> u64 {
        self.check_word(offset, 8);
        word64(self.shown + offset).load(order)
    }

    /// Stores bytes through the window. Part of the door: called by `update` and `install` only.
    #[inline]
    pub fn store(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        if failpoint::ARMED && failpoint::is_armed() {
            return self.store_byte_by_byte(offset, bytes);
        }
        let mut at = self.window(offset, bytes.len());
        let mut rest = bytes;
        while !at.is_multiple_of(8) && !rest.is_empty() {
            byte(at).store(rest[0], Ordering::Relaxed);
            rest = &rest[1..];
            at += 1;
        }
        let (words, rest) = rest.as_chunks();
        for word in words {
            word64(at).store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            at += 8;
        }
        for b in rest {
            byte(at).store(*b, Ordering::Relaxed);
            at += 1;
        }
    }

    /// Under a failpoint each byte is a step of its own: a copy can be torn anywhere.
    fn store_byte_by_byte(&self, offset: usize, bytes: &[u8]) {
        for (at, b) in (self.window(offset, bytes.len())..).zip(bytes) {
            if failpoint::store() {
                byte(at).store(*b, Ordering::Relaxed);
            }
        }
    }

    /// Stores a word through the window.
    #[inline]
    pub fn store_u64(&self, offset: usize, value: u64, order: Ordering) {
        self.check_word(offset, 8);
        if failpoint::store() {
            word64(self.window(offset, 8)).store(value, order);
        }
    }

    /// Atomic XOR of a byte through the window; returns the old byte.
    #[inline]
    pub fn xor_u8(&self, offset: usize, mask: u8) -> u8 {
        self.check(offset, 1);
        let mask = if failpoint::store() { mask } else { 0 };
        byte(self.window(offset, 1)).fetch_xor(mask, Ordering::AcqRel)
    }

    /// Atomic XOR of a word through the window; returns the old word.
    #[inline]
    pub fn xor_u64(&self, offset: usize, mask: u64) -> u64 {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { 0 };
        word64(self.window(offset, 8)).fetch_xor(mask, Ordering::AcqRel)
    }

    /// Atomic addition to a word through the window; returns the old word.
    #[inline]
    pub fn add_u64(&self, offset: usize, delta: u64) -> u64 {
        self.check_word(offset, 8);
        let delta = if failpoint::store() { delta } else { 0 };
        word64(self.window(offset, 8)).fetch_add(delta, Ordering::AcqRel)
    }

    /// Atomic OR of a word through the window; returns the old word.
    #[inline]
    pub fn or_u64(&self, offset: usize, mask: u64) -> u64 {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { 0 };
        word64(self.window(offset, 8)).fetch_or(mask, Ordering::AcqRel)
    }

    /// Atomic AND of a word through the window; returns the old word.
    #[inline]
    pub fn and_u64(&self, offset: usize, mask: u64) -> u64 {
        self.check_word(offset, 8);
        let mask = if failpoint::store() { mask } else { !0 };
        word64(self.window(offset, 8)).fetch_and(mask, Ordering::AcqRel)
    }

    /// Replaces a word that is `old` through the window; `false`: it is another.
    #[inline]
    pub fn replace_u64(&self, offset: usize, old: u64, new: u64) -> bool {
        self.check_word(offset, 8);
        let new = if failpoint::store() { new } else { old };
        let word = word64(self.window(offset, 8));
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Stores a 16-bit word through the window.
    #[inline]
    pub fn store_u16(&self, offset: usize, value: u16, order: Ordering) {
        self.check_word(offset, 2);
        if failpoint::store() {
            word16(self.window(offset, 2)).store(value, order);
        }
    }

    #[inline]
    fn check_word(&self, offset: usize, size: usize) {
        self.check(offset, size);
        assert!(offset.is_multiple_of(size), "word access is not aligned");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if reuse::is_on()
            && let Some(written) = self.written.take()
        {
            return self.keep(written);
        }
        SHOWN[self.number].0.store(0, Ordering::Release);
        let window = WINDOWS[self.number].swap(0, Ordering::AcqRel);
        // SAFETY: both ranges were mapped by `map_both` with this length and nothing points into them any more.
        // A sealed mapping refuses, which leaks it on purpose.
        unsafe {
            libc::munmap(self.shown as *mut libc::c_void, self.len);
        }
        if self.guard == Guard::Alias {
            // SAFETY: as above.
            unsafe {
                libc::munmap(window as *mut libc::c_void, self.len);
            }
        }
        TAKEN[self.number].store(false, Ordering::Release);
    }
}

/// The atomic byte at an address inside a region.
#[inline]
fn byte<'a>(at: usize) -> &'a AtomicU8 {
    // SAFETY: the caller checked the address against its region, which stays mapped while it is borrowed;
    // all accesses to regions are atomic.
    unsafe { AtomicU8::from_ptr(at as *mut u8) }
}

/// The atomic 16-bit word at an aligned address inside a region.
#[inline]
fn word16<'a>(at: usize) -> &'a AtomicU16 {
    // SAFETY: as for `byte`, and the caller checked the alignment.
    unsafe { AtomicU16::from_ptr(at as *mut u16) }
}

/// The atomic word at an aligned address inside a region.
#[inline]
fn word64<'a>(at: usize) -> &'a AtomicU64 {
    // SAFETY: as for `byte`, and the caller checked the alignment.
    unsafe { AtomicU64::from_ptr(at as *mut u64) }
}

fn take_number() -> io::Result<usize> {
    let free = TAKEN.iter().position(|t| !t.swap(true, Ordering::AcqRel));
    let number = free.ok_or_else(|| io::Error::other("too many arenas in one process"))?;
    HIGH.fetch_max(number + 1, Ordering::AcqRel);
    Ok(number)
}

fn memfd(name: &str, len: usize) -> io::Result<OwnedFd> {
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

/// The least number of a descriptor that is kept: far from those that a mistake would hit (PROTOCOLS section 9).
const OUT_OF_THE_WAY: libc::c_int = 900;

/// Moves a descriptor to a high number, if there is one.
fn out_of_the_way(memory: OwnedFd) -> OwnedFd {
    // SAFETY: plain call on an open descriptor.
    let fd = unsafe { libc::fcntl(memory.as_raw_fd(), libc::F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) };
    if fd < 0 {
        return memory;
    }
    // SAFETY: `fd` was just made and belongs to nobody else.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Maps the memfd; returns (address to read, address to write).
fn map_both(fd: &OwnedFd, len: usize, guard: Guard) -> io::Result<(usize, usize)> {
    let window = map(fd, len, libc::PROT_READ | libc::PROT_WRITE, secret_hint())?;
    if guard == Guard::Off {
        return Ok((window, window));
    }
    // A read-only re-open: mprotect cannot make this mapping writable (PROTOCOLS section 9).
    let shown = std::fs::File::open(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .and_then(|f| map(&OwnedFd::from(f), len, libc::PROT_READ, 0));
    // SAFETY: the range was just mapped and nothing points into it.
    shown.map(|s| (s, window)).inspect_err(|_| unsafe {
        libc::munmap(window as *mut libc::c_void, len);
    })
}

/// A random page-aligned address in the middle of the address space; the kernel takes it if it is free.
fn secret_hint() -> usize {
    let mut random = [0; 8];
    if getrandom::fill(&mut random).is_err() {
        return 0;
    }
    0x1000_0000_0000 + (usize::from_ne_bytes(random) & 0x3fff_ffff_f000)
}

fn map(fd: &OwnedFd, len: usize, prot: libc::c_int, hint: usize) -> io::Result<usize> {
    // SAFETY: a new mapping at an address the kernel chooses (the hint never replaces one); checked below.
    let at = unsafe {
        libc::mmap(
            hint as *mut libc::c_void,
            len,
            prot,
            libc::MAP_SHARED,
            fd.as_raw_fd(),
            0,
        )
    };
    if at == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(at as usize)
}

/// Seals a mapping against mprotect, munmap and MADV_REMOVE where the kernel can (6.10 on).
fn mseal(at: usize, len: usize) {
    const SYS_MSEAL: libc::c_long = 462;
    // SAFETY: a system call on a range that this file mapped; an older kernel answers ENOSYS.
    unsafe {
        libc::syscall(SYS_MSEAL, at, len, 0);
    }
}

/// A place inside a guarded region, for the report of a stray write.
pub(super) struct Place {
    /// Number of the page of the region.
    pub frame: usize,
    /// Byte in the page.
    pub offset: usize,
    /// What stands where a frame has its metablock id (S-3.2).
    pub id: u64,
}

/// Which guarded region an address lies in. Safe in a signal handler: no lock, no memory is asked for.
pub(super) fn place_of(address: usize) -> Option<Place> {
    let regions = SHOWN.iter().take(HIGH.load(Ordering::Acquire));
    let mut starts = regions.map(|(start, len)| (start.load(Ordering::Acquire), len.load(Ordering::Acquire)));
    let (start, _) = starts.find(|(start, len)| *start != 0 && address >= *start && address - start < *len)?;
    Some(Place {
        frame: (address - start) / 4096,
        offset: (address - start) % 4096,
        id: word64(address - address % 4096 + ID).load(Ordering::Relaxed),
    })
}

/// Has `handler` called at each `signal`; calls that it interrupts go on.
pub(super) fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    set_action(signal, handler as usize, libc::SA_RESTART | libc::SA_NODEFER);
}

/// Has [`super::fault::on_fault`] called at each fault. On the thread's own stack: an alternate one is too small to name
/// the functions of the backtrace.
pub(super) fn handle_faults() {
    extern "C" fn on_segv(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
        // SAFETY: the kernel gives a valid siginfo for SIGSEGV.
        super::fault::on_fault(signal, unsafe { (*info).si_addr() } as usize);
    }
    let handler = on_segv as *const () as usize;
    set_action(libc::SIGSEGV, handler, libc::SA_SIGINFO | libc::SA_NODEFER);
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
pub(super) fn default_action(signal: libc::c_int) {
    set_action(signal, libc::SIG_DFL, 0);
}

/// SIGALRM after so many seconds.
pub(super) fn alarm(seconds: libc::c_uint) {
    // SAFETY: plain system call.
    unsafe {
        libc::alarm(seconds);
    }
}

/// Sends a signal to a thread of this process; `false` if it has ended.
pub(super) fn send(thread: i32, signal: libc::c_int) -> bool {
    // SAFETY: plain system call; a thread that is not of this process is refused.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}
