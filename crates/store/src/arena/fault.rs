//! What happens when a store misses the door: the other threads are stopped, the culprit is named, the process ends
//! (DESIGN section 5, PROTOCOLS section 9).
//!
//! Invariants of this file:
//! F-1 The first line of the report asks for no memory and takes no lock: it comes out whatever the others hold.
//! F-2 The backtrace needs both. If a stopped thread holds what it needs, [`PATIENCE`] ends the wait.
//! F-3 Faults outside guarded regions are passed on untouched.
#![allow(unsafe_code)]

use super::sys::place_of;
use core::fmt::{self, Write};
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::Once;

/// Seconds that the backtrace may take.
const PATIENCE: libc::c_uint = 10;
/// Most milliseconds to wait until the other threads have stopped: one that sleeps in the kernel may not hear.
const STOPPING: u32 = 200;

/// The thread that reports, 0 = none.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// How many threads have stopped.
static STOPPED: AtomicUsize = AtomicUsize::new(0);

/// Installs the handlers, once a process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // On the thread's own stack: an alternate one is too small to name the functions of the backtrace.
        handle(
            libc::SIGSEGV,
            on_fault as *const (),
            libc::SA_SIGINFO | libc::SA_NODEFER,
        );
        handle(stop_signal(), on_stop as *const (), libc::SA_RESTART);
    });
}

/// The signal that stops a thread: a real-time one that nobody else uses.
fn stop_signal() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

fn handle(signal: libc::c_int, handler: *const (), flags: libc::c_int) {
    // SAFETY: all-zero is a valid sigaction; it is filled before use.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    // SAFETY: the handlers given have the signatures that their flags ask for and live for ever.
    unsafe {
        libc::sigaction(signal, &raw const action, core::ptr::null_mut());
    }
}

/// Back to the default action: the next occurrence ends the process.
fn default_action(signal: libc::c_int) {
    // SAFETY: plain system call.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}

fn this_thread() -> i32 {
    // SAFETY: plain system call.
    unsafe { libc::gettid() }
}

/// A thread that must not run on: counts itself and never returns.
extern "C" fn on_stop(_signal: libc::c_int) {
    STOPPED.fetch_add(1, Ordering::AcqRel);
    loop {
        // SAFETY: plain system call; returns after other signals.
        unsafe {
            libc::pause();
        }
    }
}

/// Reports a fault inside a guarded region with address, place, thread and backtrace, then ends the process as the
/// default action would: returning runs the instruction again.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo for SIGSEGV.
    let address = unsafe { (*info).si_addr() } as usize;
    let Some(place) = place_of(address) else {
        return default_action(signal); // F-3
    };
    let thread = this_thread();
    match REPORTER.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => (),
        Err(reporter) if reporter == thread => return default_action(signal), // the report itself faulted
        Err(_) => on_stop(signal),
    }
    let running = stop_others(thread);
    let mut line = Line::default();
    let _ = write!(
        line,
        "keepfs: guard: stray write to protected metadata at address {address:#x} (frame {}, offset {}, metablock {:#018x}), thread {thread}",
        place.frame, place.offset, place.id
    );
    let _ = match running {
        0 => writeln!(line, "; all other threads are stopped"),
        n => writeln!(line, "; {n} other threads could not be stopped"),
    };
    tell(line.text());
    handle(libc::SIGALRM, on_alarm as *const (), libc::SA_NODEFER); // F-2
    // SAFETY: plain system call.
    unsafe {
        libc::alarm(PATIENCE);
    }
    let name = std::thread::current().name().unwrap_or("?").to_string();
    let trace = std::backtrace::Backtrace::force_capture();
    // Not by `eprintln`: a stopped thread may hold its lock.
    tell(format!("keepfs: guard: thread {thread} is called ({name}); it was here:\n{trace}\n").as_bytes());
    default_action(signal);
}

/// The backtrace does not come: a stopped thread holds what it needs.
extern "C" fn on_alarm(_signal: libc::c_int) {
    tell(b"keepfs: guard: no backtrace: a stopped thread holds a lock that it needs\n");
    default_action(libc::SIGSEGV);
    // SAFETY: plain system call; ends the process as the fault would have.
    unsafe {
        libc::raise(libc::SIGSEGV);
    }
}

/// Writes to standard error without a lock.
fn tell(text: &[u8]) {
    // SAFETY: the bytes live during the call.
    unsafe {
        libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len());
    }
}

/// Stops every other thread of the process. Returns how many did not answer.
fn stop_others(own: i32) -> usize {
    let mut asked = Threads::default();
    // A thread may be born while the list is read: until a pass finds no new one.
    while asked.ask_new(own) {}
    for _ in 0..STOPPING {
        if STOPPED.load(Ordering::Acquire) >= asked.count {
            break;
        }
        let millisecond = libc::timespec {
            tv_sec: 0,
            tv_nsec: 1_000_000,
        };
        // SAFETY: the request lives during the call; the rest is not asked for.
        unsafe {
            libc::nanosleep(&raw const millisecond, core::ptr::null_mut());
        }
    }
    asked.count.saturating_sub(STOPPED.load(Ordering::Acquire))
}

/// Threads that were asked to stop.
struct Threads {
    ids: [i32; 1024],
    count: usize,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            ids: [0; 1024],
            count: 0,
        }
    }
}

impl Threads {
    /// Reads the list of threads once and asks those not asked before. Returns whether there were any.
    fn ask_new(&mut self, own: i32) -> bool {
        let before = self.count;
        // SAFETY: the path is NUL-terminated and lives during the call.
        let list = unsafe { libc::open(c"/proc/self/task".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY) };
        let mut entries = [0_u8; 4096];
        loop {
            // SAFETY: the kernel writes at most `entries.len()` bytes; a bad descriptor is refused.
            let len = unsafe { libc::syscall(libc::SYS_getdents64, list, entries.as_mut_ptr(), entries.len()) };
            let Some(read) = usize::try_from(len).ok().and_then(|n| entries.get(..n)) else {
                break;
            };
            if read.is_empty() {
                break;
            }
            ids(read).filter(|id| *id != own).for_each(|id| self.ask(id));
        }
        // SAFETY: the descriptor is ours, or -1, which is refused.
        unsafe {
            libc::close(list);
        }
        self.count > before
    }

    fn ask(&mut self, id: i32) {
        if self.ids[..self.count].contains(&id) || self.count == self.ids.len() {
            return;
        }
        self.ids[self.count] = id;
        self.count += 1;
        // SAFETY: plain system call on a thread of this process; one that has ended is refused.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), id, stop_signal()) };
        if sent != 0 {
            STOPPED.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The numbers among the names of a getdents64 buffer: {ino:8, off:8, length:2, type:1, name}.
fn ids(entries: &[u8]) -> impl Iterator<Item = i32> {
    let mut rest = entries;
    core::iter::from_fn(move || {
        let length = usize::from(u16::from_le_bytes([*rest.get(16)?, *rest.get(17)?]));
        let name = rest.get(19..length)?;
        rest = &rest[length..];
        Some(name)
    })
    .filter_map(|name| {
        core::ffi::CStr::from_bytes_until_nul(name)
            .ok()?
            .to_str()
            .ok()?
            .parse()
            .ok()
    })
}

/// A line built without asking for memory (F-1).
struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            bytes: [0; 256],
            len: 0,
        }
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.len() - self.len;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.bytes[self.len..self.len + taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        Ok(())
    }
}

impl Line {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
