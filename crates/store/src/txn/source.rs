//! What metablocks are read from: a transaction or a view.

use crate::error::Stop;
use keepfs_format::{Header, MetaId, PAGE};
use keepfs_frames::Ref;
use keepfs_vault::arena::FrameNo;

/// What the header of a node tells of its place and its life (S-3.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Birth {
    /// Level, or local depth.
    pub level: u8,
    /// Which life of the id.
    pub generation: u32,
}

impl Birth {
    pub(crate) fn told_by(header: &Header) -> Birth {
        Birth {
            level: header.level,
            generation: header.generation.get(),
        }
    }
}

/// Something metablocks can be read from: a transaction or a view.
pub trait Source {
    /// Copies bytes of a metablock.
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop>;

    /// What its header tells that a [`Ref`] does not: for who follows a reference to it. Costs nothing where the metablock was just
    /// looked at. Errors: `Damaged`, also if this transaction freed it, so that nothing can lead there.
    fn birth(&mut self, r: Ref) -> Result<Birth, Stop>;

    /// Copies all of a metablock, for who looks at much of it.
    fn whole(&mut self, r: Ref, copy: &mut [u8; PAGE]) -> Result<(), Stop>;

    /// A node of inode `owner` that may be of several kinds (a directory's child: leaf or index), by its header.
    fn node(&mut self, id: MetaId, owner: u64) -> Result<Ref, Stop>;

    /// Tells a metablock's content from any other that it had or will have.
    fn stamp(&mut self, r: Ref) -> Result<Stamp, Stop>;
}

/// Stands for the content of a metablock at a time: another one means that it may have changed. Taken and compared under
/// the lock that protects the metablock; `None` inside: somebody is changing it.
#[derive(Clone, Copy, Debug)]
pub struct Stamp(pub(crate) FrameNo, pub(crate) Option<u64>);

impl Stamp {
    /// Whether nothing has changed. A frame's version counts up with its fillings, too, so a metablock that went and came
    /// back has another stamp.
    pub fn is_still(self, now: Stamp) -> bool {
        self.0 == now.0 && self.1.is_some() && self.1 == now.1
    }
}
