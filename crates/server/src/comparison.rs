//! Mount options that exist to be measured (decision 0421). Only a program with the feature `comparison` has them, and none that
//! is shipped.

use keepfs_fs::StoreOptions;

/// What is done otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    /// `nocompact`: groups of the log take as many pages as the metadata that they change would take whole.
    #[cfg(feature = "comparison")]
    nocompact: bool,
    /// `nooplog`: operations are not logged for checkers (SPEC section 12).
    #[cfg(feature = "comparison")]
    nooplog: bool,
}

#[cfg(feature = "comparison")]
impl Comparison {
    /// Takes an option; `false` if it is none of these.
    pub fn take(&mut self, word: &str) -> bool {
        match word {
            "nocompact" => self.nocompact = true,
            "nooplog" => self.nooplog = true,
            _ => return false,
        }
        true
    }

    /// Tells the store.
    pub fn apply(self, store: &mut StoreOptions) {
        (store.compact, store.oplog) = (!self.nocompact, !self.nooplog);
    }
}

#[cfg(not(feature = "comparison"))]
impl Comparison {
    /// Takes nothing.
    pub fn take(&mut self, _: &str) -> bool {
        false
    }

    /// Changes nothing.
    pub fn apply(self, _: &mut StoreOptions) {}
}
