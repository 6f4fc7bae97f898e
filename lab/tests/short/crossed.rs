//! A map entry that names another metablock's page (S-3.2, S-4.6): the engine sees it when it fetches the frame, and
//! writes nothing that would free the other one's home.

use keepfs_format::map::{self, MapEntry};
use keepfs_format::{IntoBytes, MetaId, Space};
use keepfs_lab::crash::setting::LabClock;
use keepfs_lab::hostile::anatomy::{Anatomy, Edit, Place};
use keepfs_lab::hostile::base;
use keepfs_store::Error;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Event, SimDevice};
use keepfs_vfs::{Errno, Ino, SetAttr, Vfs};
use std::sync::Arc;

/// The first metablock of inodes, which holds the root, and another one.
const ROOT: MetaId = MetaId::new(Space::Inodes, 0);
const OTHER: MetaId = MetaId::new(Space::Inodes, 1);

/// The image with the map entry of the root's metablock changed, every checksum made right.
fn with_entry(anatomy: &Anatomy, change: impl FnOnce(&mut MapEntry)) -> Image {
    let mut entry = anatomy.blocks[&ROOT].entry;
    change(&mut entry);
    let edit = Edit {
        place: Place::Block(MetaId::map(Space::Inodes, 0, 0)),
        offset: map::entry_offset(0),
        bytes: entry.as_bytes().to_vec(),
    };
    anatomy.build(&[edit], true)
}

fn anatomy() -> Anatomy {
    Anatomy::of(base::make("clean").expect("a pool")).expect("a sound pool")
}

#[test]
fn both_copies_named_wrongly_are_a_clear_error() {
    let anatomy = anatomy();
    let other = anatomy.blocks[&OTHER].entry;
    let image = with_entry(&anatomy, |entry| {
        (entry.first, entry.second) = (other.first, other.second)
    });
    let device = Arc::new(SimDevice::over(image));
    let said = match base::setting("clean").open(device, &LabClock::default()) {
        Ok(volume) => {
            assert_eq!(volume.getattr(Ino::ROOT), Err(Errno::EIO));
            volume.store().header(ROOT).expect_err("somebody else's").to_string()
        }
        Err(error) => error.to_string(),
    };
    let page = format!("page {} holds {OTHER}", other.first);
    assert!(said.contains(&ROOT.to_string()) && said.contains(&page), "{said}");
}

/// Writes of anything but the history, where the damage is told (S-18).
fn written(device: &SimDevice) -> usize {
    let log = device.recording().log;
    let writes = log.iter().filter_map(|entry| match &entry.event {
        Event::Write { pages, .. } => pages.first(),
        _ => None,
    });
    writes.filter(|page| !page.bytes().starts_with(b"KEEPHIS")).count()
}

/// The second copy is good, so the pool can be read; a checkpoint would free the home of the other metablock.
#[test]
fn a_first_copy_named_wrongly_is_read_around_and_never_freed() {
    let anatomy = anatomy();
    let other = anatomy.blocks[&OTHER].entry;
    let image = with_entry(&anatomy, |entry| entry.first = other.first);
    let device = Arc::new(SimDevice::over(image));
    let volume = base::setting("clean")
        .open(device.clone(), &LabClock::default())
        .expect("it opens");
    volume.getattr(Ino::ROOT).expect("the second copy is good");
    assert_eq!(volume.store().stats().bad_copies, 1);
    let mode = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    volume.setattr(Ino::ROOT, &mode).expect("in memory");
    let writes = written(&device);
    let said = match volume.store().checkpoint() {
        Err(Error::Damaged(said)) => said,
        other => panic!("{other:?}"),
    };
    let names = format!("{ROOT} names page {}, which is the home of {OTHER}", other.first);
    assert!(said.contains(&names), "{said}");
    assert!(volume.store().fault().is_some(), "nothing is written any more");
    assert_eq!(written(&device), writes, "the device was touched");
}

/// A write that the device put on a wrong page leaves another metablock there too, but nobody lives there: it is a bad
/// copy like any other, and is written anew.
#[test]
fn a_misdirected_write_is_only_a_bad_copy() {
    let anatomy = anatomy();
    let page = anatomy.blocks[&ROOT].entry.first.get();
    let stray = Edit {
        place: Place::Raw(page),
        offset: 0,
        bytes: anatomy.bytes(OTHER).to_vec(),
    };
    let device = Arc::new(SimDevice::over(anatomy.build(&[stray], false)));
    let setting = base::setting("clean");
    let volume = setting.open(device.clone(), &LabClock::default()).expect("it opens");
    volume.getattr(Ino::ROOT).expect("the second copy is good");
    assert_eq!(volume.store().stats().bad_copies, 1);
    volume.store().checkpoint().expect("a checkpoint");
    volume.unmount().expect("unmount");
    drop(volume);
    let again = setting.open(device, &LabClock::default()).expect("it opens");
    again.getattr(Ino::ROOT).expect("both copies are good");
    assert_eq!(again.store().stats().bad_copies, 0);
    again.unmount().expect("unmount");
}
