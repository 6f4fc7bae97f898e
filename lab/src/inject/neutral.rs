//! Bar M-23 (WAFL 2017, section 7.4): injections that leave every checksum right. Made through the door with wrong values,
//! the equations of the transaction must refuse them; solved for and written past the door, no sum and no scrub can see them,
//! and it is counted how far each came.

use super::Dice;
use super::fault::Regions;
use super::lines::Served;
use super::mount::Mount;
use super::solve::Neutral;
use super::subject::failed;
use keepfs_codes::Protection;
use keepfs_format::bitmap::TOTALS;
use keepfs_format::inode::{block_of, offset_of as slot_of};
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_media::{Device, PageNo};
use keepfs_vfs::{Ino, NewInode, SetAttr, Vfs, WriteHow};
use std::collections::BTreeMap;

/// Codes that are tried: with more parity fewer changes are neutral, and all of those are of these, too.
const CODES: [Protection; 3] = [Protection::Crc, Protection::Pcrc, Protection::Pq];
/// Bytes of a line.
const LINE: usize = 64;

/// What a solved-for injection hits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Target {
    Totals,
    Pages,
    Numbers,
    Inode,
}

impl Target {
    const ALL: [Target; 4] = [Target::Totals, Target::Pages, Target::Numbers, Target::Inode];

    fn word(self) -> &'static str {
        match self {
            Target::Totals => "totals",
            Target::Pages => "bitmap of pages",
            Target::Numbers => "bitmap of inode numbers",
            Target::Inode => "inode",
        }
    }

    /// The metablock, and a byte that means something.
    fn place(self, ino: u64) -> (MetaId, usize) {
        match self {
            Target::Totals => (TOTALS, keepfs_format::bitmap::TOTAL_PAGES),
            Target::Pages => (MetaId::new(Space::Pages, 0), 200),
            Target::Numbers => (MetaId::new(Space::InodeNumbers, 0), 40),
            Target::Inode => (block_of(ino), slot_of(ino) + 16),
        }
    }
}

/// How far one came.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Fate {
    /// A transaction that met it was refused.
    Refused,
    /// The checkpoint was refused: no superblock has it.
    Stopped,
    /// The frame was clean: its home was read again, and nothing was written.
    Gone,
    /// A superblock has it.
    Reached,
}

/// Bytes around `at` in its line and in others, so that parity can be made to agree.
fn window(at: usize) -> Vec<usize> {
    let line = at / LINE;
    let columns = (at % LINE / 32 * 32..at % LINE / 32 * 32 + 32).collect::<Vec<_>>();
    let lines = (0..4).map(|n| (line + n * 5) % (PAGE / LINE));
    lines
        .flat_map(|line| columns.iter().map(move |c| line * LINE + c))
        .collect()
}

/// One solved-for injection: how far it came, and whether a walk over the pool (`keepfs check`) finds something then; `busy`: into a frame that was changed since the last checkpoint, with transactions and a
/// checkpoint behind it; else into a clean one that nobody writes to. `None`: there is no such change.
fn solved(code: Protection, target: Target, busy: bool, dice: &mut Dice) -> Result<Option<(Fate, bool)>, String> {
    let mount = Mount::new(code)?;
    let (ino, is_dir) = *dice.one_of(&mount.inodes);
    let (id, at) = target.place(ino);
    if busy {
        work(&mount, ino, is_dir, "before").map_err(failed)?;
    }
    let store = mount.store();
    let place = store.structure(id, false).map_err(failed)?;
    let regions = Regions::find(code).map_err(failed)?;
    let right = regions.frame(place.frame).map_err(failed)?;
    let mut wrong = right;
    if !Neutral::within(code, &window(at)).apply(&mut wrong, dice) {
        return Ok(None);
    }
    regions.change(place.frame, &right, &wrong).map_err(failed)?;
    if store.scrub_frame(place.frame).bad != 0 {
        return Err(format!("{code}: what was solved for {id} is not neutral"));
    }
    if !busy {
        store.drop_clean_frames();
    }
    let refused = busy && (work(&mount, ino, is_dir, "after").is_err() || !store.unbalanced().is_empty());
    let stopped = mount.volume.settle().is_err() || store.fault().is_some();
    let at_rest = content_at_rest(&mount, id)?;
    let is_there = (0..PAGE).any(|at| wrong[at] != right[at] && at_rest[at] == wrong[at]);
    let fate = match (stopped, is_there, refused) {
        (true, ..) => Fate::Stopped,
        (_, true, _) => Fate::Reached,
        (_, _, true) => Fate::Refused,
        _ => Fate::Gone,
    };
    let walked = keepfs_audit::walk(&Image(&*mount.device), &keepfs_audit::Options { data: true, limit: 1 });
    Ok(Some((fate, !walked.findings.is_empty())))
}

