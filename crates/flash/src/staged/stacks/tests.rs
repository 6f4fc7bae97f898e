//! Which free slot a thread gets.

use super::*;
use std::collections::BTreeSet;

/// What a stripe freed it gets first; nothing is lost to the others, nor given twice.
#[test]
fn a_stripe_gets_its_own_and_then_all_others() {
    let mut stacks = Stacks::of((0..200).collect());
    assert_eq!(stacks.pop_by(0), Some(199));
    let freed: Vec<u32> = (0..80).filter_map(|_| stacks.pop_by(1)).collect();
    freed.iter().for_each(|slot| stacks.push_by(1, *slot));
    assert_eq!(stacks.pop_by(1), Some(freed[OWN_MAX - 1]));
    stacks.push_by(1, freed[OWN_MAX - 1]);
    stacks.push_by(0, 199);
    assert_eq!((stacks.len(), stacks.pop_by(0)), (200, Some(199)));
    // What another stripe freed last comes last.
    let rest: Vec<u32> = core::iter::from_fn(|| stacks.pop_by(0)).collect();
    let others: BTreeSet<u32> = rest[199 - OWN_MAX..].iter().copied().collect();
    assert_eq!(others, freed[..OWN_MAX].iter().copied().collect());
    assert_eq!(rest.into_iter().collect::<BTreeSet<u32>>(), (0..199).collect());
    assert_eq!(stacks.len(), 0);
}
