//! Tests of the judge of writes: it lets a sound mount be and sees each kind of wrong write.

use super::*;
use crate::crash::setting::LabClock;
use crate::hostile::base;
use keepfs_media::{Device, PageNo};
use keepfs_testkit::sim::SimDevice;
use keepfs_vfs::{Ino, Vfs};
use std::sync::Arc;

fn image() -> Image {
    base::make("clean").expect("base")
}

fn first(ground: &Ground, used: Use) -> u64 {
    let found = (0..ground.pages).find(|page| ground.used(*page) == used);
    found.unwrap_or_else(|| panic!("no page is {used:?}"))
}

fn judged(class: Class, used: Use) -> Result<(), String> {
    let image = image();
    let page = first(&Ground::of(&image).expect("a pool"), used);
    let device = SimDevice::over(image);
    device.write(PageNo(page), &[1; 4096], class).expect("write");
    check(&device.recording())
}

/// Each class of bytes has its pages, and no others.
#[test]
fn each_class_has_its_pages() {
    for (class, allowed) in [
        (Class::Superblock, &[Use::Slot][..]),
        (Class::Plog, &[Use::Log]),
        (Class::Data, &[Use::Free]),
        (Class::Metadata, &[Use::Free, Use::FreeHome]),
        (Class::Map, &[Use::Free, Use::FreeHome]),
    ] {
        for used in [Use::Slot, Use::Log, Use::Home, Use::FreeHome, Use::Taken, Use::Free] {
            let judged = judged(class, used);
            assert_eq!(
                judged.is_ok(),
                allowed.contains(&used),
                "{class:?} to {used:?}: {judged:?}"
            );
        }
    }
}

/// A page that was freed may be written when the flush of its free has returned, not before (S-11.1).
#[test]
fn a_freed_page_is_free_after_the_flush() {
    let image = image();
    let setting = base::setting("clean");
    let device = Arc::new(SimDevice::over(image.clone()));
    let volume = setting.open(device.clone(), &LabClock::default()).expect("open");
    let before = Ground::of(&image).expect("a pool");
    let taken: Vec<u64> = (0..before.pages).filter(|p| before.used(*p) == Use::Taken).collect();
    for name in [&b"direct"[..], b"sparse", b"unwritten"] {
        let ino = volume.lookup(Ino::ROOT, name).expect("lookup").attr.ino;
        volume
            .setattr(
                ino,
                &keepfs_vfs::SetAttr {
                    size: Some(0),
                    ..Default::default()
                },
            )
            .expect("truncate");
        volume.forget(ino, 1);
    }
    let unsynced = device.recording();
    volume.syncfs().expect("sync");
    let after = Ground::of(&device.image()).expect("a pool");
    let freed = taken
        .into_iter()
        .find(|page| after.used(*page) == Use::Free)
        .expect("a page was freed");
    check(&device.recording()).expect("the engine wrote rightly");
    device.write(PageNo(freed), &[1; 4096], Class::Data).expect("write");
    check(&device.recording()).expect("it is free now");
    let early = SimDevice::over(unsynced.replay());
    early.write(PageNo(freed), &[1; 4096], Class::Data).expect("write");
    assert!(check(&early.recording()).is_err(), "its free was not durable");
}

/// What is no pool is never written to.
#[test]
fn no_pool_is_left_alone() {
    let device = SimDevice::new(1024);
    device.flush().expect("flush");
    check(&device.recording()).expect("a flush does no harm");
    device.write(PageNo(500), &[1; 4096], Class::Data).expect("write");
    assert!(check(&device.recording()).is_err());
}
