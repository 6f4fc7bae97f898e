//! Values in the heap that decide what reaches the device (C-3): each has a sum from when it is set, and is compared with it
//! when it is used.
//!
//! Invariants: (1) what is compared is a private copy, and that copy is what is used; (2) a sum has the key in it that the
//! value is found by, so that a value at another's place is none; (3) a list and a map have besides the sum of all sums, so
//! that one that is gone is missed.

use core::fmt;
use core::ops::RangeInclusive;
use keepfs_codes::crc64;
use keepfs_format::{Immutable, IntoBytes};
use std::collections::BTreeMap;

/// A value without padding.
pub trait Plain: IntoBytes + Immutable + Copy {}
impl<T: IntoBytes + Immutable + Copy> Plain for T {}

/// Something else wrote where a watched value or its sum stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stray {
    /// Where it stands.
    pub address: usize,
}

impl fmt::Display for Stray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory at {:#x} was changed by something else", self.address)
    }
}

/// A value and its sum.
#[derive(Clone, Copy, Debug)]
pub struct Watched<T> {
    value: T,
    sum: u64,
}

impl<T: Plain> Watched<T> {
    /// Sets the value that is found by `key`.
    pub fn new(key: u64, value: T) -> Watched<T> {
        let sum = crc64::seeded(key, value.as_bytes());
        Watched { value, sum }
    }

    /// The value. Errors: it or its sum is not what was set.
    #[inline]
    pub fn get(&self, key: u64) -> Result<T, Stray> {
        let copy = self.value;
        match crc64::seeded(key, copy.as_bytes()) == self.sum {
            true => Ok(copy),
            false => Err(self.stray()),
        }
    }

    /// Whether `other` is what was set, by the value or by the sum: a stray write hits one of them.
    pub fn was(&self, key: u64, other: &T) -> bool {
        self.sum == crc64::seeded(key, other.as_bytes()) || self.value.as_bytes() == other.as_bytes()
    }

    #[cold]
    fn stray(&self) -> Stray {
        Stray {
            address: core::ptr::from_ref(&self.value).addr(),
        }
    }

    /// A stray write.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble(&mut self, change: impl FnOnce(&mut T)) {
        change(&mut self.value);
    }
}

/// Values by key.
#[derive(Clone, Debug)]
pub struct WatchedMap<V> {
    values: BTreeMap<u64, Watched<V>>,
    /// Of all sums.
    all: u64,
}

impl<V> Default for WatchedMap<V> {
    fn default() -> Self {
        WatchedMap {
            values: BTreeMap::new(),
            all: 0,
        }
    }
}

impl<V: Plain> WatchedMap<V> {
    /// Sets a value.
    pub fn insert(&mut self, key: u64, value: V) {
        let new = Watched::new(key, value);
        self.all ^= new.sum;
        if let Some(old) = self.values.insert(key, new) {
            self.all ^= old.sum;
        }
    }

    /// Sets a value if there is none.
    pub fn insert_first(&mut self, key: u64, value: V) {
        if !self.values.contains_key(&key) {
            self.insert(key, value);
        }
    }

    /// Whether there is a value.
    pub fn has(&self, key: u64) -> bool {
        self.values.contains_key(&key)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = WatchedMap::default();
    }

    /// The value of `key`.
    pub fn get(&self, key: u64) -> Result<Option<V>, Stray> {
        self.values.get(&key).map(|value| value.get(key)).transpose()
    }

    /// The keys in a range, ascending, each with its value.
    pub fn range(&self, keys: RangeInclusive<u64>) -> Result<Vec<(u64, V)>, Stray> {
        let range = self.values.range(keys);
        range.map(|(key, value)| Ok((*key, value.get(*key)?))).collect()
    }

    /// All keys, ascending, each with its value. Errors: one is not what was set, or is not there.
    pub fn all(&self) -> Result<Vec<(u64, V)>, Stray> {
        let all = self.range(0..=u64::MAX)?;
        match self.values.values().fold(0, |sum, value| sum ^ value.sum) == self.all {
            true => Ok(all),
            false => Err(Stray {
                address: core::ptr::from_ref(&self.all).addr(),
            }),
        }
    }

    /// A stray write into the value of a key.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble(&mut self, key: u64, change: impl FnOnce(&mut V)) {
        if let Some(value) = self.values.get_mut(&key) {
            value.scribble(change);
        }
    }

    /// A stray write that loses a key.
    #[cfg(any(test, feature = "strays"))]
    pub fn lose(&mut self, key: u64) {
        self.values.remove(&key);
    }
}

/// Values in the order in which they were added.
#[derive(Clone, Debug)]
pub struct WatchedList<V> {
    values: Vec<Watched<V>>,
    all: u64,
}

impl<V> Default for WatchedList<V> {
    fn default() -> Self {
        WatchedList {
            values: Vec::new(),
            all: 0,
        }
    }
}

impl<V: Plain> WatchedList<V> {
    /// Adds a value.
    pub fn push(&mut self, value: V) {
        let value = Watched::new(self.values.len() as u64, value);
        self.all ^= value.sum;
        self.values.push(value);
    }

    /// The values. Errors, at the first that is not what was added, and at the end if one is not there.
    pub fn iter(&self) -> impl Iterator<Item = Result<V, Stray>> {
        let each = self.values.iter().enumerate().map(|(i, value)| value.get(i as u64));
        let whole = self.values.iter().fold(0, |sum, value| sum ^ value.sum) == self.all;
        let gone = (!whole).then(|| {
            Err(Stray {
                address: core::ptr::from_ref(self).addr(),
            })
        });
        each.chain(gone)
    }

    /// A stray write into a value.
    #[cfg(any(test, feature = "strays"))]
    pub fn scribble(&mut self, at: usize, change: impl FnOnce(&mut V)) {
        self.values[at].scribble(change);
    }

    /// A stray write that loses the last value.
    #[cfg(any(test, feature = "strays"))]
    pub fn lose(&mut self) {
        self.values.pop();
    }
}

#[cfg(test)]
mod tests;
