//! The volume: a store with a root directory, its locks, lookup counts and clock.

use crate::create;
use crate::data::{Hidden, LostPages, PAGE_BYTES};
use crate::errors::{Result, Step, refuse, seen};
use crate::heal::KnownBad;
use crate::inode::{self, Held};
use crate::locks::Locks;
use crate::lookups::Lookups;
use crate::maintain::Worker;
use crate::orphan::Orphans;
use crate::owners::Searched;
use crate::paths::KnownPaths;
use crate::scrub::{ScrubOptions, Scrubber, Scrubs};
use keepfs_format::inode::{BODY_INLINE, Inode};
use keepfs_media::Device;
use keepfs_store::planted::{self, Point, Second};
use keepfs_store::{FormatOptions, Source, Store, StoreOptions, Txn, View};
use keepfs_vfs::{Attr, Entry, Errno, FileKind, Time};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::time::Duration;

/// Pages that a transaction may need.
const SOME: u64 = 256;

/// Tells the current time.
pub type Clock = Arc<dyn Fn() -> Time + Send + Sync>;

/// When reading stamps the access time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum AccessTimes {
    /// If it is not after the last modification or change, or older than a day.
    #[default]
    Relative,
    /// Never.
    Never,
    /// Always.
    Strict,
}

/// [`AccessTimes`] that may change while the volume is in use.
pub(crate) struct AccessTimesNow {
    of_files: AtomicU8,
    /// Whether those of directories stay.
    nodiratime: AtomicBool,
}

impl AccessTimesNow {
    fn new(times: AccessTimes, nodiratime: bool) -> AccessTimesNow {
        AccessTimesNow {
            of_files: AtomicU8::new(times as u8),
            nodiratime: AtomicBool::new(nodiratime),
        }
    }

    fn set(&self, times: AccessTimes, nodiratime: bool) {
        self.of_files.store(times as u8, Ordering::Relaxed);
        self.nodiratime.store(nodiratime, Ordering::Relaxed);
    }

    pub(crate) fn of(&self, kind: FileKind) -> AccessTimes {
        if kind == FileKind::Dir && self.nodiratime.load(Ordering::Relaxed) {
            return AccessTimes::Never;
        }
        let now = self.of_files.load(Ordering::Relaxed);
        let all = [AccessTimes::Relative, AccessTimes::Never, AccessTimes::Strict];
        all.into_iter().find(|times| *times as u8 == now).unwrap_or_default()
    }
}

/// How a volume is opened.
#[derive(Clone)]
pub struct VolumeOptions {
    /// How its store is opened.
    pub store: StoreOptions,
    /// When reading stamps the access time.
    pub access_times: AccessTimes,
    /// Reading a directory stamps nothing (S-20.17).
    pub nodiratime: bool,
    /// Whether threads commit and reclaim in the background. Without, everything happens inline, in an order that
    /// depends on the calls only (simulations).
    pub background: bool,
    /// How long a change may stay in memory only.
    pub commit_interval: Duration,
    /// Staged pages above which they are written out to pages of their own; `None`: what the store advises.
    pub staged_pages_max: Option<usize>,
    /// When scrubs begin by themselves; only with `background`.
    pub scrub: ScrubOptions,
    /// Servers before died by themselves, maybe of a request: one that was begun in two lives is answered `EIO` (S-16.2).
    pub blames_requests: bool,
    /// The clock that stamps inodes.
    pub clock: Clock,
}

impl Default for VolumeOptions {
    fn default() -> VolumeOptions {
        VolumeOptions {
            store: StoreOptions::default(),
            access_times: AccessTimes::default(),
            nodiratime: false,
            background: true,
            commit_interval: Duration::from_secs(5),
            staged_pages_max: None,
            scrub: ScrubOptions::default(),
            blames_requests: false,
            clock: Arc::new(system_time),
        }
    }
}

/// The time of the operating system.
fn system_time() -> Time {
    match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
        Ok(since) => Time {
            sec: since.as_secs() as i64,
            nsec: since.subsec_nanos(),
        },
        Err(_) => Time::default(),
    }
}

