//! Pages of the log that go bad at rest: what proves a loss (S-9.7, S-9.27), and the group that is made again (S-9.11).

use crate::disk::{ANEW, Disk, LogPage, Super};
use crate::dropped::NEWER;
use crate::rules::{Rule, Rules};
use crate::tree::Rec;

/// The pool is refused, or it is told that its end may be lost: nobody was deceived, and the search ends there.
pub const CLOSED: &str = "the pool is refused";

impl Disk {
    /// The page of the log at `pos`, as far as it is there and can be had.
    pub fn log(&self, pos: u8, sb: &Super, rules: Rules) -> Option<&LogPage> {
        let page = self.ring[pos as usize % self.ring.len()].as_deref()?;
        let may = !self.is_rotten(pos) || rules.has(Rule::Parity) && self.is_made_again(pos, sb);
        may.then_some(page)
    }

    /// Whether the page at `pos` is bad.
    pub fn is_rotten(&self, pos: u8) -> bool {
        self.rotten >> (pos as usize % self.ring.len()) & 1 == 1
    }

    /// The greatest group that anything tells as durable which can be read, looked at or not: the judge's.
    pub fn tells(&self, sb: &Super) -> u8 {
        let is_whole = |page: &&LogPage| page.life == sb.life && !self.is_rotten(page.pos);
        let pages = self.ring.iter().flatten().map(|page| &**page).filter(is_whole);
        let far = self.far.filter(|far| far.0 == sb.life).map(|far| far.2);
        pages
            .map(|page| page.durable)
            .chain(far)
            .max()
            .unwrap_or(0)
            .max(sb.durable)
    }

    /// The pages of the carried group, if there is one: the first behind the superblock, which tells of it.
    fn carried(&self, sb: &Super) -> Vec<u8> {
        let at = |pos: &u8| self.ring[*pos as usize % self.ring.len()].as_deref();
        let all = (0..self.ring.len() as u8).map(|i| sb.pos.wrapping_add(i));
        let of =
            |pos: &u8| at(pos).is_some_and(|page| page.pos == *pos && page.number == sb.group && page.life == sb.life);
        let pages: Vec<u8> = all.take_while(of).collect();
        let mut recs = pages.iter().filter_map(at).flat_map(|page| &page.recs).peekable();
        let carries = recs.peek().is_some() && recs.all(|rec| matches!(rec, Rec::Carry { .. } | Rec::Lost { .. }));
        let is_it = sb.durable >= sb.group && carries;
        if is_it { pages } else { Vec::new() }
    }

    fn is_made_again(&self, pos: u8, sb: &Super) -> bool {
        let pages = self.carried(sb);
        pages.contains(&pos) && pages.iter().filter(|pos| self.is_rotten(**pos)).count() == 1
    }
}

/// What the end of the log comes to.
#[derive(Default)]
pub struct End {
    /// The greatest group that a page behind tells as durable (S-9.2).
    pub told: u8,
    /// The pool is refused, or it is told that its end may be lost.
    pub closes: bool,
}

/// What the end of the log before `pos`, where a page of group `number` should be, comes to. Errors: the opening ends there, and
/// should not.
pub fn judge(disk: &Disk, sb: &Super, (pos, number, chain): (u8, u8, u32), rules: Rules) -> Result<End, &'static str> {
    if disk.tells_of_newer(sb, pos, number, rules) {
        return Err(NEWER);
    }
    let ring = disk.ring.len() as u8;
    let bases = sb.generation - 1..=sb.generation;
    let near = |later: u8| {
        let page = disk.log(later, sb, rules)?;
        let tells = page.pos == later && bases.contains(&page.base) && page.durable < page.number;
        tells.then_some(page.durable)
    };
    let behind = (1..ring).map(|i| pos.wrapping_add(i));
    let behind = behind.take_while(|later| *later != sb.pos.wrapping_add(ring));
    let is_far = |far: &(u8, u8, u8)| rules.has(Rule::ToldFar) && far.0 == sb.life && bases.contains(&far.1);
    let far = disk.far.filter(is_far).map(|far| far.2);
    let begins_anew = |page: &&LogPage| page.life == sb.life && page.chain == chain ^ ANEW;
    let anew = disk
        .log(pos, sb, rules)
        .filter(|page| rules.has(Rule::AnewTells) && begins_anew(page));
    let anew = anew.and_then(|_| near(pos));
    let told = behind.filter_map(near).chain(anew).chain(far).max().unwrap_or(0);
    let is_proved = sb.durable.max(told) >= number;
    match (is_proved, disk.is_rotten(pos)) {
        (false, false) => Ok(End { told, closes: false }),
        (true, false) if !disk.wiped => Err("a sound log is refused"),
        (true, true) if disk.carried(sb).contains(&pos) => Err("one bad page of the carried group ends the mount"),
        (true, true) if !rules.has(Rule::LossProved) => Ok(End { told, closes: false }),
        _ => Ok(End { told, closes: true }),
    }
}
