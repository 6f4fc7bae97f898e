//! Bad sectors and bad memory under staged data: one page is lost and told, everything else goes on (S-7.6, S-9.4, S-14.6).

use super::{Seen, find, make, options};
use keepfs_audit::{Finding, Options, walk};
use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::image::Image;
use keepfs_media::sim::{Faults, SimDevice};
use keepfs_media::{Device, PageNo};
use keepfs_vfs::{Errno, FileKind, Ino, SetAttr, Vfs, WriteHow};
use std::sync::Arc;

const PAGE: usize = 4096;

/// A file of two pages, of which the first has five bytes staged over it, and a neighbour, after a power cut.
struct Cut {
    image: Image,
    /// The device page under the staged one.
    base: PageNo,
    ino: Ino,
}

fn write(volume: &Volume, ino: Ino, offset: u64, data: &[u8]) -> keepfs_vfs::Result<usize> {
    volume.write(ino, offset, data, WriteHow::default())
}

fn read(volume: &Volume, ino: Ino, offset: u64, len: usize) -> keepfs_vfs::Result<Vec<u8>> {
    let mut buf = vec![0; len];
    let count = volume.read(ino, offset, &mut buf)?;
    buf.truncate(count);
    Ok(buf)
}

fn cut() -> Cut {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    let other = make(&*volume, Ino::ROOT, "other", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; 2 * PAGE]).expect("write");
    write(&volume, other, 0, &[0xB8; 2 * PAGE]).expect("write");
    volume.unmount().expect("unmount");
    drop(volume);
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    write(&volume, ino, 100, b"12345").expect("write");
    write(&volume, other, 100, b"67890").expect("write");
    volume.fsync(ino, false).expect("fsync");
    let image = device.power_cut(0);
    let base = (0..image.pages())
        .map(PageNo)
        .find(|page| image.bytes(*page) == &[0xA7; PAGE]);
    Cut {
        base: base.expect("it is there"),
        image,
        ino,
    }
}

impl Cut {
    /// The device, with the base changed or unreadable.
    fn device(&self, unreadable: bool) -> Arc<SimDevice> {
        let mut image = self.image.clone();
        if !unreadable {
            image.change(self.base, |bytes| bytes[3000] ^= 0x11);
        }
        let device = Arc::new(SimDevice::over(image));
        if unreadable {
            device.set_faults(Faults::none().unreadable(self.base));
        }
        device
    }

    /// The one page is lost, and nothing else is.
    fn judge(&self, volume: &Volume) {
        assert_eq!(read(volume, self.ino, 100, 5), Err(Errno::EIO));
        assert!(read(volume, self.ino, PAGE as u64, PAGE) == Ok(vec![0xA7; PAGE]));
        let other = find(volume, Ino::ROOT, "other").expect("found");
        assert_eq!(read(volume, other, 98, 9), Ok(b"\xB8\xB867890\xB8\xB8".to_vec()));
        let told = volume.store().history().damage();
        let [lost] = &told[..] else { panic!("{told:?}") };
        assert_eq!((lost.place, lost.inode, lost.from), (3, self.ino.0, 0));
    }
}

fn findings(device: &dyn Device, data: bool) -> Vec<Finding> {
    walk(&Seen(device), &Options { data, limit: 20 }).findings
}

/// A bad page under a staged one costs this page, however it is bad; it is told, and heals when it is written whole.
/// S-9.4, S-7.6
#[test]
fn a_bad_base_costs_one_page() {
    let cut = cut();
    let (ino, page) = (cut.ino, cut.base.0);
    for unreadable in [false, true] {
        let device = cut.device(unreadable);
        // The offline walk tells it, with and without `--data`.
        for data in [false, true] {
            let bad = Finding::DataBad {
                ino: ino.0,
                index: 0,
                page,
            };
            assert!(findings(&*device, data).contains(&bad), "{data}");
        }
        let read_only = VolumeOptions {
            store: StoreOptions {
                read_only: true,
                ..options(false).store
            },
            ..options(false)
        };
        let volume = Volume::open(device.clone(), &read_only).expect("mount -o ro");
        cut.judge(&volume);
        drop(volume);
        let volume = Volume::open(device.clone(), &options(false)).expect("mount");
        cut.judge(&volume);
        assert_eq!(volume.fsync(ino, false), Err(Errno::EIO));
        assert_eq!(volume.files_with_lost_data(), 1);
        assert_eq!(write(&volume, ino, 100, b"abc"), Err(Errno::EIO));
        assert_eq!(write(&volume, ino, 4096, b"abc"), Ok(3));
        volume.syncfs().expect("sync");
        volume.store().checkpoint().expect("checkpoint");
        assert_eq!(read(&volume, ino, 0, 1), Err(Errno::EIO));
        // Another cut: the log still tells that the page is lost.
        let lost = Finding::DataLost { ino: ino.0, index: 0 };
        let again = Arc::new(SimDevice::over(device.power_cut(0)));
        assert_eq!(findings(&*again, true), std::slice::from_ref(&lost));
        let again = Volume::open(again, &options(false)).expect("mount");
        assert_eq!(read(&again, ino, 0, 1), Err(Errno::EIO));
        assert_eq!(again.fsync(ino, false), Err(Errno::EIO));
        drop(again);
        // Closed, the page's entry says so.
        volume.unmount().expect("unmount");
        drop(volume);
        assert_eq!(findings(&*device, true), [lost]);
        let volume = Volume::open(device.clone(), &options(false)).expect("mount");
        assert_eq!(read(&volume, ino, 0, 1), Err(Errno::EIO));
        assert_eq!(read(&volume, ino, 4096, 3), Ok(b"abc".to_vec()));
        assert_eq!(write(&volume, ino, 0, &[0xC9; PAGE]), Ok(PAGE));
        assert!(read(&volume, ino, 0, PAGE) == Ok(vec![0xC9; PAGE]));
        assert_eq!(volume.fsync(ino, false), Ok(()));
        volume.unmount().expect("unmount");
        drop(volume);
        assert_eq!(findings(&*device, true), []);
    }
}

