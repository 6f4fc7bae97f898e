//! Logic bugs that the lab plants to prove that the audits find them, each by one equation (SPEC section 17; issue 4
//! section 7). They stand where files, directories and space are changed, never in what tells the auditor; each is
//! modelled on a kind of bug that was published: the sources stand in docs/decisions/0510.

bugs! { Logic:
    /// Shared pages are named without a reference more.
    ShareUncounted = "E-1: copied range shares pages without counting",
    /// The last page that a truncation freed stays allocated.
    PageKept = "E-2: truncate leaks a page",
    /// A freed page is not taken from the total.
    FreeNotTotalled = "E-3: freed page stays in the total",
    /// The log is told one page too few of a run.
    AllocShort = "E-4: alloc record one page short",
    /// Neighbouring freed pages are told as one.
    FreeShort = "E-5: free record not extended",
    /// A reference less is not taken from the total.
    ShareNotTotalled = "E-6: lowered count stays in the total",
    /// A reference less is not told to the log.
    RefOmitted = "E-7: ref record omitted",
    /// Overwritten pages are counted twice.
    PagesCountedTwice = "E-8: overwritten pages counted again",
    /// A reclaimed inode's number stays in use.
    NumberKept = "E-9: inode number leaked",
    /// A new inode is not counted.
    InodeNotTotalled = "E-10: new inode not in the total",
    /// A freed inode number is not told to the log.
    NumberNotTold = "E-11: free record of an inode number omitted",
    /// An inode that loses its last name is forgotten.
    NotHidden = "E-12: unlinked inode not on the hidden list",
    /// A nameless file that gets a name stays on the hidden list.
    NotUnhidden = "E-13: linked tmpfile stays on the hidden list",
    /// The hidden list in the log keeps what left it.
    UnhidingNotTold = "E-14: free record of an orphan omitted",
    /// The topmost node of a high tree is never freed.
    RootKept = "E-15: indirect node leaked",
    /// Births are not logged.
    BirthNotTold = "E-16: birth record omitted",
    /// A freed node stays in the total.
    NodeNotTotalled = "E-17: freed node stays in the total",
    /// A removed entry still counts in its directory.
    EntryStillCounts = "E-18: removed entry still counted",
    /// A removed entry still counts in its leaf.
    LeafStillCounts = "E-19: leaf's count of live entries not lowered",
    /// A second name is not counted.
    LinkNotCounted = "E-20: link does not raise nlink",
    /// Exchanged names of a directory and another one leave both parents' link counts.
    ExchangeKeepsLinks = "E-21: exchange leaves the parents' nlink",
    /// A moved directory keeps its old parent.
    ParentKept = "E-22: moved directory keeps its parent",
    /// A replaced entry keeps its kind.
    KindKept = "E-23: replaced entry keeps its type",
    /// A removed name is not told to the log.
    UnlinkNotTold = "E-24: unlink record omitted",
    /// The operation log is told the wrong inode.
    PointToldWrong = "E-25: operation names the wrong inode",
    /// A new life is not told to the log.
    CreateNotTold = "E-26: create record omitted",
    /// A number's next life has the generation of the one before.
    GenerationAgain = "E-27: generation used again",
    /// A write makes no version.
    VersionKept = "E-28: write makes no version",
    /// Preallocated pages are not told to the log.
    UnwrittenNotTold = "E-29: map-entry record omitted",
    /// A write that extends a file leaves its size.
    SizeKept = "E-30: extending write leaves the size",
    /// The operation log is told one page too few.
    ClearToldShort = "E-31: cleared pages told one short",
    /// A child is named by the generation before.
    ChildGenerationOld = "E-32: child entry with an old generation",
    /// A chain of attributes keeps the length it had.
    UsedKept = "E-33: attribute chain keeps its length",
    /// Of several ranges of a change only the first is logged.
    RangeOmitted = "E-34: changed range not logged",
    /// Pages in use are not taken from the free ones.
    UsedNotCounted = "E-35: free space not lowered",
    /// An entry gets the key of another name.
    KeyWrong = "E-36: entry with a wrong hash",
}

#[cfg(feature = "planted")]
static PLANTED: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(u32::MAX);

/// Plants a bug in this process, or digs it out.
#[cfg(feature = "planted")]
pub fn plant_logic(bug: Option<Logic>) {
    PLANTED.store(bug.map_or(u32::MAX, |b| b as u32), core::sync::atomic::Ordering::SeqCst);
}

/// Whether `bug` is planted.
#[cfg(feature = "planted")]
#[inline]
#[doc(hidden)]
pub fn has(bug: Logic) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::Relaxed) == bug as u32
}

/// Whether `bug` is planted: never in this build.
#[cfg(not(feature = "planted"))]
#[inline(always)]
#[doc(hidden)]
pub const fn has(_bug: Logic) -> bool {
    false
}
