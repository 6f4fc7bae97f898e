//! Transactions: open → sealed → committed, or rolled back exactly (S-14.3).
//!
//! Invariants:
//! T-1 A transaction never waits: no device I/O, no lock of unknown length. What is missing stops it with [`Stop`],
//!     it is rolled back (cheap), and run again when the thing is there.
//! T-2 What is read of a frame was verified in the copy that is used (S-15.19), its header at the first touch.
//! T-3 Every byte range stored belongs to this transaction alone until it is settled (S-13.4); shared bits commute.
//! T-4 seq is taken, and the redo copied, while the caller still holds all its locks.

mod audited;
mod changes;
mod claims;
mod diff;
mod encode;
mod publish;
mod ranges;
#[cfg(feature = "measure")]
pub mod recon;
mod records;
mod source;

pub(crate) use claims::Owned;
pub(crate) use ranges::Ranges;
pub use source::{Birth, Source, Stamp};

use crate::Store;
use crate::error::{Error, Pressure, Stop};
use crate::oplog::Draft;
use crate::requests::Running;
use keepfs_codes::identity::{Binding, Group};
use keepfs_digest::Fate;
use keepfs_flash::gate::{Closed, Inside};
use keepfs_flash::redo;
use keepfs_flash::staged::{Bases, Coming, Table};
use keepfs_format::metablock::HEADER;
use keepfs_format::oplog::{Action, Operation};
use keepfs_format::plog::Record;
use keepfs_format::{Kind, MetaId, PAGE, Space, inode};
use keepfs_frames::Pin;
use keepfs_frames::named::{check_header, kind_of};
use keepfs_frames::{FRAMES_MAX, Ref};
use keepfs_pool::protect;
use keepfs_vault::arena::{FrameNo, Line, is_within};
use keepfs_vault::planted::{self, Use};
use keepfs_vault::undo::{Lost, UndoSlot};
use keepfs_vault::update;
use records::Records;

/// Most frames one transaction may touch in a large arena, beside [`FRAMES_MAX`]: overwriting 1 MiB of a file whose old pages each lie with bitmap bit and reference count
/// in metablocks of their own.
const FRAMES_MAX_LARGE: usize = 640;

/// Most frames one transaction may touch in an arena of `frames`: an eighth, within bounds.
pub(crate) fn frames_max(frames: u32) -> usize {
    (frames as usize / 8).clamp(FRAMES_MAX, FRAMES_MAX_LARGE)
}

/// What a stored byte range means: who changes it (S-15.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meaning {
    /// Fields of an inode.
    Inode,
    /// A directory entry.
    Dirent,
    /// Structure of a directory.
    DirNode,
    /// A page entry.
    MapEntry,
    /// Structure of a block map.
    MapNode,
    /// Extended attributes.
    Xattr,
}

impl Meaning {
    /// The group of callers that changes such bytes (S-15.5).
    pub(crate) fn group(self) -> Group {
        match self {
            Meaning::Inode => Group::Inode,
            Meaning::Dirent | Meaning::DirNode => Group::Directory,
            Meaning::MapEntry | Meaning::MapNode => Group::Map,
            Meaning::Xattr => Group::Xattr,
        }
    }
}

/// The device page under a page that is staged for the first time.
#[derive(Clone, Copy)]
pub struct Base<'a> {
    /// Its number; 0 of one that nothing was written to yet.
    pub page: u64,
    /// Its CRC-32C.
    pub crc: u32,
    /// Its bytes, checked.
    pub content: &'a [u8; PAGE],
}

impl Base<'_> {
    /// The file has a page there, unwritten: its bytes are zeros, and what is staged needs no other page (S-20.4).
    pub const UNWRITTEN: Base<'static> = Base {
        page: 0,
        crc: 0,
        content: &[0; PAGE],
    };
}

/// One frame in a transaction.
struct Touched<'s> {
    r: Ref,
    pin: Pin<'s>,
    binding: Binding,
    birth: Birth,
    /// Ranges stored, merged, ascending; only of spaces that are logged as ranges.
    ranges: Ranges,
    written: bool,
    /// Whether it begins or ends with the transaction.
    fate: Fate,
}

