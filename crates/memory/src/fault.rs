//! What happens when a store misses the door: the other threads are stopped, the culprit is named, the process ends
//!
//!
//! Invariants of this file:
//! F-1 The first line of the report asks for no memory and takes no lock: it comes out whatever the others hold.
//! F-2 The backtrace needs both. If a stopped thread holds what it needs, [`PATIENCE`] ends the wait.
//! F-3 Faults outside guarded regions are passed on untouched.
//! F-4 A process that may not open files names its functions by their distance from one that every copy of the program has;
//!     [`named`] turns distances into names, in the next process of the same program.

use crate::hidden;
use crate::numbers;
use crate::sys::{alarm, default_action, handle, handle_faults, send, word64};
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use keepfs_format::MetaId;
use rustix::fs::{Mode, OFlags, RawDir, SeekFrom};
use rustix::thread::{Timespec, gettid, nanosleep};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Once, OnceLock};

/// Seconds that the backtrace may take.
const PATIENCE: libc::c_uint = 10;
/// Most milliseconds to wait until the other threads have stopped: one that sleeps in the kernel may not hear.
const STOPPING: u32 = 200;

/// Where a frame's header has the metablock id (S-3.2); what stands there in other regions names nothing.
const ID: usize = 8;

/// The thread that reports, 0 = none.
static REPORTER: AtomicI32 = AtomicI32::new(0);
/// How many threads have stopped.
static STOPPED: AtomicUsize = AtomicUsize::new(0);

/// The list of threads, open, in a process that may not open it when it must stop them.
static TASKS: OnceLock<OwnedFd> = OnceLock::new();
const TASK_FOLDER: &core::ffi::CStr = c"/proc/self/task";

/// Begins every report.
const GUARD: &str = "keepfs: guard: ";
/// Stands before the address in the first line of a report.
const ADDRESS: &str = "at address 0x";
/// Begins the place of a function by its distance: of the instruction that faulted, and of those behind calls.
const FAULTED: &str = "  faulted at distance 0x";
const CALLED: &str = "  called before distance 0x";

/// From here on this process may not be allowed to open files: a report says where functions are, not what they are called,
/// and another process makes names of it ([`named`]). Errors: those of opening the list of threads.
pub fn report_by_others() -> io::Result<()> {
    let tasks = rustix::fs::open(TASK_FOLDER, TASK_FLAGS, Mode::empty())?;
    let _ = TASKS.set(tasks);
    Ok(())
}

const TASK_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A report of a process of this program that has died, the distances in it as names of functions; and the address that was
/// aimed at. `None` if `words` has no report.
pub fn named(words: &str) -> Option<(u64, String)> {
    let report = &words[words.find(GUARD)?..];
    let address = report.split_once(ADDRESS)?.1;
    let address: String = address.chars().take_while(char::is_ascii_hexdigit).collect();
    let address = u64::from_str_radix(&address, 16).ok()?;
    let mut text = String::new();
    for line in report.lines() {
        let distance = |start| u64::from_str_radix(line.strip_prefix(start)?, 16).ok();
        let name = match (distance(FAULTED), distance(CALLED)) {
            (Some(at), _) => name_before(at.wrapping_add(1)),
            (_, Some(behind)) => name_before(behind),
            _ => line.to_owned(),
        };
        let _ = writeln!(text, "{name}");
    }
    Some((address, text.trim_end().to_owned()))
}

/// The function before a distance (a call is before what it returns to) and its line of source; with those that it was made a
/// part of, but without those of the library of Rust.
fn name_before(distance: u64) -> String {
    let behind = here().wrapping_add(distance as usize);
    let (mut ours, mut first) = (Vec::new(), None);
    backtrace::resolve(behind as *mut core::ffi::c_void, |symbol| {
        let function = symbol.name().map_or("?".into(), |name| format!("{name:#}"));
        let file = symbol.filename().map(|file| file.display().to_string());
        let place = match (&file, symbol.lineno()) {
            (Some(file), Some(line)) => format!(" ({file}:{line})"),
            _ => String::new(),
        };
        first.get_or_insert(format!("{function}{place}"));
        if file.is_some_and(|file| !file.starts_with("/rustc/")) {
            ours.push(format!("{function}{place}"));
        }
    });
    match (ours.is_empty(), first) {
        (false, _) => format!("  {}", ours.join(" in ")),
        (true, Some(first)) => format!("  {first}"),
        (true, None) => "  outside this program".into(),
    }
}

