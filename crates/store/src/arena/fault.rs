//! What happens when a store misses the door: the other threads are stopped, the culprit is named, the process ends
//! (DESIGN section 5, PROTOCOLS section 9).
//!
//! Invariants of this file:
//! F-1 The first line of the report asks for no memory and takes no lock: it comes out whatever the others hold.
//! F-2 The backtrace needs both. If a stopped thread holds what it needs, [`PATIENCE`] ends the wait.
//! F-3 Faults outside guarded regions are passed on untouched.

use super::sys::{alarm, default_action, handle, handle_faults, place_of, send};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use rustix::fs::{Mode, OFlags, RawDir};
use rustix::thread::{Timespec, gettid, nanosleep};
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
        handle_faults();
        handle(stop_signal(), on_stop);
    });
}

/// The signal that stops a thread: a real-time one that nobody else uses.
fn stop_signal() -> libc::c_int {
    libc::SIGRTMAX() - 1
}

/// A thread that must not run on: counts itself and never returns.
extern "C" fn on_stop(_signal: libc::c_int) {
    STOPPED.fetch_add(1, Ordering::AcqRel);
    loop {
        sleep(3600, 0);
    }
}

/// Reports a fault at `address` if that lies inside a guarded region, then ends the process as the default action would:
/// when the handler that called this returns, the instruction runs again.
pub(super) fn on_fault(signal: libc::c_int, address: usize) {
    let Some(place) = place_of(address) else {
        return default_action(signal); // F-3
    };
    let thread = gettid().as_raw_nonzero().get();
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
    handle(libc::SIGALRM, on_alarm); // F-2
    alarm(PATIENCE);
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
    send(gettid().as_raw_nonzero().get(), libc::SIGSEGV);
}

/// Writes to standard error without a lock.
fn tell(text: &[u8]) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text);
}

fn sleep(seconds: i64, nanoseconds: i64) {
    let _ = nanosleep(&Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds,
    });
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
        sleep(0, 1_000_000);
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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(list) = rustix::fs::open(c"/proc/self/task", flags, Mode::empty()) else {
            return false;
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(list, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let id = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            id.filter(|id| *id != own).into_iter().for_each(|id| self.ask(id));
        }
        self.count > before
    }

    fn ask(&mut self, id: i32) {
        if self.ids[..self.count].contains(&id) || self.count == self.ids.len() {
            return;
        }
        self.ids[self.count] = id;
        self.count += 1;
        if !send(id, stop_signal()) {
            STOPPED.fetch_add(1, Ordering::AcqRel);
        }
    }
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
