//! What a status says of changes that are lost with redo or log (S-16.5, S-9.7), until somebody has taken note of it.

use super::counted;
use crate::figures::Status;
use crate::history;
use keepfs_format::history::Lasting;
use keepfs_store::Cut;

/// What to do, whatever it was that was lost.
const ACTION: &str = "compare what was changed last before it with a backup (`keepfs events` says when it was); `keepfs damage clear` takes \
                      note of it and ends this message";

/// Changes that nobody has any more; the worst comes last. `cut`: where the log was cut when the pool was opened.
pub fn lost(list: &[Lasting], cut: Option<Cut>, status: &mut Status) {
    let of = |place: u8| {
        list.iter()
            .filter(move |entry| entry.place == place && history::is_lost_change(entry))
    };
    let (by_log, by_memory): (Vec<&Lasting>, Vec<&Lasting>) =
        of(history::REDO).partition(|entry| entry.verdict == history::UNKNOWN);
    let count = |entries: &[&Lasting]| {
        let transactions = entries.iter().fold(0_u64, |sum, e| sum.saturating_add(e.length));
        counted(transactions, "transaction")
    };
    if !by_memory.is_empty() {
        status.degraded(
            format!("{} that were acknowledged and not synced are lost", count(&by_memory)),
            "changes that were not synced are lost: the memory that held them was damaged when their server died",
            ACTION,
        );
    }
    let cuts: Vec<&Lasting> = of(history::LOG).collect();
    if let Some(worst) = cuts.iter().max_by_key(|entry| entry.length) {
        let place = cut.map_or_else(String::new, |cut| format!(" at page {} of the device", cut.page));
        let what = match (cut, worst.length) {
            (Some(cut), _) => cut.loss(),
            (None, 0) => "a page of the log was bad: what was synced in the moment before a crash may be lost",
            (None, 1) => "pages of the log were bad: changes that were synced are lost",
            (None, _) => {
                "pages of the log were bad: changes that were synced are lost, small writes from before a checkpoint among them, and of which \
                 files is not known: these have older bytes, or zeros"
            }
        };
        status.degraded(format!("the log was bad{place}"), what, ACTION);
    }
    if !by_log.is_empty() {
        status.degraded(
            format!("{} that were acknowledged are lost", count(&by_log)),
            "changes are lost, synced ones perhaps among them: the log was bad when another server took over",
            ACTION,
        );
    }
}
