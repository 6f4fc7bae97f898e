//! One bad page, everywhere: each page of a pool after a crash is changed, zeroed or made unreadable, one at a time, before a mount, a
//! read-only mount, a takeover, a checkpoint or a scrub. What the offline walk says lies there is EIO, all else is as it was.
//!
//! The same for spots of 8 KiB to 1 MiB (S-4.9): of two copies of metadata such a spot takes one, so every file is read but for the data
//! in it. The log is in one place: a spot in it may cost what the log alone has, and never in silence.

use keepfs_check::{Finding, Options, Report, walk};
use keepfs_format::plog::{MAGIC, PAYLOAD_OFFSET, PageHead};
use keepfs_format::superblock::{self, Superblock};
use keepfs_format::{FromBytes, MetaId, Space};
use keepfs_fs::{FormatOptions, Remains, ScrubState, StoreOptions, Volume, VolumeOptions, Wish};
use keepfs_media::{Class, Device, PageNo};
use keepfs_store::Guard;
use keepfs_testkit::image::Image;
use keepfs_testkit::sim::{Faults, SimDevice};
use keepfs_vfs::{Direct, Entry, Errno, Ino, NewInode, Vfs, WriteHow};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const PAGE: usize = 4096;

/// When a page turns bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Before {
    /// A mount.
    Mount,
    /// A mount that writes nothing.
    ReadOnly,
    /// A server that takes a dead one's place.
    Resume,
    /// A checkpoint of a mounted pool.
    Checkpoint,
    /// A scrub of a mounted pool.
    Scrub,
}

impl Before {
    /// All of them.
    pub const ALL: [Before; 5] = [
        Before::Mount,
        Before::ReadOnly,
        Before::Resume,
        Before::Checkpoint,
        Before::Scrub,
    ];
}

/// How a page is bad.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bad {
    /// One bit of it is flipped, another one for each number and page.
    Flipped(u64),
    /// Some bytes of it are others.
    Changed,
    /// Its second half is something else.
    Half,
    /// Zeros.
    Zeroed,
    /// It cannot be read.
    Unreadable,
}

impl Bad {
    /// All of them.
    pub const ALL: [Bad; 5] = [Bad::Flipped(0), Bad::Changed, Bad::Half, Bad::Zeroed, Bad::Unreadable];

    fn spoil(self, device: &SimDevice, spot: &Spot) -> Result<(), String> {
        if self == Bad::Unreadable {
            device.set_faults(spot.pages().fold(Faults::none(), Faults::unreadable));
            return Ok(());
        }
        spot.pages().try_for_each(|page| self.spoil_page(device, page))
    }

    fn spoil_page(self, device: &SimDevice, page: PageNo) -> Result<(), String> {
        let mut content = [0; PAGE];
        device.read(page, &mut content).map_err(|e| e.to_string())?;
        match self {
            Bad::Flipped(nth) => {
                let bit = (page.0 * 7919 + nth * 12_289) as usize % (8 * PAGE);
                content[bit / 8] ^= 1 << (bit % 8);
            }
            Bad::Changed => [100, 2000, 4000].into_iter().for_each(|at| content[at] ^= 0x24),
            Bad::Half => content[PAGE / 2..].copy_from_slice(&bytes(0xB5, PAGE / 2)),
            Bad::Zeroed => content.fill(0),
            Bad::Unreadable => return Err("such a page is not written".into()),
        }
        device.write(page, &content, Class::Data).map_err(|e| e.to_string())
    }
}

/// Pages side by side that turn bad together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Spot {
    /// The first.
    pub first: PageNo,
    /// How many.
    pub count: u64,
}

impl Spot {
    fn pages(&self) -> impl Iterator<Item = PageNo> {
        (self.first.0..self.first.0 + self.count).map(PageNo)
    }

    fn has(&self, page: u64) -> bool {
        (self.first.0..self.first.0 + self.count).contains(&page)
    }
}

/// Names of files, with inode and bytes.
type Tree = BTreeMap<String, (Ino, Vec<u8>)>;

