//! Claiming a pool, and keeping it: which look at the block follows which, and what it means (S-2.21, S-2.22, S-2.23).
//!
//! A [`Claim`] is told what was seen and when, and says what to do next. Times are of one clock that goes on while the machine
//! sleeps. Rules, by their numbers in decision 0850:
//!
//! 1. A block that is another's, or damaged where the superblock says that it is on, is watched for three intervals and a second; if it changes the pool is refused.
//! 2. Who writes its own block looks again after [`SETTLE`], if at most [`QUICK`] passed between its look before and the end of
//!    the write; else it keeps the block for three intervals and a second first. Only what is found unchanged is had.
//! 3. Who has the pool writes to it until two intervals after the last write of its block began, and looks before each write of
//!    the block: who finds another one there has lost.
//! 4. A write of the block that ends later than that proves nothing, and ends the claim for good.
//! 5. Who looks later than that, and finds its own block, does as in 2, but must be quick.

use super::Who;
use super::block::{self, Page, Seen};
use core::time::Duration;
use keepfs_format::PoolId;
use keepfs_format::mmp::{Block, INTERVAL_S, INTERVAL_S_DEFAULT, OFF};

/// Between the write of a claim and the look that decides.
pub const SETTLE: Duration = Duration::from_millis(500);
/// Most time between a look and the end of the write that follows, for who is quick.
pub const QUICK: Duration = Duration::from_millis(250);

/// How long a block is watched that may be another's.
pub fn watch(interval_s: u32) -> Duration {
    Duration::from_secs(3 * u64::from(interval_s) + 1)
}

/// How long the pool may be written since the write of the block began.
pub fn lease(interval_s: u32) -> Duration {
    Duration::from_secs(2 * u64::from(interval_s))
}

/// Between two writes of the block.
pub fn beat(interval_s: u32) -> Duration {
    Duration::from_secs(u64::from(interval_s))
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Next {
    /// Look at the block, not before this time.
    Look(Duration),
    /// Write this as the block, at once.
    Write(Box<Page>),
    /// The pool is not protected.
    Off(Box<Block>),
    /// It is had.
    Held(Box<Hold>),
    /// It cannot be had, or is lost.
    Refused(Refusal),
}

/// A claim that holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hold {
    /// The block as it stands.
    pub block: Block,
    /// When its write began.
    pub wrote: Duration,
}

impl Hold {
    /// Until when the pool may be written.
    pub fn until(&self) -> Duration {
        self.wrote + lease(self.block.interval_s.get())
    }
}

/// Why a pool cannot be had.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// Another has it; `None`: its block is damaged, and changes.
    Other(Option<Box<Block>>),
    /// The block could not be written in time.
    Late,
}

/// Why a claim is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// To open the pool.
    Open,
    /// To protect the pool that is open, or to change its interval, seconds.
    Protect(u32),
    /// In the place of a server that died: only what was its is had.
    Succeed,
}

#[derive(Debug)]
enum Phase {
    /// Nothing was seen yet.
    First(Why),
    /// What was seen is another's, until it stayed so up to then.
    Watching { seen: Box<Page>, until: Duration },
    /// To be written, after the look that began then.
    Writing { block: Block, looked: Duration, rule: Rule },
    /// Written; decided by the looks from then on.
    Settling { hold: Hold, until: Duration },
    /// Had before.
    Renewing(Hold),
}

/// What the write of a block must keep.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// It claims.
    Claim,
    /// It renews what is had until then.
    Until(Duration),
    /// It claims what was had, and must be quick.
    Again,
    /// It keeps a claim that settles until then, and renews what would be had until the second time.
    Settle(Duration, Duration),
}

/// A claim on its way.
#[derive(Debug)]
pub struct Claim {
    who: Who,
    pool: PoolId,
    /// Whether the superblock says that the pool is protected: it counts where the block says nothing.
    is_on: bool,
    phase: Phase,
}

impl Claim {
    /// Of a pool that is not had. It begins with a look.
    pub fn new(who: Who, pool: PoolId, is_on: bool, why: Why) -> Claim {
        let phase = Phase::First(why);
        Claim {
            who,
            pool,
            is_on,
            phase,
        }
    }

    /// Of a pool that is had, once more. It begins with a look.
    pub fn renew(who: Who, pool: PoolId, hold: Hold) -> Claim {
        Claim {
            who,
            pool,
            is_on: true,
            phase: Phase::Renewing(hold),
        }
    }

