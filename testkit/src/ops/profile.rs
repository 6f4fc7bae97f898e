//! What random operations are made of: the numbers, the names, and how much of each kind.

use super::{Verb, Who};
use keepfs_vfs::InodeFlags;

/// A small random number generator (splitmix64): one seed, one sequence, for ever.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// From a seed.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `end`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.next_u64() % end }
    }

    /// True `percent` times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, which must not be empty.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// What kind of operations, and how many of each.
#[derive(Clone, Debug)]
pub struct Profile {
    pub(super) weights: Vec<(Verb, u64)>,
    /// Directories, the root among them as `/`.
    pub dirs: Vec<&'static str>,
    /// Last names of paths.
    pub names: Vec<&'static str>,
    /// Offsets and sizes are mostly near these.
    pub offsets: Vec<u64>,
    /// Most bytes of one write, allocation or copy.
    pub len_max: u64,
    /// Who creates files.
    pub who: Vec<Who>,
    /// Values for chattr.
    pub flags: Vec<InodeFlags>,
    /// Most bytes of an attribute's value.
    pub xattr_len_max: u64,
}

impl Profile {
    /// Every operation, as often as it is interesting. Flags are cleared more often than they are set.
    pub fn everything() -> Profile {
        let weight = |verb| match verb {
            Verb::Create | Verb::Write => 12,
            Verb::Rename => 10,
            Verb::Mkdir => 5,
            Verb::Append | Verb::Truncate | Verb::Link | Verb::Unlink => 6,
            Verb::Fallocate | Verb::CopyRange | Verb::Read => 5,
            Verb::SetXattr | Verb::SetMode | Verb::Chown | Verb::SetAcl => 4,
            Verb::Rmdir | Verb::Tmpfile | Verb::Hold | Verb::Symlink | Verb::SetFlags | Verb::SeekMap => 3,
            Verb::Mknod | Verb::RemoveXattr | Verb::Seek | Verb::Utimes | Verb::Fsync => 2,
            _ => 1,
        };
        let who = |umask, uid, gid| Who { umask, uid, gid };
        Profile {
            weights: Verb::ALL.iter().map(|&verb| (verb, weight(verb))).collect(),
            dirs: vec!["/", "a", "b", "a/c"],
            names: vec!["f", "g", "c"],
            offsets: vec![0, 100, 4095, 4096, 8192, 12_288, 65_536, 1 << 20],
            len_max: 20_000,
            who: vec![who(0o022, 0, 0), who(0, 1000, 1000), who(0o077, 1000, 50)],
            flags: [0, 0, 0, 0x10, 0x20, 0x40, 0x80].map(InodeFlags).to_vec(),
            xattr_len_max: 300,
        }
    }

    /// The same with another weight for one operation (0: never).
    pub fn with(mut self, verb: Verb, weight: u64) -> Profile {
        for entry in self.weights.iter_mut().filter(|(v, _)| *v == verb) {
            entry.1 = weight;
        }
        self
    }

    /// The same with offsets and sizes up to `max`, for sparse files.
    pub fn with_offsets_to(mut self, max: u64) -> Profile {
        self.offsets
            .extend([1 << 32, 1 << 40, max / 2, max - 1].into_iter().filter(|&o| o < max));
        self
    }
}
