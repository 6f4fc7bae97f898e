//! Bad sectors and bad memory under staged data: one page is lost and told, everything else goes on (S-7.6, S-9.4, S-14.6).

use super::{Seen, find, make, options};
use keepfs_check::{Finding, Options, walk};
use keepfs_codes::crc64;
use keepfs_format::plog::{CRC_OFFSET, FLAG_LAST, MAGIC, PageHead};
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, IntoBytes, Space};
use keepfs_fs::{FormatOptions, StoreOptions, Volume, VolumeOptions};
use keepfs_media::{Device, PageNo};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Faults, SimDevice};
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
        assert_eq!((lost.place, lost.inode, lost.from), (8, self.ino.0, 0));
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

/// Stray writes into a staged page and its head: the next checkpoint carries all others over, and that page is lost. S-10.3,
/// S-14.6
#[test]
fn a_changed_staged_page_ends_nothing() {
    let cut = cut();
    let device = Arc::new(SimDevice::over(cut.image.clone()));
    let volume = Volume::open(device.clone(), &options(false)).expect("mount");
    let store = volume.store();
    let at = store.staged_place(cut.ino.0, 0).expect("staged");
    store.staging().xor_u8(at + 2000, 1);
    let head = store.staged_head_place(cut.ino.0, 0).expect("staged");
    store.staging().xor_u8(head + 1, 1);
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
    // Behind `damage clear` what is still damaged is told again, once, and counted as before (S-18.8).
    assert_eq!(volume.store().take_note(), 1);
    for count in 1..=3 {
        assert_eq!(read(&volume, cut.ino, 4096, 1), Err(Errno::EIO));
        let told = volume.store().history().damage();
        let [bad] = &told[..] else { panic!("{told:?}") };
        assert_eq!((bad.inode, bad.from, bad.count), (cut.ino.0, 4096, count));
    }
}

/// Files, each made durable by a group of one page, after a power cut; the pages of the log, and the one behind it.
fn log() -> (Image, Vec<PageNo>, Vec<String>) {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let region = volume.store().pool().log;
    let before = device.power_cut(0);
    let names: Vec<String> = (0..5).map(|n| format!("file-{n}")).collect();
    for name in &names {
        let ino = make(&*volume, Ino::ROOT, name, FileKind::File).expect("make");
        write(&volume, ino, 0, name.as_bytes()).expect("write");
        volume.fsync(ino, false).expect("fsync");
    }
    let image = device.power_cut(0);
    let is_new = |page: &PageNo| before.bytes(*page) != image.bytes(*page);
    let mut pages: Vec<PageNo> = (region.start..region.start + region.pages)
        .map(PageNo)
        .filter(is_new)
        .collect();
    assert_eq!(pages.len(), names.len());
    pages.push(PageNo(pages[names.len() - 1].0 + 1));
    (image, pages, names)
}

fn open(device: Arc<SimDevice>, read_only: bool, cut_log: bool) -> Result<Arc<Volume>, keepfs_fs::Error> {
    let mut options = options(false);
    (options.store.read_only, options.store.cut_log) = (read_only, cut_log);
    Volume::open(device, &options)
}

