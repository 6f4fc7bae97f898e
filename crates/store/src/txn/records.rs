//! The records of an open transaction (S-8.5): they are the truth of bitmaps, reference counts and staged pages at replay, so
//! each is summed, as it will be encoded, when it is made, and they are compared with the sum when they are used (S-13.16).

use keepfs_codes::crc64;
use keepfs_format::plog::Record;
use std::cell::RefCell;

thread_local! {
    /// Where records are encoded to be summed.
    static ENCODED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Records and the CRC-64 of all of them, encoded back to back.
pub(crate) struct Records {
    list: Vec<Record>,
    sum: u64,
    /// The same without the last.
    before_last: u64,
}

fn more(sum: u64, record: &Record) -> u64 {
    ENCODED.with_borrow_mut(|bytes| {
        bytes.clear();
        record.encode(bytes);
        crc64::more(sum, bytes)
    })
}

impl Records {
    pub fn new() -> Records {
        let none = crc64::full(&[]);
        Records {
            list: Vec::with_capacity(8),
            sum: none,
            before_last: none,
        }
    }

    /// Adds a record.
    pub fn push(&mut self, record: Record) {
        self.before_last = self.sum;
        self.sum = more(self.sum, &record);
        self.list.push(record);
    }

    /// Changes the last record, if `change` does. Whether it did.
    pub fn change_last(&mut self, change: impl FnOnce(&mut Record) -> bool) -> bool {
        let Some(last) = self.list.last_mut() else { return false };
        // One that is not what was added stays so: its sum is not made anew.
        let right = more(self.before_last, last) == self.sum;
        let changed = change(last);
        if changed && right {
            self.sum = more(self.before_last, last);
        }
        changed
    }

    /// CRC-64 of all, encoded, as they were added.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Whether they are what was added.
    pub fn are_right(&self) -> bool {
        self.list.iter().fold(crc64::full(&[]), more) == self.sum
    }

    /// Takes `found` in their place, if that is what was added. Whether it is.
    pub fn mend(&mut self, found: Vec<Record>) -> bool {
        let right = found.iter().fold(crc64::full(&[]), more) == self.sum;
        if right {
            self.list = found;
        }
        right
    }

    /// A stray write.
    #[cfg(test)]
    pub fn scribble(&mut self, change: impl FnOnce(&mut Vec<Record>)) {
        change(&mut self.list);
    }
}

impl core::ops::Deref for Records {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        &self.list
    }
}