impl Touched<'_> {
    fn is_born(&self) -> bool {
        matches!(self.fate, Fate::Born | Fate::Passes)
    }

    fn dies(&self) -> bool {
        matches!(self.fate, Fate::Dies | Fate::Passes)
    }
}

/// An open transaction. Dropped without [`Txn::seal`] and commit, it is rolled back.
pub struct Txn<'s> {
    store: &'s Store,
    undo: UndoSlot<'s>,
    touched: Vec<Touched<'s>>,
    records: Records,
    bases: Bases,
    staged_here: Vec<(u64, u64)>,
    taken: Vec<(Space, u64)>,
    freed: Vec<(Space, u64)>,
    pages_used: u64,
    /// What its stripe of TOTALS gets more, at the seal; what it got.
    totals: [i64; 4],
    totalled: [i64; 4],
    /// Nodes that the accounting of space was told of as they were made.
    grown: u64,
    /// Bits in PAGES that wait to be cleared: number of the byte's first page, mask.
    free_bits: Option<(u64, u8)>,
    promised: u64,
    /// Room for staged pages, taken for the commit.
    coming: Coming,
    /// Pages whose counts it owns.
    owned: Vec<u64>,
    /// For the operation log, if it is kept (S-12.1).
    draft: Option<Draft>,
    /// Whether records are kept: not for the checkpoint's own changes, which the superblock carries.
    logged: bool,
    /// Metadata may grow into the reserve.
    claim: bool,
    /// It stops where no more may wait for a checkpoint (S-10.5).
    bounded: bool,
    /// It does what this request shall, whose reply names that inode or 0 (S-16.2).
    answers: Option<(Running, u64)>,
    done: bool,
    /// For audits in the style of Recon.
    #[cfg(feature = "measure")]
    copies: recon::Copies,
    gate: Option<Inside<'s>>,
}

/// A transaction whose audits balanced and whose redo has its room; only this can be committed.
pub struct Sealed<'s> {
    txn: Txn<'s>,
    /// `None`: it leaves no redo.
    redo: Option<redo::Encoded<'s>>,
}

impl<'s> Txn<'s> {
    pub(crate) fn begin(store: &'s Store) -> Txn<'s> {
        Txn::start(store, Some(store.txns.gate.enter(&store.ground.stats.gate)), true)
    }

    /// More than may wait for a checkpoint is changed by this transaction alone: it is let through.
    pub(crate) fn unbounded(mut self) -> Txn<'s> {
        self.bounded = false;
        self
    }