/// A page of the log that is bad: where a later one tells that it was flushed, nobody writes to the pool unasked, and what
/// was before is read; at the end of the log the mount goes on, and an unreadable page is told. S-9.16
#[test]
fn a_bad_page_of_the_log_is_never_passed_over_in_silence() {
    let (image, pages, names) = log();
    for (at, page) in pages.iter().enumerate() {
        for bad in ["changed", "zeros", "half", "unreadable"] {
            let unreadable = bad == "unreadable";
            let device = |()| {
                let mut image = image.clone();
                image.change(*page, |bytes| match bad {
                    "changed" => [1000, 2000].into_iter().for_each(|at| bytes[at] ^= 0x40),
                    "zeros" => bytes.fill(0),
                    "half" => bytes[PAGE / 2..].fill(0xC5),
                    _ => {}
                });
                let device = Arc::new(SimDevice::over(image));
                if unreadable {
                    device.set_faults(Faults::none().unreadable(*page));
                }
                device
            };
            let judge = |volume: &Volume| {
                for (n, name) in names.iter().enumerate() {
                    assert_eq!(find(volume, Ino::ROOT, name).is_ok(), n < at, "{name}, page {at}");
                }
                let told = volume.store().history().events(0);
                let told = told.iter().filter(|event| event.place == 6).count();
                assert_eq!(told > 0, unreadable || at + 1 < names.len(), "page {at}");
                assert_eq!(told > 0, volume.store().log_cut().is_some());
            };
            let findings = findings(&*device(()), true);
            let is_gone = findings.iter().any(|f| matches!(f, Finding::LogGone { .. }));
            let is_unreadable = findings.iter().any(|f| matches!(f, Finding::LogUnreadable { .. }));
            let proved = at + 1 < names.len();
            assert_eq!((is_gone, is_unreadable), (proved, unreadable && !proved), "page {at}");
            let reader = open(device(()), true, false).expect("mount -o ro");
            judge(&reader);
            assert_eq!(
                reader.begin_writing().is_err(),
                proved,
                "mount -o remount,rw, page {at} {bad}"
            );
            drop(reader);
            let refused = open(device(()), false, false);
            assert_eq!(refused.is_err(), proved, "page {at} {bad}");
            if let Err(error) = refused {
                assert!(error.to_string().contains("-o cut-log"), "{error}");
            }
            let device = device(());
            let volume = open(device.clone(), false, true).expect("mount");
            judge(&volume);
            let ino = make(&*volume, Ino::ROOT, "after", FileKind::File).expect("make");
            volume.fsync(ino, false).expect("fsync");
            drop(volume);
            let device = Arc::new(SimDevice::over(device.power_cut(0)));
            let volume = open(device.clone(), false, false).expect("mount");
            find(&*volume, Ino::ROOT, "after").expect("found");
            volume.unmount().expect("unmount");
            drop(volume);
            assert_eq!(self::findings(&*device, true), []);
        }
    }
}

/// One wrong bit, or a few side by side, in each page of the log of a crash in turn, and in all of them: nothing is lost, it is told, and
/// the checkpoint of the mount ends that log. S-9.24
#[test]
fn a_flipped_bit_of_the_log_costs_nothing() {
    let (image, pages, names) = log();
    let pages = &pages[..names.len()];
    let all: Vec<&[PageNo]> = pages.chunks(1).chain([pages]).collect();
    for (bad, bit) in all
        .into_iter()
        .flat_map(|bad| [40, 70, 8000, 8 * PAGE - 9].map(|bit| (bad, bit)))
    {
        let mut image = image.clone();
        for page in bad {
            image.change(*page, |bytes| {
                (bytes[bit / 8], bytes[bit / 8 + 1]) = (bytes[bit / 8] ^ 1 << (bit % 8), bytes[bit / 8 + 1] ^ 1);
            });
        }
        let device = Arc::new(SimDevice::over(image));
        let told = findings(&*device, true);
        assert_eq!(told.len(), bad.len(), "{told:?}");
        for (page, told) in bad.iter().zip(told) {
            let is_it =
                matches!(told, Finding::LogFlipped { page: of, byte, bits: 2, .. } if (of, byte) == (page.0, bit / 8));
            assert!(is_it, "{told:?}");
        }
        let judge = |volume: &Volume| {
            for name in &names {
                let ino = find(volume, Ino::ROOT, name).expect("found");
                assert_eq!(
                    read(volume, ino, 0, 100),
                    Ok(name.as_bytes().to_vec()),
                    "{bad:?}, bit {bit}"
                );
            }
            assert_eq!(volume.store().log_cut(), None);
            let events = volume.store().history().events(0);
            let events = events.iter().filter(|event| event.place == 6);
            let told: Vec<(u8, u8, u32)> = events.map(|e| (e.verdict, e.done, e.offset)).collect();
            assert_eq!(told, vec![(1, 1, bit as u32 / 8); bad.len()], "{bad:?}");
        };
        let reader = open(device.clone(), true, false).expect("mount -o ro");
        judge(&reader);
        reader.begin_writing().expect("mount -o remount,rw");
        drop(reader);
        let device = Arc::new(SimDevice::over(device.power_cut(0)));
        let told = findings(&*device, true);
        let is_log = |f: &Finding| f.code().starts_with("log");
        assert!(
            !told.iter().any(is_log),
            "its checkpoint has what the log had: {told:?}"
        );
        let volume = open(device.clone(), false, false).expect("mount");
        assert!(volume.store().log_mended().is_empty());
        volume.unmount().expect("unmount");
        assert_eq!(findings(&*device, true), []);
    }
}

