//! Building requests.

use keepfs_fuse::protocol::Opcode;
use zerocopy::{Immutable, IntoBytes};

/// A request under construction; [`Req::bytes`] fills in the length.
#[derive(Clone)]
pub struct Req(Vec<u8>);

/// The number every request here has.
pub const UNIQUE: u64 = 0x0123_4567_89ab_cdef & !(1 << 63);

impl Req {
    /// The head: uid 1000, gid 100, pid 4321.
    pub fn new(op: Opcode, node: u64) -> Req {
        let mut bytes = 0u32.to_ne_bytes().to_vec();
        bytes.extend((op as u32).to_ne_bytes());
        bytes.extend(UNIQUE.to_ne_bytes());
        bytes.extend(node.to_ne_bytes());
        [1000u32, 100, 4321, 0]
            .iter()
            .for_each(|word| bytes.extend(word.to_ne_bytes()));
        Req(bytes)
    }

    pub fn args<T: IntoBytes + Immutable>(mut self, args: &T) -> Req {
        self.0.extend_from_slice(args.as_bytes());
        self
    }

    pub fn raw(mut self, bytes: &[u8]) -> Req {
        self.0.extend_from_slice(bytes);
        self
    }

    /// A string and its NUL.
    pub fn name(self, name: &str) -> Req {
        self.raw(name.as_bytes()).raw(&[0])
    }

    /// 32-bit words.
    pub fn words(mut self, words: &[u32]) -> Req {
        words.iter().for_each(|word| self.0.extend(word.to_ne_bytes()));
        self
    }

    /// Asked by this user in that process.
    pub fn by(mut self, uid: u32, pid: u32) -> Req {
        self.0[24..28].copy_from_slice(&uid.to_ne_bytes());
        self.0[32..36].copy_from_slice(&pid.to_ne_bytes());
        self
    }

    /// An extension area, counted in the head.
    pub fn extensions(mut self, area: &[u8]) -> Req {
        self.0.extend_from_slice(area);
        self.0[36..38].copy_from_slice(&((area.len() / 8) as u16).to_ne_bytes());
        self
    }

    pub fn bytes(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

pub fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}
