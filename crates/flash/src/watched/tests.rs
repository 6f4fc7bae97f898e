//! What was set is what is read: each bit of value and sum, another key, a value that is gone (C-3).

use super::*;

#[test]
fn each_bit_of_a_value_and_of_its_sum_is_seen() {
    let right = Watched::new(7, [3_u64, 5]);
    assert_eq!(right.get(7), Ok([3, 5]));
    assert!(right.get(8).is_err(), "another's place");
    for bit in 0..64 {
        for word in 0..2 {
            let mut hit = right;
            hit.value[word] ^= 1 << bit;
            assert!(hit.get(7).is_err(), "bit {bit} of word {word}");
            assert!(hit.was(7, &[3, 5]) && !hit.was(7, &[3, 6]));
        }
        let mut hit = right;
        hit.sum ^= 1 << bit;
        assert!(hit.get(7).is_err(), "bit {bit} of the sum");
        assert!(hit.was(7, &[3, 5]) && !hit.was(7, &[3, 6]));
    }
    assert!(
        Watched {
            value: [0_u64; 2],
            sum: 0
        }
        .get(0)
        .is_err(),
        "zeros"
    );
}

#[test]
fn a_value_of_a_map_or_list_that_is_gone_is_missed() {
    let mut map = WatchedMap::default();
    let mut list = WatchedList::default();
    for key in 0..9_u64 {
        map.insert(key, key + 1);
        map.insert(key, key * key);
        map.insert_first(key, 0);
        list.push(key);
    }
    assert_eq!(map.all().map(|all| all.len()), Ok(9));
    assert_eq!(map.get(3), Ok(Some(9)));
    assert!(list.iter().all(|value| value.is_ok()));
    let (mut hit, mut lost) = (map.clone(), map.clone());
    hit.scribble(3, |value| *value = 10);
    assert!(hit.get(3).is_err() && hit.all().is_err() && hit.range(3..=4).is_err());
    assert_eq!(hit.range(4..=5), Ok(vec![(4, 16), (5, 25)]));
    lost.lose(8);
    assert!(lost.all().is_err());
    let mut hit = list.clone();
    hit.scribble(4, |value| *value = 5);
    assert_eq!(hit.iter().filter(Result::is_err).count(), 1);
    list.lose();
    assert_eq!(list.iter().filter(Result::is_err).count(), 1);
}
