//! Tests of the lock table.

use super::*;

#[test]
fn the_rename_lock_comes_before_every_inode_lock() {
    assert!(Rank::Rename < Rank::Inode(0));
    assert!(Rank::Inode(3) < Rank::Inode(4));
}

#[test]
fn inodes_of_one_shard_are_locked_once() {
    let locks = Locks::new();
    let held = locks.all([5, 5 + SHARDS as u64, 7, 0]);
    assert_eq!(held._guards.iter().flatten().count(), 2);
    assert!(locks.try_exclusive(5).is_none());
    assert!(locks.try_exclusive(7).is_none());
    assert!(locks.try_exclusive(8).is_some());
    drop(held);
    assert!(locks.try_exclusive(5).is_some());
}

#[test]
fn opposite_orders_do_not_deadlock() {
    let locks = Locks::new();
    std::thread::scope(|scope| {
        for flip in [false, true] {
            let locks = &locks;
            scope.spawn(move || {
                for _ in 0..10_000 {
                    drop(locks.all(if flip { [1, 2] } else { [2, 1] }));
                }
            });
        }
    });
}
