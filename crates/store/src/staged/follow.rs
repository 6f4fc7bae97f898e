//! The staged table behind a commit (S-14.3).

use crate::{Flash, Store};
use keepfs_flash::segment::Word;
use keepfs_flash::staged::{Bases, Coming, Table, Under};
use keepfs_format::plog::Record;

impl Flash {
    /// The staged table follows a committed transaction. Under the lock of redo, so in the order of commit (S-14.3).
    pub(crate) fn follow_staged(
        &self,
        store: &Store,
        seq: u64,
        records: &[Record],
        bases: &mut Bases,
        coming: &mut Coming,
        promised: u64,
    ) {
        let mut give_back = promised;
        if records.iter().any(Table::follows) {
            let mut table = self.staged.table.lock();
            let before = table.promised;
            let mut under = Under::Bases(bases);
            if !table.apply_ahead(coming, records)
                && let Err(full) = records.iter().try_for_each(|record| table.apply(record, &mut under))
            {
                // Room was taken before the commit (S-14.7).
                store.fail(full.into());
            }
            table.give_up(core::mem::take(coming));
            self.log.segment.set_word(Word::Followed, seq);
            // The transaction's promises are the table's now; what the table gave up goes back.
            give_back = (before + promised).saturating_sub(table.promised);
        }
        store.alloc.space.promise_back(give_back);
    }
}
