//! Hashes of contents and of trees: FNV over 8-byte words with a final mix, the same in every build.
//!
//! Parts are added up, so that their order does not matter and holes need no work.

use std::fmt;

use super::{Node, has_more_names};

/// Bytes of the pages that contents are hashed by.
const PAGE_BYTES: u64 = 4096;

/// A hash over words.
struct Words(u64);

impl Words {
    fn new(seed: u64) -> Words {
        Words(0xcbf2_9ce4_8422_2325 ^ seed)
    }

    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        // Four chains beside one another: in a single one each product waits for the last.
        let (fours, words) = words.as_chunks::<4>();
        let mut chains = [1, 2, 3, 4].map(|n| Words(self.0.wrapping_add(n)));
        for four in fours {
            for (chain, word) in chains.iter_mut().zip(four) {
                chain.word(u64::from_le_bytes(*word));
            }
        }
        chains.into_iter().for_each(|chain| self.word(chain.0));
        for word in words {
            self.word(u64::from_le_bytes(*word));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.word(u64::from_le_bytes(last));
    }

    fn finish(mut self) -> u64 {
        self.word(0x5bd1_e995);
        self.0
    }
}

/// The hash of a file's contents: independent of where holes are. Pages may be added in any order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DataHash(u64);

impl DataHash {
    /// Adds `bytes` found at `offset`, a multiple of 4096; each page once, as long as it is.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        let first = offset / PAGE_BYTES;
        for (index, page) in bytes.chunks(PAGE_BYTES as usize).enumerate() {
            let page = without_zeros(page);
            if page.is_empty() {
                continue;
            }
            let mut words = Words::new(first + index as u64);
            words.bytes(page);
            self.0 = self.0.wrapping_add(words.finish());
        }
    }
}

/// What is in front of the zeros at the end, found by whole chunks first: the walk of a tree spends its time here.
fn without_zeros(page: &[u8]) -> &[u8] {
    const CHUNK: usize = 64;
    let whole = page
        .rchunks_exact(CHUNK)
        .take_while(|chunk| chunk.iter().fold(0, |all, b| all | b) == 0);
    let front = &page[..page.len() - CHUNK * whole.count()];
    &front[..front.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1)]
}

impl fmt::Display for DataHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The hash of a tree, fed with its nodes in any order.
#[derive(Default)]
pub(super) struct TreeHash {
    sum: u64,
    /// Identity and path hash of files with several names.
    linked: Vec<(u64, u64)>,
}

impl TreeHash {
    pub(super) fn add(&mut self, path: &[u8], identity: u64, node: &Node) {
        let mut words = Words::new(1);
        words.bytes(path);
        let path_hash = words.finish();
        if has_more_names(node) {
            self.linked.push((identity, path_hash));
        }
        self.sum = self.sum.wrapping_add(node_hash(path_hash, node));
    }

    pub(super) fn finish(mut self) -> u64 {
        self.linked.sort_unstable();
        for group in self.linked.chunk_by(|a, b| a.0 == b.0) {
            let mut words = Words::new(3);
            words.word(group.iter().fold(0u64, |sum, (_, path)| sum.wrapping_add(*path)));
            self.sum = self.sum.wrapping_add(words.finish());
        }
        self.sum
    }
}

fn node_hash(path_hash: u64, node: &Node) -> u64 {
    let mut words = Words::new(2);
    words.word(path_hash);
    words.word(node.kind as u64);
    for number in [node.mode, node.nlink, node.uid, node.gid, node.rdev, node.flags] {
        words.word(u64::from(number));
    }
    words.word(node.size);
    words.word(node.data.0);
    words.bytes(&node.target);
    for (name, value) in &node.xattrs {
        words.bytes(name);
        words.bytes(value);
    }
    if let Some((mtime, ctime)) = node.times {
        for time in [mtime, ctime] {
            words.word(time.sec as u64);
            words.word(u64::from(time.nsec));
        }
    }
    words.finish()
}
