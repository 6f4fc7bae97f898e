//! What recovery makes of a device (S-9.1 to S-9.4).

use std::sync::Arc;

use crate::disk::{Cell, Disk, LOST, Page, Super, Val, sum};
use crate::dropped::NEWER;
use crate::rotten::{self, End};
use crate::rules::{Rule, Rules};
use crate::tree::{FILES, File, Gone, Rec, Tree, brought};

/// What recovery found.
pub struct Found {
    /// The superblock in force.
    pub sb: Arc<Super>,
    /// The state.
    pub tree: Tree,
    /// All data is there that it has, as far as it can be read.
    pub is_whole: bool,
    /// Its last transaction.
    pub seq: u8,
    /// D (S-9.2).
    pub durable: u8,
    /// Behind the last page accepted.
    pub seen: u8,
    /// Behind the last group taken.
    pub pos: u8,
    /// Behind the last group taken: its number.
    pub number: u8,
    /// The number behind all groups that were seen, or are told as durable (S-9.14).
    pub next: u8,
    /// What it continues.
    pub chain: u32,
    /// The greatest group that anything tells as durable: the judge's.
    pub told: u8,
    /// Pages that groups beyond D freed, with the groups' last transactions.
    pub freed: Vec<(u8, Page)>,
    /// The first group that was not taken.
    pub refused: Option<u8>,
}

/// What recovery believes of groups beyond D.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trust {
    /// Power was cut: their data is looked at (S-9.3).
    Judged,
    /// A server died: all are taken, but what it had refused behind a superblock of this generation (S-9.9).
    Believed(Option<(u8, u8)>),
}

/// A group as it was read.
#[derive(Default)]
struct Group {
    recs: Vec<Rec>,
    seq: u8,
    /// Behind it, and its last page's sum.
    end: (u8, u32),
}

/// What a log has.
struct Scanned {
    groups: Vec<Group>,
    /// D (S-9.2).
    durable: u8,
    /// Behind the last page accepted.
    seen: u8,
    /// It ends in a way that is told.
    closes: bool,
}

/// The groups that a log has, with D and the position behind the last page accepted (S-9.1, S-9.2).
fn scan(disk: &Disk, sb: &Super, rules: Rules) -> Result<Scanned, &'static str> {
    let mut groups: Vec<Group> = Vec::new();
    let mut open: Option<Group> = None;
    let (mut chain, mut durable, mut seen) = (sb.chain, sb.durable, sb.pos);
    let ring = disk.ring.len();
    let mut end = None;
    for pos in (0..ring as u8).map(|i| sb.pos.wrapping_add(i)) {
        let Some(page) = disk.log(pos, sb, rules) else {
            end = Some(pos);
            break;
        };
        let here = page.pos == pos && page.life == sb.life && page.number == sb.group + groups.len() as u8;
        let chained = match open {
            None => Rule::Chain,
            Some(_) => Rule::ChainWithin,
        };
        if !here || page.chain != chain && rules.has(chained) || page.base + 1 < sb.generation {
            end = Some(pos);
            break;
        }
        if page.base > sb.generation {
            return Err(NEWER);
        }
        (seen, chain) = (pos + 1, sum(page));
        if rules.has(Rule::StampRead) && (page.last || rules.has(Rule::StampTorn)) {
            durable = durable.max(page.durable);
        }
        let mut group = open.take().unwrap_or_default();
        group.recs.extend(&page.recs);
        (group.seq, group.end) = (page.seq, (seen, chain));
        match page.last {
            true => groups.push(group),
            false => open = Some(group),
        }
    }
    let number = sb.group + groups.len() as u8;
    let judged = end.map(|pos| rotten::judge(disk, sb, (pos, number, chain), rules));
    let End { told, closes } = judged.transpose()?.unwrap_or_default();
    if rules.has(Rule::ToldBehind) {
        durable = durable.max(told);
    }
    groups.extend(open.filter(|_| !rules.has(Rule::WholeGroups)));
    Ok(Scanned {
        groups,
        durable,
        seen,
        closes,
    })
}

