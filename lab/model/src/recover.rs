//! What recovery makes of a device (S-9.1 to S-9.4).

use std::sync::Arc;

use crate::disk::{Cell, Disk, LOST, Page, Super, Val, sum};
use crate::rotten;
use crate::rules::{Rule, Rules};
use crate::tree::{FILES, File, Gone, Rec, Tree, brought};

/// What recovery found.
pub struct Found {
    /// The superblock in force.
    pub sb: Arc<Super>,
    /// The state.
    pub tree: Tree,
    /// Its last transaction.
    pub seq: u8,
    /// D (S-9.2).
    pub durable: u8,
    /// Behind the last page accepted.
    pub seen: u8,
    /// Behind the last group taken.
    pub pos: u8,
    /// The next group's number.
    pub number: u8,
    /// What it continues.
    pub chain: u32,
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

/// The groups that a log has, with D and the position behind the last page accepted (S-9.1, S-9.2).
fn scan(disk: &Disk, sb: &Super, rules: Rules) -> Result<(Vec<Group>, u8, u8), &'static str> {
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
            return Err("the newest superblock was lost");
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
    if let Some(pos) = end {
        durable = durable.max(rotten::judge(disk, sb, (pos, sb.group + groups.len() as u8), rules)?);
    }
    groups.extend(open.filter(|_| !rules.has(Rule::WholeGroups)));
    Ok((groups, durable, seen))
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

/// Reads superblock and log.
pub fn recover(disk: &Disk, rules: Rules, trust: Trust) -> Result<Found, &'static str> {
    let newest = disk.supers.iter().flatten().max_by_key(|sb| sb.generation);
    let sb = newest.ok_or("there is no superblock")?.clone();
    let mut tree = checkpointed(disk, &sb, rules)?;
    let (mut groups, durable, seen) = scan(disk, &sb, rules)?;
    let there = |p: Page, v: Val| disk.has(p, v) && (!disk.is_bad(p) || rules.has(Rule::UnreadTaken));
    let passes = |g: &Group| brought(&g.recs, rules).iter().all(|(p, v)| there(*p, *v));
    let refuses = |(at, g): (usize, &Group)| match trust {
        Trust::Judged => sb.group + at as u8 > durable && rules.has(Rule::DataChecked) && !passes(g),
        Trust::Believed(refused) => {
            refused.is_some_and(|(of, first)| of == sb.generation && sb.group + at as u8 >= first)
        }
    };
    let refused = groups.iter().enumerate().position(refuses);
    groups.truncate(refused.unwrap_or(groups.len()));
    let system = sb.system();
    for rec in groups.iter().flat_map(|g| g.recs.iter()) {
        tree.replay_log(*rec, system, rules)?;
    }
    for (p, v) in tree.known().filter_map(|f| f.page) {
        let names = tree.known().filter(|f| f.page.is_some_and(|q| q.0 == p)).count();
        if system >> p & 1 == 1 || names != 1 + tree.shares[p as usize] as usize {
            return Err("a page has two owners");
        }
        if !disk.has(p, v) {
            return Err("a page of recovered data is overwritten or missing");
        }
    }
    let (pos, chain) = groups.last().map_or((sb.pos, sb.chain), |g| g.end);
    Ok(Found {
        tree,
        seq: groups.last().map_or(sb.seq, |g| g.seq),
        durable,
        seen,
        pos,
        number: sb.group + groups.len() as u8,
        chain,
        refused: refused.map(|n| sb.group + n as u8),
        sb,
    })
}
