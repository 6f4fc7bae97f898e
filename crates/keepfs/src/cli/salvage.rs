//! `keepfs salvage`: copies out of a pool what can be read, however damaged it is, and says what is missing (S-21.1, S-21.13).

mod place;
mod report;

use super::args::Salvage;
use super::progress::watched;
use keepfs_check::read::{DIRECTORY, DirEntry, Part, View};
use keepfs_format::PAGE;
use keepfs_format::inode::Inode;
use keepfs_server::image::DeviceImage;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome};
use place::{Made, Place};
use report::{Missing, Report, What};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Everything was copied.
const WHOLE: u8 = 0;
/// Something is damaged, missing, or could not be kept.
const PARTLY: u8 = 3;
/// The root directory.
const ROOT: u64 = 1;
/// Where goes what no name leads to.
const LOST_AND_FOUND: &str = "lost+found";
/// mode >> 12.
const FILE: u32 = 0o10;
const SYMLINK: u32 = 0o12;

/// Copies and tells.
pub fn run(args: &Salvage) -> Outcome {
    let image = patiently(&args.pool, || DeviceImage::open(&args.pool))?;
    let top = Place::top(&args.dir)?;
    let failed = |source| Failure::Read {
        path: args.pool.clone(),
        source,
    };
    let report = watched(&image, "salvaging", args.json, || {
        let view = View::salvage(&image).map_err(failed)?;
        let mut salvage = Copier::new(view);
        salvage.all(top)?;
        Ok::<Report, Failure>(salvage.report)
    })?;
    report.tell(args)?;
    Ok(if report.is_whole() { WHOLE } else { PARTLY })
}

/// A directory under way.
struct Frame {
    ino: u64,
    place: Place,
    left: std::vec::IntoIter<DirEntry>,
}

struct Copier<'i> {
    view: View<'i>,
    report: Report,
    /// Inodes that have been copied, or met and found bad.
    met: BTreeSet<u64>,
    /// Where the first name of an inode with several is, below the top.
    first_names: BTreeMap<u64, PathBuf>,
    /// Directories whose inodes cannot be read, once one was met.
    headless: Option<BTreeSet<u64>>,
}

impl<'i> Copier<'i> {
    fn new(view: View<'i>) -> Self {
        Copier {
            view,
            report: Report::default(),
            met: BTreeSet::new(),
            first_names: BTreeMap::new(),
            headless: None,
        }
    }

    fn headless(&mut self) -> &BTreeSet<u64> {
        if self.headless.is_none() {
            self.headless = Some(self.view.headless().into_iter().collect());
        }
        self.headless.get_or_insert_default()
    }

    fn all(&mut self, top: Place) -> Result<(), Failure> {
        let (numbers, bad_blocks) = self.view.inodes();
        self.report.unreadable_inode_blocks = bad_blocks;
        self.report.losses = self.view.losses().to_vec();
        self.report.may_be_older = self.view.may_be_older();
        self.report.is_carried_lost = self.view.is_carried_lost();
        self.report.findings = self.view.findings().iter().map(ToString::to_string).collect();
        let shelf = top.reopened()?;
        self.tree(&shelf, ROOT, top)?;
        self.nameless(&numbers, &shelf)
    }

