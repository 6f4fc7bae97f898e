//! A sum at the wrong place or moved by the wrong caller does not verify (S-15.4, S-15.5).

#![cfg_attr(miri, allow(dead_code, unused_imports, reason = "some tests do not run there"))]

use super::*;
use crate::FRAME;
use crate::testing::{Rng, rounds};

const POOL: [u8; 16] = *b"a pool of tests!";

#[test]
fn the_identity_is_a_plain_crc_that_any_tool_can_take_off() {
    let mut bytes = POOL.to_vec();
    bytes.extend_from_slice(&0x0100_0000_0000_0007_u64.to_le_bytes());
    bytes.extend_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
    let identity = Identity::of(&POOL, 0x0100_0000_0000_0007, 2);
    assert_eq!(identity, Identity(crc64::full(&bytes)));
    let binding = Binding {
        identity,
        group: Group::Inode,
    };
    assert_eq!(binding.keep(0, 0x1234) ^ crc64::full(&bytes) ^ MARKS[0], 0x1234);
}

#[cfg(not(miri))]
#[test]
fn a_sum_of_another_metablock_does_not_verify() {
    let crc = crc64::full(&Rng::new(1).frame());
    let mut rng = Rng::new(2);
    let own = Identity::of(&POOL, 77, 2);
    let mut others: std::vec::Vec<Identity> = (0..rounds(5000, 20))
        .map(|_| Identity::of(&POOL, rng.next(), 2))
        .collect();
    others.extend(
        (0..=255)
            .filter(|kind| *kind != 2)
            .map(|kind| Identity::of(&POOL, 77, kind)),
    );
    others.push(Identity::of(b"another pool of ", 77, 2));
    for other in others {
        let [here, there] = [own, other].map(|identity| Binding {
            identity,
            group: Group::Map,
        });
        assert_ne!(here.sum(3, there.keep(3, crc)), crc);
    }
    let binding = Binding {
        identity: own,
        group: Group::Map,
    };
    assert_eq!(binding.sum(3, binding.keep(3, crc)), crc);
}

/// A frame of `owner`, changed twice by the right group and once by `caller`; whether its sum still verifies.
fn verifies_after(owner: Group, caller: Group, seed: u64) -> bool {
    let mut rng = Rng::new(seed);
    let mut frame = rng.frame();
    let binding = Binding {
        identity: Identity::of(&POOL, seed, 1),
        group: owner,
    };
    let mut rolling = binding.keep(0, crc64::full(&frame));
    for group in [owner, caller, owner] {
        let offset = rng.below(FRAME - 8);
        let new = rng.bytes(8);
        rolling ^= group.fold(crc64::delta(offset, &frame[offset..offset + 8], &new));
        frame[offset..offset + 8].copy_from_slice(&new);
    }
    binding.sum(0, rolling) == crc64::full(&frame)
}

#[cfg(not(miri))]
#[test]
fn a_legal_change_by_the_wrong_group_leaves_a_sum_that_does_not_verify() {
    for owner in Group::ALL {
        for caller in Group::ALL {
            for seed in 0..rounds(200, 1) as u64 {
                assert_eq!(
                    verifies_after(owner, caller, seed),
                    owner == caller,
                    "{owner:?} by {caller:?}"
                );
            }
        }
    }
}

#[test]
fn two_groups_agree_on_at_most_sixteen_deltas() {
    for (at, first) in Group::ALL.iter().enumerate() {
        for second in &Group::ALL[..at] {
            let apart = first.turn().abs_diff(second.turn());
            // A delta that both turn to one value repeats every gcd(64, apart) bits.
            let period = 1 << apart.trailing_zeros().min(6);
            assert!(period <= 4, "{first:?} and {second:?}");
            let repeated = |pattern: u64| (0..64 / period).fold(0, |all, at| all | pattern << (at * period));
            for pattern in 0..1u64 << period {
                assert_eq!(first.fold(repeated(pattern)), second.fold(repeated(pattern)));
            }
            assert_ne!(first.fold(1), second.fold(1));
        }
    }
}

#[test]
fn unfolding_takes_folding_back() {
    for group in Group::ALL {
        assert_eq!(group.unfold(group.fold(0x0123_4567_89ab_cdef)), 0x0123_4567_89ab_cdef);
    }
}

/// S-15.20: what is kept for all lines together gives the CRC-64 of the frame.
#[cfg(not(miri))]
#[test]
fn all_that_is_kept_gives_the_crc_of_the_frame() {
    let frame = Rng::new(5).frame();
    for group in Group::ALL {
        let binding = Binding {
            identity: Identity::of(&POOL, 5, 1),
            group,
        };
        let sums = crate::line::sums(&frame);
        let kept = sums.iter().enumerate().map(|(number, sum)| binding.keep(number, *sum));
        assert_eq!(binding.crc(kept.fold(0, |all, word| all ^ word)), crc64::full(&frame));
    }
}
