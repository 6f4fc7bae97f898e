//! The staged table behind a commit (S-14.3).

use super::{Bases, Coming, Table, Under};
use crate::Store;
use crate::segment::Word;
use keepfs_format::plog::Record;

impl Store {
    /// The staged table follows a committed transaction. Under the lock of redo, so in the order of commit (S-14.3).
    pub(crate) fn follow_staged(
        &self,
        seq: u64,
        records: &[Record],
        bases: &mut Bases,
        coming: &mut Coming,
        promised: u64,
    ) {
        let mut give_back = promised;
        if records.iter().any(Table::follows) {
            let mut table = self.staged_table.lock();
            let before = table.promised;
            let mut under = Under::Bases(bases);
            if !table.apply_ahead(coming, records)
                && let Err(full) = records.iter().try_for_each(|record| table.apply(record, &mut under))
            {
                // Room was taken before the commit (S-14.7).
                self.fail(full.into());
            }
            table.give_up(core::mem::take(coming));
            self.segment.set_word(Word::Followed, seq);
            // The transaction's promises are the table's now; what the table gave up goes back.
            give_back = (before + promised).saturating_sub(table.promised);
        }
        self.space.promise_back(give_back);
    }
}
