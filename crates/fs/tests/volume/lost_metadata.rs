//! A page of metadata that is bad in every copy costs whose it is: mounts, unmounts, creates and takeovers go on (S-9.10, S-15.17,
//! S-16.6; promise C-6).

use super::{find, lasting, make, options, write};
use keepfs_format::bitmap::TOTALS;
use keepfs_format::inode::{PER_BLOCK, block_of};
use keepfs_format::metablock::{HEADER, MAGIC};
use keepfs_format::{FromBytes, Header, MetaId, Space};
use keepfs_fs::{FormatOptions, Volume};
use keepfs_media::{Class, Device, PageNo};
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, RenameFlags, Vfs, WriteHow};
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE: usize = 4096;
/// Files: three metablocks of inodes, the last one with free slots.
const FILES: usize = 40;

fn name(n: usize) -> String {
    format!("f{n}")
}

/// The content of a file: a page at the beginning, and one so far behind that the block map is a tree.
fn fill(volume: &Volume, ino: Ino, n: usize) {
    write(volume, ino, 0, &[n as u8 + 1; PAGE]);
    write(volume, ino, 20 * PAGE as u64, &[n as u8 + 1; PAGE]);
}

/// A new pool with one copy of its metadata, and its volume.
fn with_one_copy() -> (Arc<SimDevice>, Arc<Volume>) {
    let device = Arc::new(SimDevice::new(4096));
    let format = FormatOptions {
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    (device, volume)
}

/// A closed pool with one copy of its metadata, and the inodes of its files.
fn pool() -> (Arc<SimDevice>, Vec<Ino>) {
    let (device, volume) = with_one_copy();
    let files = (0..FILES).map(|n| {
        let ino = make(&*volume, Ino::ROOT, &name(n), FileKind::File).expect("make");
        fill(&volume, ino, n);
        ino
    });
    let files = files.collect();
    volume.unmount().expect("unmount");
    (device, files)
}

/// Changes each page that says it is such a metablock.
fn spoil(device: &SimDevice, is: impl Fn(&Header) -> bool) {
    let (mut bytes, mut count) = ([0; PAGE], 0);
    for page in (0..device.pages()).map(PageNo) {
        device.read(page, &mut bytes).expect("read");
        let header = Header::read_from_bytes(&bytes[..HEADER]).expect("long enough");
        if header.magic.get() == MAGIC && is(&header) {
            bytes[1000] ^= 1;
            device.write(page, &bytes, Class::Metadata).expect("write");
            count += 1;
        }
    }
    assert!(count > 0, "there is none");
}

/// What power leaves at this moment, with a metablock bad.
fn cut(device: &SimDevice, is: impl Fn(&Header) -> bool) -> Arc<SimDevice> {
    let cut = Arc::new(SimDevice::over(device.power_cut(0)));
    spoil(&cut, is);
    cut
}

/// Every file that does not live in a bad metablock is as it was.
fn judge(volume: &Volume, files: &[Ino], costs: impl Fn(Ino) -> bool) {
    for (n, ino) in files.iter().enumerate().filter(|(_, ino)| !costs(**ino)) {
        assert_eq!(find(volume, Ino::ROOT, &name(n)), Ok(*ino), "{}", name(n));
        let mut found = [0; 2];
        assert_eq!(volume.read(*ino, 21 * PAGE as u64 - 2, &mut found), Ok(2));
        assert_eq!(found, [n as u8 + 1; 2]);
    }
}

/// S-9.10: a file without names whose metablock of inodes a crash left bad stays on the hidden list, and the pool is mounted,
/// written and closed; and again.
#[test]
fn an_unlinked_file_that_cannot_be_read_stays_hidden() {
    let (device, files) = pool();
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let hidden = files[30];
    volume.lookup(Ino::ROOT, name(30).as_bytes()).expect("held");
    volume.unlink(Ino::ROOT, name(30).as_bytes()).expect("unlink");
    volume.syncfs().expect("sync");
    let bad = block_of(hidden.0);
    let device = cut(&device, |header| header.id.get() == bad.0);
    for life in 0..3 {
        let volume = Volume::open(device.clone(), &options(false)).expect("one file's metadata refuses no mount");
        assert!(
            volume.store().orphans().expect("list").contains(&hidden.0),
            "life {life}"
        );
        judge(&volume, &files, |ino| block_of(ino.0) == bad);
        volume.statfs().expect("statfs");
        let made = make(&*volume, Ino::ROOT, &format!("life{life}"), FileKind::File).expect("make");
        write(&*volume, made, 0, b"goes on");
        volume.fsync(made, false).expect("fsync");
        let told = volume.store().history().damage();
        assert!(told.iter().any(|damage| damage.id == bad.0), "{told:?}");
        volume.unmount().expect("the pool is closed");
    }
}

/// S-15.17: staged data of files whose inode or block map is bad, and such files without names, keep nobody from closing the
/// pool; all others' is written out.
#[test]
fn a_pool_is_closed_beside_files_that_cannot_be_read() {
    let (device, files) = pool();
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    for n in [16, 31, 39] {
        write(&*volume, files[n], 100, b"12345");
    }
    for n in [17, 32, 38] {
        volume.lookup(Ino::ROOT, name(n).as_bytes()).expect("held");
        volume.unlink(Ino::ROOT, name(n).as_bytes()).expect("unlink");
    }
    volume.syncfs().expect("sync");
    let gone = [17, 32, 38].map(|n| files[n]);
    for (staged, unlinked) in [(16, 17), (31, 32), (39, 38)] {
        let (inodes, owners) = (block_of(files[staged].0), [staged, unlinked].map(|n| files[n]));
        let of_inodes = |header: &Header| header.id.get() == inodes.0;
        let of_nodes = |header: &Header| {
            let is_node = MetaId(header.id.get()).space() == Some(Space::Nodes);
            is_node && owners.iter().any(|ino| ino.0 == header.owner.get())
        };
        let bad: [&dyn Fn(&Header) -> bool; 2] = [&of_inodes, &of_nodes];
        for (what, bad) in bad.into_iter().enumerate() {
            let device = cut(&device, bad);
            let costs = |ino: Ino| match what {
                0 => block_of(ino.0) == inodes || gone.contains(&ino),
                _ => owners.contains(&ino) || gone.contains(&ino),
            };
            for life in 0..2 {
                let volume = Volume::open(device.clone(), &options(false)).expect("mount");
                judge(&volume, &files, costs);
                let made = make(&*volume, Ino::ROOT, &format!("life{life}"), FileKind::File).expect("make");
                write(&*volume, made, 0, &[1; 3 * PAGE]);
                volume.statfs().expect("statfs");
                volume.unmount().expect("the pool is closed");
            }
            let volume = Volume::open(device, &options(false)).expect("mount");
            for n in [16, 31, 39] {
                let mut found = [0; 5];
                match volume.read(files[n], 100, &mut found) {
                    Ok(_) => assert_eq!(&found, b"12345", "{}", name(n)),
                    Err(error) => assert!(costs(files[n]) && error == Errno::EIO, "{}: {error:?}", name(n)),
                }
            }
        }
    }
}

/// S-15.17: nobody is given a number in a metablock of inodes that cannot be read; names that lead there stay, and say EIO.
#[test]
fn no_number_of_a_bad_metablock_is_given() {
    let (device, files) = pool();
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    for ino in &files {
        write(&*volume, *ino, 100, b"more");
    }
    volume.syncfs().expect("sync");
    let crashed = Arc::new(SimDevice::over(device.power_cut(0)));
    volume.unmount().expect("unmount");
    for device in [crashed, device] {
        for index in 1..=files[FILES - 1].0 / PER_BLOCK {
            let bad = MetaId::new(Space::Inodes, index);
            let device = cut(&device, |header| header.id.get() == bad.0);
            let volume = Volume::open(device.clone(), &options(false)).expect("mount");
            let mut made = BTreeMap::new();
            for n in 0..60 {
                let kind = if n % 2 == 0 { FileKind::File } else { FileKind::Dir };
                let ino = make(&*volume, Ino::ROOT, &format!("new{n}"), kind).expect("others go on");
                assert_ne!(block_of(ino.0), bad);
                made.insert(n, ino);
            }
            for (n, ino) in files.iter().enumerate() {
                let is_lost = block_of(ino.0) == bad;
                let removed = volume.unlink(Ino::ROOT, name(n).as_bytes());
                assert_eq!(
                    removed,
                    if is_lost { Err(Errno::EIO) } else { Ok(()) },
                    "{bad} {}",
                    name(n)
                );
            }
            volume.unmount().expect("the pool is closed");
            let volume = Volume::open(device, &options(false)).expect("mount");
            for (n, ino) in &made {
                assert_eq!(find(&*volume, Ino::ROOT, &format!("new{n}")), Ok(*ino));
            }
        }
    }
}

/// S-16.6: a server that takes over a pool of which what all share is bad reads it, as a mount with `-o ro` does, and the next one,
/// too; one owner's metablock costs it no more than a mount.
#[test]
fn a_takeover_reads_what_a_mount_would() {
    let shared = [Space::Pages, Space::InodeNumbers, Space::Orphans, Space::Homes];
    let shared = shared.map(|space| MetaId::new(space, 0)).into_iter().chain([TOTALS]);
    let all: Vec<Option<MetaId>> = shared.map(Some).chain([None]).collect();
    for (is_idle, bad) in [false, true]
        .into_iter()
        .flat_map(|idle| all.iter().map(move |bad| (idle, *bad)))
    {
        let (device, files) = pool();
        let mut volume = Volume::open(device.clone(), &lasting()).expect("open");
        let unlink = |volume: &Volume, n: usize| {
            volume.lookup(Ino::ROOT, name(n).as_bytes()).expect("held");
            volume.unlink(Ino::ROOT, name(n).as_bytes()).expect("unlink");
        };
        unlink(&volume, 20);
        volume.store().checkpoint().expect("checkpoint");
        if !is_idle {
            unlink(&volume, 21);
            let made = make(&*volume, Ino::ROOT, "synced", FileKind::File).expect("make");
            write(&*volume, made, 0, &[7; 3 * PAGE]);
            volume.syncfs().expect("sync");
            let made = make(&*volume, Ino::ROOT, "not synced", FileKind::File).expect("make");
            write(&*volume, made, 0, &[8; 3 * PAGE]);
        }
        let id = bad.unwrap_or(block_of(files[20].0));
        let mut remains = volume.remains().expect("it lasts");
        spoil(&device, |header| header.id.get() == id.0);
        for life in 0..3 {
            drop(volume);
            let resumed = Volume::resume(device.clone(), &lasting(), remains);
            volume = resumed.unwrap_or_else(|e| panic!("{id}, life {life}: {e}")).0;
            let costs = |ino: Ino| block_of(ino.0) == id || ino == files[20] || (!is_idle && ino == files[21]);
            judge(&volume, &files, costs);
            if !is_idle {
                for (name, byte) in [("synced", 7), ("not synced", 8)] {
                    let ino = find(&*volume, Ino::ROOT, name).unwrap_or_else(|e| panic!("{id}: {name}: {e:?}"));
                    let mut found = [0; 2];
                    assert_eq!(volume.read(ino, PAGE as u64, &mut found), Ok(2), "{id}");
                    assert_eq!(found, [byte; 2], "{id}");
                }
            }
            let made = make(&*volume, Ino::ROOT, &format!("life{life}"), FileKind::File);
            match (bad, is_idle) {
                (Some(_), false) => {
                    assert_eq!(made, Err(Errno::EROFS), "{id}");
                    let why = volume.store().fault().expect("writing has ended").to_string();
                    assert!(why.contains("-o ro"), "{why}");
                }
                (None, _) => {
                    let made = made.expect("others go on");
                    let wrote = volume.write(made, 0, b"goes on", WriteHow::default());
                    assert_eq!(wrote, Ok(7));
                    assert!(volume.store().fault().is_none());
                }
                (Some(_), true) => {}
            }
            remains = volume.remains().expect("it lasts");
        }
    }
}

/// A directory of which no name can be seen for damage is not told to be emptied first, by rmdir and by a rename over it.
#[test]
fn a_damaged_directory_is_not_called_full() {
    let (device, volume) = with_one_copy();
    let dirs = ["full", "bad", "other"].map(|name| make(&*volume, Ino::ROOT, name, FileKind::Dir).expect("make"));
    for dir in &dirs[..2] {
        for n in 0..FILES {
            make(&*volume, *dir, &name(n), FileKind::File).expect("make");
        }
    }
    volume.unmount().expect("unmount");
    spoil(&device, |header| {
        MetaId(header.id.get()).space() == Some(Space::Nodes) && header.owner.get() == dirs[1].0
    });
    let volume = Volume::open(device, &options(false)).expect("open");
    for (name, errno) in [("full", Errno::ENOTEMPTY), ("bad", Errno::EIO)] {
        assert_eq!(volume.rmdir(Ino::ROOT, name.as_bytes()), Err(errno));
        let over = volume.rename(Ino::ROOT, b"other", Ino::ROOT, name.as_bytes(), RenameFlags::default());
        assert_eq!(over, Err(errno));
    }
    volume.unmount().expect("the pool is closed");
}
