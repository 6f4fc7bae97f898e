//! What a recovery tells of the log and the superblocks that it found.

use crate::events::{Done, Place, Seen, Told};
use crate::{Flash, Store};
use keepfs_flash::log::{Cut, Mended};

impl Flash {
    /// The log was cut at a page that is bad (S-9.7); it is there up to transaction `last`.
    pub(crate) fn tell_cut(&self, store: &Store, cut: &Cut, last: u64) {
        self.log.cut.get_or_init(|| *cut);
        let seen = if cut.unreadable { Seen::Medium } else { Seen::Checksum };
        store.watch.events.tell_of(&Told {
            place: Place::Cut {
                group: cut.group,
                proved: cut.proved,
            },
            seen: &seen,
            done: Done::Nothing,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!("page {}; {}, up to transaction {last}", cut.page, cut.loss()),
        });
    }

    /// Both slots beside those of the superblock of this generation, which was taken, hold none (S-21.22).
    pub(crate) fn tell_superblocks_lost(&self, generation: u64) {
        let said = self.checkpoints.superblocks_lost.get_or_init(|| {
            format!(
                "both places of one generation of superblocks, beside those of generation {generation}, hold none: if that was the newest, \
                 what was written or synced since is lost; two crashes can leave a pool that looks so, else see to the device"
            )
        });
        tracing::warn!("{said}");
    }

    /// A page of the group that carried staged pages over was bad, and was made again (S-9.11).
    pub(crate) fn tell_mended(&self, store: &Store, mended: &Mended) {
        self.log.mended.get_or_init(|| *mended);
        let seen = if mended.unreadable {
            Seen::Medium
        } else {
            Seen::Checksum
        };
        store.watch.events.tell_of(&Told {
            place: Place::Log(mended.group),
            seen: &seen,
            done: Done::Rebuilt,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!(
                "page {} was made again from the other pages of its group: nothing is lost",
                mended.page
            ),
        });
    }
}
