//! No way to pair the pages has more that lie apart, and what is taken is what was counted (S-4.9).

use super::*;

/// The most pairs, by trying all.
fn most(pages: &[u64], apart: u64) -> usize {
    let Some((first, rest)) = pages.split_first() else {
        return 0;
    };
    let with = |at: usize| {
        let others: Vec<u64> = rest
            .iter()
            .enumerate()
            .filter(|(i, _)| *i != at)
            .map(|(_, page)| *page)
            .collect();
        1 + most(&others, apart)
    };
    let mates = (0..rest.len()).filter(|at| rest[*at].abs_diff(*first) >= apart);
    mates.map(with).fold(most(rest, apart), usize::max)
}

/// Numbers below 40 that are free, by chance.
fn some(seed: u64) -> Vec<u64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut pages: Vec<u64> = (0..2 + seed % 8)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 58
        })
        .collect();
    pages.sort_unstable();
    pages.dedup();
    pages
}

/// Chunks of one page each.
fn homes_of(pages: &[u64]) -> Homes {
    let mut homes = Homes::default();
    pages.iter().for_each(|page| homes.add(page + 1000, 1).expect("added"));
    homes
}

/// S-4.9
#[test]
fn no_other_pairing_has_more_that_lie_apart() {
    for seed in 0..400 {
        let pages = some(seed);
        for apart in [1, 8, 20, 40] {
            let far = far_pairs(&pages, apart);
            assert_eq!(far, most(&pages, apart), "{pages:?}, {apart} apart");
            let mut homes = homes_of(&pages);
            homes.compact = seed % 2 == 0;
            homes.begin = 1000 + seed % 64;
            let mut taken = Vec::new();
            while let Some([first, second]) = homes.take_pair(apart).expect("right") {
                taken.push(first.abs_diff(second) >= apart);
            }
            assert_eq!(taken.len(), pages.len() / 2);
            let is_far: Vec<bool> = (0..taken.len()).map(|nth| nth < far).collect();
            assert_eq!(taken, is_far, "those apart go first: {pages:?}, {apart} apart");
        }
    }
}

/// S-4.9: where nothing is left that would be taken before, the chunk is not emptied: what left it would come back.
#[test]
fn what_a_chunk_is_emptied_into_is_taken_before_its_own_pages() {
    let mut homes = Homes::default();
    homes.add(1000, 64).expect("added");
    homes.add(5000, 16).expect("added");
    for _ in 0..4 {
        homes.take_pair(3000).expect("right").expect("free");
    }
    // 60 free ones near, 12 far, of a chunk that has 4 in use: with one copy they have room below it.
    assert_eq!(homes.sparse_chunk(None).expect("right").len(), 4);
    assert_eq!(homes.sparse_chunk(Some(3000)).expect("right"), Vec::<u64>::new());
    homes.add(4000, 32).expect("added");
    assert_eq!(homes.sparse_chunk(Some(3000)).expect("right").len(), 4);
}

/// S-4.9: what is given back leaves as many pairs as are kept.
#[test]
fn a_chunk_is_given_back_only_if_enough_pairs_are_left() {
    let mut homes = Homes::default();
    for (start, pages) in [(1000, 16), (2000, 64), (5000, 32)] {
        homes.add(start, pages).expect("added");
    }
    let run = |start, count| Run { start, count };
    let sides = || homes.sides(Some(2500)).expect("right");
    assert_eq!(far_pairs(&homes.free_pages(&[]).expect("right"), 2500), 32);
    assert!(!sides().give_back(run(5000, 32), 40), "the only ones that lie apart");
    assert!(sides().give_back(run(1000, 16), 32));
    assert!(!sides().give_back(run(1000, 16), 34));
    let mut sides = sides();
    assert!(sides.give_back(run(2016, 16), 64), "in no pair");
    assert!(sides.give_back(run(2032, 16), 64), "in no pair");
    assert!(!sides.give_back(run(2040, 24), 64), "there are no more of those");
}

/// C-3
#[test]
fn a_pair_that_was_changed_is_told() {
    let mut homes = homes_of(&[1, 2, 3, 30, 31, 32]);
    homes.take_pair(20).expect("right").expect("free");
    homes.pairs[0][1] = 7;
    homes.take_pair(20).expect("right").expect("free");
    assert!(homes.take_pair(20).is_err(), "no page of a chunk");
}
