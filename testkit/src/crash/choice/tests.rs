//! Tests of the numbering: complete, without repetition, of the promised sizes.

use std::collections::{BTreeSet, HashSet};

use super::*;

fn kept(choice: Choice, units: usize) -> BTreeSet<usize> {
    (0..units).filter(|&i| choice.keeps(i, units)).collect()
}

fn whole_sets(choices: &Choices, units: usize) -> HashSet<BTreeSet<usize>> {
    let all = (0..choices.whole_count()).map(|i| choices.get(i).unwrap());
    all.map(|choice| kept(choice, units)).collect()
}

#[test]
fn few_units_give_every_subset_once() {
    for units in 0..=ALL_SUBSETS_UP_TO {
        let choices = Choices::new(units, vec![], 1);
        assert_eq!(choices.count(), 1 << units);
        assert_eq!(whole_sets(&choices, units).len(), 1 << units);
        let all = choices.get(choices.all_kept()).unwrap();
        assert_eq!(kept(all, units).len(), units);
    }
}

#[test]
fn many_units_give_ends_singles_pairs_and_random_ones() {
    for units in [11, 13, 40] {
        let choices = Choices::new(units, vec![], 1);
        let sets = whole_sets(&choices, units);
        let everything: BTreeSet<usize> = (0..units).collect();
        for a in 0..=units {
            assert!(sets.contains(&(0..a).collect()));
            assert!(sets.contains(&(a..units).collect()));
            for b in a..units {
                let pair = BTreeSet::from([a, b]);
                assert!(sets.contains(&pair));
                assert!(sets.contains(&(&everything - &pair)));
            }
        }
        let random = sets.len() - (units * (units + 1) + 2 + 2 * (units - 3));
        assert!(random > 200, "only {random} random sets of {units} units");
        assert_eq!(choices.get(choices.count()), None);
    }
}

#[test]
fn seeds_draw_different_sets() {
    let of = |seed| whole_sets(&Choices::new(40, vec![], seed), 40);
    assert_eq!(of(1), of(1));
    assert!(of(1).difference(&of(2)).count() > 200);
}

#[test]
fn every_tear_is_different_and_partial() {
    let patterns: HashSet<Vec<bool>> = (0..TEARS)
        .map(|i| (0..SECTORS).map(|s| Tear::numbered(i).is_new(s)).collect())
        .collect();
    assert_eq!(patterns.len() as u64, TEARS);
    let partial = |p: &Vec<bool>| p.contains(&true) && p.contains(&false);
    assert!(patterns.iter().all(partial));
}

#[test]
fn torn_choices_follow_the_whole_ones() {
    let choices = Choices::new(3, vec![0, 2], 1);
    assert_eq!(choices.count(), 8 + 2 * TEARS * SETTINGS);
    let torn = (8..choices.count()).map(|i| choices.get(i).unwrap());
    let mut seen = Vec::new();
    for choice in torn {
        let (unit, tear) = choice.torn().unwrap();
        assert!(unit != 1 && choice.keeps(unit, 3));
        assert_eq!(choice.tear_of(unit), Some(tear));
        assert_eq!(choice.tear_of(1), None);
        if !seen.contains(&choice) {
            seen.push(choice);
        }
    }
    // Among all units the last one stands as it does after all earlier ones.
    assert_eq!(seen.len() as u64, 5 * TEARS);
}

#[test]
fn samples_hold_both_ends() {
    for units in [4, 30] {
        let choices = Choices::new(units, (0..units).collect(), 1);
        let sample: Vec<u64> = choices.sample(20).collect();
        assert_eq!(sample.len(), 20);
        assert!(sample.iter().all(|&i| i < choices.count()));
        let all = choices.get(sample[1]).unwrap();
        assert_eq!(kept(all, units).len(), units);
        assert!(kept(choices.get(sample[0]).unwrap(), units).is_empty());
        let whole: Vec<u64> = choices.sample(u64::MAX).collect();
        assert_eq!(whole, (0..choices.count()).collect::<Vec<_>>());
    }
}