    /// Copies what is left of the inodes, by number, to lost+found: directories first, from the uppermost on.
    fn nameless(&mut self, numbers: &[u64], top: &Place) -> Result<(), Failure> {
        let mut left: Vec<u64> = numbers.iter().copied().filter(|ino| self.is_left(*ino)).collect();
        let (mut directories, files): (Vec<u64>, Vec<u64>) = left.drain(..).partition(|ino| self.is_directory(*ino));
        // Whether some inodes are unreadable is known; only then every node is read.
        if self.report.unreadable_inode_blocks > 0 {
            let headless = self.headless().clone();
            directories.extend(headless.into_iter().filter(|ino| !self.met.contains(ino)));
        }
        let mut named = BTreeSet::new();
        for ino in &directories {
            let entries = self.view.entries(*ino).entries;
            named.extend(entries.iter().map(|entry| entry.ino).filter(|child| child != ino));
        }
        // A ring of directories has no uppermost one: who is left over is taken in the order of numbers.
        let (below, above): (Vec<u64>, Vec<u64>) = directories.into_iter().partition(|ino| named.contains(ino));
        let mut shelf = None;
        for ino in above.into_iter().chain(below).chain(files) {
            if self.met.contains(&ino) {
                continue;
            }
            let shelf = match &mut shelf {
                Some(shelf) => shelf,
                none => none.insert(top.shelf(LOST_AND_FOUND)?),
            };
            self.report.nameless_dir = Some(shelf.path.to_string_lossy().into_owned());
            self.report.nameless += 1;
            let name = OsString::from(format!("#{ino}"));
            if self.view.is_unproved(ino) {
                self.report.damaged(What::Removed, &shelf.path.join(&name), ino);
            }
            if let Some(place) = self.entry(shelf, &name, ino, top)? {
                self.tree(top, ino, place)?;
            }
        }
        Ok(())
    }

    fn is_left(&mut self, ino: u64) -> bool {
        // An inode without a link was removed, and waits for its pages to be freed.
        let is_linked = |inode: Inode| inode.nlink.get() > 0;
        !self.met.contains(&ino) && self.view.readable(ino).is_some_and(is_linked)
    }

    fn is_directory(&mut self, ino: u64) -> bool {
        let inode = self.view.readable(ino);
        inode.is_some_and(|inode| inode.mode.get() >> 12 == u32::from(DIRECTORY))
    }

    /// Copies directory `ino`, whose place has been made, and all below it.
    fn tree(&mut self, top: &Place, ino: u64, place: Place) -> Result<(), Failure> {
        let mut stack = vec![self.open(ino, place)];
        while let Some(frame) = stack.last_mut() {
            let Some(entry) = frame.left.next() else {
                if let Some(frame) = stack.pop() {
                    self.close(&frame)?;
                }
                continue;
            };
            let name = OsString::from_vec(entry.raw);
            let below = self.entry(&frame.place, &name, entry.ino, top)?;
            if let Some(place) = below {
                let frame = self.open(entry.ino, place);
                stack.push(frame);
            }
        }
        Ok(())
    }

    fn open(&mut self, ino: u64, place: Place) -> Frame {
        self.met.insert(ino);
        let listing = self.view.entries(ino);
        let is_there = ino != ROOT || self.view.readable(ino).is_some();
        if !listing.is_whole || !is_there {
            self.report.damaged(What::Entries, &place.path, ino);
        } else if self.view.is_older(ino) {
            self.report.damaged(What::Older, &place.path, ino);
        }
        Frame {
            ino,
            place,
            left: listing.entries.into_iter(),
        }
    }

    /// What a directory itself is, when all in it stands: its times are those it had.
    fn close(&mut self, frame: &Frame) -> Result<(), Failure> {
        self.report.directories += 1;
        match self.view.readable(frame.ino) {
            Some(inode) => self.attributes(&frame.place, ".".as_ref(), frame.ino, &inode),
            None => Ok(()),
        }
    }