/// A flipped bit of a data page of the last group is not undone: its sum cannot tell it from a page that did not arrive. S-9.26
#[test]
fn a_flipped_bit_of_the_last_data_ends_the_log() {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; PAGE]).expect("write");
    volume.fsync(ino, false).expect("fsync");
    let mut image = device.power_cut(0);
    let page = (0..image.pages())
        .map(PageNo)
        .find(|page| image.bytes(*page) == &[0xA7; PAGE]);
    image.change(page.expect("there"), |bytes| bytes[7] ^= 1);
    let device = Arc::new(SimDevice::over(image));
    assert!(
        findings(&*device, true)
            .iter()
            .any(|f| matches!(f, Finding::LogData { .. }))
    );
    let volume = Volume::open(device, &options(false)).expect("mount");
    assert!(find(&*volume, Ino::ROOT, "file").is_err());
}

/// The same where a page far from the log's end tells that the group is durable, whatever is left of the one next to it: the page is
/// its file's loss, and all else that was synced is there. S-9.2, S-8.15
#[test]
fn a_flipped_bit_of_durable_data_ends_no_log() {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; 2 * PAGE]).expect("write");
    volume.fsync(ino, false).expect("fsync");
    let untold = device.power_cut(0);
    volume.store().write_durable().expect("told");
    device.flush().expect("the medium has it");
    let image = device.power_cut(0);
    let pages = || (0..image.pages()).map(PageNo);
    let told: Vec<PageNo> = pages()
        .filter(|page| image.bytes(*page) != untold.bytes(*page))
        .collect();
    let [near, far] = told[..] else { panic!("{told:?}") };
    let data = pages().find(|page| image.bytes(*page) == &[0xA7; PAGE]).expect("there");
    for (bad, content) in [near, far].into_iter().flat_map(|bad| [(bad, 0), (bad, 0x5A)]) {
        let mut image = image.clone();
        image.change(data, |bytes| bytes[7] ^= 1);
        image.change(bad, |bytes| *bytes = [content; PAGE]);
        let device = Arc::new(SimDevice::over(image));
        let is_bad = |f: &Finding| matches!(f, Finding::DataBad { index: 0, page, .. } if *page == data.0);
        let found = findings(&*device, true);
        assert!(found.iter().any(is_bad), "{bad:?}: {found:?}");
        let volume = Volume::open(device, &options(false)).expect("mount");
        assert_eq!(find(&*volume, Ino::ROOT, "file"), Ok(ino), "{bad:?}");
        assert_eq!(read(&volume, ino, 0, 1), Err(Errno::EIO));
        assert_eq!(read(&volume, ino, 4096, 1), Ok(vec![0xA7]));
    }
}

/// The same where nothing tells but a page that a checkpoint of a full log carried over, before its superblock: it stands where the log
/// ends, in a chain of its own (S-10.7). S-9.2
#[test]
fn a_log_that_begins_anew_tells_of_the_group_before() {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; PAGE]).expect("write");
    volume.fsync(ino, false).expect("fsync");
    let mut image = device.power_cut(0);
    let data = (0..image.pages()).map(PageNo);
    let data = data
        .clone()
        .find(|page| image.bytes(*page) == &[0xA7; PAGE])
        .expect("there");
    image.change(data, |bytes| bytes[7] ^= 1);
    let opened =
        |image: &Image| Volume::open(Arc::new(SimDevice::over(image.clone())), &options(false)).expect("mount");
    assert_eq!(
        find(&*opened(&image), Ino::ROOT, "file"),
        Err(Errno::ENOENT),
        "nothing tells"
    );
    let (page, content) = begun_anew(&image);
    image.change(page, |bytes| *bytes = content);
    assert_eq!(find(&*opened(&image), Ino::ROOT, "file"), Ok(ino));
    let found = findings(&SimDevice::over(image), true);
    let is_bad = |f: &Finding| matches!(f, Finding::DataBad { index: 0, page, .. } if *page == data.0);
    assert!(found.iter().any(is_bad), "{found:?}");
}