    /// A transaction of a checkpoint, which holds the gate alone.
    pub(crate) fn begin_alone(store: &'s Store, _shut: &Closed<'_>) -> Txn<'s> {
        Txn::start(store, None, true)
    }

    /// A transaction of the checkpoint itself, which holds the gate alone; it leaves no redo.
    pub(crate) fn begin_unlogged(store: &'s Store) -> Txn<'s> {
        Txn::start(store, None, false)
    }

    fn start(store: &'s Store, gate: Option<Inside<'s>>, logged: bool) -> Txn<'s> {
        Txn {
            store,
            undo: store.frames.undo.open(),
            touched: Vec::with_capacity(8),
            records: Records::new(),
            bases: Bases::default(),
            staged_here: Vec::new(),
            taken: Vec::new(),
            freed: Vec::new(),
            pages_used: 0,
            totals: [0; 4],
            totalled: [0; 4],
            grown: 0,
            free_bits: None,
            promised: 0,
            coming: Coming::default(),
            owned: Vec::new(),
            draft: (logged && store.watch.oplog.is_some()).then(Draft::new),
            logged,
            claim: false,
            bounded: gate.is_some(),
            answers: None,
            done: false,
            #[cfg(feature = "measure")]
            copies: recon::Copies::default(),
            gate,
        }
    }

    /// Pins the frame at the first touch and checks whose it is (T-2).
    fn touch(&mut self, r: Ref) -> Result<usize, Stop> {
        if self.store.txns.gate.hurries() && self.gate.is_some() {
            return Err(Stop::Pressure(Pressure::Barrier));
        }
        if let Some(i) = self.touched.iter().position(|t| t.r.id == r.id) {
            if self.touched[i].r != r {
                return Err(Error::Logic(format!("{} used as two things in one transaction", r.id)).into());
            }
            return Ok(i);
        }
        let (pin, binding) = (self.pin(r.id)?, self.store.binding(r));
        let birth = match r.kind {
            // Each line says whose it is, which has no owner, and no range of it is logged.
            Kind::Bitmap | Kind::Shares | Kind::Totals => Birth::default(),
            _ => Birth::told_by(&self.store.header_of(&pin, r, binding)?),
        };
        Ok(self.hold(r, pin, (binding, birth, Fate::Stays)))
    }

    fn pin(&self, id: MetaId) -> Result<Pin<'s>, Stop> {
        if self.touched.len() >= self.store.txns.frames_max {
            return Err(Error::TooLarge.into());
        }
        self.store.frames.cache.pin(id).ok_or(Stop::Miss(id))
    }

    fn hold(&mut self, r: Ref, pin: Pin<'s>, (binding, birth, fate): (Binding, Birth, Fate)) -> usize {
        self.touched.push(Touched {
            r,
            pin,
            binding,
            birth,
            ranges: Ranges::of(r.id, birth.generation),
            written: false,
            fate,
        });
        self.touched.len() - 1
    }

    /// The line of metablock `i` that has the byte at `offset`, verified (T-2), into `line`.
    #[inline]
    #[cfg_attr(feature = "planted", track_caller)]
    fn line(&self, i: usize, offset: usize, line: &mut Line) -> Result<(), Stop> {
        let t = &self.touched[i];
        Ok(self.store.line(&t.pin, t.binding, offset, line)?)
    }

    /// First write of this transaction to a frame: a checkpoint in progress gets its copy first.
    fn write(&mut self, i: usize) -> Result<FrameNo, Stop> {
        let t = &mut self.touched[i];
        if !t.written {
            self.store
                .home
                .first_write(&self.store.frames, t.r.id, &t.pin, self.bounded)?;
            t.written = true;
            #[cfg(feature = "measure")]
            if self.store.ground.options.recon {
                self.copies.keep(&self.store.frames.arena, t.pin.frame);
            }
        }
        Ok(t.pin.frame)
    }

    fn mark(&mut self, i: usize, offset: usize, len: usize) {
        self.touched[i].ranges.insert(offset as u16, (offset + len) as u16);
    }

    /// Stores `new` at `offset`, behind the header.
    pub fn put(&mut self, r: Ref, offset: usize, new: &[u8], meaning: Meaning) -> Result<(), Stop> {
        if new.is_empty() {
            return Ok(());
        }
        let (i, frame) = self.about_to_put(r, offset, new.len())?;
        let group = self.caller(r, meaning)?;
        self.put_bytes(i, (group, frame), offset, new)?;
        self.mark(i, offset, new.len());
        Ok(())
    }

    /// Through the door, line by line.
    fn put_bytes(&mut self, i: usize, who: (Group, FrameNo), offset: usize, new: &[u8]) -> Result<(), Stop> {
        let (store, t) = (self.store, &self.touched[i]);
        update::put_all(&store.frames.arena, &mut self.undo, who, (offset, new), |at, line| {
            let _blind = planted::blind(Use::OldUnverified);
            Ok(store.line(&t.pin, t.binding, at, line)?)
        })
    }

    /// Who changes bytes of this meaning. Errors: `Logic`, it is not the group whose metablock it is: nothing is changed, and the
    /// transaction will be rolled back (S-15.5).
    fn caller(&self, r: Ref, meaning: Meaning) -> Result<Group, Stop> {
        let group = planted::caller(meaning.group());
        match group == protect::group(r.kind) {
            true => Ok(group),
            false => Err(self
                .store
                .ground
                .events
                .tell_foreign(r.id, group, protect::group(r.kind))
                .into()),
        }
    }

    fn about_to_put(&mut self, r: Ref, offset: usize, len: usize) -> Result<(usize, FrameNo), Stop> {
        if offset < HEADER || !is_within(offset, len) {
            return Err(Error::Logic(format!("a write of {len} bytes at {offset} leaves {}", r.id)).into());
        }
        let i = self.touch(r)?;
        let held = self.touched[i].pin.slot().id();
        if held != r.id {
            return Err(Error::Logic(format!("the frame of {} holds {held}", r.id)).into());
        }
        if r.kind == Kind::Inodes {
            self.keep_earlier(i, inode::at(r.id, offset))?;
        }
        Ok((i, self.write(i)?))
    }

    /// With this transaction the request ([`Store::begin_request`]) has done what it shall, if it changes anything; its reply
    /// names inode `ino`, or 0 (S-16.2).
    pub fn answers(&mut self, running: Option<Running>, ino: u64) {
        self.answers = running.map(|running| (running, ino));
    }

    /// A typed record (S-8.5): create, link, unlink, truncate, map-entry.
    pub fn note(&mut self, record: Record) {
        self.records.push(record);
    }

    /// An operation of this transaction on inode `object`, for the operation log (SPEC section 12).
    pub fn op(&mut self, object: u64, action: Action<'_>) -> Result<(), Stop> {
        if self.draft.is_none() {
            return Ok(());
        }
        let i = self.touch(Ref::inode_block(object))?;
        self.keep_earlier(i, object)?;
        let operation = Operation { object, action };
        if self.draft.as_mut().is_some_and(|draft| !draft.push(&operation)) {
            return Err(Error::Logic("an operation is too long for the operation log".into()).into());
        }
        Ok(())
    }

    /// Before the first operation on an inode and the first change of it: its earlier state (S-12.4).
    fn keep_earlier(&mut self, i: usize, object: u64) -> Result<(), Stop> {
        let Some(draft) = &mut self.draft else { return Ok(()) };
        if draft.knows(object) {
            return Ok(());
        }
        let (store, t) = (self.store, &self.touched[i]);
        Ok(draft.keep(object, |inode| {
            store.read(&t.pin, t.binding, inode::offset_of(object), inode)
        })?)
    }

    /// Ends the open part: the audit equations must balance (SPEC section 17), and there must be room for
    /// redo and staged pages (S-14.13, S-14.7), so that nothing can fail from the state word on.
    pub fn seal(mut self) -> Result<Sealed<'s>, Stop> {
        self.catch_up()?;
        let redo = match self.is_empty() {
            false => {
                #[cfg(feature = "measure")]
                self.copies.compare(&self.store.frames.arena);
                self.judge_and_encode()?
            }
            true => None,
        };
        if self.records.iter().any(Table::concerns) {
            self.store
                .home
                .about_to_stage(&self.store.frames, None, &self.records)?;
            let coming = self.store.home.staged().table.lock().expect(&self.records);
            self.coming = coming.map_err(|room| Stop::Pressure(Pressure::Staged(room)))?;
            self.make_ahead()?;
        }
        Ok(Sealed { txn: self, redo })
    }

    fn is_empty(&self) -> bool {
        self.undo.is_empty() && self.records.is_empty()
    }

    fn rollback(&mut self) {
        let (store, touched) = (self.store, &self.touched);
        let held = |frame| touched.iter().find(|t| t.pin.frame == frame).map(|t| t.binding);
        let group = |frame| held(frame).unwrap_or_else(|| store.frames.arena.binding(frame)).group;
        let lost = update::take_all_back(&store.frames.arena, &mut self.undo, group);
        if !lost.is_empty() {
            self.bring_back(&lost);
        }
        for t in self.touched.extract_if(.., |t| t.is_born()) {
            self.store.frames.cache.remove(t.r.id, t.pin);
        }
        for (space, number) in core::mem::take(&mut self.taken).into_iter().rev() {
            self.store.alloc.numbers(space).put_back(number);
        }
        for (space, number) in core::mem::take(&mut self.freed) {
            self.store.alloc.numbers(space).not_freed(number);
        }
        self.store.alloc.space.promise_back(self.promised);
        self.store.alloc.space.nodes_went(self.grown);
    }
}