/// Legal changes that meet every target.
fn work(mount: &Mount, ino: u64, is_dir: bool, name: &str) -> keepfs_vfs::Result<()> {
    let mode = SetAttr {
        mode: Some(0o700),
        ..SetAttr::default()
    };
    mount.volume.setattr(Ino(ino), &mode)?;
    let new = NewInode::by_root(keepfs_vfs::FileKind::File.type_bits() | 0o644);
    let made = mount.volume.mknod(Ino::ROOT, name.as_bytes(), &new)?.attr.ino;
    for ino in [Ino(ino), made] {
        if ino == made || !is_dir {
            mount
                .volume
                .write(ino, 6 * PAGE as u64, &[7; 3 * PAGE], WriteHow::default())?;
        }
    }
    mount.volume.syncfs()
}

/// What the superblock in force leads to.
fn content_at_rest(mount: &Mount, id: MetaId) -> Result<[u8; PAGE], String> {
    let image = Image(&*mount.device);
    let view = keepfs_audit::read::View::open(&image).map_err(failed)?;
    let entry = view.lookup(id).ok_or(format!("{id} is not on the device"))?;
    let mut bytes = [0; PAGE];
    mount.device.read(PageNo(entry.first), &mut bytes).map_err(failed)?;
    Ok(bytes)
}

struct Image<'d>(&'d dyn Device);

impl keepfs_audit::Image for Image<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// The table of M-23.
pub fn table(long: bool) -> Result<(String, bool), String> {
    let (values, solved_each) = if long { (20_000, 40) } else { (2_000, 5) };
    let mut dice = Dice::new(23);
    let mut text = String::from(
        "| injection | where | count | refused by an equation | checkpoint refused | clean, never written | reached a superblock | told by `check` |\n\
         |---|---|---|---|---|---|---|---|\n\
         | WAFL section 7.4 | | | always caught | | | 0 | |\n",
    );
    let mut refused = 0;
    for code in CODES {
        let mount = Mount::new(code)?;
        for _ in 0..values / CODES.len() {
            refused += usize::from(mount.wrong_value(&mut dice)? == Served::Right);
        }
    }
    let values = values / CODES.len() * CODES.len();
    text.push_str(&format!(
        "| wrong value through the door | inode | {values} | {refused} | | | {} | |\n",
        values - refused
    ));
    let mut met = refused == values;
    for target in Target::ALL {
        for busy in [false, true] {
            let (mut fates, mut walks): (BTreeMap<Fate, u64>, u64) = Default::default();
            for code in CODES {
                for _ in 0..solved_each {
                    if let Some((fate, walk)) = solved(code, target, busy, &mut dice)? {
                        *fates.entry(fate).or_default() += 1;
                        walks += u64::from(walk);
                    }
                }
            }
            let of = |fate| fates.get(&fate).copied().unwrap_or(0);
            // What is in a changed frame and in no transaction is told by totals alone: the gap of this bar, not hidden.
            met &= of(Fate::Reached) == 0 || busy && target != Target::Totals;
            text.push_str(&format!(
                "| solved for, {} | {} | {} | {} | {} | {} | {} | {walks} |\n",
                if busy { "changed frame" } else { "clean frame" },
                target.word(),
                fates.values().sum::<u64>(),
                of(Fate::Refused),
                of(Fate::Stopped),
                of(Fate::Gone),
                of(Fate::Reached)
            ));
        }
    }
    Ok((text, met))
}
