//! Two machines that reach one pool: two stores over one device (S-2.12).

use super::block::Seen;
use super::*;
use crate::{FormatOptions, StoreOptions};
use keepfs_format::mmp::{Block, USED};
use keepfs_format::{FromBytes, IntoBytes};
use keepfs_media::Device;
use keepfs_media::ram::RamDevice;
use keepfs_media::{Class, DeviceError, PageNo};
use keepfs_memory::Guard as Memory;
use keepfs_pool::Pool;
use std::sync::Arc;

fn who(host: &str) -> Who {
    let mut boot = [0; 16];
    boot[..host.len()].copy_from_slice(host.as_bytes());
    Who {
        boot,
        host: host.into(),
        dir: b"/mnt/pool".to_vec(),
        ..Who::default()
    }
}

fn options(host: &str) -> StoreOptions {
    StoreOptions {
        guard: Memory::Off,
        tiny_arena: true,
        arena_bytes: 4 << 20,
        who: who(host),
        ..StoreOptions::default()
    }
}

fn device(mmp: bool) -> Arc<dyn Device> {
    let device: Arc<dyn Device> = Arc::new(RamDevice::new(4096));
    let o = FormatOptions {
        mmp,
        ..FormatOptions::default()
    };
    Store::format(device.clone(), &o).unwrap();
    device
}

fn open(device: &Arc<dyn Device>, host: &str) -> Result<Arc<Store>, Error> {
    Store::open(device.clone(), &options(host))
}

/// A pool with an interval of a second, that `one` has.
fn had() -> (Arc<dyn Device>, Arc<Store>) {
    let device = device(true);
    let store = open(&device, "one").unwrap();
    assert_eq!(store.mmp(), None);
    assert!(store.set_mmp(Some(1)).unwrap());
    assert!(!store.set_mmp(Some(1)).unwrap());
    (device, store)
}

/// Changes something and makes it durable. Errors: those of a sync.
fn write(store: &Store) -> Result<(), Error> {
    let settings = crate::Settings {
        label: Some(match store.pool_in_force().label.as_str() {
            "a" => "b".into(),
            _ => "a".into(),
        }),
        ..crate::Settings::default()
    };
    store.set(&settings).map(drop)
}

fn refusal(opened: Result<Arc<Store>, Error>) -> String {
    match opened {
        Err(error @ Error::Device(_)) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    }
}

#[test]
fn a_pool_that_another_machine_has_is_refused_by_name_and_can_be_read() {
    let (device, one) = had();
    let said = refusal(open(&device, "two"));
    assert!(
        said.contains("machine one") && said.contains("/mnt/pool") && said.contains("unmount it there"),
        "{said}"
    );
    // Nothing was written by who was refused.
    write(&one).unwrap();
    let reader = StoreOptions {
        read_only: true,
        ..options("two")
    };
    assert!(Store::open(device.clone(), &reader).is_ok());
    one.close().unwrap();
    let two = open(&device, "two").unwrap();
    assert_eq!(two.mmp(), Some(1));
    two.close().unwrap();
}

#[test]
fn what_a_machine_had_when_it_lost_power_is_had_after_a_while() {
    let (device, one) = had();
    write(&one).unwrap();
    let label = one.pool_in_force().label;
    one.kill();
    let two = open(&device, "two").unwrap();
    assert_eq!(two.pool_in_force().label, label);
    write(&two).unwrap();
    two.close().unwrap();
}

#[test]
fn who_finds_another_in_its_block_writes_no_more() {
    let (device, one) = had();
    write(&one).unwrap();
    let page = PageNo(one.pool().mmp.unwrap());
    let mut bytes = [0; keepfs_format::PAGE];
    device.read(page, &mut bytes).unwrap();
    let (mut block, _) = Block::read_from_prefix(&bytes).unwrap();
    assert_eq!(block.state.get(), USED);
    block.nonce = [9; 16];
    block.host[..3].copy_from_slice(b"two");
    device.write(page, &block::page(&block), Class::Superblock).unwrap();
    // Until it looks it cannot know.
    let error = loop {
        match write(&one) {
            Ok(()) => std::thread::yield_now(),
            Err(error) => break error,
        }
    };
    let Error::Device(error) = error else { panic!("{error}") };
    assert!(
        matches!(&*error, DeviceError::Taken { by, .. } if by.contains("machine two")),
        "{error}"
    );
    let before = block::page(&block);
    let _ = one.close();
    device.read(page, &mut bytes).unwrap();
    assert_eq!(bytes, before, "the block is the other's");
    assert_eq!(block.as_bytes().len(), 512);
}

