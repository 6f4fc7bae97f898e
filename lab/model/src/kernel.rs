//! What the kernel has of inode numbers: which file it takes each for, and what it has cached of it (S-16.7).

use crate::disk::Val;
use crate::rules::{Rule, Rules};
use crate::tree::{INODES, Tree};

/// A number that is looked up.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    /// The file that the kernel takes it for.
    pub file: Val,
    /// Bytes and attributes that it has.
    pub cached: Option<Val>,
}

/// The kernel, and the note behind the lookup counts. They belong to the mount: a power cut ends them, a server's death does not.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Kernel {
    /// Numbers that are looked up.
    pub held: [Option<Held>; INODES],
    /// A resume has lost changes (S-16.19).
    pub lost: bool,
}

impl Kernel {
    /// A reply names number `n`. Errors: the kernel has it as another file.
    pub fn look_up(&mut self, n: u8, tree: &Tree) -> Result<(), &'static str> {
        let inode = tree.inodes[n as usize];
        let Some(file) = inode.file else { return Ok(()) };
        if self.held[n as usize].is_some_and(|held| held.file != file) {
            return Err("a number is given again that the kernel takes for another file");
        }
        let cached = Some(inode.val);
        self.held[n as usize] = Some(Held { file, cached });
        Ok(())
    }

    /// Whether whoever uses what is looked up finds that file, or none.
    pub fn is_right(&self, tree: &Tree) -> Result<(), &'static str> {
        for (held, inode) in self.held.iter().zip(tree.inodes) {
            let (Some(held), Some(file)) = (held, inode.file) else {
                continue;
            };
            if held.file != file {
                return Err("the kernel finds another file under a number");
            }
            if held.cached.is_some_and(|val| val != inode.val) {
                return Err("the kernel has bytes of a file that are no more");
            }
        }
        Ok(())
    }

    /// A server resumes, and has lost changes or not.
    pub fn resumed(&mut self, loses: bool, rules: Rules) {
        self.lost = loses || self.lost && rules.has(Rule::NoteLives);
        if loses && rules.has(Rule::BytesForgotten) {
            self.held.iter_mut().flatten().for_each(|held| held.cached = None);
        }
    }

    /// Whether nobody may have the number because it is looked up, whatever its bit says.
    pub fn keeps(&self, n: u8, rules: Rules) -> bool {
        self.lost && self.held[n as usize].is_some() && rules.has(Rule::LostKept)
    }
}
