//! What a pool that is not mounted here says of other machines (S-2.12).

use keepfs_check::Image;
use keepfs_format::PAGE;
use keepfs_store::Pool;
use keepfs_store::mmp::{block, owner};

/// The interval, seconds, if other machines are asked, and who has the pool or had it when that machine ended.
pub fn of(image: &dyn Image, pool: &Pool) -> (Option<u32>, Option<String>) {
    let mut page = [0; PAGE];
    let Some(Ok(())) = pool.mmp.map(|at| image.read(at, &mut page)) else {
        return (None, None);
    };
    match block::read(&page, pool.id) {
        block::Seen::Used(block) => (Some(block.interval_s.get()), Some(owner(&block))),
        block::Seen::Free(block) => (Some(block.interval_s.get()), None),
        block::Seen::Off(_) => (None, None),
        block::Seen::Damaged if !pool.mmp_is_on => (None, None),
        block::Seen::Damaged => (
            None,
            Some("nobody knows whom: its block of multi-mount protection is damaged".into()),
        ),
    }
}

/// What the machine calls itself that has the pool, or had it when it ended.
pub fn host(image: &dyn Image, pool: &Pool) -> Option<String> {
    let mut page = [0; PAGE];
    image.read(pool.mmp?, &mut page).ok()?;
    match block::read(&page, pool.id) {
        block::Seen::Used(block) => Some(block::text(&block.host)),
        _ => None,
    }
}