/// A pool as a crash left it, and what its files held at each sync.
pub struct Subject {
    image: Image,
    synced: Vec<Tree>,
    copies: u32,
}

/// What was seen.
#[derive(Default, Debug)]
pub struct Tally {
    /// Pages, kinds and moments tried.
    pub tried: u64,
    /// Of them by what lay there, and how it went.
    pub outcomes: BTreeMap<(&'static str, &'static str), u64>,
    /// What must not be.
    pub violations: Vec<String>,
}

struct Seen<'d>(&'d dyn Device);

impl keepfs_check::Image for Seen<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; PAGE]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

fn options(read_only: bool, lasting: bool) -> VolumeOptions {
    VolumeOptions {
        store: StoreOptions {
            background: false,
            guard: Guard::Off,
            arena_bytes: 16 << 20,
            read_only,
            lasting,
            ..StoreOptions::default()
        },
        background: false,
        ..VolumeOptions::default()
    }
}

fn put(volume: &Volume, tree: &mut Tree, name: &str, offset: usize, bytes: &[u8]) -> Result<(), Errno> {
    if !tree.contains_key(name) {
        let Entry { attr } = volume.mknod(Ino::ROOT, name.as_bytes(), &NewInode::by_root(0o100_644))?;
        volume.forget(attr.ino, 1);
        tree.insert(name.into(), (attr.ino, Vec::new()));
    }
    let (ino, content) = tree.get_mut(name).ok_or(Errno::ENOENT)?;
    volume.write(*ino, offset as u64, bytes, WriteHow::default())?;
    content.resize(content.len().max(offset + bytes.len()), 0);
    content[offset..offset + bytes.len()].copy_from_slice(bytes);
    Ok(())
}

/// Bytes that differ from page to page.
fn bytes(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|at| seed ^ (at / PAGE) as u8 ^ (at % 251) as u8).collect()
}

impl Subject {
    /// Checkpointed data and metadata, staged pages with and without a base, groups beyond the checkpoint, the last of them
    /// with data of its own.
    pub fn new(copies: u32, pages: u64) -> Result<Subject, String> {
        let device = Arc::new(SimDevice::new(pages));
        let format = FormatOptions {
            meta_copies: copies,
            ..FormatOptions::default()
        };
        Volume::format(device.clone(), &format).map_err(|e| e.to_string())?;
        let volume = Volume::open(device.clone(), &options(false, false)).map_err(|e| e.to_string())?;
        let mut synced = Vec::new();
        Subject::fill(&volume, &mut synced).map_err(|errno| format!("the pool cannot be filled: {errno}"))?;
        Ok(Subject {
            image: device.power_cut(0),
            synced,
            copies,
        })
    }

    fn fill(volume: &Volume, synced: &mut Vec<Tree>) -> Result<(), Errno> {
        let mut tree = Tree::new();
        for n in 0..20 {
            put(
                volume,
                &mut tree,
                &format!("small-{n}"),
                0,
                &bytes(n, 40 * usize::from(n)),
            )?;
        }
        put(volume, &mut tree, "large", 0, &bytes(7, 40 * PAGE))?;
        put(volume, &mut tree, "based", 0, &bytes(9, 4 * PAGE))?;
        volume.settle().map_err(Errno::from)?;
        // What is left where the staged pages that a checkpoint carried over are lost.
        synced.push(tree.clone());
        put(volume, &mut tree, "based", 100, b"staged before the checkpoint")?;
        volume.store().checkpoint().map_err(|_| Errno::EIO)?;
        let mut sync = |tree: &Tree| volume.syncfs().map(|()| synced.push(tree.clone()));
        sync(&tree)?;
        put(volume, &mut tree, "based", 5000, b"staged over a base")?;
        sync(&tree)?;
        put(volume, &mut tree, "new", 0, &bytes(11, 9000))?;
        sync(&tree)?;
        put(volume, &mut tree, "large", 8 * PAGE, &bytes(13, 5 * PAGE))?;
        put(volume, &mut tree, "last", 0, &bytes(17, 3 * PAGE))?;
        sync(&tree)
    }

