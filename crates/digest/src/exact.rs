//! The slow look, taken only when a digest is not empty: the items themselves, and which of them one side has alone.

use crate::equation::{Equation, Equations};
use crate::sink::Sink;
use core::fmt;

/// Most items that an imbalance names.
const NAMED: usize = 8;
/// Most items that are collected; a transaction has fewer.
const COLLECTED: usize = 1 << 20;

/// An item that one side has alone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Item {
    /// The object: a page, an inode or metablock number; 0 where an equation counts without objects.
    pub object: u64,
    /// What it should have or be, where the equation compares that.
    pub value: u64,
    /// How often the left side has it more than the right side.
    pub times: i64,
    /// Of a local rule: the field that is wrong; else empty.
    pub field: &'static str,
}

/// An equation that does not balance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Imbalance {
    /// Which.
    pub equation: Equation,
    /// The first items that one side has alone.
    pub items: Vec<Item>,
}

impl fmt::Display for Imbalance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = self.equation;
        write!(f, "E-{} {} ({})", e as u8, e.word(), e.clauses())?;
        for item in &self.items {
            if !item.field.is_empty() {
                write!(f, "; {} of {} at {}", item.field, item.object, item.value)?;
                continue;
            }
            let (side, times) = (
                if item.times > 0 { e.left() } else { e.right() },
                item.times.unsigned_abs(),
            );
            write!(
                f,
                "; {times} more of {}/{:#x} on the side of {side}",
                item.object, item.value
            )?;
        }
        Ok(())
    }
}

/// Collects the items of some equations.
pub(crate) struct Exact {
    equations: Equations,
    items: Vec<(Equation, Item)>,
}

impl Exact {
    /// Nothing yet.
    pub fn new(equations: Equations) -> Exact {
        Exact {
            equations,
            items: Vec::new(),
        }
    }

    fn push(&mut self, equation: Equation, object: u64, value: u64, times: i64) {
        let field = "";
        let item = Item {
            object,
            value,
            times,
            field,
        };
        self.keep(equation, item);
    }

    fn keep(&mut self, equation: Equation, item: Item) {
        if self.equations.has(equation) && item.times != 0 && self.items.len() < COLLECTED {
            self.items.push((equation, item));
        }
    }

    /// What is left when equal items of both sides are taken off, by equation.
    pub fn imbalances(mut self) -> Vec<Imbalance> {
        self.items
            .sort_unstable_by_key(|(e, i)| (*e, i.object, i.value, i.field));
        let same = |(e, i): &(Equation, Item), (f, j): &(Equation, Item)| {
            (e, i.object, i.value, i.field) == (f, j.object, j.value, j.field)
        };
        let mut left: Vec<(Equation, Item)> = Vec::new();
        for equal in self.items.chunk_by(same) {
            let times = equal.iter().fold(0i64, |sum, (_, item)| sum.wrapping_add(item.times));
            left.extend(equal.first().map(|(e, item)| (*e, Item { times, ..*item })));
        }
        left.retain(|(_, item)| item.times != 0);
        come_and_go(&mut left);
        let by_equation = left.chunk_by(|(e, _), (f, _)| e == f);
        let named = |items: &[(Equation, Item)]| items.iter().take(NAMED).map(|(_, item)| *item).collect();
        by_equation
            .filter_map(|items| {
                Some(Imbalance {
                    equation: items.first()?.0,
                    items: named(items),
                })
            })
            .collect()
    }
}

/// A page that is gained and lost without the bitmap, or in the bitmap alone, by one transaction has only moved.
fn come_and_go(left: &mut Vec<(Equation, Item)>) {
    let of = |equation| move |(e, item): &(Equation, Item)| (*e == equation).then_some(*item);
    let gained: Vec<Item> = left.iter().filter_map(of(Equation::PagesGained)).collect();
    let lost: Vec<Item> = left.iter().filter_map(of(Equation::PagesLost)).collect();
    left.retain(|(e, item)| match e {
        Equation::PagesGained => !lost.contains(item),
        Equation::PagesLost => !gained.contains(item),
        _ => true,
    });
}

impl Sink for Exact {
    fn wants(&self, equation: Equation) -> bool {
        self.equations.has(equation)
    }

    fn run(&mut self, equation: Equation, start: u64, len: u64, times: i64) {
        (start..start.saturating_add(len)).for_each(|item| self.push(equation, item, 0, times));
    }

    fn pair(&mut self, equation: Equation, first: u64, second: u64, times: i64) {
        self.push(equation, first, second, times);
    }

    fn count(&mut self, equation: Equation, times: i64) {
        self.push(equation, 0, 0, times);
    }

    fn breach(&mut self, equation: Equation, object: u64, value: u64, field: &'static str) {
        let times = 1;
        let item = Item {
            object,
            value,
            times,
            field,
        };
        self.keep(equation, item);
    }
}