    /// Copies what `name` in `place` leads to. If it is a directory, its place, which is still empty.
    fn entry(&mut self, place: &Place, name: &OsString, ino: u64, top: &Place) -> Result<Option<Place>, Failure> {
        let path = place.path.join(name);
        let is_known = self.met.contains(&ino);
        if let Some(first) = self.first_names.get(&ino) {
            if place.link(top, first, name)? {
                self.report.links += 1;
                return Ok(None);
            }
        } else if is_known {
            // A second name of a directory, or of what could not be copied under its first.
            self.report.damaged(What::Name, &path, ino);
            return Ok(None);
        }
        let Some(inode) = self.view.readable(ino) else {
            if self.headless().contains(&ino) {
                return self.directory(place, name, ino);
            }
            self.met.insert(ino);
            self.report.damaged(What::Inode, &path, ino);
            return Ok(None);
        };
        self.met.insert(ino);
        let is_made = match inode.mode.get() >> 12 {
            kind if kind == u32::from(DIRECTORY) => return self.directory(place, name, ino),
            FILE => self.file(place, name, ino, &inode)?,
            SYMLINK => self.symlink(place, name, ino, &inode)?,
            _ => self.special(place, name, ino, &inode)?,
        };
        if is_made {
            if self.view.is_older(ino) {
                self.report.damaged(What::Older, &path, ino);
            }
            self.attributes(place, name, ino, &inode)?;
            if inode.nlink.get() > 1 {
                self.first_names.insert(ino, path);
            }
        }
        Ok(None)
    }

    fn directory(&mut self, place: &Place, name: &OsString, ino: u64) -> Result<Option<Place>, Failure> {
        self.met.insert(ino);
        let made = place.directory(name)?;
        if made.is_none() {
            self.report.damaged(What::Name, &place.path.join(name), ino);
        }
        Ok(made)
    }

    fn file(&mut self, place: &Place, name: &OsString, ino: u64, inode: &Inode) -> Result<bool, Failure> {
        let path = place.path.join(name);
        let size = inode.size.get();
        let file = match place.file(name, size)? {
            Made::File(file) => file,
            Made::Taken => {
                self.report.damaged(What::Name, &path, ino);
                return Ok(false);
            }
            Made::TooLarge => {
                self.report.damaged(What::Size, &path, ino);
                return Ok(false);
            }
        };
        let mut missing = Missing::default();
        let (mut bytes, mut failure) = (0, None);
        self.view.each_page(ino, &mut |index, part| match part {
            Part::Bad(count) => missing.add(index, count, size),
            Part::Data(_) if failure.is_some() => {}
            Part::Data(page) => {
                let at = index.saturating_mul(PAGE as u64);
                let used = size.saturating_sub(at).min(PAGE as u64) as usize;
                bytes += used as u64;
                failure = file.write(&page[..used], at).err();
            }
        });
        failure.map_or(Ok(()), Err)?;
        self.report.files += 1;
        self.report.bytes += bytes;
        if !missing.is_empty() {
            self.report.missing(&path, ino, missing);
        }
        Ok(true)
    }

    fn symlink(&mut self, place: &Place, name: &OsString, ino: u64, inode: &Inode) -> Result<bool, Failure> {
        let size = inode.size.get().min(PAGE as u64) as usize;
        let (mut target, mut is_whole) = (vec![0; PAGE], true);
        self.view.each_page(ino, &mut |index, part| match part {
            Part::Data(page) if index == 0 => target.copy_from_slice(page),
            _ => is_whole = false,
        });
        target.truncate(size);
        if !is_whole || target.is_empty() || target.contains(&0) || !place.symlink(name, &target)? {
            self.report.damaged(What::Target, &place.path.join(name), ino);
            return Ok(false);
        }
        self.report.symlinks += 1;
        Ok(true)
    }

    fn special(&mut self, place: &Place, name: &OsString, ino: u64, inode: &Inode) -> Result<bool, Failure> {
        if !place.special(name, inode.mode.get(), inode.rdev.get())? {
            self.report.damaged(What::Special, &place.path.join(name), ino);
            return Ok(false);
        }
        self.report.others += 1;
        Ok(true)
    }

    fn attributes(&mut self, place: &Place, name: &std::ffi::OsStr, ino: u64, inode: &Inode) -> Result<(), Failure> {
        let path: &Path = &place.path.join(name);
        let list = self.view.xattrs(ino);
        if list.is_err() {
            self.report.damaged(What::Attributes, path, ino);
        }
        place.dress(name, inode, &list.unwrap_or_default(), &mut self.report.not_kept);
        Ok(())
    }
}