    /// Spots of `count` pages worth trying, each at a multiple of its length: of pages that nobody ever wrote every 32nd.
    pub fn spots(&self, count: u64) -> Vec<Spot> {
        let is_worth = |page: PageNo| self.image.get(page).is_some() || page.0.is_multiple_of(32);
        let all = (0..self.image.pages() / count).map(|nth| Spot {
            first: PageNo(nth * count),
            count,
        });
        all.filter(|spot| spot.pages().any(is_worth)).collect()
    }

    /// Makes one spot bad before one moment, and judges what comes of it.
    pub fn attempt(&self, spot: Spot, bad: Bad, before: Before, tally: &mut Tally) {
        tally.tried += 1;
        let said = match self.judge(&spot, bad, before) {
            Ok((what, outcome)) => return *tally.outcomes.entry((what, outcome)).or_default() += 1,
            Err(said) => said,
        };
        let (copies, Spot { first, count }) = (self.copies, spot);
        tally.violations.push(format!(
            "copies {copies}, {count} pages from {} {bad:?}, before {before:?}: {said}",
            first.0
        ));
    }

    fn judge(&self, spot: &Spot, bad_page: Bad, before: Before) -> Result<(&'static str, &'static str), String> {
        let device = Arc::new(SimDevice::over(self.image.clone()));
        let damage = |device: &SimDevice| -> Result<(Report, bool), String> {
            // A flipped bit of the log is undone (S-9.24).
            let must_be_gone = match bad_page {
                Bad::Flipped(_) => Some(false),
                _ => is_told_of(&device.image(), spot)?,
            };
            bad_page.spoil(device, spot)?;
            let report = walk(
                &Seen(device),
                &Options {
                    data: true,
                    limit: 1000,
                },
            );
            let is_gone = report.findings.iter().any(|f| matches!(f, Finding::LogGone { .. }));
            if spot.count > 1 && self.copies == 2 && loses_metadata(&report) {
                return Err(format!("metadata is lost: {:?}", report.findings));
            }
            match must_be_gone.is_none_or(|must_be_gone| is_gone == must_be_gone) {
                true => Ok((report, must_be_gone.is_none())),
                false => Err(format!("the walk says {is_gone} of groups that are gone")),
            }
        };
        let open = |read_only, lasting| Volume::open(device.clone(), &options(read_only, lasting));
        let (volume, (report, is_log_torn), again) = match before {
            Before::Mount | Before::ReadOnly => {
                let report = damage(&device)?;
                (open(before == Before::ReadOnly, false), report, true)
            }
            Before::Resume => {
                let volume = open(false, true).map_err(|e| format!("the sound pool: {e}"))?;
                let memory: Remains = volume.remains().map_err(|e| e.to_string())?;
                volume.store().kill();
                drop(volume);
                let report = damage(&device)?;
                let resumed = Volume::resume(device.clone(), &options(false, true), memory);
                (resumed.map(|(volume, _)| volume), report, true)
            }
            Before::Checkpoint | Before::Scrub => {
                let volume = open(false, false).map_err(|e| format!("the sound pool: {e}"))?;
                let report = damage(&device)?;
                let done = match before {
                    Before::Checkpoint => volume.store().checkpoint().map_err(|e| e.to_string()),
                    _ => scrub(&volume),
                };
                if let Err(error) = done {
                    return refused(&report.0, &error);
                }
                (Ok(volume), report, false)
            }
        };
        if is_log_torn && again {
            return self.judge_torn_log(&device, volume, &report);
        }
        let is_gone = report.findings.iter().any(|f| matches!(f, Finding::LogGone { .. }));
        if before == Before::ReadOnly
            && let Err(error) = &volume
            && !has_no_superblock(&report)
        {
            return Err(format!("not even to be read: {error}"));
        }
        let volume = match volume {
            Ok(_) if is_gone && before == Before::Mount => {
                return Err("groups that were synced are gone in silence".into());
            }
            Ok(volume) => volume,
            Err(error) => {
                let error = error.to_string();
                return match error.contains("-o ro") || has_no_superblock(&report) {
                    true => refused(&report, &error),
                    false => Err(format!("refused without a word how to go on: {error}")),
                };
            }
        };
        let bad = self.compare(&volume, &report, again && self.may_end_early(spot, bad_page, &report))?;
        let told = volume.store().history();
        let is_told = |ino: &u64| told.damage().iter().any(|entry| entry.inode == *ino);
        if let Some(ino) = bad.iter().map(|(ino, _)| ino).find(|ino| !is_told(ino)) {
            return Err(format!("nothing is told of inode {ino}"));
        }
        let log_is_bad = again && is_about_log(&report);
        if log_is_bad && !told.events(0).iter().any(|event| event.place == 6) {
            return Err("nothing is told of the log".into());
        }
        if before == Before::Mount && bad_is_passing(bad_page, &report) {
            // What was read as lost stays so when its page can be read again: what the log had for it is gone.
            let healed = Arc::new(SimDevice::over(device.power_cut(0)));
            let healed = Volume::open(healed, &options(false, false)).map_err(|e| format!("healed: {e}"))?;
            self.compare(&healed, &report, false)
                .map_err(|why| format!("healed: {why}"))?;
        }
        if before != Before::ReadOnly {
            let mut none = Tree::new();
            let wrote = put(&volume, &mut none, "after", 0, &bytes(3, 9000)).and_then(|()| volume.syncfs());
            match wrote {
                Ok(()) => {}
                Err(_) if loses_metadata(&report) => return Ok((what(&report), "read, not written")),
                Err(errno) => return Err(format!("nothing can be written: {errno}")),
            }
        }
        Ok((
            what(&report),
            if bad.is_empty() { "whole" } else { "EIO for its pages" },
        ))
    }

