//! Tests of deaths.

use super::*;
use keepfs_testkit::sim::Recording;

const PAGE_OF_ONES: [u8; PAGE] = [1; PAGE];

fn mortal() -> MortalDevice<Arc<SimDevice>> {
    let device = Arc::new(SimDevice::new(8));
    MortalDevice::new(device.clone(), Deaths::over(device))
}

fn write(device: &dyn Device, at: u64, pages: usize) {
    let bytes = PAGE_OF_ONES.repeat(pages);
    device.write(PageNo(at), &bytes, Class::Data).expect("written");
}

fn log_of(device: &SimDevice) -> Vec<Event> {
    let Recording { log, .. } = device.recording();
    log.into_iter().map(|entry| entry.event).collect()
}

/// The dead server's device ends before the call that it died in; the server goes on with its own.
#[test]
fn a_death_is_before_its_call() {
    let device = mortal();
    device.hooks.plan(1);
    write(&device, 0, 1);
    assert!(!device.hooks.has_died());
    device.hooks.set_at_step(true);
    write(&device, 1, 3);
    assert!(device.hooks.has_died());
    device.flush().expect("flushed");
    let died = device.hooks.take().expect("died");
    assert!(died.at_step);
    assert_eq!((died.device.log_len(), device.device.log_len()), (1, 3));
    let next = log_of(&device.device)[1].clone();
    finish(&died.device, Some(&next), 2).expect("finished");
    let [_, Event::Write { at, pages, .. }] = &log_of(&died.device)[..] else {
        panic!("no part of the write");
    };
    assert_eq!((at.0, pages.len()), (1, 2));
}

/// Memory is copied with its holes and its seals, and the two go their own ways.
#[test]
fn memory_is_copied() {
    let made = |len: u64| {
        let file = rustix::fs::memfd_create("made", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memfd");
        rustix::fs::ftruncate(&file, len).expect("its size");
        file
    };
    let memory = made(1 << 20);
    rustix::io::pwrite(&memory, b"left", 300_001).expect("written");
    let device = mortal();
    let mut left = Remains::default();
    left.add(keepfs_store::NAMES[0], memory.try_clone().expect("descriptor"));
    device.hooks.keep(left);
    let died = device.hooks.take().expect("died");
    rustix::io::pwrite(&memory, b"more", 300_001).expect("written");
    let (_, copy) = died.memory.into_named().remove(0);
    let mut found = [0; 6];
    rustix::io::pread(&copy, &mut found, 300_000).expect("read");
    assert_eq!(&found, b"\0left\0");
    let seals = rustix::fs::fcntl_get_seals(&copy).expect("seals");
    assert!(seals.contains(SealFlags::SHRINK | SealFlags::GROW));
    assert_eq!(rustix::fs::fstat(&copy).expect("size").st_size, 1 << 20);
}