/// The page behind the last group of the log that the next checkpoint would begin a new one with, and tells that group as durable.
fn begun_anew(image: &Image) -> (PageNo, [u8; PAGE]) {
    let slots = (0..superblock::SLOTS).map(|slot| superblock::slot_page(slot, image.pages()));
    let read = |page| Superblock::read_from_bytes(&image.bytes(PageNo(page))[..]).ok();
    let sb = slots
        .filter_map(read)
        .max_by_key(|sb| sb.generation.get())
        .expect("one");
    let place = |q: u64| PageNo(sb.log_start.get() + q % sb.log_pages.get());
    let head = |q: u64| PageHead::read_from_prefix(image.bytes(place(q))).expect("a page").0;
    let is_of_it = |q: &u64| (head(*q).magic.get(), head(*q).sequence.get()) == (MAGIC, *q);
    let last = (sb.log_seq.get()..).take_while(is_of_it).last().expect("a group");
    let stored = &image.bytes(place(last))[CRC_OFFSET..];
    let chain = crc64::full(&[stored, &(sb.generation.get() + 1).to_le_bytes()].concat());
    let mut next = head(last);
    (next.used, next.flags) = (0.into(), FLAG_LAST);
    (next.durable, next.group) = (next.group, (next.group.get() + 1).into());
    next.sequence = (last + 1).into();
    let mut page = [0; PAGE];
    page[..size_of::<PageHead>()].copy_from_slice(next.as_bytes());
    let covered = [
        &sb.pool[..],
        &sb.incarnation.get().to_le_bytes(),
        &chain.to_le_bytes(),
        &page[..CRC_OFFSET],
    ];
    let crc = crc64::full(&covered.concat());
    page[CRC_OFFSET..].copy_from_slice(&crc.to_le_bytes());
    (place(last + 1), page)
}

/// A data page of the last group which cannot be read is its file's loss; one that did not arrive ends the log. S-9.3
#[test]
fn an_unreadable_data_page_does_not_end_the_log() {
    let device = Arc::new(SimDevice::new(2048));
    Volume::format(device.clone(), &FormatOptions::default()).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    volume.store().checkpoint().expect("checkpoint");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; 3 * PAGE]).expect("write");
    volume.fsync(ino, false).expect("fsync");
    let image = device.power_cut(0);
    let pages = (0..image.pages()).map(PageNo);
    let first = pages
        .filter(|page| image.bytes(*page) == &[0xA7; PAGE])
        .nth(1)
        .expect("there");
    let flipped = Arc::new(SimDevice::over(image.clone()));
    let mut page = [0xA7; PAGE];
    page[7] = 0;
    let mut changed = image.clone();
    changed.change(first, |bytes| *bytes = page);
    let missing = Volume::open(Arc::new(SimDevice::over(changed)), &options(false)).expect("mount");
    assert!(find(&*missing, Ino::ROOT, "file").is_err());
    flipped.set_faults(Faults::none().unreadable(first));
    assert!(findings(&*flipped, true).contains(&Finding::DataBad {
        ino: ino.0,
        index: 1,
        page: first.0
    }));
    let volume = Volume::open(flipped, &options(false)).expect("mount");
    let told = volume.store().history().damage();
    let [bad] = &told[..] else { panic!("{told:?}") };
    assert_eq!((bad.place, bad.verdict, bad.inode, bad.from), (3, 8, ino.0, 4096));
    assert_eq!(read(&volume, ino, 4096, 1), Err(Errno::EIO));
    assert_eq!(read(&volume, ino, 4095, 1), Ok(vec![0xA7]));
    assert_eq!(read(&volume, ino, 8192, 1), Ok(vec![0xA7]));
}