    /// More than one page of the log is bad, which is in one place: what it alone had may be lost, and never in silence.
    fn judge_torn_log(
        &self,
        device: &Arc<SimDevice>,
        volume: Result<Arc<Volume>, keepfs_fs::Error>,
        report: &Report,
    ) -> Result<(&'static str, &'static str), String> {
        match volume {
            Ok(volume) => {
                if self.compare(&volume, report, false).is_ok() {
                    return Ok(("much of the log", "whole"));
                }
                self.compare_pages(&volume)?;
                match volume.store().history().events(0).iter().any(|event| event.place == 6) {
                    true => Ok(("much of the log", "older, and told")),
                    false => Err("what the log had is gone in silence".into()),
                }
            }
            Err(error) if error.to_string().contains("cut-log") => {
                let mut cut = options(true, false);
                cut.store.cut_log = true;
                let volume =
                    Volume::open(device.clone(), &cut).map_err(|error| format!("cut, it is refused: {error}"))?;
                self.compare_pages(&volume)?;
                Ok(("much of the log", "refused, cut: older"))
            }
            Err(error) => Err(format!("refused: {error}")),
        }
    }

    /// Every page of every file is what it held at some sync, or nothing yet, or EIO.
    fn compare_pages(&self, volume: &Volume) -> Result<(), String> {
        let last = self.synced.last().ok_or("nothing was synced")?;
        for (name, (ino, content)) in last {
            match volume.lookup(Ino::ROOT, name.as_bytes()) {
                Ok(entry) => volume.forget(entry.attr.ino, 1),
                Err(Errno::ENOENT) if !self.synced[0].contains_key(name) => continue,
                Err(errno) => return Err(format!("{name}: {errno}")),
            }
            for (index, page) in content.chunks(PAGE).enumerate() {
                let mut found = vec![0; page.len()];
                if volume.read(*ino, (index * PAGE) as u64, &mut found).is_err() {
                    continue;
                }
                let had = |tree: &Tree| {
                    let page = tree.get(name).and_then(|(_, content)| content.chunks(PAGE).nth(index));
                    page.is_some_and(|page| {
                        found.starts_with(page) && found[page.len()..].iter().all(|byte| *byte == 0)
                    })
                };
                if !self.synced.iter().any(had) && found.iter().any(|byte| *byte != 0) {
                    return Err(format!("page {index} of {name} has bytes that it never had at a sync"));
                }
            }
        }
        Ok(())
    }

