//! Superblocks with a wrong bit, and what must not be taken for such (S-2.27, S-2.28).

use super::super::tests::{PAGES, chosen, image, put, refused, superblock};
use super::super::*;
use keepfs_format::IntoBytes;
use keepfs_format::superblock::INCOMPAT_GROWN;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::SimDevice;

const SECTOR: usize = 512;

fn flip(image: &mut Image, slot: usize, bits: &[usize]) {
    image.change(PageNo(slot_page(slot, PAGES)), |page| {
        bits.iter().for_each(|bit| page[bit / 8] ^= 1 << (bit % 8));
    });
}

/// A superblock as one of a pool in use is: what changes with each checkpoint is set.
fn in_use(generation: u64) -> Superblock {
    let mut sb = superblock(generation);
    let noise = |of: u64| {
        (generation << 8 | of)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29)
    };
    sb.seq = (generation * 1000).into();
    sb.log_seq = (sb.log_seq.get() + generation * 77).into();
    sb.group = (generation * 9).into();
    sb.durable = (generation * 9 - 1).into();
    sb.chain = noise(0).into();
    for (root, of) in sb.roots[1..].iter_mut().zip(1..) {
        let word = noise(of).to_le_bytes();
        root.entry
            .as_mut_bytes()
            .chunks_mut(8)
            .for_each(|chunk| chunk.copy_from_slice(&word[..chunk.len()]));
        root.height = 1 + (of % 3) as u8;
    }
    sb
}

/// S-2.27: whichever bit it is, in whichever slots.
#[test]
fn a_wrong_bit_in_each_newest_slot_costs_nothing() {
    let whole = image(PAGES);
    let bits = (0..8 * 700)
        .step_by(7)
        .chain((8 * 700..8 * CRC_OFFSET).step_by(997))
        .chain(8 * CRC_OFFSET..8 * PAGE);
    for bit in bits {
        let mut image = whole.clone();
        flip(&mut image, 1, &[bit]);
        flip(&mut image, 3, &[(bit * 31 + 5) % (8 * PAGE)]);
        assert_eq!(chosen(&image), Ok(5), "bit {bit}");
        // The copy did not arrive before the power cut.
        put(&mut image, 3, &superblock(3));
        assert_eq!(chosen(&image), Ok(5), "bit {bit}");
        flip(&mut image, 3, &[bit]);
        flip(&mut image, 0, &[bit]);
        flip(&mut image, 2, &[bit]);
        let device = SimDevice::over(image);
        assert_eq!(
            choose(&device).expect("chosen").as_bytes()[..CRC_OFFSET],
            superblock(5).as_bytes()[..CRC_OFFSET]
        );
        assert_eq!(superblocks(&device).len(), SLOTS, "bit {bit}");
    }
}

/// S-2.26: each of the four slots has one, page 0 in its number of pages, of a pool that has less than its device or has grown.
#[test]
fn all_slots_may_have_one() {
    for (pages, device) in [(PAGES, PAGES), (PAGES, 5 * PAGES + 3), (PAGES + 500, PAGES + 500)] {
        let mut whole = Image::new(device);
        for (slot, generation) in [(0, 4), (1, 5), (2, 4), (3, 5)] {
            let mut sb = superblock(generation);
            sb.pages = pages.into();
            if pages > PAGES {
                sb.made_pages = (PAGES as u32).into();
                sb.incompat |= INCOMPAT_GROWN;
            }
            put(&mut whole, slot, &sb);
        }
        for bit in (0..8 * 256).chain(8 * CRC_OFFSET..8 * PAGE) {
            let mut image = whole.clone();
            flip(&mut image, 0, &[bit]);
            (1..SLOTS).for_each(|slot| flip(&mut image, slot, &[(bit + 12_345 * slot) % (8 * PAGE)]));
            assert_eq!(chosen(&image), Ok(5), "bit {bit}, {pages} pages of {device}");
        }
    }
}

/// S-2.28: a power cut leaves sectors of two superblocks, in any mix, with a wrong bit or without: what it chooses was written so.
#[test]
fn a_torn_slot_is_never_mended_to_a_mix() {
    for base in 1..20 {
        let [old, other, new] = [0, 1, 2].map(|more| in_use(10 * base + 3 + more));
        let deciding = slots_of(new.generation.get())[0];
        let [was, is] = [old, new].map(|sb| *superblock_bytes(&sb));
        let mut whole = Image::new(PAGES);
        slots_of(other.generation.get())
            .into_iter()
            .for_each(|slot| put(&mut whole, slot, &other));
        slots_of(old.generation.get())
            .into_iter()
            .for_each(|slot| put(&mut whole, slot, &old));
        for sectors in 0..256_u32 {
            let mut torn = was;
            for at in (0..PAGE / SECTOR).filter(|at| sectors >> at & 1 == 1) {
                torn[at * SECTOR..][..SECTOR].copy_from_slice(&is[at * SECTOR..][..SECTOR]);
            }
            let expected = if torn == is { new } else { other };
            let wrong = [0, 1000 + sectors as usize, 2400, 8 * PAGE - 1];
            for bit in core::iter::once(None).chain(wrong.map(Some)) {
                let mut image = whole.clone();
                image.change(PageNo(slot_page(deciding, PAGES)), |page| *page = torn);
                bit.into_iter().for_each(|bit| flip(&mut image, deciding, &[bit]));
                let found = choose(&SimDevice::over(image)).expect("there is one");
                assert_eq!(
                    *superblock_bytes(&found),
                    *superblock_bytes(&expected),
                    "{sectors:#b}, bit {bit:?}"
                );
            }
        }
    }
}

