//! Tests of kept regions: nothing of one life is seen in the next.

use super::*;
use keepfs_format::PAGE;

/// M-1: a region of a second life is all zero, wherever the first one wrote, and it is the same memory.
#[test]
fn a_kept_region_comes_back_zeroed() {
    const BYTES: usize = 70 * PAGE;
    for guard in [Guard::Alias, Guard::Off] {
        let _reuse = Reuse::begin();
        let region = Region::new("keepfs-kept", BYTES, guard, false).expect("region");
        let at = region.shown_address();
        region.store(PAGE - 3, &[7; 2 * PAGE]);
        region.store_u64(64 * PAGE, 1);
        region.xor_u8(66 * PAGE + 5, 1);
        region.add_u64(67 * PAGE, 1);
        region.or_u64(68 * PAGE + 8, 1);
        region.store(BYTES - 2, &[1]);
        drop(region);
        let other = Region::new("keepfs-kept", BYTES + PAGE, guard, false).expect("another length");
        assert_ne!(other.shown_address(), at);
        let region = Region::new("keepfs-kept", BYTES, guard, false).expect("region");
        assert_eq!(region.shown_address(), at);
        let mut bytes = vec![1; BYTES];
        region.load(0, &mut bytes);
        assert_eq!(bytes.iter().position(|b| *b != 0), None);
        region.store(9, b"again");
        drop(region);
        let region = Region::new("keepfs-kept", BYTES, guard, false).expect("third life");
        region.load(0, &mut bytes);
        assert_eq!(bytes.iter().position(|b| *b != 0), None);
    }
}
