//! The equations: number, name, what stands on the two sides (SPEC section 17).

use core::fmt;
use core::str::FromStr;

macro_rules! equations {
    ($( $(#[doc = $doc:literal])* $name:ident = $number:literal, $word:literal, $clauses:literal, $left:literal, $right:literal; )*) => {
        /// An equation that every transaction must satisfy (S-17.4).
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
        #[repr(u8)]
        pub enum Equation {
            $( $(#[doc = $doc])* $name = $number, )*
        }

        impl Equation {
            /// All of them, by number.
            pub const ALL: &'static [Equation] = &[$( Equation::$name ),*];

            /// Its name for options and tables.
            pub fn word(self) -> &'static str {
                match self { $( Equation::$name => $word, )* }
            }

            /// The clauses of SPEC.md that it follows from.
            pub fn clauses(self) -> &'static str {
                match self { $( Equation::$name => $clauses, )* }
            }

            /// What stands on its left side.
            pub fn left(self) -> &'static str {
                match self { $( Equation::$name => $left, )* }
            }

            /// What stands on its right side.
            pub fn right(self) -> &'static str {
                match self { $( Equation::$name => $right, )* }
            }
        }
    };
}

equations! {
    /// WAFL: pointers against bitmap, allocations.
    PagesGained = 1, "pages-gained", "S-7.3", "pages that page entries gained", "bits set in PAGES and counts raised in SHARES";
    /// WAFL: pointers against bitmap, frees.
    PagesLost = 2, "pages-lost", "S-7.3", "pages that page entries lost", "bits cleared in PAGES and counts lowered in SHARES";
    /// WAFL: bitmap against the total of blocks.
    PagesTotal = 3, "pages-total", "S-7.5", "bits set in PAGES less those cleared", "what TOTALS counts more of pages in use";
    /// Bitmaps are rebuilt from the records.
    PagesAllocated = 4, "pages-allocated", "S-8.6", "bits set in PAGES", "pages of alloc records";
    /// The same for frees.
    PagesFreed = 5, "pages-freed", "S-8.6", "bits cleared in PAGES", "pages of free records";
    /// WAFL: reference counts against space saved.
    SharesTotal = 6, "shares-total", "S-7.5", "counts raised in SHARES less those lowered", "what TOTALS counts more of them";
    /// Counts are rebuilt from the records.
    SharesTold = 7, "shares-told", "S-8.6", "counts raised and lowered in SHARES", "ref records";
    /// WAFL: an inode's count of blocks against its pointers.
    InodePages = 8, "inode-pages", "S-5.2", "the field pages of inodes", "their page entries that are no holes";
    /// WAFL: states of inodes.
    InodeStates = 9, "inode-states", "S-5.1", "inodes that came to live or died", "bits of INODE_NUMBERS";
    /// WAFL: states of inodes against their total.
    InodesTotal = 10, "inodes-total", "S-7.5", "bits set in INODE_NUMBERS less those cleared", "what TOTALS counts more of inodes";
    /// Bitmaps are rebuilt from the records.
    InodesTold = 11, "inodes-told", "S-8.6", "bits of INODE_NUMBERS", "alloc and free records of inode numbers";
    /// WAFL: hidden inodes, those that come.
    Hidden = 12, "hidden", "S-5.6", "inodes that came to have no name", "inodes that ORPHANS has now";
    /// WAFL: hidden inodes, those that go.
    Unhidden = 13, "unhidden", "S-5.6", "inodes without a name that got one or ended", "bits cleared in ORPHANS";
    /// Bitmaps are rebuilt from the records.
    OrphansTold = 14, "orphans-told", "S-8.6", "bits of ORPHANS", "alloc and free records of orphans";
    /// Every node has one reference.
    NodeReferences = 15, "node-references", "S-7.1", "references to nodes gained and lost", "bits of NODE_NUMBERS";
    /// Bitmaps are rebuilt from the records.
    NodesTold = 16, "nodes-told", "S-8.6", "bits of NODE_NUMBERS", "birth and death records";
    /// The total of nodes.
    NodesTotal = 17, "nodes-total", "S-7.5", "bits set in NODE_NUMBERS less those cleared", "what TOTALS counts more of nodes";
    /// Entry counts of directories.
    DirEntries = 18, "dir-entries", "S-5.2", "the field entries of directories", "live entries in their leaves";
    /// Entry counts of leaves.
    LeafLive = 19, "leaf-live", "S-6.1", "the field live of leaves", "live entries in them";
    /// Link counts.
    Links = 20, "links", "S-5.6", "the field nlink of inodes (of a directory: whether it is named)", "entries that name them";
    /// Link counts of directories.
    Subdirectories = 21, "subdirectories", "S-5.6", "nlink of directories beyond 2", "entries of directories in them";
    /// Parents.
    Parents = 22, "parents", "S-5.2", "directories with the parent that they tell", "entries of directories with the directory they are in";
    /// Kinds of entries.
    Kinds = 23, "kinds", "S-6.6", "kinds of new entries", "kinds of the inodes that they name, which live";
    /// Link records.
    NamesTold = 24, "names-told", "S-8.5", "entries gained and lost", "link and unlink records";
    /// Names as operations tell them.
    NamesDone = 25, "names-done", "S-12.5", "entries gained and lost", "operations enter, leave, point, exchange";
    /// Create records.
    LivesTold = 26, "lives-told", "S-8.5", "inodes that came to live, with born", "create records";
    /// Generations never come again.
    Generations = 27, "generations", "S-5.5", "born and cur of inodes", "cur before, one more at a birth";
    /// Versions as operations count them.
    Versions = 28, "versions", "S-12.5", "the field cur of inodes", "operations that make a version";
    /// Map-entry records.
    EntriesTold = 29, "entries-told", "S-8.5", "pages and CRCs of new page entries", "map-entry records";
    /// File sizes against the last page.
    Sizes = 30, "sizes", "S-8.5", "ends of data that map-entry and tail records bring", "sizes of the files";
    /// Page counts as operations tell them.
    PagesDone = 31, "pages-done", "S-12.5", "page entries of inodes that are no holes", "operations map and clear";
    /// Generations of children.
    ChildGenerations = 32, "child-generations", "S-7.1", "generations in new entries of inner nodes", "generations of the nodes they name";
    /// Lengths of attribute lists.
    XattrLengths = 33, "xattr-lengths", "S-7.4", "bytes in the xattr area or chain", "total of the operations on attributes";
    /// What the log is cut from.
    RedoRanges = 34, "redo-ranges", "S-8.5", "bytes changed in INODES and NODES", "ranges of the update records";
    /// Free space as it is known in memory.
    PagesUsed = 35, "pages-used", "S-10.5", "bits set in PAGES", "pages that the space accounting takes as used";
    /// Keys of entries.
    Keys = 36, "keys", "S-6.3", "keys of new entries", "hashes of their names";
    /// Dead bytes of leaves.
    LeafDead = 37, "leaf-dead", "S-6.1", "the field dead of leaves", "bytes of dead entries in them";
    /// Fields of inodes, each inode alone.
    InodeFields = 38, "inode-fields", "S-5.1 to S-5.8", "fields of inodes", "what these clauses allow";
    /// Entries of directories, each alone.
    EntryFields = 39, "entry-fields", "S-6.2, S-6.6", "new directory entries", "what these clauses allow";
    /// Page entries and child entries, each alone.
    MapFields = 40, "map-fields", "S-7.1, S-7.2", "new page entries and child entries", "what these clauses allow";
    /// Heads of nodes and slots of indexes.
    NodeFields = 41, "node-fields", "S-3.2, S-6.1, S-6.4, S-7.4", "heads of nodes, slots of indexes", "what these clauses allow";
    /// Numbers that bitmaps and counts are of.
    Numbers = 42, "numbers", "S-2.4, S-2.7, S-5.1, S-7.5", "bits and counts that changed", "numbers that may be taken and freed";
}