impl Txn<'_> {
    /// Some records did not read back, all others are taken back: brings back the frames that they were about (S-13.13).
    #[cold]
    fn bring_back(&self, lost: &[Lost]) {
        // Whoever asks for a witness now is told of none of these changes.
        self.undo.taken_back(0);
        let mut frames: Vec<FrameNo> = lost.iter().map(|lost| lost.frame).collect();
        frames.sort_unstable();
        frames.dedup();
        for frame in frames {
            let of_frame = lost.iter().filter(|lost| lost.frame == frame);
            let delta = of_frame.fold(0, |all, lost| all ^ lost.delta);
            match self.touched.iter().find(|t| t.pin.frame == frame) {
                // It goes with the transaction.
                Some(t) if t.is_born() => {}
                Some(t) => self
                    .store
                    .home
                    .bring_back(&self.store.frames, &t.pin, delta, &self.undo),
                None => {
                    self.store.ground.fail(changes::not_held(frame));
                }
            }
        }
    }
}

impl Drop for Txn<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.rollback();
        }
        if !self.coming.is_nothing() {
            self.store
                .home
                .staged()
                .table
                .lock()
                .give_up(core::mem::take(&mut self.coming));
        }
        if !self.owned.is_empty() {
            self.store.txns.owned.lock().done(&self.owned);
        }
    }
}

