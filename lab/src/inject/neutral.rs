//! Bar M-23 (WAFL 2017, section 7.4): injections that leave every checksum right. Made through the door with wrong values,
//! the equations of the transaction must refuse them; solved for and written past the door, no CRC and no parity sees them,
//! and the keyed sum must (S-15.18): none reaches a superblock, and each is told.

use super::Dice;
use super::fault::Regions;
use super::lines::Served;
use super::mount::Mount;
use super::papers::{Paper, counted};
use super::solve::Neutral;
use super::subject::failed;
use keepfs_codes::{Code, Protection};
use keepfs_format::bitmap::TOTALS;
use keepfs_format::inode::{block_of, offset_of as slot_of};
use keepfs_format::{MetaId, PAGE, Space};
use keepfs_media::{Device, PageNo};
use keepfs_store::Done;
use keepfs_vfs::{Direct, Ino, NewInode, SetAttr, Vfs, WriteHow};
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

/// What the frame is when somebody writes into it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Not changed since the last checkpoint; nobody writes to it then.
    Clean,
    /// Changed; transactions and a checkpoint come behind.
    Changed,
}

impl Phase {
    const ALL: [Phase; 2] = [Phase::Clean, Phase::Changed];

    fn word(self) -> &'static str {
        match self {
            Phase::Clean => "clean frame",
            Phase::Changed => "changed frame",
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
    /// What should stand there was put back.
    Mended,
    /// The frame was clean: its home was read again, and nothing was written.
    Gone,
    /// A superblock has it.
    Reached,
}

/// One injection.
struct Outcome {
    fate: Fate,
    /// The pool told it.
    is_told: bool,
    /// A walk over the pool (`keepfs check`) finds something then.
    is_found_later: bool,
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

/// Whether neither sum nor parity of the code changes with these bytes (S-15.2).
fn is_neutral(code: Protection, right: &[u8; PAGE], wrong: &[u8; PAGE]) -> bool {
    let mut parity = vec![0; code.parity_len() / 8];
    code.fold(0, right, wrong, |word, xor| parity[word] ^= xor);
    code.fragment(0, right, wrong) == 0 && parity.iter().all(|word| *word == 0)
}

/// One solved-for injection. `None`: there is no such change.
fn solved(code: Protection, target: Target, phase: Phase, dice: &mut Dice) -> Result<Option<Outcome>, String> {
    let mount = Mount::new(code)?;
    let (ino, is_dir) = *dice.one_of(&mount.inodes);
    let (id, at) = target.place(ino);
    let busy = phase != Phase::Clean;
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
    if !is_neutral(code, &right, &wrong) {
        return Err(format!("{code}: what was solved for {id} is not neutral"));
    }
    regions.change(place.frame, &right, &wrong).map_err(failed)?;
    if !busy {
        store.drop_clean_frames();
    }
    let refused = busy && (work(&mount, ino, is_dir, "after").is_err() || !store.unbalanced().is_empty());
    let stopped = mount.volume.settle().is_err() || store.fault().is_some();
    let at_rest = content_at_rest(&mount, id)?;
    let wrong_at_rest = (0..PAGE).filter(|at| wrong[*at] != right[*at] && at_rest[*at] == wrong[*at]);
    // One may be there by a legal change: a total, say, that came to have the same byte. A neutral change has more.
    let is_there = wrong_at_rest.count() > 1;
    let told: Vec<Done> = store
        .damages()
        .iter()
        .filter(|(damage, _)| damage.id == id)
        .map(|(_, done)| *done)
        .collect();
    let mended = told.iter().any(|done| matches!(done, Done::Rebuilt | Done::ReadAgain));
    let fate = match (is_there, stopped, mended, refused) {
        (true, ..) => Fate::Reached,
        (_, true, ..) => Fate::Stopped,
        (_, _, true, _) => Fate::Mended,
        (.., true) => Fate::Refused,
        _ => Fate::Gone,
    };
    let walked = keepfs_check::walk(&Image(&*mount.device), &keepfs_check::Options { data: true, limit: 1 });
    Ok(Some(Outcome {
        fate,
        is_told: !told.is_empty(),
        is_found_later: !walked.findings.is_empty(),
    }))
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
    let view = keepfs_check::read::View::open(&image).map_err(failed)?;
    let entry = view.lookup(id).ok_or(format!("{id} is not on the device"))?;
    let mut bytes = [0; PAGE];
    mount.device.read(PageNo(entry.first), &mut bytes).map_err(failed)?;
    Ok(bytes)
}

struct Image<'d>(&'d dyn Device);

impl keepfs_check::Image for Image<'_> {
    fn pages(&self) -> u64 {
        self.0.pages()
    }

    fn read(&self, page: u64, buf: &mut [u8; 4096]) -> Result<(), String> {
        self.0.read(PageNo(page), buf).map_err(|e| e.to_string())
    }
}

/// M-23: met if nothing reached a superblock, all of it was told, and `check` finds nothing.
pub fn paper(long: bool) -> Result<Paper, String> {
    let (values, solved_each) = if long { (20_000, 40) } else { (2_000, 5) };
    let mut dice = Dice::new(23);
    let mut text = String::from(
        "| injection | where | count | refused by an equation | checkpoint refused | mended | clean, never written | reached a superblock | told | found by `check` |\n\
         |---|---|---|---|---|---|---|---|---|---|\n\
         | WAFL section 7.4 | | | always caught | | | | 0 | | |\n",
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
        "| wrong value through the door | inode | {values} | {refused} | | | | {} | | |\n",
        values - refused
    ));
    let mut met = refused == values;
    let mut told = vec![counted(
        "a superblock has it: wrong values through the door",
        (values - refused) as u64,
        values as u64,
    )];
    for target in Target::ALL {
        for phase in Phase::ALL {
            let mut row = Row::default();
            for code in CODES {
                for _ in 0..solved_each {
                    row.add(solved(code, target, phase, &mut dice)?);
                }
            }
            met &= row.is_good();
            let workload = format!("a superblock has it: solved for, {}, {}", phase.word(), target.word());
            told.push(counted(workload, row.of(Fate::Reached), row.count));
            text.push_str(&row.line(phase, target));
        }
    }
    Ok(Paper { text, met, told })
}

/// What became of the solved-for injections of one kind.
#[derive(Default)]
struct Row {
    fates: BTreeMap<Fate, u64>,
    count: u64,
    told: u64,
    found_later: u64,
}

impl Row {
    fn add(&mut self, outcome: Option<Outcome>) {
        let Some(outcome) = outcome else { return };
        *self.fates.entry(outcome.fate).or_default() += 1;
        self.count += 1;
        self.told += u64::from(outcome.is_told);
        self.found_later += u64::from(outcome.is_found_later);
    }

    fn of(&self, fate: Fate) -> u64 {
        self.fates.get(&fate).copied().unwrap_or(0)
    }

    fn is_good(&self) -> bool {
        self.count > 0 && self.of(Fate::Reached) == 0 && self.told == self.count && self.found_later == 0
    }

    fn line(&self, phase: Phase, target: Target) -> String {
        let fates = [Fate::Refused, Fate::Stopped, Fate::Mended, Fate::Gone, Fate::Reached];
        let cells: String = fates.iter().map(|fate| format!("{} | ", self.of(*fate))).collect();
        format!(
            "| solved for, {} | {} | {} | {cells}{} | {} |\n",
            phase.word(),
            target.word(),
            self.count,
            self.told,
            self.found_later
        )
    }
}
