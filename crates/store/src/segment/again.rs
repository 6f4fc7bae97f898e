//! Page 0, looked at while its server lives: what one place lacks is stored there from the other (S-14.10).

use super::{Header, Segment, Word};
use crate::Store;
use crate::events::{Done, Place, Seen, Told};
use crate::scrub::Looked;
use crate::twice::{self, Found};

impl Segment {
    /// What was right at one place only is so at both. What that was, for people. The caller has the lock of redo: nobody moves a
    /// word meanwhile.
    fn make_twice(&self) -> Vec<&'static str> {
        let mut made = Vec::new();
        if self.is_former {
            return made;
        }
        let _nobody_notes = self.noting.lock();
        if let Found::One(header) = Header::found(&self.region) {
            twice::store(&self.region, 0, &header.bytes());
            made.push("header");
        }
        for word in Word::ALL {
            if let Found::One(value) = self.found(word) {
                self.set_word(word, value);
                made.push(word.name());
            }
        }
        made
    }
}

impl Store {
    /// Looks at what leads to redo and staged pages, for a scrub. It counts as no page.
    pub fn scrub_page_0(&self) -> Looked {
        let redo = self.redo.lock();
        let made = self.segment.make_twice();
        drop(redo);
        for what in &made {
            self.tell_of(&Told {
                place: Place::Outside(self.segment.region().shown_address() as u64),
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