impl Source for Txn<'_> {
    #[cfg_attr(feature = "planted", track_caller)]
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop> {
        if !is_within(offset, buf.len()) {
            return Err(Error::Logic(format!("a read at {offset} leaves {}", r.id)).into());
        }
        let i = self.touch(r)?;
        let t = &self.touched[i];
        Ok(self.store.read(&t.pin, t.binding, offset, buf)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn whole(&mut self, r: Ref, copy: &mut [u8; PAGE]) -> Result<(), Stop> {
        let i = self.touch(r)?;
        let t = &self.touched[i];
        Ok(self.store.whole(&t.pin, t.binding, copy)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn node(&mut self, id: MetaId, owner: u64) -> Result<Ref, Stop> {
        if let Some(t) = self.touched.iter().find(|t| t.r.id == id) {
            let r = Ref::node(id, t.r.kind, owner);
            return self.touch(r).map(|_| r);
        }
        let pin = self.pin(id)?;
        let header = self.store.header_in_frame(&pin)?;
        let r = Ref::node(id, kind_of(id, &header)?, owner);
        check_header(&header, r, self.store.ground.pool.tag)?;
        self.hold(r, pin, (self.store.binding(r), Birth::told_by(&header), Fate::Stays));
        Ok(r)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn birth(&mut self, r: Ref) -> Result<Birth, Stop> {
        let i = self.touch(r)?;
        let t = &self.touched[i];
        if t.dies() {
            let what = format!("{} is named a second time: it was freed where it was named first", r.id);
            return Err(Error::Damaged(what).into());
        }
        Ok(t.birth)
    }

    fn stamp(&mut self, r: Ref) -> Result<Stamp, Stop> {
        let i = self.touch(r)?;
        let frame = self.touched[i].pin.frame;
        Ok(Stamp(frame, self.store.frames.arena.quiet_version(frame)))
    }
}

impl Sealed<'_> {
    /// Commits; returns the transaction's number, 0 if it changed nothing. From the state word on it is done.
    pub fn commit(self) -> u64 {
        let mut txn = self.txn;
        txn.done = true;
        if txn.is_empty() {
            return 0;
        }
        let seq = txn.publish(self.redo);
        txn.settle(seq);
        seq
    }
}

#[cfg(test)]
mod tests;