/// A mounted file system. It implements [`keepfs_vfs::Vfs`].
pub struct Volume {
    pub(crate) store: Arc<Store>,
    pub(crate) locks: Locks,
    pub(crate) lookups: Arc<Lookups>,
    pub(crate) orphans: Orphans,
    pub(crate) worker: Worker,
    pub(crate) lost: LostPages,
    pub(crate) known_bad: KnownBad,
    pub(crate) known_paths: KnownPaths,
    pub(crate) searched: Searched,
    pub(crate) hidden: Hidden,
    pub(crate) scrubs: Scrubs,
    pub(crate) scrubber: Scrubber,
    /// Key of the name hash (S-6.3).
    pub(crate) seed: [u64; 2],
    pub(crate) access_times: AccessTimesNow,
    pub(crate) background: bool,
    /// Whether changes may come; held by who makes it so.
    pub(crate) begun: Mutex<bool>,
    /// How often the worker commits.
    commit_interval: Duration,
    pub(crate) staged_pages_max: usize,
    pub(crate) blames_requests: bool,
    clock: Clock,
}

impl Volume {
    /// Makes an empty pool on `device`; the root directory is made when it is opened first.
    pub fn format(device: Arc<dyn Device>, options: &FormatOptions) -> Result<()> {
        Ok(Store::format(device, options)?)
    }

    /// Opens the pool on `device`: recovers, makes the root directory if it is new, and takes up the hidden list
    /// (S-5.6) where the last mount left it. Errors: those of the store.
    pub fn open(device: Arc<dyn Device>, options: &VolumeOptions) -> Result<Arc<Volume>> {
        Volume::over(Store::open(device, &options.store)?, options)
    }

    /// A volume over an open store.
    pub fn over(store: Arc<Store>, options: &VolumeOptions) -> Result<Arc<Volume>> {
        let lookups = Lookups::new(store.pool(), options.store.guard, options.store.seal)?;
        let volume = Volume::assembled(store, lookups, options);
        match volume.is_read_only() {
            true if volume.store.is_new() => {
                let what = "it has no root directory yet; mount it once for writing";
                return Err(keepfs_store::Error::BadPool(what.into()).into());
            }
            true => {}
            false => volume.begin_writing()?,
        }
        volume.start_scrubs();
        Ok(volume)
    }

    /// Scrubs begin by themselves, in the background.
    pub(crate) fn start_scrubs(self: &Arc<Volume>) {
        if self.background {
            self.start_scrubber();
        }
    }

    /// A volume over an open store, with what is held of it already; it takes no changes yet.
    pub(crate) fn assembled(store: Arc<Store>, lookups: Lookups, options: &VolumeOptions) -> Arc<Volume> {
        let read_only = store.is_read_only();
        let volume = Arc::new(Volume {
            seed: store.name_seed(),
            staged_pages_max: options.staged_pages_max.unwrap_or_else(|| store.staged_soft_limit()),
            store,
            locks: Locks::new(),
            lookups: Arc::new(lookups),
            orphans: Orphans::default(),
            worker: Worker::default(),
            lost: LostPages::default(),
            known_bad: KnownBad::default(),
            known_paths: KnownPaths::default(),
            searched: Searched::default(),
            hidden: Hidden::default(),
            scrubs: Scrubs::new(options.scrub),
            scrubber: Scrubber::default(),
            access_times: AccessTimesNow::new(
                match read_only {
                    true => AccessTimes::Never,
                    false => options.access_times,
                },
                options.nodiratime,
            ),
            background: options.background,
            commit_interval: options.commit_interval,
            begun: Mutex::default(),
            blames_requests: options.blames_requests,
            clock: options.clock.clone(),
        });
        let lookups = volume.lookups.clone();
        volume.store.when_staged_is_lost(move || lookups.note_lost_staged());
        volume
    }

    /// What happens before the first change: the root directory is made, the hidden list is taken up, the worker starts.
    fn begin(self: &Arc<Volume>) -> Result<()> {
        if self.store.is_new() {
            create::root(self)?;
        }
        self.take_up_orphans()?;
        if self.background {
            self.start_worker(self.commit_interval);
        }
        Ok(())
    }