/// The metadata of the checkpoint. Errors: it is not there; one bad metablock ends the opening; the pool is refused.
fn checkpointed(disk: &Disk, sb: &Super, rules: Rules) -> Result<Tree, &'static str> {
    const NOT_THERE: &str = "the checkpoint's metadata is not there";
    let Cell::Meta(root) = &disk.pages[sb.home as usize] else {
        return Err(NOT_THERE);
    };
    let mut tree = (**root).clone();
    let mut sound = sum(&tree) == sb.sum;
    if let Some((page, told)) = sb.leaf {
        tree.files[FILES - 1] = match &disk.pages[page as usize] {
            _ if told == LOST => File {
                gone: Gone::Lost,
                ..File::default()
            },
            Cell::Leaf(_) if disk.is_unread(page) && !rules.has(Rule::BadAlone) => {
                return Err("one bad metablock ends the mount");
            }
            Cell::Leaf(file) => {
                sound &= sum(file) == told;
                let gone = if disk.is_unread(page) { Gone::Unread } else { Gone::No };
                File { gone, ..*file }
            }
            _ => return Err(NOT_THERE),
        };
    }
    if disk.is_unread(sb.home) {
        if rules.has(Rule::SharedRefused) {
            return Err(rotten::CLOSED);
        }
        tree.used = 0;
    }
    sound.then_some(tree).ok_or(NOT_THERE)
}

impl Disk {
    /// Whether all up to transaction `acked` is there but for bits that are wrong: nothing tells a page with one of these from a page
    /// that did not arrive (S-9.3, S-9.26), unless its group is told as durable.
    pub fn is_wrong_alone(&self, acked: u8, rules: Rules) -> bool {
        let mut right = self.clone();
        for cell in &mut right.pages {
            if let Cell::Wrong(val) = *cell {
                *cell = Cell::Data(val);
            }
        }
        right != *self && recover(&right, rules, Trust::Judged).is_ok_and(|found| found.is_whole && found.seq >= acked)
    }
}

/// Whether the log tells of a newer superblock than any that is there.
pub fn is_newer_told(disk: &Disk, rules: Rules) -> bool {
    let told = disk.newest().and_then(|sb| scan(disk, sb, rules).err());
    told == Some(NEWER)
}

/// Reads superblock and log.
pub fn recover(disk: &Disk, rules: Rules, trust: Trust) -> Result<Found, &'static str> {
    let sb = disk.newest().ok_or("there is no superblock")?.clone();
    let mut tree = checkpointed(disk, &sb, rules)?;
    let Scanned {
        mut groups,
        durable,
        seen,
        closes,
    } = scan(disk, &sb, rules)?;
    let there = |p: Page, v: Val| disk.passes(p, v) && (!disk.is_bad(p) || rules.has(Rule::UnreadTaken));
    let passes = |g: &Group| brought(&g.recs, rules).iter().all(|(p, v)| there(*p, *v));
    let refuses = |(at, g): (usize, &Group)| match trust {
        Trust::Judged => sb.group + at as u8 > durable && rules.has(Rule::DataChecked) && !passes(g),
        Trust::Believed(refused) => {
            refused.is_some_and(|(of, first)| of == sb.generation && sb.group + at as u8 >= first)
        }
    };
    let refused = groups.iter().enumerate().position(refuses);
    let first = refused.map(|at| sb.group + at as u8);
    let told = disk.tells(&sb);
    if trust == Trust::Judged && first.is_some_and(|first| first <= told) {
        return Err("a group is dropped that is told as durable");
    }
    if closes {
        return Err(rotten::CLOSED);
    }
    let next = (sb.group + groups.len() as u8).max(durable + 1);
    groups.truncate(refused.unwrap_or(groups.len()));
    let system = sb.system();
    for rec in groups.iter().flat_map(|g| g.recs.iter()) {
        tree.replay_log(*rec, system, rules)?;
    }
    for (p, _) in tree.known().filter_map(|f| f.page) {
        let names = tree.known().filter(|f| f.page.is_some_and(|q| q.0 == p)).count();
        if system >> p & 1 == 1 || names != 1 + tree.shares[p as usize] as usize {
            return Err("a page has two owners");
        }
    }
    let is_whole = tree.known().filter_map(|f| f.page).all(|(p, v)| disk.has(p, v));
    let beyond = groups.iter().skip((durable + 1).saturating_sub(sb.group) as usize);
    let freed = beyond.flat_map(|g| g.recs.iter().filter_map(|rec| Some((g.seq, rec.frees()?))));
    let freed = freed.filter(|(_, page)| tree.used >> page & 1 == 0).collect();
    let (pos, chain) = groups.last().map_or((sb.pos, sb.chain), |g| g.end);
    Ok(Found {
        tree,
        is_whole,
        seq: groups.last().map_or(sb.seq, |g| g.seq),
        durable,
        seen,
        pos,
        number: sb.group + groups.len() as u8,
        next,
        chain,
        told,
        freed,
        refused: first,
        sb,
    })
}
