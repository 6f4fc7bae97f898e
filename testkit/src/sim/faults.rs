//! The plan of faults of a simulated device, and the judgement of each operation by it.

use keepfs_media::{Class, PageNo};

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A discard.
    Discard,
}

/// Which operations of a kind fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Only the n-th of its kind since the plan was set, counted from 1.
    Nth(u64),
    /// The n-th of its kind and every later one.
    From(u64),
    /// Every one that touches this page.
    Page(PageNo),
    /// Every one that touches one of so many pages from this one on.
    Pages(PageNo, u64),
}

/// In which order writes in flight reach the medium before a planned power cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PersistOrder {
    /// As written.
    #[default]
    OldestFirst,
    /// The other way round.
    NewestFirst,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Error,
    Short(usize),
    Lie,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    operation: Operation,
    /// Only writes of this class; its n-th is the n-th of the class.
    class: Option<Class>,
    when: When,
    effect: Effect,
}

/// Planned faults (the fault model is at the head of [`crate::sim`]).
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
    /// Pages that cannot be read until they are written.
    unreadable: Vec<PageNo>,
    gone_after: Option<u64>,
    order: PersistOrder,
    /// Operations of each kind seen so far.
    seen: [u64; 4],
    /// Writes of each class seen so far.
    seen_of: [u64; Class::ALL.len()],
}

/// What happens to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Good,
    Error,
    Short(usize),
    Lie,
    Gone,
}

impl Faults {
    /// A device without faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Operations of this kind fail with EIO and change nothing.
    #[must_use]
    pub fn fail(self, operation: Operation, when: When) -> Self {
        self.with(operation, when, Effect::Error)
    }

    /// Reads of this page fail with EIO until it is written: a disk maps a bad sector to a good one then.
    #[must_use]
    pub fn unreadable(mut self, page: PageNo) -> Self {
        self.unreadable.push(page);
        self
    }

    /// Writes of one class fail with EIO and change nothing; others are not counted.
    #[must_use]
    pub fn fail_writes_of(mut self, class: Class, when: When) -> Self {
        self.rules.push(Rule {
            operation: Operation::Write,
            class: Some(class),
            when,
            effect: Effect::Error,
        });
        self
    }

    /// Writes change their first `sectors` sectors of 512 bytes, then fail with EIO.
    #[must_use]
    pub fn short_write(self, when: When, sectors: usize) -> Self {
        self.with(Operation::Write, when, Effect::Short(sectors))
    }

    /// Flushes return Ok and do nothing. `When::Page` never applies to a flush.
    #[must_use]
    pub fn lying_flush(self, when: When) -> Self {
        self.with(Operation::Flush, when, Effect::Lie)
    }

    /// The device is gone after `operations` more operations of any kind.
    #[must_use]
    pub fn gone_after(mut self, operations: u64) -> Self {
        self.gone_after = Some(operations);
        self
    }

    /// At a planned power cut, writes in flight persist newest first.
    #[must_use]
    pub fn newest_first(mut self) -> Self {
        self.order = PersistOrder::NewestFirst;
        self
    }

    fn with(mut self, operation: Operation, when: When, effect: Effect) -> Self {
        self.rules.push(Rule {
            operation,
            class: None,
            when,
            effect,
        });
        self
    }

    pub(super) fn order(&self) -> PersistOrder {
        self.order
    }

    /// Counts an operation on `count` pages from `at` on and says what happens to it.
    pub(super) fn judge(&mut self, operation: Operation, class: Option<Class>, at: PageNo, count: u64) -> Verdict {
        let before: u64 = self.seen.iter().sum();
        self.seen[operation as usize] += 1;
        if self.gone_after.is_some_and(|limit| before >= limit) {
            return Verdict::Gone;
        }
        let nth = self.seen[operation as usize];
        let nth_of = class.map_or(0, |class| {
            self.seen_of[class as usize] += 1;
            self.seen_of[class as usize]
        });
        let applies = |rule: &&Rule| {
            rule.operation == operation
                && match rule.class {
                    None => rule.when.holds(nth, at, count),
                    Some(only) => class == Some(only) && rule.when.holds(nth_of, at, count),
                }
        };
        let touches = |page: &PageNo| When::Page(*page).holds(0, at, count);
        match operation {
            Operation::Read if self.unreadable.iter().any(touches) => return Verdict::Error,
            Operation::Write => self.unreadable.retain(|page| !touches(page)),
            _ => {}
        }
        match self.rules.iter().find(applies).map(|rule| rule.effect) {
            None => Verdict::Good,
            Some(Effect::Error) => Verdict::Error,
            Some(Effect::Short(sectors)) => Verdict::Short(sectors),
            Some(Effect::Lie) => Verdict::Lie,
        }
    }
}

impl When {
    fn holds(self, nth: u64, at: PageNo, count: u64) -> bool {
        match self {
            When::Nth(n) => nth == n,
            When::From(n) => nth >= n,
            When::Page(page) => at <= page && page.0 - at.0 < count,
            When::Pages(first, pages) => at.0 < first.0.saturating_add(pages) && first.0 < at.0.saturating_add(count),
        }
    }
}
