//! Page 0 of the memory of redo and staged pages, looked at while its server lives (S-14.10).

use super::Looked;
use crate::events::{Done, Place, Seen, Told};
use crate::{Flash, Store};

impl Flash {
    /// See [`Store::scrub_page_0`].
    pub(crate) fn scrub_page_0(&self, store: &Store) -> Looked {
        let redo = self.log.redo.lock();
        let made = self.log.segment.make_twice();
        drop(redo);
        for what in &made {
            store.watch.events.tell_of(&Told {
                place: Place::Outside(self.log.segment.region().shown_address() as u64),
                seen: &Seen::Checksum,
                done: Done::OtherCopy,
                owner: 0,
                inodes: &[],
                window_ms: None,
                more: format!(
                    "page 0 of the memory of redo and staged pages: its {what} was changed at one of two places"
                ),
            });
        }
        let count = made.len() as u64;
        Looked {
            pages: 0,
            bad: count,
            mended: count,
        }
    }
}
