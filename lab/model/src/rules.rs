//! The rules that can be taken out, each with the clause of SPEC.md that it stands for.

use crate::instances::Kind;

/// What is known of a removal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expect {
    /// The search fails without it.
    Fails,
    /// It does not, because of what is told.
    Unseen(&'static str),
}

/// A rule as the table tells it.
pub struct Row {
    /// Which.
    pub rule: Rule,
    /// Its number; letters tell parts.
    pub id: &'static str,
    /// The clauses that name it.
    pub clauses: &'static [&'static str],
    /// In words.
    pub text: &'static str,
    /// Where its removal is searched.
    pub kind: Kind,
    /// What comes of it.
    pub expect: Expect,
    /// Others that are removed with it.
    pub with: &'static [Rule],
}

macro_rules! rules {
    ($($rule:ident $id:literal [$($clause:literal),*] $kind:ident $expect:expr, [$($with:ident),*] $text:literal;)*) => {
        /// A rule of the protocol.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Rule { $($rule),* }

        /// All rules.
        pub const ROWS: &[Row] = &[$(Row {
            rule: Rule::$rule, id: $id, clauses: &[$($clause),*], text: $text,
            kind: Kind::$kind, expect: $expect, with: &[$(Rule::$with),*],
        }),*];
    };
}

use Expect::{Fails, Unseen};