    /// A volume that was opened read-only or rests takes changes from here on (`mount -o remount,rw`). Nothing happens if it
    /// does already. Errors: those of [`Store::begin_writing`], and of making the root of a new pool.
    pub fn begin_writing(self: &Arc<Volume>) -> Result<()> {
        let mut begun = self.begun.lock();
        if *begun && !self.is_read_only() {
            return Ok(());
        }
        let rests = *begun;
        self.store.begin_writing()?;
        if !*begun {
            self.begin()?;
            *begun = true;
        }
        if rests {
            // What was given back meanwhile.
            self.worker.wake_soon();
        }
        Ok(())
    }

    /// Nothing is written: the hidden list stays as it is, times are not kept.
    pub fn is_read_only(&self) -> bool {
        self.store.is_read_only()
    }

    /// The store below, for status and tests.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Changes when reading stamps the access time, with `nodiratime` never that of a directory (`mount -o remount`). Of a
    /// read-only volume it stays never.
    pub fn set_access_times(&self, times: AccessTimes, nodiratime: bool) {
        if !self.is_read_only() {
            self.access_times.set(times, nodiratime);
        }
    }

    /// The current time.
    pub(crate) fn now(&self) -> Time {
        (self.clock)()
    }

    /// Reads outside a transaction.
    pub(crate) fn see<T>(&self, f: impl FnOnce(&mut View<'_>) -> Step<T>) -> Result<T> {
        seen(f(&mut self.store.view()))
    }

    /// Runs a transaction; when space ran out, reclaims what is unlinked, makes frees durable, and tries once more
    /// (promise C-7). `f` may run several times.
    pub(crate) fn change<T>(&self, mut f: impl FnMut(&mut Txn<'_>) -> Step<T>) -> Result<T> {
        match self.store.transact(&mut f) {
            Err(error) if error.is_no_space() => {
                self.find_space(SOME)?;
                self.store.transact(f)
            }
            other => other,
        }
    }

    /// An inode that somebody may still use. Errors: `ESTALE` if it is free, or unlinked and held by nobody.
    pub(crate) fn usable(&self, source: &mut impl Source, ino: u64) -> Step<Inode> {
        let inode = inode::live(source, ino)?;
        if inode.nlink.get() == 0 && !self.lookups.held(ino) {
            return refuse(Errno::ESTALE);
        }
        Ok(inode)
    }

    /// An inode to change that somebody may still use. Errors: as [`Volume::usable`].
    pub(crate) fn hold(&self, txn: &mut Txn<'_>, ino: u64) -> Step<Held> {
        let held = Held::load(txn, ino)?;
        if held.now.nlink.get() == 0 && !self.lookups.held(ino) {
            return refuse(Errno::ESTALE);
        }
        Ok(held)
    }

    /// The attributes of an inode. Staged pages that have no page of their own yet count as allocated, so that nobody
    /// takes a small new file for a hole. What a pending hole hides is not allocated (S-5.8).
    pub(crate) fn attr_of(&self, ino: u64, inode: &Inode) -> Attr {
        let mut attr = inode::attr(ino, inode);
        let (mut pages, all) = (inode.pages.get(), inode.size.get().div_ceil(PAGE_BYTES));
        if inode.hole().is_some() {
            pages = pages.saturating_sub(self.hidden_pages(ino, inode));
            attr.blocks = inode::blocks(pages);
        }
        if pages < all && inode.body != BODY_INLINE {
            let staged = self.store.staged_pages(ino).len() as u64;
            attr.blocks = inode::blocks(pages.saturating_add(staged).min(all));
        }
        attr
    }

    /// The answer to a lookup; raises the lookup count. Called with the inode's or its parent's lock held.
    pub(crate) fn entry_of(&self, ino: u64, inode: &Inode) -> Entry {
        planted::step(Point::BeforeRaise);
        if !planted::forgets(Second::LookupAfterReply) {
            self.lookups.raise(ino);
        }
        planted::step(Point::BeforeNote);
        Entry {
            attr: self.attr_of(ino, inode),
        }
    }
}