    /// Whether the end of the log may be taken for a write that did not arrive.
    fn may_end_early(&self, spot: &Spot, bad: Bad, report: &Report) -> bool {
        let ends = |f: &Finding| matches!(f, Finding::LogData { .. } | Finding::LogTorn { .. });
        if report.findings.iter().any(is_log_mended) {
            return false;
        }
        if matches!(bad, Bad::Flipped(_)) {
            return report.findings.iter().any(ends);
        }
        let is_log = |page| {
            let page = self.image.get(page);
            page.is_some_and(|page| page.bytes().starts_with(b"KPLG"))
        };
        spot.pages().any(is_log) || is_about_log(report) || report.findings.iter().any(ends)
    }

    /// Compares all files with one of the syncs, the last unless the log may end early. Returns the pages that are EIO.
    fn compare(&self, volume: &Volume, report: &Report, early: bool) -> Result<BTreeSet<(u64, u64)>, String> {
        let mut said = String::new();
        for tree in self.synced.iter().rev().take(if early { self.synced.len() } else { 1 }) {
            match compare(volume, tree, report) {
                Ok(bad) => return Ok(bad),
                Err(why) if said.is_empty() => said = why,
                Err(_) => {}
            }
        }
        Err(said)
    }
}

/// Whether a later page of the log tells that the group of a page in the spot had been flushed, by what a sound image has. `None`: more
/// than one page of the log is in it, which may be taken together for its end.
fn is_told_of(image: &Image, spot: &Spot) -> Result<Option<bool>, String> {
    let slots = (0..superblock::SLOTS).map(|slot| superblock::slot_page(slot, image.pages()));
    let read = |page| Superblock::read_from_bytes(image.bytes(PageNo(page))).ok();
    let newest = slots.filter_map(read).max_by_key(|sb| sb.generation.get());
    let newest = newest.ok_or("the sound pool has no superblock")?;
    let log = newest.log_start.get()..newest.log_start.get() + newest.log_pages.get();
    let head = |page: u64| {
        let bytes = &image.bytes(PageNo(page))[..PAYLOAD_OFFSET];
        let head = PageHead::read_from_bytes(bytes).ok()?;
        (head.magic.get() == MAGIC && head.sequence.get() >= newest.log_seq.get()).then_some(head)
    };
    let mut hit = log.clone().filter(|page| spot.has(*page)).filter_map(head);
    let Some(bad) = hit.next() else {
        return Ok(Some(false));
    };
    if hit.next().is_some() {
        return Ok(None);
    }
    let (sequence, group) = (bad.sequence.get(), bad.group.get());
    if group == newest.group.get() && newest.durable.get() >= group && bad.seq.get() == newest.seq.get() {
        // Of the carried group one bad page is made again (S-9.11).
        return Ok(Some(false));
    }
    let tells = |page| head(page).is_some_and(|h| h.sequence.get() > sequence && h.durable.get() >= group);
    Ok(Some(newest.durable.get() >= group || log.into_iter().any(tells)))
}

fn scrub(volume: &Volume) -> Result<(), String> {
    let whole = Wish {
        arena: true,
        rest: true,
        ..Wish::default()
    };
    volume.scrub_start(whole).map_err(|e| format!("{e:?}"))?;
    for _ in 0..10_000 {
        if volume.scrub_record().state == ScrubState::Finished {
            return Ok(());
        }
        volume.scrub_turn();
    }
    Err("the scrub does not end".into())
}

