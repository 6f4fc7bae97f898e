//! Machines that claim one pool: with each start, each delay of one look or write, and each moment at which such a delayed one
//! has its effect, no two have the pool at one time, and none goes on after another had it.

use super::*;

/// A delay of one operation: which one, whether the machine stands still before it or the device takes long over it, and for a
/// device whether what it does is done at the end.
#[derive(Clone, Copy, Debug)]
struct Delay {
    operation: usize,
    kind: Kind,
    ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    StandsStill,
    DoneAtOnce,
    DoneAtTheEnd,
}

/// What an operation takes that is not delayed.
const USUAL_MS: u64 = 5;
/// When everything is decided.
const END_MS: u64 = 16_000;

#[derive(Debug)]
enum Doing {
    /// A look that begins then.
    ToLook(u64),
    /// A look: when it began, has its effect and ends, and what was seen.
    Looking(u64, u64, u64, Option<Box<Page>>),
    ToWrite(u64, Box<Page>),
    Writing(u64, u64, u64, Option<Box<Page>>),
    Out,
}

struct Machine {
    number: u8,
    claim: Claim,
    doing: Doing,
    delays: Vec<Delay>,
    operations: usize,
    has_until: Option<u64>,
}

impl Machine {
    fn new(number: u8, start: u64, delays: &[Delay]) -> Machine {
        Machine {
            number,
            claim: Claim::new(who(number), POOL, true, Why::Open),
            doing: Doing::ToLook(start),
            delays: delays.to_vec(),
            operations: 0,
            has_until: None,
        }
    }

    /// When it does something next.
    fn at(&self) -> u64 {
        match &self.doing {
            Doing::ToLook(at) | Doing::ToWrite(at, _) => *at,
            Doing::Looking(_, effect, _, None) | Doing::Writing(_, effect, _, Some(_)) => *effect,
            Doing::Looking(_, _, end, _) | Doing::Writing(_, _, end, _) => *end,
            Doing::Out => u64::MAX,
        }
    }

    /// Begin, effect and end of the next operation, which may begin at `at`.
    fn times(&mut self, at: u64) -> (u64, u64, u64) {
        let delay = self.delays.iter().find(|delay| delay.operation == self.operations);
        self.operations += 1;
        match delay.map(|delay| (delay.kind, delay.ms)) {
            Some((Kind::StandsStill, ms)) => (at + ms, at + ms, at + ms + USUAL_MS),
            Some((Kind::DoneAtOnce, ms)) => (at, at, at + ms),
            Some((Kind::DoneAtTheEnd, ms)) => (at, at + ms, at + ms),
            None => (at, at, at + USUAL_MS),
        }
    }

    /// Does it. Returns whether it has the pool anew.
    fn step(&mut self, device: &mut Page) -> bool {
        let now = self.at();
        let next = match std::mem::replace(&mut self.doing, Doing::Out) {
            Doing::ToLook(at) => {
                let (begin, effect, end) = self.times(at);
                self.doing = Doing::Looking(begin, effect, end, None);
                return false;
            }
            Doing::Looking(begin, effect, end, None) => {
                self.doing = Doing::Looking(begin, effect, end, Some(Box::new(*device)));
                return false;
            }
            Doing::Looking(begin, _, end, Some(page)) => self.claim.seen(ms(begin), ms(end), &page),
            Doing::ToWrite(at, page) => {
                let (begin, effect, end) = self.times(at);
                self.doing = Doing::Writing(begin, effect, end, Some(page));
                return false;
            }
            Doing::Writing(begin, effect, end, Some(page)) => {
                *device = *page;
                self.doing = Doing::Writing(begin, effect, end, None);
                return false;
            }
            Doing::Writing(begin, _, end, None) => self.claim.wrote(ms(begin), ms(end)),
            Doing::Out => return false,
        };
        self.doing = match next {
            Next::Look(at) => Doing::ToLook((at.as_millis() as u64).max(now)),
            Next::Write(page) => Doing::ToWrite(now, page),
            Next::Held(hold) => {
                self.has_until = Some(hold.until().as_millis() as u64);
                let at = (hold.wrote + beat(1)).as_millis() as u64;
                self.claim = Claim::renew(who(self.number), POOL, *hold);
                self.doing = Doing::ToLook(at.max(now));
                return true;
            }
            Next::Refused(_) => {
                self.has_until = None;
                Doing::Out
            }
            Next::Off(_) => panic!("it is on"),
        };
        false
    }
}

