//! Pools as former versions left them are mounted, checked and read for ever.
//!
//! An image is the pages that are not zero, as runs: page u32, offset u16, length u16, bytes; little-endian.

use super::*;
use keepfs_format::superblock::{INCOMPAT_STRIPES, SLOTS, Superblock, slot_page};
use keepfs_format::{FromBytes, PoolId};
use keepfs_media::Class;
use keepfs_vfs::{DirEntry, Direct, RenameFlags};

const PAGES: u64 = 1024;

fn format() -> FormatOptions {
    FormatOptions {
        id: Some(PoolId(*b"golden totals  1")),
        name_seed: Some([3, 5]),
        label: "golden".into(),
        meta_copies: 1,
        created: (1 << 30, 0),
        ..FormatOptions::default()
    }
}

/// A page of which little is not zero, so that the image stays small.
fn content(number: u64) -> Vec<u8> {
    let mut page = vec![0; 4096];
    let at = number as usize * 97 % 4000;
    page[at..at + 8].copy_from_slice(&(0x9E37_79B9_7F4A_7C15 ^ number).to_le_bytes());
    page
}

fn pages(numbers: core::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(content).collect()
}

/// What the image was made by: before the last checkpoint, and in the log behind it.
fn fill(vfs: &dyn Vfs, checkpoint: impl FnOnce()) {
    let dir = make(vfs, Ino::ROOT, "dir", FileKind::Dir).expect("mkdir");
    for n in 0..30 {
        let file = make(vfs, dir, &format!("file-{n}"), FileKind::File).expect("create");
        write(vfs, file, 0, format!("content {n}").as_bytes());
    }
    let big = make(vfs, Ino::ROOT, "big", FileKind::File).expect("create");
    write(vfs, big, 0, &pages(0..12));
    vfs.syncfs().expect("sync");
    let twin = make(vfs, Ino::ROOT, "twin", FileKind::File).expect("create");
    assert_eq!(vfs.copy_file_range(big, 0, twin, 0, 8 * 4096), Ok(8 * 4096));
    checkpoint();
    let third = make(vfs, Ino::ROOT, "third", FileKind::File).expect("create");
    assert_eq!(vfs.copy_file_range(big, 0, third, 0, 12 * 4096), Ok(12 * 4096));
    write(vfs, twin, 4096, &pages(20..22));
    vfs.unlink(dir, b"file-7").expect("unlink");
    vfs.rename(dir, b"file-8", Ino::ROOT, b"moved", RenameFlags::default())
        .expect("rename");
    let tail = make(vfs, Ino::ROOT, "tail", FileKind::File).expect("create");
    write(vfs, tail, 0, &[7; 300]);
    vfs.syncfs().expect("sync");
}

/// The pool that [`fill`] left where power was cut, of the version before stripes.
const ONE_STRIPE: &[u8] = include_bytes!("golden/one-stripe.bin");

fn restored(mut runs: &[u8]) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(PAGES));
    while let Some((head, rest)) = runs.split_first_chunk::<8>() {
        let half = |at: usize| usize::from(u16::from_le_bytes([head[at], head[at + 1]]));
        let (number, (offset, len)) = (
            u32::from_le_bytes([head[0], head[1], head[2], head[3]]),
            (half(4), half(6)),
        );
        let (bytes, behind) = rest.split_at(len);
        let (page, mut content) = (PageNo(number.into()), [0; 4096]);
        device.read(page, &mut content).expect("read");
        content[offset..offset + len].copy_from_slice(bytes);
        device.write(page, &content, Class::Metadata).expect("written");
        runs = behind;
    }
    device
}

/// Every name with what it has, from `dir` on.
fn tree(vfs: &dyn Vfs, dir: Ino, path: &str, found: &mut Vec<(String, u64, Vec<u8>)>) {
    let mut names = Vec::new();
    let mut keep = |entry: DirEntry<'_>| {
        names.push((String::from_utf8_lossy(entry.name).into_owned(), entry.kind));
        true
    };
    vfs.readdir(dir, 0, &mut keep).expect("names");
    for (name, kind) in names.into_iter().filter(|(name, _)| !name.starts_with('.')) {
        let (ino, path) = (find(vfs, dir, &name).expect("lookup"), format!("{path}/{name}"));
        let attr = vfs.getattr(ino).expect("attributes");
        match kind {
            FileKind::Dir => tree(vfs, ino, &path, found),
            _ => found.push((path, attr.blocks, read(vfs, ino, 0, attr.size as usize))),
        }
    }
    found.sort();
}

