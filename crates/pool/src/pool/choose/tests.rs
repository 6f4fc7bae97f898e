//! Tests of the choice of a superblock.

use super::*;
use crate::pool::{FormatOptions, first_superblock};
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;

pub const PAGES: u64 = 1024;

pub fn superblock(generation: u64) -> Superblock {
    let options = FormatOptions {
        id: Some(keepfs_format::PoolId([7; 16])),
        name_seed: Some([1, 2]),
        ..FormatOptions::default()
    };
    let mut sb = first_superblock(&SimDevice::new(PAGES), &options).expect("superblock");
    sb.generation = generation.into();
    sb
}

pub fn put(image: &mut Image, slot: usize, sb: &Superblock) {
    image.change(PageNo(slot_page(slot, PAGES)), |page| *page = *superblock_bytes(sb));
}

/// Generations 5 in slots 1 and 3, 4 in slots 0 and 2.
pub fn image(device_pages: u64) -> Image {
    let mut image = Image::new(device_pages);
    for (slot, generation) in [(0, 4), (1, 5), (2, 4), (3, 5)] {
        put(&mut image, slot, &superblock(generation));
    }
    image
}

pub fn chosen(image: &Image) -> Result<u64, String> {
    let chosen = choose(&SimDevice::over(image.clone()));
    chosen.map(|sb| sb.generation.get()).map_err(|e| e.to_string())
}

pub fn refused(image: &Image) -> String {
    chosen(image).expect_err("it is refused")
}

/// S-2.3: the greatest generation, from whichever of its slots is whole.
#[test]
fn the_newest_is_chosen() {
    let mut image = image(PAGES);
    assert_eq!(chosen(&image), Ok(5));
    image.change(PageNo(256), |page| page[700] ^= 3);
    assert_eq!(chosen(&image), Ok(5));
    image.change(PageNo(768), |page| page[700] ^= 3);
    assert_eq!(chosen(&image), Ok(4));
}

/// S-2.26: whichever bit of page 0 is turned round, the pool is found by another slot: where it has its whole device, where it has less,
/// and where it has grown; with numbers of pages too of which one bit hardly moves the slots.
#[test]
fn a_wrong_bit_of_page_0_costs_nothing() {
    for made in [PAGES, PAGES + 2, PAGES + 3] {
        for (pages, device) in [
            (made, made),
            (made, 2 * made),
            (made, 5 * made + 3),
            (made + 500, made + 500),
        ] {
            let mut image = Image::new(device);
            for (slot, generation) in [(0, 4), (1, 5), (2, 4), (3, 5)] {
                let mut sb = superblock(generation);
                sb.pages = pages.into();
                if pages > made {
                    sb.made_pages = (made as u32).into();
                    sb.incompat |= keepfs_format::superblock::INCOMPAT_GROWN;
                }
                image.change(PageNo(slot_page(slot, made)), |page| *page = *superblock_bytes(&sb));
            }
            assert_eq!(chosen(&image), Ok(5));
            for bit in (0..8 * 512).chain(8 * PAGE - 64..8 * PAGE) {
                let mut image = image.clone();
                image.change(PageNo(0), |page| page[bit / 8] ^= 1 << (bit % 8));
                assert_eq!(
                    chosen(&image),
                    Ok(5),
                    "bit {bit}, {made} pages, then {pages}, of {device}"
                );
            }
        }
    }
}

/// S-2.25: a pool shorter than its device is not found without page 0, and what is found of it leads to the repair.
#[test]
fn without_page_0_a_shorter_pool_is_left_to_a_repair() {
    let mut image = image(2 * PAGES);
    image.change(PageNo(0), |page| page.fill(0));
    let said = refused(&image);
    assert!(
        said.contains("page 512 holds a superblock of a pool of another size") && said.contains("check --repair"),
        "{said}"
    );
}

/// S-2.1: a superblock in a slot not of its generation is invalid; if it is newer than all that are valid, nobody knows
/// what state the pool is in.
#[test]
fn a_superblock_in_a_foreign_slot_is_never_used() {
    let mut old = image(PAGES);
    put(&mut old, 2, &superblock(3));
    assert_eq!(chosen(&old), Ok(5), "an old one there does not matter");
    let mut new = image(PAGES);
    put(&mut new, 0, &superblock(7));
    let said = refused(&new);
    assert!(
        said.contains("slot 0 (page 0)") && said.contains("generation 7"),
        "{said}"
    );
}

