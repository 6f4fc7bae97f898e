//! Logic bugs that the lab plants to prove that the audits find them, each by one equation (SPEC section 17;
//! BARS M-12). They stand where files, directories and space are changed, not in what tells the auditor; but for the last
//! four, which take away one of its sources each, or the door. The published bug that one is modelled on stands beside it;
//! titles are those of commits of Linux where nothing else is said.

bugs! { Logic:
    /// Shared pages are named without a reference more.
    ShareUncounted = "E-1: copied range shares pages without counting",
    /// The last page that a truncation freed stays allocated.
    PageKept = "E-2: truncate leaks a page"
        from "ext4: fix bigalloc cluster freeing when hole punching under load (7bd75230b437)",
    /// A freed page is not taken from the total.
    FreeNotTotalled = "E-3: freed page stays in the total"
        from "WAFL 2017, Table 1: bitmap against the total of allocated blocks",
    /// The log is told one page too few of a run.
    AllocShort = "E-4: alloc record one page short",
    /// Neighbouring freed pages are told as one.
    FreeShort = "E-5: free record not extended",
    /// A reference less is not taken from the total.
    ShareNotTotalled = "E-6: lowered count stays in the total"
        from "WAFL 2017, Table 1: reference counts against space saved",
    /// A reference less is not told to the log.
    RefOmitted = "E-7: ref record omitted",
    /// Overwritten pages are counted twice.
    PagesCountedTwice = "E-8: overwritten pages counted again"
        from "ext4: fix i_blocks/quota accounting when extent insertion fails (7132de744ba7)",
    /// A reclaimed inode's number stays in use.
    NumberKept = "E-9: inode number leaked"
        from "GFS2: Recovery for lost unlinked inodes (c8cdf4793774)",
    /// A new inode is not counted.
    InodeNotTotalled = "E-10: new inode not in the total"
        from "ext4: protect group inode free counting with group lock (6f2e9f0e7d79): free inodes count wrong",
    /// A freed inode number is not told to the log.
    NumberNotTold = "E-11: free record of an inode number omitted",
    /// An inode that loses its last name is forgotten.
    NotHidden = "E-12: unlinked inode not on the hidden list"
        from "ext4: 6eeaf88fd586, orphan list",
    /// A nameless file that gets a name stays on the hidden list.
    NotUnhidden = "E-13: linked tmpfile stays on the hidden list"
        from "UBIFS: 32fe905c17f0, a tmpfile that is linked stays an orphan",
    /// The hidden list in the log keeps what left it.
    UnhidingNotTold = "E-14: free record of an orphan omitted"
        from "UBIFS: 32fe905c17f0, a tmpfile that is linked stays an orphan",
    /// The topmost node of a high tree is never freed.
    RootKept = "E-15: indirect node leaked"
        from "MentOS issue 302: indirect blocks leaked by unlink",
    /// Births are not logged.
    BirthNotTold = "E-16: birth record omitted"
        from "xfs: Ensure inode allocation buffers are fully replayed (ccf7c23fc129)",
    /// A freed node stays in the total.
    NodeNotTotalled = "E-17: freed node stays in the total"
        from "WAFL 2017, Table 1: bitmap against the total of allocated blocks",
    /// A removed entry still counts in its directory.
    EntryStillCounts = "E-18: removed entry still counted"
        from "ext4: 70c8038dd698, wrong counts after a rename",
    /// A removed entry still counts in its leaf.
    LeafStillCounts = "E-19: leaf's count of live entries not lowered",
    /// A second name is not counted.
    LinkNotCounted = "E-20: link does not raise nlink"
        from "ext4: 70c8038dd698, wrong counts after a rename",
    /// Exchanged names of a directory and another one leave both parents' link counts.
    ExchangeKeepsLinks = "E-21: exchange leaves the parents' nlink"
        from "OpenWrt jffs2: 4475da968a27, nlink of the parents after an exchange",
    /// A moved directory keeps its old parent.
    ParentKept = "E-22: moved directory keeps its parent"
        from "f2fs: fix to avoid dirent corruption (53edb549565f)",
    /// A replaced entry keeps its kind.
    KindKept = "E-23: replaced entry keeps its type",
    /// A removed name is not told to the log.
    UnlinkNotTold = "E-24: unlink record omitted"
        from "Btrfs: tree logging unlink/rename fixes (12fcfd22fe5b)",
    /// The operation log is told the wrong inode.
    PointToldWrong = "E-25: operation names the wrong inode"
        from "ext4: fix rename whiteout with fast commit (8210bb29c1b6)",
    /// A new life is not told to the log.
    CreateNotTold = "E-26: create record omitted"
        from "ext4: fast commit may miss file actions (bdc8a53a6f2f)",
    /// A number's next life has the generation of the one before.
    GenerationAgain = "E-27: generation used again"
        from "XFS: Don't initialise new inode generation numbers to zero (359346a9655c)",
    /// A write makes no version.
    VersionKept = "E-28: write makes no version",
    /// Preallocated pages are not told to the log.
    UnwrittenNotTold = "E-29: map-entry record omitted"
        from "f2fs: 924a2ddbd0c2",
    /// A write that extends a file leaves its size.
    SizeKept = "E-30: extending write leaves the size"
        from "f2fs: sync dir->i_size with its block allocation (699489bbbea4)",
    /// The operation log is told one page too few.
    ClearToldShort = "E-31: cleared pages told one short",
    /// A child is named by the generation before.
    ChildGenerationOld = "E-32: child entry with an old generation"
        from "btrfs-progs 0cf497719cf8: a parent that points to a leaf of another generation",
    /// A chain of attributes keeps the length it had.
    UsedKept = "E-33: attribute chain keeps its length"
        from "ext4: fix xattr shifting when expanding inodes (d0141191a202)",
    /// Of several ranges of a change only the first is logged.
    RangeOmitted = "E-34: changed range not logged"
        from "xfs: log local to remote symlink conversions correctly on v5 supers (b7cdc66be54b)",
    /// Pages in use are not taken from the free ones.
    UsedNotCounted = "E-35: free space not lowered"
        from "ext4: fix loss of delalloc extent info in ext4_zero_range (94426f4b9648): accounting of space in memory",
    /// An entry gets the key of another name.
    KeyWrong = "E-36: entry with a wrong hash"
        from "f2fs: fix to convert inline directory correctly (675f10bde6cc): entries where their hash does not lead",
    /// The bytes of a removed entry are not counted as dead.
    DeadNotCounted = "E-37: leaf's count of dead bytes not raised",
    /// chmod stores the permission bits alone.
    TypeDropped = "E-38: chmod drops the type of the file",
    /// Bytes behind the name of a new entry are what the buffer held.
    PaddingKept = "E-39: entry with garbage behind its name"
        from "ext4: zero out the unused memory region in the extent tree block (CVE-2019-11833)",
    /// The same, only where a split has just made room.
    SplitPaddingKept = "E-39: entry with garbage behind its name in a leaf that a split made"
        from "ext4: zero out the unused memory region in the extent tree block (CVE-2019-11833)",
    /// Page entries carry a version that the file does not have yet.
    VersionAhead = "E-40: page entry of a version to come",
    /// A split leaves the last slot of a new index empty.
    SlotLeft = "E-41: slot of a new index left empty"
        from "ext4: fix potential htree index checksum corruption (b5776e7524af): an index left unfinished by a split",
    /// Pages behind the end of the pool are handed out.
    BeyondEnd = "E-42: page behind the pool's end allocated"
        from "U-Boot ext4: After completely filled group, scan next group from the beginning (a9fa0ed183b7)",
    /// The auditor is not shown bits that changed.
    BitsUnseen = "hook: bits are not told to the auditor",
    /// The auditor is not shown counts that changed.
    CountersUnseen = "hook: counts are not told to the auditor",
    /// The auditor is not shown changes of directory leaves.
    LeavesUnseen = "hook: directory leaves are not told to the auditor",
    /// chmod stores into the frame without the door: no undo, no sum, no range for the log.
    PastTheDoor = "door: an inode is written past it",
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
