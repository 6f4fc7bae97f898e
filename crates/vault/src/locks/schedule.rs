//! One thread at a time runs, and a seed says which: the orders in which real threads take real locks, one after the other.
//!
//! Threads of a search pass a turn on. One that finds a lock taken, or waits for a condition, says for what and has no turn until
//! that is let go; one that waits with a limit may have its limit reached at any moment. If nobody can go on that is told: it is a
//! deadlock. Threads outside any search are not concerned.

use super::Rule;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// More turns than any search takes that ends.
const TURNS: u64 = 4_000_000;

thread_local! {
    static ME: RefCell<Option<(Arc<Schedule>, usize)>> = const { RefCell::new(None) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    /// Until the lock or condition at this address is let go, or at any moment.
    Waits {
        on: usize,
        limited: bool,
    },
    Done,
}

struct Inner {
    running: usize,
    threads: Vec<State>,
    random: u64,
    turns: u64,
    /// Nobody can go on, or it goes on for ever: why.
    stuck: Option<String>,
}

/// Who runs.
pub struct Schedule {
    inner: Mutex<Inner>,
    turn: Vec<Condvar>,
    /// A thread that could go on gives its turn away at one in so many locks.
    stays: u64,
    broken: Option<Rule>,
}

/// One order of turns.
#[derive(Clone, Copy, Debug)]
pub struct Order {
    /// Which.
    pub seed: u64,
    /// Of how many locks that could be taken a thread gives its turn away at one.
    pub stays: u64,
    /// What is not kept meanwhile.
    pub broken: Option<Rule>,
}

/// What a thread of a search does.
pub type Work<'w> = Box<dyn FnOnce() + Send + 'w>;

impl Inner {
    fn random(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        (self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % below
    }

    /// Who goes on; `None`: nobody can.
    fn next(&mut self) -> Option<usize> {
        let all = 0..self.threads.len();
        let ready: Vec<usize> = all.clone().filter(|i| self.threads[*i] == State::Ready).collect();
        let limited = |state: State| matches!(state, State::Waits { limited: true, .. });
        let patient: Vec<usize> = all.filter(|i| limited(self.threads[*i])).collect();
        let from = match (ready.is_empty(), patient.is_empty()) {
            (true, true) => return None,
            (true, false) => patient,
            (false, false) if self.random(16) == 0 => patient,
            (false, _) => ready,
        };
        let at = self.random(from.len() as u64) as usize;
        Some(from[at])
    }
}

impl Schedule {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the turn away, as `state`; returns when it is this thread's again. Whether a limit was reached.
    fn give(&self, me: usize, state: State) -> bool {
        let mut inner = self.lock();
        inner.threads[me] = state;
        inner.turns += 1;
        if inner.turns > TURNS && inner.stuck.is_none() {
            self.stop(&mut inner, "it goes on for ever");
        }
        match inner.next() {
            Some(next) => {
                inner.running = next;
                if next != me {
                    self.turn[next].notify_one();
                }
            }
            None if inner.threads.iter().all(|state| *state == State::Done) => {}
            None => {
                let who = format!("nobody can go on: {:?}", inner.threads);
                self.stop(&mut inner, &who);
            }
        }
        if state == State::Done {
            return false;
        }
        while inner.running != me && inner.stuck.is_none() {
            inner = self.turn[me].wait(inner).unwrap_or_else(PoisonError::into_inner);
        }
        let limit = inner.threads[me] == state && state != State::Ready;
        inner.threads[me] = State::Ready;
        let stuck = inner.stuck.clone();
        drop(inner);
        match stuck {
            Some(why) if !std::thread::panicking() => panic!("{why}"),
            _ => limit,
        }
    }

    /// From now on everybody runs, into a panic.
    fn stop(&self, inner: &mut Inner, why: &str) {
        inner.stuck.get_or_insert_with(|| why.to_owned());
        self.turn.iter().for_each(Condvar::notify_all);
    }

    fn is_stuck(&self) -> bool {
        self.lock().stuck.is_some()
    }
}

/// The search that this thread takes part in, while it has turns.
fn mine() -> Option<(Arc<Schedule>, usize)> {
    let mine = ME.try_with(|mine| mine.borrow().clone()).ok().flatten();
    mine.filter(|(schedule, _)| !schedule.is_stuck())
}

/// Whether this thread has turns to give away.
pub fn is_on() -> bool {
    mine().is_some()
}

/// A place where another may have its turn.
pub fn point() {
    if let Some((schedule, me)) = mine() {
        let stays = schedule.stays;
        if schedule.lock().random(stays) == 0 {
            schedule.give(me, State::Ready);
        }
    }
}

/// Lets others run.
pub fn yield_now() {
    match mine() {
        Some((schedule, me)) => drop(schedule.give(me, State::Ready)),
        None => std::thread::yield_now(),
    }
}

/// Lets others run for so long.
pub fn pause(time: Duration) {
    match mine() {
        Some((schedule, me)) => drop(schedule.give(me, State::Ready)),
        None => std::thread::sleep(time),
    }
}

/// Waits for what lies there; whether the limit was reached.
pub fn wait(on: usize, limited: bool) -> bool {
    mine().is_some_and(|(schedule, me)| schedule.give(me, State::Waits { on, limited }))
}

/// Whoever waits for what lies there may go on.
pub fn let_go(of: usize) {
    if let Some((schedule, _)) = mine() {
        for state in &mut schedule.lock().threads {
            if matches!(state, State::Waits { on, .. } if *on == of) {
                *state = State::Ready;
            }
        }
    }
}

/// Whether this thread takes part in a search that breaks the rule.
pub fn breaks(rule: Rule) -> bool {
    ME.with_borrow(|mine| mine.as_ref().is_some_and(|(schedule, _)| schedule.broken == Some(rule)))
}

/// Runs the threads in this order of turns. Errors: how the first of them panicked.
pub fn run(order: Order, work: Vec<Work<'_>>) -> Result<(), String> {
    let schedule = Arc::new(Schedule {
        inner: Mutex::new(Inner {
            running: 0,
            threads: vec![State::Ready; work.len()],
            random: order.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            turns: 0,
            stuck: None,
        }),
        turn: work.iter().map(|_| Condvar::new()).collect(),
        stays: order.stays,
        broken: order.broken,
    });
    let first = Mutex::new(None);
    std::thread::scope(|scope| {
        for (me, work) in work.into_iter().enumerate() {
            let (schedule, first) = (schedule.clone(), &first);
            scope.spawn(move || {
                ME.set(Some((schedule.clone(), me)));
                let mut inner = schedule.lock();
                while inner.running != me && inner.stuck.is_none() {
                    inner = schedule.turn[me].wait(inner).unwrap_or_else(PoisonError::into_inner);
                }
                drop(inner);
                if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                    let text = panic.downcast_ref::<String>().cloned();
                    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                    let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                    first.get_or_insert(text.unwrap_or_default());
                    // What it held is let go; the others are of no interest any more.
                    let mut inner = schedule.lock();
                    schedule.stop(&mut inner, "another thread panicked");
                }
                schedule.give(me, State::Done);
                ME.set(None);
            });
        }
    });
    let first = first.into_inner().unwrap_or_else(PoisonError::into_inner);
    first.map_or(Ok(()), Err)
}