    /// Until when it is waited, whatever the looks up to then find.
    pub fn waits_until(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Watching { until, .. } | Phase::Settling { until, .. } => Some(*until),
            Phase::First(_) | Phase::Writing { .. } | Phase::Renewing(_) => None,
        }
    }

    /// The block was looked at from `began` on, and is `page`; it is `now`.
    pub fn seen(&mut self, began: Duration, now: Duration, page: &Page) -> Next {
        let seen = block::read(page, self.pool);
        match &self.phase {
            Phase::First(why) => self.first(*why, began, now, page, seen),
            Phase::Watching { seen: before, .. } if **before != *page => match seen {
                // Who had it has let go of it.
                Seen::Free(_) | Seen::Off(_) => self.first(Why::Open, began, now, page, seen),
                _ => Next::Refused(other(seen)),
            },
            Phase::Watching { until, .. } if began < *until => Next::Look(*until),
            Phase::Watching { .. } => {
                let (interval_s, sequence) = match seen {
                    Seen::Used(block) => (block.interval_s.get(), block.sequence.get()),
                    _ => (INTERVAL_S_DEFAULT, 0),
                };
                self.write(interval_s, sequence, began, now, Rule::Claim)
            }
            Phase::Settling { hold, .. } | Phase::Renewing(hold) if *page != block::page(&hold.block) => {
                Next::Refused(other(seen))
            }
            Phase::Settling { hold, until } if began < *until => {
                let rule = Rule::Settle(*until, hold.until());
                let (interval_s, sequence) = (hold.block.interval_s.get(), hold.block.sequence.get());
                self.write(interval_s, sequence, began, now, rule)
            }
            Phase::Settling { hold, .. } if now < hold.until() => Next::Held(Box::new(hold.clone())),
            // What was seen then may be another's by now.
            Phase::Settling { hold, .. } => {
                self.phase = Phase::Renewing(hold.clone());
                Next::Look(now)
            }
            Phase::Renewing(hold) => {
                let (block, until) = (hold.block, hold.until());
                self.renewed(&block, until, began, now)
            }
            // Nobody looks before it is written; a look does no harm.
            Phase::Writing { block, .. } => Next::Write(Box::new(block::page(block))),
        }
    }

    fn renewed(&mut self, block: &Block, until: Duration, began: Duration, now: Duration) -> Next {
        let rule = if began < until { Rule::Until(until) } else { Rule::Again };
        self.write(block.interval_s.get(), block.sequence.get(), began, now, rule)
    }

    fn first(&mut self, why: Why, began: Duration, now: Duration, page: &Page, seen: Seen) -> Next {
        let is_ours = |block: &Block| block.nonce == self.who.nonce;
        let seen = match seen {
            Seen::Damaged if !self.is_on => Seen::Off(whole(block::unowned(self.pool, OFF, INTERVAL_S_DEFAULT, 0))),
            seen => seen,
        };
        match (seen, why) {
            (Seen::Off(block), Why::Protect(interval_s)) => {
                self.write(interval_s, block.sequence.get(), began, now, Rule::Claim)
            }
            (Seen::Off(block), _) => Next::Off(Box::new(block)),
            (Seen::Used(block), _) if is_ours(&block) => {
                // It was written on this run of the machine, so the clock is the same.
                let until = Duration::from_nanos(block.beat_ns.get()) + lease(block.interval_s.get());
                match why {
                    Why::Protect(interval_s) if began < until => {
                        self.write(interval_s, block.sequence.get(), began, now, Rule::Until(until))
                    }
                    _ => self.renewed(&block, until, began, now),
                }
            }
            (seen, Why::Succeed) => Next::Refused(other(seen)),
            (Seen::Free(block), _) => self.write(block.interval_s.get(), block.sequence.get(), began, now, Rule::Claim),
            (Seen::Used(block), _) if self.had_our_lock(&block) => {
                self.write(block.interval_s.get(), block.sequence.get(), began, now, Rule::Claim)
            }
            (seen, _) => {
                let interval_s = match seen {
                    Seen::Used(block) => block.interval_s.get(),
                    _ => *INTERVAL_S.end(),
                };
                let until = now + watch(interval_s);
                let seen = Box::new(*page);
                self.phase = Phase::Watching { seen, until };
                Next::Look(until)
            }
        }
    }

    /// Who wrote the block had the lock that we have: it is dead, and so are those who could have taken its place.
    fn had_our_lock(&self, block: &Block) -> bool {
        let lock = block.lock.map(|number| number.get());
        block.boot == self.who.boot && lock == self.who.lock && lock != [0; 2]
    }

    fn write(&mut self, interval_s: u32, sequence: u64, looked: Duration, now: Duration, rule: Rule) -> Next {
        let block = block::owned(self.pool, &self.who, interval_s, sequence.wrapping_add(1), now);
        self.phase = Phase::Writing { block, looked, rule };
        Next::Write(Box::new(block::page(&block)))
    }

    /// What was to be written was written, from `began` to `ended`.
    pub fn wrote(&mut self, began: Duration, ended: Duration) -> Next {
        let Phase::Writing { block, looked, rule } = &self.phase else {
            return Next::Look(ended);
        };
        let hold = Hold {
            block: whole(*block),
            // What stands in the block is not later.
            wrote: began.min(Duration::from_nanos(block.beat_ns.get())),
        };
        let interval_s = block.interval_s.get();
        let is_quick = ended.saturating_sub(*looked) <= QUICK;
        let (next, until) = match *rule {
            Rule::Until(until) if ended <= until => return Next::Held(Box::new(hold)),
            Rule::Until(_) => return Next::Refused(Refusal::Late),
            Rule::Again if !is_quick => return Next::Refused(Refusal::Late),
            Rule::Claim | Rule::Again if is_quick => (ended + SETTLE, ended + SETTLE),
            Rule::Claim | Rule::Again => (ended + beat(interval_s), ended + watch(interval_s)),
            Rule::Settle(until, renewed) if ended <= renewed => {
                ((ended + beat(interval_s)).min(until.max(ended)), until)
            }
            // Somebody may have had it meanwhile, and not have noticed yet.
            Rule::Settle(..) => (ended + beat(interval_s), ended + watch(interval_s)),
        };
        self.phase = Phase::Settling { hold, until };
        Next::Look(next)
    }
}

/// The block with its CRC.
fn whole(block: Block) -> Block {
    let page = block::page(&block);
    keepfs_format::FromBytes::read_from_prefix(&page).map_or(block, |(block, _): (Block, _)| block)
}

fn other(seen: Seen) -> Refusal {
    match seen {
        Seen::Used(block) => Refusal::Other(Some(Box::new(block))),
        _ => Refusal::Other(None),
    }
}

#[cfg(test)]
mod tests;