/// S-2.27: two wrong bits, and three, wherever they are, are none.
#[test]
fn more_wrong_bits_are_not_undone() {
    let mut rest = 7_u64;
    let mut next = || {
        rest = rest.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (rest >> 33) as usize % (8 * PAGE)
    };
    for round in 0..2000 {
        let mut bits = vec![next(), next(), next()];
        bits.truncate(2 + round % 2);
        if round % 5 == 0 {
            bits[1] = (bits[0] + 1) % (8 * PAGE);
        }
        bits.sort_unstable();
        bits.dedup();
        if bits.len() == 1 {
            continue;
        }
        let mut image = image(PAGES);
        flip(&mut image, 1, &bits);
        flip(&mut image, 3, &bits);
        assert_eq!(chosen(&image), Ok(4), "{bits:?}");
    }
}

/// What is no superblock is not made one: garbage, and the magic alone.
#[test]
fn garbage_is_not_undone() {
    for byte in 0..=255_u8 {
        let mut image = image(PAGES);
        for slot in [1, 3] {
            image.change(PageNo(slot_page(slot, PAGES)), |page| {
                page[6..].fill(byte);
            });
        }
        assert_eq!(chosen(&image), Ok(4), "{byte}");
    }
    // It is right with one bit undone, but what it begins with then is no superblock.
    let mut image = image(PAGES);
    let mut other = superblock(5);
    other.magic[3] ^= 1;
    for slot in [1, 3] {
        put(&mut image, slot, &other);
        flip(&mut image, slot, &[3000]);
    }
    assert_eq!(chosen(&image), Ok(4));
}

/// S-2.27: of two of one generation that differ the one counts that needs no mending, and if both do none.
#[test]
fn what_is_undone_yields_to_what_is_right() {
    let mut other = superblock(5);
    other.seq = 9.into();
    for wrong in [1, 3] {
        let mut image = image(PAGES);
        put(&mut image, wrong, &other);
        flip(&mut image, wrong, &[700]);
        let found = choose(&SimDevice::over(image.clone())).expect("there is one");
        assert_eq!((found.generation.get(), found.seq.get()), (5, superblock(5).seq.get()));
        flip(&mut image, 4 - wrong, &[2]);
        assert_eq!(chosen(&image), Ok(4));
    }
}

/// S-2.19: what is undone is evidence, too: an older superblock is no way around a newer one that cannot be used.
#[test]
fn nothing_older_is_used_instead_of_what_is_undone() {
    type Change = fn(&mut Superblock);
    let changes: [(Change, &str); 3] = [
        (|sb| sb.version = 2.into(), "version 2"),
        (|sb| sb.incompat = (1 << 40).into(), "incompat 0x10000000000"),
        (|sb| sb.pages = (2 * PAGES).into(), "it was cut"),
    ];
    for (change, says) in changes {
        let mut image = image(PAGES);
        let mut newer = superblock(6);
        change(&mut newer);
        put(&mut image, 0, &newer);
        flip(&mut image, 0, &[600]);
        let said = refused(&image);
        assert!(said.contains(says), "{said}");
    }
}

/// S-21.10: a generation of which the slots have a wrong bit is not lost.
#[test]
fn a_generation_with_wrong_bits_is_not_lost() {
    let mut image = image(PAGES);
    flip(&mut image, 0, &[77]);
    flip(&mut image, 2, &[5000]);
    let device = SimDevice::over(image.clone());
    let taken = take(&device).expect("there is one");
    assert_eq!((taken.is_other_lost, taken.flipped.len()), (false, 2));
    // Page 0 for where the slots lie, and each of them once.
    assert_eq!(device.counters().read.operations, 5);
    flip(&mut image, 0, &[78]);
    flip(&mut image, 2, &[78]);
    let device = SimDevice::over(image);
    assert!(take(&device).expect("there is one").is_other_lost);
}

/// S-2.16: such a one of a pool that had the whole device is zeroed, too, since it would be taken.
#[test]
fn a_whole_device_is_forgotten_with_its_wrong_bits() {
    let mut image = image(PAGES);
    (0..SLOTS).for_each(|slot| flip(&mut image, slot, &[100 * slot + 9]));
    let pages: Vec<u64> = (0..SLOTS).map(|slot| slot_page(slot, PAGES)).collect();
    assert_eq!(whole_superblocks(&SimDevice::over(image)), pages);
}
