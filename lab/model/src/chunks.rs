//! Where a checkpoint puts its metadata, and which chunks it takes and ends (S-4.5, S-4.7, S-10.2).

use crate::disk::{CHUNK, Page, bits, sum};
use crate::rules::{Rule, Rules};
use crate::state::State;
use crate::tree::{FILES, Gone};

/// Homes of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Place {
    /// Of the metadata.
    pub home: Page,
    /// Of the metablock that lies by itself, if that is written.
    pub leaf: Option<Page>,
    /// The chunk that it takes.
    pub take: Option<Page>,
    /// The chunk that it ends.
    pub end: Option<Page>,
}

impl State {
    /// All places that the next checkpoint may choose; one that ends a recovery ends no chunk.
    pub fn places(&self, rules: Rules) -> Vec<Place> {
        if self.shape.apart {
            return self.apart(rules);
        }
        if !self.shape.chunks {
            let alone = |home| Place {
                home,
                leaf: None,
                take: None,
                end: None,
            };
            return self.free(rules).into_iter().map(alone).collect();
        }
        let mut places = Vec::new();
        for take in [None].into_iter().chain(self.runs(rules).map(Some)) {
            for end in [None].into_iter().chain(self.unused(rules).map(Some)) {
                places.extend(self.homes(take, end, rules));
            }
        }
        places
    }

    /// The lowest free pages, or the highest.
    fn apart(&self, rules: Rules) -> Vec<Place> {
        let pages: Vec<Page> = (0..self.shape.pages).filter(|p| self.is_free(*p, rules)).collect();
        let of = |home: Option<&Page>, leaf: Option<&Page>| {
            let leaf = if self.leaf_changes() { Some(*leaf?) } else { None };
            let home = *home?;
            Some(Place {
                home,
                leaf,
                take: None,
                end: None,
            })
        };
        let low = of(pages.first(), pages.get(1));
        let high = of(pages.last(), pages.iter().rev().nth(1));
        low.into_iter().chain(high.filter(|high| Some(*high) != low)).collect()
    }

    /// Whether the metablock that lies by itself has changed; one that is gone has not.
    fn leaf_changes(&self) -> bool {
        let file = self.tree.without_staged().files[FILES - 1];
        let told = self.sb.leaf.map(|leaf| leaf.1);
        file.gone == Gone::No && told.is_some_and(|told| told != sum(&file))
    }

    /// Runs that a chunk may be made of.
    fn runs(&self, rules: Rules) -> impl Iterator<Item = Page> {
        let may = move |start: &Page| {
            let mut run = *start..*start + CHUNK;
            let free = |p: Page| self.is_free(p, rules);
            let other = |p: Page| free(p) || !rules.has(Rule::WholeChunk) && self.quarantine.iter().any(|q| q.1 == p);
            let overlap = (bits(&self.chunks) | bits(&self.leaving)) & bits(&[*start]) != 0;
            !overlap && run.clone().any(free) && run.all(other)
        };
        (0..self.shape.pages - CHUNK + 1).filter(may)
    }

    /// Chunks that may end: the checkpoint before has no page of them.
    fn unused(&self, rules: Rules) -> impl Iterator<Item = Page> {
        let may = move |start: &Page| {
            let used = (*start..*start + CHUNK).any(|p| self.sb.uses(p));
            self.recovering == 0 && !(used && rules.has(Rule::ChunkBefore))
        };
        self.chunks.iter().copied().filter(may)
    }

    /// Homes in the chunks: the lowest pages, or the highest.
    fn homes(&self, take: Option<Page>, end: Option<Page>, rules: Rules) -> Vec<Place> {
        let changes = self.leaf_changes();
        let ended = end.map_or(0, |end| bits(&[end]));
        let stays = self.sb.leaf.filter(|_| !changes);
        if rules.has(Rule::ChunkOwn) && stays.is_some_and(|leaf| ended >> leaf.0 & 1 == 1) {
            return Vec::new();
        }
        let not = if rules.has(Rule::ChunkOwn) { ended } else { 0 };
        let may = (bits(&self.chunks) | take.map_or(0, |start| bits(&[start]))) & !not;
        let used =
            |p: &Page| self.sb.uses(*p) && (rules.has(Rule::HomesApart) || stays.is_some_and(|leaf| leaf.0 == *p));
        let pages: Vec<Page> = (0..self.shape.pages)
            .filter(|p| may >> p & 1 == 1 && !used(p))
            .collect();
        let mut ways = vec![pages.clone(), pages.into_iter().rev().collect()];
        ways.dedup();
        let of = |pages: &Vec<Page>| {
            let leaf = if changes { Some(*pages.get(1)?) } else { None };
            let home = *pages.first()?;
            Some(Place { home, leaf, take, end })
        };
        ways.iter().filter_map(of).collect()
    }

    /// The chunks of the checkpoint that has its moment.
    pub fn move_chunks(&mut self, place: Place) {
        self.chunks.extend(place.take);
        self.chunks.retain(|start| Some(*start) != place.end);
        self.chunks.sort_unstable();
        self.leaving.extend(place.end);
    }
}