/// Every page of every file: what it held, or EIO if the walk says that its page is bad.
fn compare(volume: &Volume, tree: &Tree, report: &Report) -> Result<BTreeSet<(u64, u64)>, String> {
    let named: BTreeSet<(u64, u64)> = report
        .findings
        .iter()
        .filter_map(|finding| match finding {
            Finding::DataBad { ino, index, .. } | Finding::DataLost { ino, index } => Some((*ino, *index)),
            _ => None,
        })
        .collect();
    let lenient = loses_metadata(report);
    let mut bad = BTreeSet::new();
    for (name, (ino, content)) in tree {
        let found = volume.lookup(Ino::ROOT, name.as_bytes()).map(|Entry { attr }| {
            volume.forget(attr.ino, 1);
            (attr.ino, attr.size)
        });
        match found {
            Ok(found) if found == (*ino, content.len() as u64) => {}
            Err(Errno::EIO) if lenient => continue,
            other => return Err(format!("{name} is {other:?}")),
        }
        for (index, right) in content.chunks(PAGE).enumerate() {
            let mut page = vec![0; right.len()];
            let place = (ino.0, index as u64);
            match volume.read(*ino, (index * PAGE) as u64, &mut page) {
                Ok(_) if page == right => {}
                Err(Errno::EIO) if named.contains(&place) => drop(bad.insert(place)),
                Err(Errno::EIO) if lenient => {}
                Ok(_) => return Err(format!("page {index} of {name} has other bytes")),
                Err(errno) => return Err(format!("page {index} of {name}: {errno}")),
            }
        }
    }
    Ok(bad)
}

/// Whether a page of the log is bad, and is read as it was written.
fn is_log_mended(finding: &Finding) -> bool {
    matches!(finding, Finding::LogMended { .. } | Finding::LogFlipped { .. })
}

fn is_about_log(report: &Report) -> bool {
    let of_log = |f: &Finding| matches!(f, Finding::LogGone { .. } | Finding::LogUnreadable { .. }) || is_log_mended(f);
    report.findings.iter().any(of_log)
}

/// Whether the only copy of some metadata is bad.
fn loses_metadata(report: &Report) -> bool {
    let lost = |f: &Finding| matches!(f, Finding::Metablock { .. } | Finding::MetaLost { .. });
    report.findings.iter().any(lost)
}

fn has_no_superblock(report: &Report) -> bool {
    report.findings.iter().any(|f| matches!(f, Finding::NoSuperblock {}))
}

/// Whether it is a metablock of one owner that is bad until its page can be read again (S-9.10).
fn bad_is_passing(bad: Bad, report: &Report) -> bool {
    bad == Bad::Unreadable && loses_metadata(report) && !loses_what_all_share(report)
}

/// Whether the only copy of something is bad that nobody writes without.
fn loses_what_all_share(report: &Report) -> bool {
    let is_owned = |id: &MetaId| matches!(id.space(), Some(Space::Nodes | Space::Inodes)) && id.as_map().is_none();
    let shared = |f: &Finding| matches!(f, Finding::Metablock { id, .. } if !is_owned(&id.0));
    report.findings.iter().any(shared)
}

/// A pool that was refused: right only where the walk says that what all share, or synced groups are gone.
fn refused(report: &Report, error: &str) -> Result<(&'static str, &'static str), String> {
    let gone = |f: &Finding| matches!(f, Finding::LogGone { .. } | Finding::NoSuperblock {});
    match loses_what_all_share(report) || report.findings.iter().any(gone) {
        true => Ok((what(report), "refused")),
        false => Err(format!("refused: {error}; the walk: {:?}", report.findings)),
    }
}

/// What lies in the page, by what the walk says.
fn what(report: &Report) -> &'static str {
    let is = |wanted: fn(&Finding) -> bool| report.findings.iter().any(wanted);
    match () {
        () if loses_metadata(report) => "only copy of metadata",
        () if is(|f| matches!(f, Finding::LogGone { .. })) => "log, and later ones",
        () if is(|f| matches!(f, Finding::LogMended { .. })) => "log, staged pages carried over",
        () if is(|f| matches!(f, Finding::LogFlipped { .. })) => "log, a bit flipped",
        () if is(|f| matches!(f, Finding::LogUnreadable { .. })) => "end of the log",
        () if is(|f| matches!(f, Finding::LogData { .. })) => "data of the last group",
        () if is(|f| matches!(f, Finding::DataBad { .. })) => "data",
        () if is(|f| matches!(f, Finding::MetaCopy { .. })) => "copy of metadata",
        () if is(|f| matches!(f, Finding::SuperblockCopy { .. })) => "copy of the superblock",
        () if is(|f| matches!(f, Finding::SuperblockFlipped { .. })) => "superblock, a bit flipped",
        () => "nothing that is used",
    }
}
