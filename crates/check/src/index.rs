//! Directory indexes: levels, and which leaf stands in which slots (SPEC S-6.4, S-6.5).

use crate::Page;
use crate::dir::{Dir, Route, node};
use crate::finding::Finding;
use crate::walk::Walk;
use keepfs_format::dir::{CHILDREN, LEVEL_MAX, child_offset};
use keepfs_format::{Kind, MetaId, Space};
use std::collections::HashSet;

/// The children of an index, slot by slot.
pub(crate) fn children(bytes: &Page) -> [u64; CHILDREN] {
    core::array::from_fn(|slot| {
        let at = child_offset(slot);
        bytes[at..at + 8].try_into().map_or(0, u64::from_le_bytes)
    })
}

/// Checks the index `id` and all that is below it.
pub(crate) fn check(walk: &mut Walk<'_>, dir: &mut Dir, id: MetaId, level: u8, bytes: &Page, route: Route) {
    let owner = dir.ino;
    let expected = expected_level(&route);
    if expected != Some(level) || level > LEVEL_MAX {
        walk.finding(Finding::Node {
            id: id.into(),
            owner,
            field: "level or place",
        });
        (dir.complete, walk.blind.users) = (false, true);
        return;
    }
    let end = child_offset(CHILDREN - 1) + 8;
    if let Some(past) = bytes[end..].iter().position(|b| *b != 0) {
        walk.finding(Finding::Reserved {
            id: id.into(),
            offset: end + past,
        });
    }
    let mut above = route.above;
    above.extend(route.span.map(|(slot, _)| slot));
    let children = children(bytes);
    let mut seen = HashSet::new();
    let mut first = 0;
    while first < CHILDREN {
        let child = children[first];
        let count = children[first..].iter().take_while(|c| **c == child).count();
        let field = match (MetaId(child).space(), seen.insert(child)) {
            (Some(Space::Nodes), true) => None,
            (Some(Space::Nodes), false) => Some("its child stands in slots before, apart from it"),
            _ => Some("it holds no node"),
        };
        if let Some(field) = field {
            walk.finding(Finding::Slot {
                dir: owner,
                id: id.into(),
                slot: first,
                field,
            });
            (dir.complete, walk.blind.users) = (false, true);
        } else {
            node(
                walk,
                dir,
                child,
                Route {
                    above: above.clone(),
                    span: Some((first, count)),
                },
            );
        }
        first += count;
    }
}

/// Level that an index reached so must have: 0 for a root, one more than the index above whose single slot it takes.
fn expected_level(route: &Route) -> Option<u8> {
    match route.span {
        None => Some(0),
        Some((_, 1)) => u8::try_from(route.above.len() + 1).ok(),
        Some(_) => None,
    }
}

/// Whether a node is an index.
pub(crate) fn is_index(kind: u8) -> bool {
    kind == Kind::DirIndex as u8
}
