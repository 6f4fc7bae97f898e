//! What the guard is worth, in child processes: each way to a frame past the door is refused, or the process dies of it
//! with a report that names the culprit (X-9.1, promise C-3).

mod sys;

use keepfs_codes::crc64;
use keepfs_format::{Kind, PAGE};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_store::arena::Arena;
use keepfs_store::{Error, FormatOptions, Guard, Meaning, Ref, Source, Store, StoreOptions};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::sync::Arc;

/// Tells a child what to do.
const ORDER: &str = "KEEPFS_GUARD_TEST";
/// What the thread that should be stopped writes.
const TICK: &str = "still running";
/// The frame that is aimed at, and where.
const FRAME: u32 = 3;
const OFFSET: usize = 100;

fn arena(guard: Guard, seal: bool) -> Arena {
    let arena = Arena::new(8, guard, seal).expect("arena");
    let mut bytes = [0x11; PAGE];
    bytes[..4].copy_from_slice(b"KMB1");
    bytes[8..16].copy_from_slice(&0x0200_0000_0000_002A_u64.to_le_bytes());
    arena.fill(FRAME, &bytes, crc64::full(&bytes));
    arena
}

fn target(arena: &Arena) -> usize {
    arena.shown_address() + FRAME as usize * PAGE + OFFSET
}

/// The same byte behind the secret address, which whoever looks into the table of mappings finds.
fn window(arena: &Arena) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
    let mut ours = maps.lines().filter(|line| line.contains("memfd:keepfs-arena"));
    let line = ours.find(|line| line.contains(" rw-s ")).expect("a window");
    let start = line.split('-').next().map(|start| usize::from_str_radix(start, 16));
    let start = start.expect("an address").expect("an address");
    start + target(arena) - arena.shown_address()
}

/// Whether the processor has protection keys; where they must be there (a guest made for it), it has.
fn has_keys() -> bool {
    let available = Guard::Pkey.available();
    if let Err(why) = &available {
        assert!(std::env::var_os("KEEPFS_KEYS").is_none(), "{why}");
        let _ = writeln!(std::io::stderr(), "skipped: needs protection keys: {why}");
    }
    available.is_ok()
}

fn is_whole(arena: &Arena) -> bool {
    arena.verified_copy(FRAME, &mut [0; PAGE]).is_ok()
}

/// Runs the test `child` of this binary with an order.
fn run_child(order: &str) -> Output {
    let exe = std::env::current_exe().expect("own path");
    Command::new(exe)
        .args(["--exact", "guard::child", "--nocapture", "--test-threads", "1"])
        .env(ORDER, order)
        .output()
        .expect("the child runs")
}

/// Does nothing unless it is told to by its parent.
#[test]
fn child() {
    let Ok(order) = std::env::var(ORDER) else {
        return;
    };
    if order == "staged" {
        return child_of_a_store();
    }
    let (order, guard) = match order.split_once('/') {
        Some((order, "sealed")) => (order.to_owned(), Guard::Sealed),
        Some((order, "pkey")) => (order.to_owned(), Guard::Pkey),
        Some((order, _)) => (order.to_owned(), Guard::Mprotect),
        None => (order, Guard::Alias),
    };
    let arena = arena(guard, false);
    if order == "told" {
        let before = is_whole(&arena);
        sys::store_byte(window(&arena), 0xFF);
        return println!("whole before: {before}, after: {}", is_whole(&arena));
    }
    if order == "witness" {
        std::thread::spawn(|| {
            loop {
                eprintln!("{TICK}");
            }
        });
    }
    let culprit = std::thread::Builder::new().name("culprit".into());
    let at = match order.as_str() {
        "frame" | "witness" => target(&arena),
        "window" => window(&arena),
        _ => 8, // A null pointer with an offset: none of ours.
    };
    println!("target {at:#x}");
    let thread = culprit.spawn(move || stray_store(at)).expect("thread");
    thread.join().expect("never reached");
}

/// Aims at the bytes of a staged page (S-14.1).
fn child_of_a_store() {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(1024));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 1 << 20,
        background: false,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device, &options).expect("open");
    let staged = store.transact::<_, Error>(|t| Ok(t.stage(7, 0, 1, None, 0, b"staged")?));
    staged.expect("stage");
    let at = store.staging().shown_address() + store.staged_place(7, 0).expect("staged");
    println!("target {at:#x}");
    stray_store(at);
}

#[inline(never)]
fn stray_store(at: usize) {
    sys::store_byte(at, 0xFF);
}

#[test]
fn a_stray_store_dies_with_a_report_that_names_it() {
    for order in ["frame", "frame/sealed", "frame/mprotect"] {
        dies_with_a_report(order);
    }
}

/// Guard `pkey`: the window is closed to a store that knows its address. In a guest with such a processor:
/// `cargo xtask suite pkey`.
#[test]
fn keys_stop_a_store_through_either_mapping() {
    if has_keys() {
        ["frame/pkey", "window/pkey"].into_iter().for_each(dies_with_a_report);
    }
}

/// Guard `alias`: nothing stops a store through the secret address; the next look tells.
#[test]
fn a_store_through_the_window_is_told_by_the_next_verify() {
    let output = run_child("told");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("whole before: true, after: false"), "{said}");
}