/// What heals a staged page that is lost: the whole page written, or cut off. S-7.6
#[test]
fn a_lost_staged_page_heals() {
    let cut = cut();
    let size = |size| SetAttr {
        size: Some(size),
        ..SetAttr::default()
    };
    for whole in [false, true] {
        let device = cut.device(false);
        let volume = Volume::open(device.clone(), &options(false)).expect("mount");
        // A size that cuts it leaves it lost.
        volume.setattr(cut.ino, &size(5000)).expect("cut");
        volume.setattr(cut.ino, &size(50)).expect("cut");
        assert_eq!(read(&volume, cut.ino, 0, 50), Err(Errno::EIO));
        match whole {
            true => drop(write(&volume, cut.ino, 0, &[1; PAGE]).expect("write")),
            false => drop(volume.setattr(cut.ino, &size(0)).expect("cut")),
        }
        assert_eq!(volume.fsync(cut.ino, false), Ok(()));
        assert!(read(&volume, cut.ino, 0, PAGE) == Ok(if whole { vec![1; PAGE] } else { Vec::new() }));
        volume.unmount().expect("unmount");
        drop(volume);
        assert_eq!(findings(&*device, true), []);
    }
}

/// A stray write into a staged page: the next checkpoint carries all others over, and that page is lost. S-10.3, S-14.6
#[test]
fn a_changed_staged_page_ends_nothing() {
    let cut = cut();
    let device = Arc::new(SimDevice::over(cut.image.clone()));
    let volume = Volume::open(device.clone(), &options(false)).expect("mount");
    let store = volume.store();
    let at = store.staged_place(cut.ino.0, 0).expect("staged");
    store.staging().xor_u8(at + 2000, 1);
    store.checkpoint().expect("checkpoint");
    assert!(store.fault().is_none());
    let told = store.history().damage();
    let [lost] = &told[..] else { panic!("{told:?}") };
    assert_eq!((lost.place, lost.inode, lost.from), (8, cut.ino.0, 0));
    assert_eq!(volume.fsync(cut.ino, false), Err(Errno::EIO));
    let other = find(&*volume, Ino::ROOT, "other").expect("found");
    write(&volume, other, 0, b"goes on").expect("write");
    assert_eq!(volume.fsync(other, false), Ok(()));
    for device in [Arc::new(SimDevice::over(device.power_cut(0))), device] {
        let volume = Volume::open(device, &options(false)).expect("mount");
        assert_eq!(read(&volume, cut.ino, 0, 1), Err(Errno::EIO));
        assert_eq!(read(&volume, cut.ino, 4096, 1), Ok(vec![0xA7]));
        assert_eq!(read(&volume, other, 0, 7), Ok(b"goes on".to_vec()));
    }
}

/// A page of a file that cannot be read costs its neighbours nothing, and is told. S-19.5
#[test]
fn an_unreadable_page_costs_one_page() {
    let cut = cut();
    let device = Arc::new(SimDevice::over(cut.image.clone()));
    let volume = Volume::open(device.clone(), &options(false)).expect("mount");
    let second = PageNo(cut.base.0 + 1);
    device.set_faults(Faults::none().unreadable(second));
    assert_eq!(read(&volume, cut.ino, 4096, 1), Err(Errno::EIO));
    assert_eq!(read(&volume, cut.ino, 0, 1), Ok(vec![0xA7]));
    let told = volume.store().history().damage();
    let [bad] = &told[..] else { panic!("{told:?}") };
    assert_eq!((bad.verdict, bad.inode, bad.from), (8, cut.ino.0, 4096));
}