/// A set of equations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Equations(u64);

impl Equations {
    /// None.
    pub const NONE: Equations = Equations(0);
    /// All.
    pub const ALL: Equations = Equations(((1 << Equation::ALL.len()) - 1) << 1);
    /// Local rules: not two sides, but what one structure alone must obey (S-17.7).
    pub const LOCAL: Equations = Equations::NONE
        .with(Equation::InodeFields)
        .with(Equation::EntryFields)
        .with(Equation::MapFields)
        .with(Equation::NodeFields)
        .with(Equation::Numbers);
    /// Those that hold for what a checkpoint allocates for metadata (S-4.5), which no record tells (S-17.5).
    pub const OF_CHECKPOINTS: Equations = Equations::NONE.with(Equation::PagesTotal).with(Equation::Numbers);

    /// With one more.
    #[must_use]
    pub const fn with(self, equation: Equation) -> Equations {
        Equations(self.0 | 1 << equation as u8)
    }

    /// With one less.
    #[must_use]
    pub const fn without(self, equation: Equation) -> Equations {
        Equations(self.0 & !(1 << equation as u8))
    }

    /// Those of both.
    #[must_use]
    pub const fn and(self, other: Equations) -> Equations {
        Equations(self.0 & other.0)
    }

    /// Whether it has this one.
    #[inline]
    pub const fn has(self, equation: Equation) -> bool {
        self.0 & 1 << equation as u8 != 0
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// In the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Equation> {
        let mut left = self.0;
        core::iter::from_fn(move || {
            let number = left.trailing_zeros();
            left &= left.wrapping_sub(1);
            // They are numbered from 1 on without a gap.
            Equation::ALL.get((number as usize).wrapping_sub(1)).copied()
        })
    }
}

impl Default for Equations {
    fn default() -> Equations {
        Equations::ALL
    }
}

/// How [`Equations`] begin that leave some out.
const WITHOUT: &str = "without";

/// `on`, `off`, or `without:NAME:NAME`. Errors: a sentence that names what is wrong.
impl FromStr for Equations {
    type Err = String;

    fn from_str(text: &str) -> Result<Equations, String> {
        match text {
            "on" => return Ok(Equations::ALL),
            "off" => return Ok(Equations::NONE),
            _ => {}
        }
        let mut words = text.split(':');
        if words.next() != Some(WITHOUT) {
            return Err(format!("{text:?} is neither on nor off nor {WITHOUT}:NAME:NAME"));
        }
        words.try_fold(Equations::ALL, |equations, word| {
            let found = Equation::ALL.iter().find(|e| e.word() == word);
            let equation = found.ok_or_else(|| format!("there is no audit equation {word:?}"))?;
            Ok(equations.without(*equation))
        })
    }
}

/// As [`Equations::from_str`] takes it.
impl fmt::Display for Equations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Equations::ALL => return f.write_str("on"),
            Equations::NONE => return f.write_str("off"),
            _ => {}
        }
        f.write_str(WITHOUT)?;
        let missing = Equation::ALL.iter().filter(|e| !self.has(**e));
        missing.into_iter().try_for_each(|e| write!(f, ":{}", e.word()))
    }
}
