//! The locks of `parking_lot` with turns: a thread of a search never sleeps on one, it gives its turn away instead.

use super::schedule;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn place<T: ?Sized>(of: &T) -> usize {
    core::ptr::from_ref(of).addr()
}

/// Takes what `try_take` takes, which lies at `at`.
fn take<G>(at: usize, try_take: impl Fn() -> Option<G>, sleep: impl FnOnce() -> G) -> G {
    schedule::point();
    while schedule::is_on() {
        if let Some(guard) = try_take() {
            return guard;
        }
        schedule::wait(at, false);
    }
    sleep()
}

/// `parking_lot::Mutex`.
#[derive(Default, Debug)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

/// `parking_lot::MutexGuard`.
pub struct MutexGuard<'m, T> {
    mutex: &'m Mutex<T>,
    /// `None` while it waits for a condition, and at the end.
    guard: Option<parking_lot::MutexGuard<'m, T>>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex(parking_lot::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = take(place(self), || self.0.try_lock(), || self.0.lock());
        self.guard(guard)
    }

    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        schedule::point();
        self.0.try_lock().map(|guard| self.guard(guard))
    }

    fn guard<'m>(&'m self, guard: parking_lot::MutexGuard<'m, T>) -> MutexGuard<'m, T> {
        MutexGuard {
            mutex: self,
            guard: Some(guard),
        }
    }
}

impl<T> MutexGuard<'_, T> {
    pub fn unlocked<U>(guard: &mut Self, f: impl FnOnce() -> U) -> U {
        guard.let_go();
        let done = f();
        guard.take_again();
        done
    }

    fn let_go(&mut self) {
        self.guard = None;
        schedule::let_go(place(self.mutex));
    }

    fn take_again(&mut self) {
        let mutex = self.mutex;
        self.guard = Some(take(place(mutex), || mutex.0.try_lock(), || mutex.0.lock()));
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.let_go();
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.guard.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.guard.as_mut().expect("it is held")
    }
}

/// `parking_lot::RwLock`.
#[derive(Default, Debug)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

/// `parking_lot::RwLockReadGuard`.
pub struct RwLockReadGuard<'l, T>(Option<parking_lot::RwLockReadGuard<'l, T>>, usize);

/// `parking_lot::RwLockWriteGuard`.
pub struct RwLockWriteGuard<'l, T>(Option<parking_lot::RwLockWriteGuard<'l, T>>, usize);

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock(parking_lot::RwLock::new(value))
    }

    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let guard = take(place(self), || self.0.try_read(), || self.0.read());
        RwLockReadGuard(Some(guard), place(self))
    }

    pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
        let guard = take(place(self), || self.0.try_read_recursive(), || self.0.read_recursive());
        RwLockReadGuard(Some(guard), place(self))
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let guard = take(place(self), || self.0.try_write(), || self.0.write());
        RwLockWriteGuard(Some(guard), place(self))
    }
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        schedule::let_go(self.1);
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.0 = None;
        schedule::let_go(self.1);
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is held")
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is held")
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("it is held")
    }
}

/// `parking_lot::Condvar`.
#[derive(Default, Debug)]
pub struct Condvar(parking_lot::Condvar);

/// `parking_lot::WaitTimeoutResult`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar(parking_lot::Condvar::new())
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if !self.gave_turn(guard, false).1 {
            self.0.wait(guard.guard.as_mut().expect("it is held"));
        }
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> WaitTimeoutResult {
        let (limit, waited) = self.gave_turn(guard, true);
        if waited {
            return WaitTimeoutResult(limit);
        }
        let held = guard.guard.as_mut().expect("it is held");
        WaitTimeoutResult(self.0.wait_until(held, until).timed_out())
    }

    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        self.wait_until(guard, Instant::now() + time)
    }

    /// The wait of a thread of a search: whether its limit was reached, and whether it is one.
    fn gave_turn<T>(&self, guard: &mut MutexGuard<'_, T>, limited: bool) -> (bool, bool) {
        if !schedule::is_on() {
            return (false, false);
        }
        // Nobody else runs between this and the wait.
        guard.let_go();
        let limit = schedule::wait(place(self), limited);
        guard.take_again();
        (limit, true)
    }

    pub fn notify_one(&self) {
        // To more than one: each looks again.
        schedule::let_go(place(self));
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        schedule::let_go(place(self));
        self.0.notify_all();
    }
}

/// An atomic word at which others may have their turn.
#[derive(Default, Debug)]
pub struct Word(AtomicU64);

impl Word {
    pub fn load(&self, order: Ordering) -> u64 {
        schedule::point();
        self.0.load(order)
    }

    pub fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        schedule::point();
        self.0.fetch_add(value, order)
    }

    pub fn fetch_sub(&self, value: u64, order: Ordering) -> u64 {
        schedule::point();
        self.0.fetch_sub(value, order)
    }

    pub fn fetch_or(&self, value: u64, order: Ordering) -> u64 {
        schedule::point();
        self.0.fetch_or(value, order)
    }

    pub fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
        schedule::point();
        self.0.fetch_and(value, order)
    }
}
