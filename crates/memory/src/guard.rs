//! The levels of protection that memory can have.

/// How a region is protected against writes that do not come through the door (DESIGN section 6).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Guard {
    /// Mapped read-only; the door writes through a second mapping at a secret address.
    #[default]
    Alias,
    /// Mapped read-only, and no writable mapping at all: the door writes by pwrite(2).
    Sealed,
    /// As `Alias`, and the second mapping has a protection key that only the door's thread opens, while it writes.
    Pkey,
    /// One mapping, read-only; the door makes its pages writable while it writes (Greenan & Miller, Fig. 3).
    Mprotect,
    /// One writable mapping, for comparison only.
    Off,
}
