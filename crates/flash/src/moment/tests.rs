//! M-2: a copy that changed after it was verified is told, and nothing else is (X-6.1, C-3).

use super::*;
use keepfs_format::PAGE;

#[test]
fn a_changed_copy_is_told() {
    let stash = Stash::default();
    let [a, b] = [MetaId(7), MetaId(8)];
    for id in [a, b] {
        stash.keep(id, Box::new([id.0 as u8; PAGE]));
    }
    for at in [0, 1, 2000, PAGE - 1] {
        stash.keep(a, Box::new([1; PAGE]));
        stash.scribble(a, at);
        let told = stash.take(a);
        assert!(matches!(told, Err(Error::Scribble { id, .. }) if id == a), "byte {at}");
    }
    assert_eq!(stash.take(b).expect("sound"), Some(Box::new([8; PAGE])));
    stash.keep(a, Box::new([1; PAGE]));
    stash.keep(b, Box::new([2; PAGE]));
    stash.scribble(b, 5);
    assert!(stash.take_some(9).is_err());
    assert_eq!(stash.count(), 0);
    assert!(stash.take_some(9).expect("nothing").is_empty());
}