/// Runs them to the end. Returns how many had the pool.
fn run(mut machines: Vec<Machine>, mut device: Page) -> Result<usize, String> {
    let mut had = vec![false; machines.len()];
    let mut last = None;
    while let Some(i) = (0..machines.len()).min_by_key(|i| machines[*i].at()) {
        let now = machines[i].at();
        if now > END_MS {
            break;
        }
        if !machines[i].step(&mut device) {
            continue;
        }
        // What it has in memory is of before the other one.
        if had[i] && last != Some(i) {
            return Err(format!(
                "at {now} ms machine {i} goes on, and machine {last:?} had the pool meanwhile"
            ));
        }
        (had[i], last) = (true, Some(i));
        let both = machines
            .iter()
            .enumerate()
            .find(|(j, other)| *j != i && other.has_until > Some(now));
        if let (Some((j, other)), true) = (both, machines[i].has_until > Some(now)) {
            return Err(format!(
                "at {now} ms machine {i} has the pool, and machine {j} until {:?}",
                other.has_until
            ));
        }
    }
    Ok(had.iter().filter(|had| **had).count())
}

fn delays(operations: usize, lengths: &[u64]) -> Vec<Delay> {
    let mut all = Vec::new();
    for operation in 0..operations {
        for kind in [Kind::StandsStill, Kind::DoneAtOnce, Kind::DoneAtTheEnd] {
            all.extend(lengths.iter().map(|ms| Delay {
                operation,
                kind,
                ms: *ms,
            }));
        }
    }
    all
}

#[test]
fn one_alone_gets_it() {
    for device in [free(), left(9)] {
        assert_eq!(run(vec![Machine::new(1, 0, &[])], device), Ok(1));
    }
}

/// How many of two had it, for machines with these delays: the first starts at once, the second at each of `starts`.
fn each_pair(devices: &[Page], first: &[Vec<Delay>], second: &[Vec<Delay>], starts: &[u64]) -> [usize; 3] {
    let mut had = [0; 3];
    for device in devices {
        for slow in first {
            for other in second {
                for start in starts {
                    let machines = vec![Machine::new(1, 0, slow), Machine::new(2, *start, other)];
                    match run(machines, *device) {
                        Ok(count) => had[count] += 1,
                        Err(said) => panic!("{slow:?} {other:?}, start of the second {start}: {said}"),
                    }
                }
            }
        }
    }
    had
}

fn one_each(delays: Vec<Delay>) -> Vec<Vec<Delay>> {
    delays.into_iter().map(|delay| vec![delay]).collect()
}

#[test]
fn no_two_have_it_at_one_time() {
    let first = one_each(delays(8, &[240, 700, 1900, 4600, 9000]));
    let mut second = one_each(delays(5, &[260, 2100, 4600]));
    second.push(Vec::new());
    let had = each_pair(&[free(), left(9)], &first, &second, &[0, 3, 200, 500, 1200, 2600]);
    // One follows another that lost it, as well.
    assert!(had[1] > 1000 && had[2] > 1000, "{had:?}");
}

#[test]
fn nor_when_one_is_late_twice() {
    let late = delays(8, &[700, 4600]);
    let pairs = late.iter().flat_map(|one| late.iter().map(move |two| vec![*one, *two]));
    let first: Vec<_> = pairs.filter(|pair| pair[0].operation < pair[1].operation).collect();
    let mut second = one_each(delays(3, &[2100]));
    second.push(Vec::new());
    let had = each_pair(&[free()], &first, &second, &[0, 1200, 2600]);
    assert!(had[1] > 1000 && had[2] > 1000, "{had:?}");
}
