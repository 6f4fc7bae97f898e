//! What is known of recoveries by what they read (decision 0200).
//!
//! A recovery, with all that is asked of its result, is a function of the pages that it reads. So a run is kept as a
//! path of a decision tree: a node names the page that is read next, its branches the contents seen there, its leaf
//! the verdict. An image that can follow a path to its end would be recovered to the same verdict, whatever stands in
//! the pages that are not on the path.

use super::trace::{Read, digest_at};
use keepfs_testkit::image::Image;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Number of a node.
type NodeNo = u32;

enum Node<V> {
    /// This page is read next.
    Read(u64),
    /// Nothing more is read.
    Leaf(V),
}

/// The hash of what is a digest already, or stands beside one.
#[derive(Default)]
pub struct OfDigests(u64);

impl Hasher for OfDigests {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The recoveries of one setting.
pub struct Memo<V> {
    nodes: Vec<Node<V>>,
    branches: HashMap<(NodeNo, u64), NodeNo, BuildHasherDefault<OfDigests>>,
}

impl<V> Default for Memo<V> {
    fn default() -> Memo<V> {
        Memo {
            nodes: Vec::new(),
            branches: HashMap::default(),
        }
    }
}

/// Two runs read the same and then went different ways: they are not functions of what they read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contradiction {
    /// How many pages they had read.
    pub after: usize,
}

impl<V> Memo<V> {
    /// The verdict on an image that an equal recovery gave.
    pub fn find(&self, image: &Image) -> Option<&V> {
        let mut at: NodeNo = 0;
        loop {
            match self.nodes.get(at as usize)? {
                Node::Leaf(verdict) => return Some(verdict),
                Node::Read(page) => at = *self.branches.get(&(at, digest_at(image, *page)))?,
            }
        }
    }

    /// Keeps a run.
    pub fn keep(&mut self, reads: &[Read], verdict: V) -> Result<(), Contradiction> {
        let mut at = None;
        for (after, read) in reads.iter().enumerate() {
            let node = self.reach(at);
            match self.nodes.get(node as usize) {
                None => self.nodes.push(Node::Read(read.page)),
                Some(Node::Read(page)) if *page == read.page => {}
                Some(_) => return Err(Contradiction { after }),
            }
            at = Some((node, read.digest));
        }
        let node = self.reach(at);
        match self.nodes.get(node as usize) {
            None => self.nodes.push(Node::Leaf(verdict)),
            Some(Node::Leaf(_)) => {}
            Some(Node::Read(_)) => return Err(Contradiction { after: reads.len() }),
        }
        Ok(())
    }

    /// The node behind a branch; if there is none, the number of the one to be added next.
    fn reach(&mut self, at: Option<(NodeNo, u64)>) -> NodeNo {
        let next = self.nodes.len() as NodeNo;
        at.map_or(0, |branch| *self.branches.entry(branch).or_insert(next))
    }
}

#[cfg(test)]
mod tests;
