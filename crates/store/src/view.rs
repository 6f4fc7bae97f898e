//! Reading outside transactions.

use crate::Store;
use crate::error::{Error, Stop};
use crate::txn::{Birth, Source, Stamp};
use keepfs_codes::identity::Binding;
use keepfs_format::{MetaId, PAGE};
use keepfs_frames::Pin;
use keepfs_frames::Ref;
use keepfs_frames::named::{check_header, kind_of};

/// Reads metablocks outside a transaction: fetches what is missing, never asks to run again.
///
/// The caller holds the locks that keep what it reads from changing.
pub struct View<'s> {
    store: &'s Store,
    last: Option<(Ref, Pin<'s>, Binding, Birth)>,
}

impl Source for View<'_> {
    #[cfg_attr(feature = "planted", track_caller)]
    fn read(&mut self, r: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop> {
        if offset + buf.len() > PAGE {
            return Err(Error::Logic(format!("a read at {offset} leaves {}", r.id)).into());
        }
        let store = self.store;
        let (pin, binding, _) = self.at(r)?;
        Ok(store.read(pin, binding, offset, buf)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn whole(&mut self, r: Ref, copy: &mut [u8; PAGE]) -> Result<(), Stop> {
        let store = self.store;
        let (pin, binding, _) = self.at(r)?;
        Ok(store.whole(pin, binding, copy)?)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn node(&mut self, id: MetaId, owner: u64) -> Result<Ref, Stop> {
        let pin = self.pin_alive(id, owner)?;
        let header = self.store.header_in_frame(&pin)?;
        let r = Ref::node(id, kind_of(id, &header)?, owner);
        check_header(&header, r, self.store.ground.pool.tag)?;
        self.last = Some((r, pin, self.store.binding(r), Birth::told_by(&header)));
        Ok(r)
    }

    #[cfg_attr(feature = "planted", track_caller)]
    fn birth(&mut self, r: Ref) -> Result<Birth, Stop> {
        Ok(self.at(r)?.2)
    }

    fn stamp(&mut self, r: Ref) -> Result<Stamp, Stop> {
        let store = self.store;
        let frame = self.at(r)?.0.frame;
        Ok(Stamp(frame, store.frames.arena.quiet_version(frame)))
    }
}

impl<'s> View<'s> {
    /// Of this store.
    pub(crate) fn of(store: &'s Store) -> View<'s> {
        View { store, last: None }
    }

    /// Pins a metablock of inode `owner`, 0 of none, for who only reads. If it is lost, nothing but who refers to it tells whose it is.
    fn pin_alive(&self, id: MetaId, owner: u64) -> Result<Pin<'s>, Error> {
        if self.store.ground.device.is_off() {
            return Err(Error::Dead);
        }
        let found = self.store.fetch(id);
        if owner != 0 && matches!(found, Err(Error::DamagedOne { .. })) {
            self.store.history().own(id.0, &[(owner, 0, PAGE as u64)]);
        }
        found
    }

    /// The frame of a metablock, pinned until another one is read, and whose it is.
    fn at(&mut self, r: Ref) -> Result<(&Pin<'s>, Binding, Birth), Stop> {
        if self.last.as_ref().is_none_or(|(last, ..)| *last != r) {
            let (pin, binding) = (self.pin_alive(r.id, r.owner)?, self.store.binding(r));
            let header = self.store.header_of(&pin, r, binding)?;
            self.last = Some((r, pin, binding, Birth::told_by(&header)));
        }
        match &self.last {
            Some((_, pin, binding, birth)) => Ok((pin, *binding, *birth)),
            None => Err(Error::Logic(format!("{} is not pinned", r.id)).into()),
        }
    }
}
