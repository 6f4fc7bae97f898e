//! The rules of one entry of the map (S-4.3).

use super::Pool;
use crate::error::Error;
use keepfs_format::MetaId;
use keepfs_format::map::{DEAD, LIVE, MapEntry, NEVER};

impl Pool {
    /// The entry of `id` is as S-4.3 says: what decides between life and death is never guessed (S-1.3).
    pub fn check_entry(&self, id: MetaId, entry: &MapEntry) -> Result<(), Error> {
        let (first, second) = (entry.first.get(), entry.second.get());
        let inside = |page: u64| (1..self.pages).contains(&page);
        let nothing = first == 0 && second == 0 && entry.crc.get() == 0;
        let live = entry.state == LIVE;
        let two = self.meta_copies == 2;
        let rules = [
            (matches!(entry.state, LIVE | DEAD | NEVER), "state"),
            (entry.reserved.get() == 0, "reserved field"),
            (live || nothing, "page of a metablock that does not exist"),
            ((entry.generation.get() == 0) == (entry.state == NEVER), "generation"),
            (!live || inside(first), "first page"),
            (
                !live
                    || if two {
                        inside(second) && second != first
                    } else {
                        second == 0
                    },
                "second page",
            ),
        ];
        match rules.into_iter().find(|(holds, _)| !holds) {
            Some((_, field)) => Err(entry_damage(id, field)),
            None => Ok(()),
        }
    }
}

/// The error of a map entry with a field that breaks its rules.
pub fn entry_damage(id: MetaId, field: &str) -> Error {
    Error::Damaged(format!("the map entry of {id} has a {field} that is not allowed"))
}