#[test]
fn a_claim_is_kept_by_who_writes_where_no_thread_does() {
    let device = device(true);
    let alone = StoreOptions {
        background: false,
        ..options("one")
    };
    let one = Store::open(device.clone(), &alone).unwrap();
    one.set_mmp(Some(1)).unwrap();
    let Seen::Used(first) = one.mmp_seen().unwrap() else {
        panic!()
    };
    loop {
        write(&one).unwrap();
        let Seen::Used(block) = one.mmp_seen().unwrap() else {
            panic!()
        };
        if block.sequence != first.sequence {
            break;
        }
    }
    one.close().unwrap();
    assert!(matches!(one.mmp_seen(), Some(Seen::Free(_))));
}

fn flip(device: &Arc<dyn Device>, page: u64) {
    let mut bytes = [0; keepfs_format::PAGE];
    device.read(PageNo(page), &mut bytes).unwrap();
    bytes[100] ^= 4;
    device.write(PageNo(page), &bytes, Class::Superblock).unwrap();
}

/// The block says that nobody is asked, and then nothing: the superblock's word is as good, and the block says it again.
#[test]
fn a_flipped_bit_switches_nothing_on() {
    let device = device(true);
    let page = open(&device, "one").unwrap().pool().mmp.unwrap();
    for was_on in [false, true] {
        if was_on {
            let store = open(&device, "one").unwrap();
            store.set_mmp(Some(1)).unwrap();
            store.set_mmp(None).unwrap();
            store.close().unwrap();
        }
        flip(&device, page);
        let store = open(&device, "one").unwrap();
        assert_eq!((store.mmp(), store.pool().mmp_is_on), (None, false));
        assert!(matches!(store.mmp_seen(), Some(Seen::Off(_))));
        store.close().unwrap();
    }
}

#[test]
fn the_superblock_says_whether_it_is_on() {
    let (device, one) = had();
    assert!(one.pool_in_force().mmp_is_on);
    one.close().unwrap();
    // A pool that was protected before there was the bit.
    let two = open(&device, "two").unwrap();
    set_is_on(&two, false).unwrap();
    two.close().unwrap();
    assert!(!Pool::on(&*device).unwrap().mmp_is_on);
    let two = open(&device, "two").unwrap();
    assert!(two.pool_in_force().mmp_is_on);
    assert!(two.set_mmp(None).unwrap());
    assert!(!two.pool_in_force().mmp_is_on);
    two.close().unwrap();
    assert!(!Pool::on(&*device).unwrap().mmp_is_on);
}

#[test]
fn nobody_is_asked_where_it_is_off_again() {
    let (device, one) = had();
    assert!(one.set_mmp(None).unwrap());
    assert!(matches!(one.mmp_seen(), Some(Seen::Off(_))));
    write(&one).unwrap();
    one.close().unwrap();
    let two = open(&device, "two").unwrap();
    assert_eq!(two.mmp(), None);
}

#[test]
fn a_pool_that_was_made_without_a_block_gets_none() {
    let device = device(false);
    let store = open(&device, "one").unwrap();
    assert!(
        store
            .set_mmp(Some(5))
            .unwrap_err()
            .to_string()
            .contains("made without a block")
    );
    assert!(!store.set_mmp(None).unwrap());
    assert_eq!(store.pool().mmp, None);
}

#[test]
fn a_pool_opened_for_reading_claims_when_it_is_to_be_written() {
    let (device, one) = had();
    one.close().unwrap();
    let reader = StoreOptions {
        read_only: true,
        ..options("two")
    };
    let two = Store::open(device.clone(), &reader).unwrap();
    assert!(matches!(two.mmp_seen(), Some(Seen::Free(_))));
    // A device in memory is always for writing, so this stands for what a file does.
    two.life.mmp.as_ref().unwrap().claim(Why::Open).unwrap();
    assert!(matches!(two.mmp_seen(), Some(Seen::Used(block)) if block::text(&block.host) == "two"));
    two.close().unwrap();
    assert!(matches!(two.mmp_seen(), Some(Seen::Free(_))));
}