fn all(vfs: &dyn Vfs) -> Vec<(String, u64, Vec<u8>)> {
    let mut found = Vec::new();
    tree(vfs, Ino::ROOT, "", &mut found);
    found
}

fn findings(device: &dyn Device) -> Vec<String> {
    let report = walk(&Seen(device), &Options { data: true, limit: 20 });
    report.findings.iter().map(ToString::to_string).collect()
}

/// Whether the newest superblock says that TOTALS are striped.
fn is_striped(device: &dyn Device) -> bool {
    let incompat = superblocks(device).into_iter().max().expect("a superblock").1;
    incompat & INCOMPAT_STRIPES != 0
}

/// Generation and features of each slot.
fn superblocks(device: &dyn Device) -> Vec<(u64, u64)> {
    let slots = (0..SLOTS).map(|slot| {
        let mut page = [0; 4096];
        device.read(PageNo(slot_page(slot, PAGES)), &mut page).expect("read");
        Superblock::read_from_bytes(&page).expect("a page")
    });
    slots.map(|sb| (sb.generation.get(), sb.incompat.get())).collect()
}

/// S-2.10: a pool of one stripe is checked, read as it is, and striped by the first checkpoint of a mount for writing; what it
/// holds is the same throughout.
#[test]
fn a_pool_of_one_stripe() {
    let new = Pool::made(PAGES, false, &format());
    fill(&*new.volume, || new.volume.store().checkpoint().expect("checkpoint"));
    let (right, totals) = (all(&*new.volume), new.volume.store().totals());
    assert_eq!(right.len(), 33);
    new.finish();

    let device = restored(ONE_STRIPE);
    assert!(
        !is_striped(&*device) && findings(&*device).is_empty(),
        "{:?}",
        findings(&*device)
    );
    let mut read_only = options(false);
    read_only.store.read_only = true;
    let volume = Volume::open(device.clone(), &read_only).expect("open");
    assert!(all(&*volume) == right, "read-only");
    assert_eq!(volume.store().totals().shares, totals.shares);
    assert_eq!(volume.store().totals().inodes, totals.inodes);
    volume.unmount().expect("unmount");
    drop(volume);
    assert!(!is_striped(&*device), "who only reads leaves it");

    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    assert!(is_striped(&*device), "the checkpoint of the recovery");
    assert!(all(&*volume) == right, "read and written");
    assert_eq!(volume.store().totals().shares, totals.shares);
    let pool = Pool { device, volume }.reopen();
    // Two transactions at a time, of which one changes the second stripe.
    let twin = find(&*pool.volume, Ino::ROOT, "twin").expect("twin");
    std::thread::scope(|scope| {
        for n in 0..2 {
            let vfs: &dyn Vfs = &*pool.volume;
            scope.spawn(move || {
                for round in 0..20 {
                    let file = make(vfs, Ino::ROOT, &format!("new {n} {round}"), FileKind::File).expect("create");
                    assert_eq!(vfs.copy_file_range(twin, 0, file, 0, 8 * 4096), Ok(8 * 4096));
                }
            });
        }
    });
    let kept = |(path, ..): &(String, u64, Vec<u8>)| !path.starts_with("/new");
    assert!(all(&*pool.volume).into_iter().filter(kept).eq(right));
    pool.reopen().finish();
}

/// S-2.5, S-2.10: of its superblocks an older program reads none that is striped, and says which feature it lacks.
#[test]
fn a_new_pool_is_striped() {
    let new = Pool::made(PAGES, false, &format());
    let device = new.device.clone();
    new.finish();
    assert!(
        superblocks(&*device)
            .iter()
            .all(|(_, incompat)| incompat & INCOMPAT_STRIPES != 0)
    );
}
