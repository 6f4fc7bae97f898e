//! What is known of recoveries by what they read (decision 0200).
//!
//! A recovery, with all that is asked of its result, is a function of the pages that it reads. So a run is kept as a
//! path of a decision tree: a node names the page that is read next, its branches the contents seen there, its leaf
//! the verdict. An image that can follow a path to its end would be recovered to the same verdict, whatever stands in
//! the pages that are not on the path. Most nodes have one branch, which leads to the node kept next.

use super::trace::{Read, digest_at};
use keepfs_testkit::image::Image;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Number of a node.
type NodeNo = u32;

enum Node<V> {
    /// This page is read next. The content of this digest, seen there first, leads to the next node.
    Read { page: u64, first: u64 },
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
    /// Those that are not the first of their node.
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
            at = match self.nodes.get(at as usize)? {
                Node::Leaf(verdict) => return Some(verdict),
                Node::Read { page, first } => match digest_at(image, *page) {
                    digest if digest == *first => at + 1,
                    digest => *self.branches.get(&(at, digest))?,
                },
            }
        }
    }

    /// Keeps a run.
    pub fn keep(&mut self, reads: &[Read], verdict: V) -> Result<(), Contradiction> {
        let mut at: NodeNo = 0;
        for (after, read) in reads.iter().enumerate() {
            let next = self.nodes.len() as NodeNo;
            at = match self.nodes.get(at as usize) {
                None => {
                    let (page, first) = (read.page, read.digest);
                    self.nodes.push(Node::Read { page, first });
                    at + 1
                }
                Some(Node::Read { page, .. }) if *page != read.page => return Err(Contradiction { after }),
                Some(Node::Leaf(_)) => return Err(Contradiction { after }),
                Some(Node::Read { first, .. }) if *first == read.digest => at + 1,
                Some(Node::Read { .. }) => *self.branches.entry((at, read.digest)).or_insert(next),
            };
        }
        match self.nodes.get(at as usize) {
            None => self.nodes.push(Node::Leaf(verdict)),
            Some(Node::Leaf(_)) => {}
            Some(Node::Read { .. }) => return Err(Contradiction { after: reads.len() }),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
