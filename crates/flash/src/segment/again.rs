//! Page 0, looked at while its server lives: what one place lacks is stored there from the other (S-14.10).

use super::{Header, Segment, Word};
use crate::twice::{self, Found};

impl Segment {
    /// What was right at one place only is so at both. What that was, for people. The caller has the lock of redo: nobody moves a
    /// word meanwhile.
    pub fn make_twice(&self) -> Vec<&'static str> {
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
