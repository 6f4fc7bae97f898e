//! Reading a node through a reference: it exists, it is referred to once, it belongs to whom it should.

use crate::Page;
use crate::finding::Finding;
use crate::pool::{Load, header};
use crate::walk::Walk;
use keepfs_format::{Header, Kind, MetaId, Space};
use std::rc::Rc;

/// The node that inode `owner` refers to, if it can be used. Everything else is a finding, made here.
pub(crate) fn follow(walk: &mut Walk<'_>, id: u64, owner: u64, kinds: &[Kind]) -> Option<(Header, Rc<Page>)> {
    let id = MetaId(id);
    let load = match id.space() {
        Some(Space::Nodes) => walk.pool.load(id),
        _ => Load::Gone(0),
    };
    match load {
        Load::Gone(_) => walk.finding(Finding::NodeMissing { id: id.into(), owner }),
        Load::Bad => {
            walk.owners.insert(id.0, owner);
        }
        Load::Live(_) if !walk.nodes.add(id.index()) => {
            walk.finding(Finding::NodeTwice { id: id.into(), owner });
        }
        Load::Live(bytes) => {
            let head = header(&bytes);
            let rules = [
                (kinds.iter().any(|k| *k as u8 == head.kind), "kind"),
                (head.owner.get() == owner, "owner"),
            ];
            match rules.iter().find(|(holds, _)| !holds) {
                None => return Some((head, bytes)),
                Some((_, field)) => walk.finding(Finding::Node {
                    id: id.into(),
                    owner,
                    field,
                }),
            }
        }
    }
    walk.blind.users = true;
    None
}
