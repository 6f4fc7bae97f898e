//! The history on the device of a pool that nobody serves, in words: its tree is searched for paths (S-18.15).

use super::{Concerned, Damaged, Noticed, SEARCHED, standing};
use keepfs_check::Image;
use keepfs_check::read::View;
use keepfs_format::history::{Event, Lasting};
use keepfs_format::inode::DIR;
use keepfs_fs::names;
use led::Led;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

mod led;

/// A pool in an image that nobody serves.
pub struct OnDevice<'i> {
    image: &'i dyn Image,
    /// None: not opened yet, or it cannot be.
    view: Option<Option<View<'i>>>,
    led: Led,
}

impl<'i> OnDevice<'i> {
    pub fn new(image: &'i dyn Image) -> OnDevice<'i> {
        OnDevice {
            image,
            view: None,
            led: Led::default(),
        }
    }

    fn view(&mut self) -> Option<&mut View<'i>> {
        opened(self.image, &mut self.view)
    }

    /// Whether the path of an entry leads to what it is of. One that is cut does not.
    fn leads_to(&mut self, entry: &Lasting) -> bool {
        let is_whole = entry.path.starts_with(b"/");
        let found = opened(self.image, &mut self.view)
            .filter(|_| is_whole)
            .and_then(|view| self.led.to(&entry.path, |ino| view.list(ino).unwrap_or_default()));
        found == Some(entry.inode) && !entry.is_before(self.born(entry.inode))
    }

    /// The entries that are of what is damaged still.
    pub fn standing(&mut self, list: Vec<Lasting>) -> Vec<Lasting> {
        match self.view() {
            Some(view) => standing(view, list),
            None => list,
        }
    }

    /// Paths of inodes, for which the tree is searched for a second at most; directories that cannot be read are passed over.
    fn search(&mut self, wanted: &BTreeSet<u64>) -> BTreeMap<u64, Vec<u8>> {
        let Some(view) = self.view() else {
            return BTreeMap::new();
        };
        let list = |ino: u64, take: names::Take<'_>| {
            let mut entries = view.list(ino).unwrap_or_default().into_iter();
            let _ = entries.try_for_each(|entry| take(entry.ino, entry.kind == DIR, &entry.raw).then_some(()));
        };
        names::paths(wanted, Some(Instant::now() + SEARCHED), list).0
    }

    /// Entries in words.
    pub fn damaged(&mut self, list: Vec<Lasting>) -> Vec<Damaged> {
        let is_of_file = |entry: &Lasting| entry.inode != 0 && !entry.is_of_gone();
        let lead: Vec<bool> = list
            .iter()
            .map(|entry| !is_of_file(entry) || self.leads_to(entry))
            .collect();
        let mut lacking = BTreeSet::new();
        for (entry, _) in list.iter().zip(&lead).filter(|(_, leads)| !**leads) {
            if !entry.is_before(self.born(entry.inode)) {
                lacking.insert(entry.inode);
            }
        }
        let found = self.search(&lacking);
        let words = list.into_iter().zip(lead).map(|(mut entry, leads)| {
            let path = found.get(&entry.inode).filter(|_| !leads);
            let path = path.filter(|_| !entry.is_before(self.born(entry.inode)));
            let is_there = leads || path.is_some();
            path.into_iter().for_each(|path| entry.path.clone_from(path));
            Damaged::of(entry, is_there)
        });
        words.collect()
    }

    /// Events in words.
    pub fn noticed(&mut self, events: Vec<Event>, damage: &[Lasting]) -> Vec<Noticed> {
        let inodes: BTreeSet<u64> = events.iter().flat_map(|event| event.inodes(damage)).collect();
        let lives = inodes.into_iter().map(|inode| (inode, self.lives(inode, damage)));
        let mut known: BTreeMap<u64, Lives> = lives.collect();
        let lacking = known.iter().filter(|(_, lives)| !lives.is_there);
        let lacking: BTreeSet<u64> = lacking.map(|(inode, _)| *inode).collect();
        for (inode, path) in self.search(&lacking) {
            if let Some(lives) = known.get_mut(&inode) {
                (lives.path, lives.is_there) = (path, true);
            }
        }
        let in_words = |event: Event| {
            let inodes = event.inodes(damage);
            let is_one = inodes.len() == 1;
            let of_inode = |inode: u64| match known.get(&inode) {
                Some(lives) if lives.born > (event.seconds, event.nanoseconds) => {
                    Concerned::new(inode, &lives.earlier, false)
                }
                Some(lives) => Concerned::new(inode, &lives.path, lives.is_there),
                None => Concerned::new(inode, &[], false),
            };
            let files = inodes.into_iter().map(of_inode);
            let files = files.filter(|file| is_one || !(file.path.is_empty() && file.was.is_empty()));
            let files = files.collect();
            Noticed::of(event, files)
        };
        events.into_iter().map(in_words).collect()
    }

    /// The paths that the list of damages has for an inode.
    fn lives(&mut self, inode: u64, damage: &[Lasting]) -> Lives {
        let born = self.born(inode);
        let of_it = damage
            .iter()
            .filter(|entry| entry.inode == inode && !entry.is_of_gone());
        let (now, before): (Vec<&Lasting>, Vec<&Lasting>) = of_it
            .filter(|entry| !entry.path.is_empty())
            .partition(|entry| !entry.is_before(born));
        let path_of = |entry: Option<&&Lasting>| entry.map_or_else(Vec::new, |entry| entry.path.clone());
        let there = now.iter().find(|entry| self.leads_to(entry));
        Lives {
            born,
            is_there: there.is_some(),
            path: path_of(there.or(now.first())),
            earlier: path_of(before.last()),
        }
    }

    /// When what has a number now was made, seconds since 1970 and nanoseconds. What cannot be read is what is damaged, and was there.
    fn born(&mut self, ino: u64) -> (i64, u32) {
        let inode = self.view().and_then(|view| view.inode(ino).ok());
        inode.map_or((i64::MIN, 0), |inode| (inode.btime.get(), inode.btime_nsec.get()))
    }
}

fn opened<'v, 'i>(image: &'i dyn Image, view: &'v mut Option<Option<View<'i>>>) -> Option<&'v mut View<'i>> {
    view.get_or_insert_with(|| View::open(image).ok()).as_mut()
}

/// What the list of damages has for a number of inodes.
struct Lives {
    /// When what has it now was made.
    born: (i64, u32),
    /// A path of that; empty if none is known.
    path: Vec<u8>,
    /// Whether it leads there.
    is_there: bool,
    /// A path of what had the number before.
    earlier: Vec<u8>,
}