/// What distances are measured from.
fn here() -> usize {
    install as *const () as usize
}

/// Installs the handlers, once a process.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        handle_faults(on_fault);
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

/// A place inside a guarded region, for the report of a stray write.
struct Place {
    /// Number of the page of the region.
    frame: usize,
    /// Byte in the page.
    offset: usize,
    /// What stands where a frame has its metablock id (S-3.2).
    id: u64,
}

/// Which guarded region an address lies in, by the mapping that everybody reads or by the window, where a store faults only
/// while a key closes it ([`crate::Guard::Pkey`]). Safe in a signal handler: no lock, no memory is asked for.
fn place_of(address: usize) -> Option<Place> {
    let mut regions = numbers::shown().enumerate().map(|(number, (shown, len))| {
        let window = hidden::kept(number).address();
        let offset = |start: usize| address.checked_sub(start).filter(|offset| start != 0 && *offset < len);
        (shown, offset(shown).or_else(|| offset(window).filter(|_| shown != 0)))
    });
    let (shown, offset) = regions.find_map(|(shown, offset)| Some((shown, offset?)))?;
    Some(Place {
        frame: offset / 4096,
        offset: offset % 4096,
        // Where everybody may read.
        id: word64(shown + offset - offset % 4096 + ID).load(Ordering::Relaxed),
    })
}

/// Reports a fault at `address` if that lies inside a guarded region, then ends the process as the default action would:
/// when the handler that called this returns, the instruction runs again.
fn on_fault(signal: libc::c_int, address: usize, instruction: usize) {
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
        "{GUARD}stray write to protected metadata {ADDRESS}{address:x} (frame {}, offset {}, metablock {:#018x}: {}), thread {thread}, instruction {instruction:#x}",
        place.frame,
        place.offset,
        place.id,
        MetaId(place.id)
    );
    let _ = match running {
        0 => writeln!(line, "; all other threads are stopped"),
        n => writeln!(line, "; {n} other threads could not be stopped"),
    };
    tell(line.text());
    handle(libc::SIGALRM, on_alarm); // F-2
    alarm(PATIENCE);
    let name = std::thread::current().name().unwrap_or("?").to_string();
    // Not by `eprintln`: a stopped thread may hold its lock.
    tell(format!("{GUARD}thread {thread} is called ({name}); it was here:\n").as_bytes());
    match TASKS.get() {
        Some(_) => tell_distances(instruction),
        None => tell(format!("{}\n", std::backtrace::Backtrace::force_capture()).as_bytes()),
    }
    default_action(signal);
}

/// The functions that were under way, from the one that faulted on (F-4).
fn tell_distances(instruction: usize) {
    let mut begun = false;
    tell_distance(FAULTED, instruction);
    backtrace::trace(|frame| {
        let at = frame.ip() as usize;
        if begun {
            tell_distance(CALLED, at);
        }
        // Before it are the handler's own.
        begun |= at == instruction;
        true
    });
}

fn tell_distance(what: &str, at: usize) {
    let mut line = Line::default();
    let _ = writeln!(line, "{what}{:x}", at.wrapping_sub(here()));
    tell(line.text());
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
        let opened;
        let list = match TASKS.get() {
            Some(list) => list,
            None => match rustix::fs::open(TASK_FOLDER, TASK_FLAGS, Mode::empty()) {
                Ok(list) => {
                    opened = list;
                    &opened
                }
                Err(_) => return false,
            },
        };
        if rustix::fs::seek(list, SeekFrom::Start(0)).is_err() {
            return false;
        }
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
    bytes: [u8; 320],
    len: usize,
}

impl Default for Line {
    fn default() -> Line {
        Line {
            bytes: [0; 320],
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