/// Guard `pkey`: threads that change the pool through the door notice nothing of it.
#[test]
fn legal_changes_work_under_keys() {
    if !has_keys() {
        return;
    }
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    Store::format(device.clone(), &FormatOptions::default()).expect("format");
    let options = StoreOptions {
        tiny_arena: true,
        arena_bytes: 2 << 20,
        guard: Guard::Pkey,
        audit: keepfs_store::Equations::NONE,
        ..StoreOptions::default()
    };
    let store = Store::open(device.clone(), &options).expect("open");
    let made = std::thread::scope(|scope| {
        let work = |n: u8| {
            let store = &store;
            let nodes = (0..50u8).map(move |round| node(store, [n, round])).collect::<Vec<_>>();
            store.checkpoint().expect("checkpoint");
            nodes
        };
        let workers = [1, 2].map(|n| scope.spawn(move || work(n)));
        workers.map(|worker| worker.join().expect("worker")).concat()
    });
    store.close().expect("close");
    drop(store);
    let store = Store::open(device, &options).expect("open");
    for (made, bytes) in made {
        let mut found = [0; 2];
        store.view().read(made, 64, &mut found).expect("read");
        assert_eq!(found, bytes);
    }
}

fn node(store: &Store, bytes: [u8; 2]) -> (Ref, [u8; 2]) {
    let made = store.transact::<_, Error>(|t| {
        let r = t.new_node(Kind::Xattr, 0, 9)?;
        t.put(r, 64, &bytes, Meaning::Xattr)?;
        Ok(r)
    });
    (made.expect("node"), bytes)
}

fn dies_with_a_report(order: &str) {
    let output = run_child(order);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    let address = said.split("target ").nth(1).and_then(|s| s.split_whitespace().next());
    let wanted = [
        address.expect("the child says where"),
        "frame 3, offset 100",
        "metablock 0x020000000000002a",
        "(culprit)",
        "tests/store/guard.rs",
    ];
    for what in wanted {
        assert!(told.contains(what), "no {what:?} in: {told}");
    }
}

/// S-14.1: redo and staged pages have the guard of the arena.
#[test]
fn a_stray_store_into_a_staged_page_dies() {
    let output = run_child("staged");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    let address = said.split("target ").nth(1).and_then(|s| s.split_whitespace().next());
    assert!(told.contains("keepfs: guard"), "{told}");
    assert!(told.contains(address.expect("the child says where")), "{told}");
}

/// the handler stops the other threads first, then reports.
#[test]
fn the_other_threads_are_stopped_before_the_report() {
    let output = run_child("witness");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{:?}", output.status);
    let told = String::from_utf8_lossy(&output.stderr);
    let (_, report) = told.split_once("keepfs: guard").expect("a report");
    assert!(report.contains("all other threads are stopped"), "{report}");
    assert!(report.contains("(culprit)"), "{report}");
    assert!(!report.contains(TICK), "a thread ran on: {report}");
}

#[test]
fn a_fault_elsewhere_is_not_ours() {
    let output = run_child("elsewhere");
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV));
    assert!(!String::from_utf8_lossy(&output.stderr).contains("keepfs: guard"));
}

#[test]
fn system_calls_into_a_frame_are_refused() {
    let arena = arena(Guard::Alias, false);
    let zeros = File::open("/dev/zero").expect("/dev/zero");
    let read = sys::read_into(zeros.as_fd(), target(&arena), 8).expect_err("read(2)");
    assert_eq!(read.raw_os_error(), Some(libc::EFAULT));
    let write = sys::vm_write(target(&arena), b"scribble").expect_err("process_vm_writev(2)");
    assert_eq!(write.raw_os_error(), Some(libc::EFAULT));
    let page = target(&arena) - OFFSET;
    // Mapped from a read-only re-open: it cannot be made writable, sealed or not.
    let protect = sys::make_writable(page, PAGE).expect_err("mprotect(2)");
    assert_eq!(protect.raw_os_error(), Some(libc::EACCES));
    assert!(is_whole(&arena));
}

/// MADV_REMOVE asks for the right to write the file, which a mapping of a read-only open does not have.
#[test]
fn pages_cannot_be_removed_from_under_a_frame() {
    for seal in [false, true] {
        let arena = arena(Guard::Alias, seal);
        let page = target(&arena) - OFFSET;
        let removed = sys::remove_pages(page, PAGE);
        assert!(removed.is_err(), "seal {seal}: pages were removed");
        assert!(is_whole(&arena), "seal {seal}");
        assert!(sys::make_writable(page, PAGE).is_err(), "seal {seal}");
    }
}

#[test]
fn without_the_guard_the_next_verify_tells() {
    let writes: [fn(usize); 3] = [
        |at| sys::store_byte(at, 0xFF),
        |at| {
            let zeros = File::open("/dev/zero").expect("/dev/zero");
            assert_eq!(sys::read_into(zeros.as_fd(), at, 8).expect("read(2)"), 8);
        },
        |at| {
            sys::remove_pages(at - OFFSET, PAGE).expect("MADV_REMOVE");
        },
    ];
    for write in writes {
        let arena = arena(Guard::Off, false);
        assert!(is_whole(&arena));
        write(target(&arena));
        let told = arena.verified_copy(FRAME, &mut [0; PAGE]).expect_err("the scribble");
        assert_ne!(told.found, told.expected);
    }
}