/// The group that carries staged pages over a checkpoint is told by the superblock: one bad page of it costs nothing; where all
/// are bad, with nothing behind them, the pool is not even read unasked. S-9.17, S-9.11, S-10.3
#[test]
fn a_bad_page_of_what_was_carried_over_is_no_end_of_the_log() {
    let cut = cut();
    let device = Arc::new(SimDevice::over(cut.image.clone()));
    let volume = Volume::open(device.clone(), &options(false)).expect("mount");
    let region = volume.store().pool().log;
    drop(volume);
    let image = device.power_cut(0);
    let before = (region.start..region.start + region.pages).map(PageNo);
    let carried: Vec<PageNo> = before
        .filter(|page| image.bytes(*page) != cut.image.bytes(*page))
        .collect();
    assert!(carried.len() > 2);
    let with = |bad: &[PageNo]| {
        let mut image = image.clone();
        bad.iter()
            .for_each(|page| image.change(*page, |bytes| [1000, 2000].into_iter().for_each(|at| bytes[at] ^= 1)));
        Arc::new(SimDevice::over(image))
    };
    for page in &carried {
        let device = with(core::slice::from_ref(page));
        let told = findings(&*device, true);
        let is_mended = |f: &Finding| matches!(f, Finding::LogMended { page: of, .. } if *of == page.0);
        assert!(told.iter().any(is_mended), "{told:?}");
        assert!(!told.iter().any(|f| matches!(f, Finding::LogGone { .. })), "{told:?}");
        let volume = Volume::open(device.clone(), &options(false)).expect("mount");
        assert_eq!(read(&volume, cut.ino, 98, 9), Ok(b"\xA7\xA712345\xA7\xA7".to_vec()));
        let other = find(&*volume, Ino::ROOT, "other").expect("found");
        assert_eq!(read(&volume, other, 98, 9), Ok(b"\xB8\xB867890\xB8\xB8".to_vec()));
        assert!(volume.store().history().events(0).iter().any(|event| event.place == 6));
        volume.unmount().expect("unmount");
        assert_eq!(findings(&*device, true), []);
    }
    let device = with(&carried);
    let gone = |f: &Finding| matches!(f, Finding::LogGone { .. });
    assert!(findings(&*device, false).iter().any(gone));
    for (read_only, cut_log) in [(false, false), (true, false)] {
        let refused = open(device.clone(), read_only, cut_log).map(drop).expect_err("refused");
        assert!(refused.to_string().contains("-o ro,cut-log"), "{refused}");
    }
    // Who goes on from there has a pool like any other: its new groups are none of those that are lost.
    for work in [false, true] {
        let device = Arc::new(SimDevice::over(device.power_cut(0)));
        let volume = open(device.clone(), false, true).expect("mount -o cut-log");
        if work {
            let ino = make(&*volume, Ino::ROOT, "after", FileKind::File).expect("make");
            volume.fsync(ino, false).expect("fsync");
        }
        let cut = Arc::new(SimDevice::over(device.power_cut(0)));
        volume.unmount().expect("unmount");
        drop(volume);
        for device in [cut, Arc::new(SimDevice::over(device.power_cut(0)))] {
            assert!(!findings(&*device, false).iter().any(gone));
            let volume = open(device, false, false).expect("mount");
            assert_eq!(find(&*volume, Ino::ROOT, "after").is_ok(), work);
        }
    }
}

/// What all share is needed by who writes: without it a pool is refused with a word of `-o ro`, and read all the same; such a
/// mount does not become one for writing. One owner's metablock costs what lives there. S-9.10
#[test]
fn a_reader_does_without_what_writers_need() {
    let device = Arc::new(SimDevice::new(2048));
    let format = FormatOptions {
        meta_copies: 1,
        ..FormatOptions::default()
    };
    Volume::format(device.clone(), &format).expect("format");
    let volume = Volume::open(device.clone(), &options(false)).expect("open");
    let ino = make(&*volume, Ino::ROOT, "file", FileKind::File).expect("make");
    write(&volume, ino, 0, &[0xA7; PAGE]).expect("write");
    volume.unmount().expect("unmount");
    drop(volume);
    let image = device.power_cut(0);
    let (mut refused, mut taken) = (0, 0);
    for page in (0..image.pages()).map(PageNo).filter(|page| image.get(*page).is_some()) {
        let mut image = image.clone();
        image.change(page, |bytes| bytes[1000] ^= 1);
        let device = Arc::new(SimDevice::over(image));
        let lost = findings(&*device, false).into_iter().find_map(|f| match f {
            Finding::Metablock { id, .. } => Some(id.0),
            _ => None,
        });
        let Some(id) = lost else { continue };
        let is_shared = id.as_map().is_some() || !matches!(id.space(), Some(Space::Nodes | Space::Inodes));
        let store = StoreOptions {
            read_only: true,
            ..options(false).store
        };
        let reader = VolumeOptions {
            store,
            ..options(false)
        };
        let reader = Volume::open(device.clone(), &reader).unwrap_or_else(|e| panic!("{id}: {e}"));
        reader.statfs().unwrap_or_else(|e| panic!("{id}: {e}"));
        if is_shared && id.as_map().is_none() {
            assert_eq!(read(&reader, ino, 0, 1), Ok(vec![0xA7]), "{id}");
        }
        match Volume::open(device, &options(false)) {
            Ok(_) => {
                assert!(!is_shared || id.as_map().is_some(), "{id}");
                taken += 1;
            }
            Err(error) => {
                refused += 1;
                assert!(is_shared && error.to_string().contains("-o ro"), "{id}: {error}");
                assert!(reader.begin_writing().is_err(), "{id}");
                assert!(reader.store().history().damage().iter().any(|d| d.id == id.0), "{id}");
            }
        }
    }
    assert!(refused > 3 && taken > 0, "{refused} {taken}");
}