/// S-2.19: an older superblock is no way around a newer one that cannot be used.
#[test]
fn nothing_older_is_used_instead() {
    let mut image = image(PAGES);
    let mut newer = superblock(6);
    newer.version = 2.into();
    put(&mut image, 0, &newer);
    let said = refused(&image);
    assert!(said.contains("version 2") && said.contains("slot 0 (page 0)"), "{said}");
    newer.version = 1.into();
    newer.incompat = (1 << 40).into();
    put(&mut image, 0, &newer);
    let said = refused(&image);
    assert!(said.contains("incompat 0x10000000000"), "{said}");
    newer.incompat = 0.into();
    newer.zone_pages = 9.into();
    put(&mut image, 0, &newer);
    let said = refused(&image);
    assert!(
        said.contains("zone_pages (9)") && said.contains("keepfs check"),
        "{said}"
    );
}

/// S-2.19: two states of one generation.
#[test]
fn two_of_one_generation_must_be_equal() {
    let mut image = image(PAGES);
    let mut other = superblock(5);
    other.seq = 9.into();
    put(&mut image, 3, &other);
    let said = refused(&image);
    assert!(said.contains("1 (page 256)") && said.contains("3 (page 768)"), "{said}");
}

/// S-2.1: on a device that grew, page 0 tells where the other slots are, even when it is torn.
#[test]
fn slots_follow_the_pool_not_the_device() {
    let mut image = image(4 * PAGES);
    assert_eq!(chosen(&image), Ok(5));
    image.change(PageNo(0), |page| page[512..].fill(0xff));
    assert_eq!(chosen(&image), Ok(5));
    image.clear(PageNo(0), 1);
    assert!(refused(&image).contains("no Keepfs superblock"));
    // A superblock where the slots of the larger device would be is none of this pool.
    let mut stale = self::image(4 * PAGES);
    let mut other = superblock(99);
    other.pages = (4 * PAGES).into();
    stale.change(PageNo(PAGES), |page| *page = *superblock_bytes(&other));
    assert_eq!(chosen(&stale), Ok(5));
}

/// Each kind of device that holds no pool is told apart, with what to do.
#[test]
fn what_holds_no_pool_is_told() {
    let said = refused(&Image::new(PAGES));
    assert!(
        said.contains("pages 0, 256, 512, 768") && said.contains("keepfs create"),
        "{said}"
    );
    assert!(refused(&Image::new(4)).contains("only 16 KiB"));
    let mut cut = Image::new(PAGES / 2);
    for slot in 0..2 {
        put(&mut cut, slot, &superblock(4 + slot as u64));
    }
    let said = refused(&cut);
    assert!(
        said.contains("1024 pages") && said.contains("only 512") && said.contains("cut"),
        "{said}"
    );
    let mut damaged = image(PAGES);
    (0..SLOTS).for_each(|slot| damaged.change(PageNo(slot_page(slot, PAGES)), |page| page[900] = 3));
    let said = refused(&damaged);
    assert!(
        said.contains("every superblock is damaged") && said.contains("check --repair"),
        "{said}"
    );
    let mut ext4 = Image::new(PAGES);
    ext4.change(PageNo(0), |page| page[0x438..0x43a].copy_from_slice(&[0x53, 0xEF]));
    assert!(refused(&ext4).contains("ext4"));
}

/// S-2.5: what a writer must know is no reason not to read.
#[test]
fn unknown_features_of_writers_are_read_only() {
    let mut image = image(PAGES);
    let mut newer = superblock(6);
    newer.ro_compat = (1 << 40).into();
    put(&mut image, 0, &newer);
    assert_eq!(chosen(&image), Ok(6));
    let said = may_write(&newer).expect_err("writing is refused").to_string();
    assert!(
        said.contains("ro_compat 0x10000000000") && said.contains("-o ro"),
        "{said}"
    );
    assert!(may_write(&superblock(6)).is_ok());
}

/// S-2.19: the next superblock of such a pool would be one that nobody may use.
#[test]
fn a_pool_whose_counters_are_at_their_end_is_read_only() {
    let fields: [fn(&mut Superblock); 6] = [
        |sb| sb.generation = (1 << 62).into(),
        |sb| sb.log_seq = (1 << 62).into(),
        |sb| sb.group = (1 << 62).into(),
        |sb| sb.seq = (1 << 62).into(),
        |sb| sb.incarnation = (1 << 62).into(),
        |sb| sb.durable = (1 << 62).into(),
    ];
    for spend in fields {
        let mut sb = superblock(6);
        spend(&mut sb);
        let said = may_write(&sb).expect_err("writing is refused").to_string();
        assert!(
            said.contains("(4611686018427387904)") && said.contains("-o ro"),
            "{said}"
        );
    }
}