rules! {
    FlushOld "1" ["S-8.11", "S-10.6", "S-11.6"] Plain Fails, [] "a checkpoint flushes the group of its moment before others write groups";
    Quarantine "2" ["S-11.1", "S-11.7"] Plain Fails, [] "a freed page waits for the flush of the group with the free";
    YoungCut "3a" ["S-11.2", "S-11.7"] Plain Fails, [] "a page is young until its group is cut";
    YoungWrites "3b" ["S-11.2"] Plain Fails, [] "the old write of a young page has completed before the new one";
    FlushSuper "4a" ["S-10.2", "S-10.8", "S-11.7"] Plain Fails, [] "old home and quarantine wait for the flush behind the superblock";
    FullChain "5" ["S-10.7", "S-11.8"] Staged Fails, [] "carried pages continue the log only behind the group of the moment";
    RoomTwice "6" ["S-10.8", "S-11.9"] Room Fails, [] "the log keeps room for the carried group twice";
    Moment "7a" ["S-10.1", "S-10.6", "S-11.8"] Staged Fails, [] "the group of the moment has what is up to S, and nothing else";
    LostCarried "21" ["S-10.3", "S-11.8"] Lost Fails, [] "a staged page that is lost is carried over as lost";
    OldInOldLog "7b" ["S-10.1"] Staged Fails, [] "the new log begins behind the group of the moment";
    Carry "7c" ["S-10.3"] Staged Fails, [] "staged data up to S is carried before the first flush";
    FirstTouch "7d" ["S-10.1"] Plain Fails, [] "metadata that changes behind the moment is copied first";
    FlushPages "8a" ["S-10.2", "S-11.9"] Plain Fails, [] "flush before the superblock";
    TwoSlots "8b" ["S-10.2"] Plain Fails, [] "a superblock is never written over the one in force";
    FlushAfterGroup "9a" ["S-9.3"] Plain Fails, [] "the flush is issued after the group's write";
    FlushAfterData "9b" ["S-9.3", "S-11.7"] Plain Fails, [] "the flush is issued after all data writes";
    StampTrue "10a" ["S-8.2", "S-11.5"] Plain Fails, [] "a stamp tells only groups whose flush has returned";
    StampRead "10b" ["S-9.2"] Plain Fails, [] "recovery uses the greatest stamp";
    StampTorn "10c" ["S-9.2"] Wrong Fails, [] "the stamp of an incomplete group counts";
    DataChecked "10d" ["S-9.3"] Plain Fails, [] "the pages of groups beyond the stamp are checked";
    CheckedAtEnd "10e" ["S-9.3"] Plain Fails, [] "they are checked as the group names them at its end";
    UnreadTaken "10f" ["S-9.3"] Rotten Fails, [] "a group is taken though a page of it cannot be read";
    Life "11a" ["S-9.5", "S-16.18", "S-11.9"] Killed Fails, [LaterGroup] "recovery ends with a new incarnation, each try with one of its own";
    NewPlace "11b" ["S-9.5", "S-9.14"] Dropped Fails, [] "the new log begins behind all that was seen";
    LaterGroup "11d" ["S-9.14"] Dropped Fails, [] "a recovery that carries nothing begins one group later";
    RecoveryFlush "12a" ["S-9.5", "S-11.10"] Killed Fails, [] "recovery flushes before it writes";
    RecoverySuper "12b" ["S-9.5"] Killed Fails, [] "the first change waits for the flush of recovery's superblock";
    OwedQuarantine "12c" ["S-9.5"] Killed Fails, [] "what owed redo freed is not used by that checkpoint";
    JudgedQuarantine "12d" ["S-9.5", "S-11.9"] Wrong Fails, [] "recovery's checkpoint does not use what a group freed that no page tells as durable";
    ResumeJudges "13" ["S-9.9", "S-11.10"] Killed Fails, [] "a resume believes no group that its predecessor refused";
    Chain "14a" ["S-8.3", "S-11.8"] Staged Fails, [] "each page continues the sum of the one before";
    WholeGroups "14b" ["S-9.1"] Plain Fails, [] "a group without its last page is dropped";
    SharesCounted "15" ["S-9.3", "S-11.7"] Shares Fails, [] "a page that the group names more often than it raises its count was brought by it";
    LastName "15b" ["S-7.3"] Shares Fails, [] "a page is free when its last name goes";
    Numbers "16a" ["S-11.1", "S-11.7"] Nodes Unseen("a birth has another generation, and updates of an older one are skipped"), [] "a metablock number waits as a page does";
    OlderSkipped "16b" ["S-8.5"] Nodes Fails, [Numbers] "updates of an older generation are skipped";
    DiscardWaits "17a" ["S-11.1", "S-11.7"] Discard Fails, [] "a page is discarded only when it may be handed out";
    DiscardDone "17b" ["S-11.1"] Discard Fails, [] "a discard has completed before its page is written";
    OwedOnce "18" ["S-14.4", "S-11.10"] Killed Fails, [] "redo that the log has is not applied again";
    GivenUp "20" ["S-8.12", "S-11.8"] BadPage Fails, [] "behind a page that was given up no group goes before a superblock leads past it";
    ChainWithin "14c" ["S-8.3", "S-11.8"] PagesDropped Fails, [] "the pages of a group continue one another";
    EachOpening "11c" ["S-9.5", "S-11.9"] Pages Fails, [] "an opening begins a new life though no page was accepted";
    ChunkWaits "22a" ["S-4.7", "S-11.7"] Chunks Fails, [] "pages of a chunk that ends wait for the flush behind the superblock";
    ChunkOwn "22b" ["S-4.7", "S-11.7"] Chunks Fails, [] "a checkpoint ends no chunk that it has a page in";
    ChunkBefore "22c" ["S-4.7", "S-11.7"] Chunks Unseen("the flush behind the superblock, which its pages wait for, is also that of what has moved out of it"), [] "nor one that the checkpoint before has a page in";
    WholeChunk "22d" ["S-4.5", "S-11.7"] Chunks Fails, [] "a chunk is taken only if each of its pages may be handed out";
    HomesApart "23" ["S-10.2", "S-11.9"] Chunks Fails, [] "metadata is written to no page that the checkpoint before uses";
    LostKept "24a" ["S-16.19", "S-11.10"] Inodes Fails, [] "a number that is looked up is not given again once a resume has lost changes";
    NoteLives "24b" ["S-16.7", "S-11.10"] Inodes Fails, [] "the next resume has the note of a loss, though it loses nothing";
    InodesWait "24c" ["S-11.1", "S-11.7"] Inodes Fails, [] "an inode number waits as a page does";
    BytesForgotten "24d" ["S-16.20", "S-11.10"] Inodes Fails, [] "a resume that has lost changes tells the kernel to forget bytes and attributes";
    HeldStays "24e" ["S-16.7", "S-11.10"] Inodes Fails, [] "an inode that is looked up is not freed";
    OwedThere "25" ["S-16.19", "S-11.10"] Redo Fails, [] "of damaged redo the longest beginning is taken of which every page is there";
    LossProved "26" ["S-9.7", "S-11.8"] RottenLog Fails, [] "a log that ends before a page which tells of the group there is refused";
    ToldFar "29" ["S-8.15", "S-9.2", "S-9.27", "S-11.8"] RottenEnd Fails, [] "what is durable is told in a page far from the log's end, too";
    ToldBehind "30" ["S-9.2", "S-11.5"] Wrong Fails, [] "what pages behind the log's end tell as durable counts for the groups before it";
    AnewTells "31" ["S-9.2", "S-11.5"] WrongStaged Fails, [] "so does what a page tells that begins the log anew where it ends";
    Parity "27" ["S-9.11", "S-11.8"] RottenCarried Fails, [] "a bad page of the carried group is made again from the others";
    BadAlone "28a" ["S-9.10", "S-11.8"] RottenMeta Fails, [] "a metablock that cannot be read costs itself, and the rest of the log is taken";
    PassedOver "28b" ["S-9.10", "S-11.8"] RottenMeta Fails, [] "what the log has for it is passed over";
    LostForGood "28c" ["S-4.8", "S-9.10", "S-11.8"] RottenMeta Fails, [] "if the log had something for it, the checkpoint behind says that it is lost";
    OnlyChanged "28d" ["S-9.10"] RottenMeta Fails, [] "and says so only then";
    Fenced "28e" ["S-4.8", "S-9.10"] RottenMeta Fails, [] "what needs it gets an error";
    BitmapsTake "28f" ["S-9.10"] RottenMeta Fails, [] "bitmaps take what the log has of its pages";
    SharedRefused "28g" ["S-9.10"] RottenMeta Fails, [] "where a bitmap cannot be read the pool is refused for writing";
    StagedStays "28h" ["S-9.10", "S-10.3"] RottenMeta Fails, [] "staged data of its file is carried on";
    Taken "19" ["S-4.7", "S-11.7"] Plain Fails, [] "a page that a checkpoint took is nobody else's";
}

/// The rules in force.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules(u128);

impl Rules {
    /// All of them.
    pub const ALL: Rules = Rules(u128::MAX);

    /// Whether the rule holds.
    pub fn has(self, rule: Rule) -> bool {
        self.0 >> rule as u8 & 1 == 1
    }

    /// Without the rule.
    pub fn without(self, rule: Rule) -> Rules {
        Rules(self.0 & !(1 << rule as u8))
    }
}
