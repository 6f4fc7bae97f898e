//! The second life of a volume: what the server before left is taken up (SPEC section 16).

use crate::errors::{Error, Result};
use crate::lookups::Lookups;
use crate::{Volume, VolumeOptions};
use keepfs_media::Device;
use keepfs_store::planted::{self, Second};
use keepfs_store::twice::Found;
use keepfs_store::{Evidence, LOOKUPS, Pool, Remains, Resumed, Store};
use keepfs_vfs::Ino;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

impl Volume {
    /// Opens the pool of a server that died, with what it left; its process is gone (waitpid(2) has returned). Whatever was
    /// acknowledged is there, what was not is whole or absent, and inodes that are looked up stay. Then
    /// [`Volume::remains`] is what the keeper shall hold instead of `remains`, all at once.
    ///
    /// It may be killed at any moment and run again with the same `remains`.
    ///
    /// Errors: as [`Volume::open`]. Memory that cannot be used is no error: what it held is told in [`Resumed`].
    pub fn resume(
        device: Arc<dyn Device>,
        options: &VolumeOptions,
        mut remains: Remains,
    ) -> Result<(Arc<Volume>, Resumed)> {
        let pool = Pool::on(&*device)?;
        let (guard, seal) = (options.store.guard, options.store.seal);
        let left = remains
            .take(LOOKUPS)
            .filter(|_| !planted::forgets(Second::LookupsForgotten));
        let lost = |why| Some(Evidence::Memory(LOOKUPS, why));
        let (mut lookups, found) = match left.map(|left: OwnedFd| Lookups::adopt(left, &pool, guard, seal)) {
            Some(Ok((lookups, header))) => {
                let changed = |is_known| Some(Evidence::Twice(LOOKUPS, "header", is_known));
                let changed = match header {
                    Found::Both(()) => None,
                    Found::One(()) => changed(true),
                    Found::Neither => changed(false),
                };
                (lookups, changed)
            }
            Some(Err(error)) => (Lookups::new(&pool, guard, seal)?, lost(error.to_string())),
            None => (Lookups::new(&pool, guard, seal)?, lost("they are missing".into())),
        };
        let (store, mut resumed) = Store::resume(device, &options.store, remains, |ino| lookups.raise(ino))?;
        if let Some(found) = found {
            match &found {
                Evidence::Memory(_, lost) => {
                    tracing::error!(
                        %lost,
                        "lookup counts of the server before are not known: files without names stay until the unmount"
                    );
                    let orphans = match planted::forgets(Second::LookupsForgotten) {
                        true => Vec::new(),
                        false => store.orphans()?,
                    };
                    orphans.into_iter().for_each(|ino| lookups.raise(ino));
                }
                changed => {
                    tracing::error!(%changed, "in the memory of the server before; it was made right, and what it is of was used")
                }
            }
            resumed.findings.push(found);
        }
        if resumed.lost > 0 {
            lookups.note_lost();
        }
        // A name that the kernel remembers must not lead to another file.
        if lookups.has_lost() {
            lookups.each_held(|ino| store.keep_number(ino));
        }
        if store.has_lost_staged() {
            lookups.note_lost_staged();
        }
        let begun = Instant::now();
        let volume = Volume::assembled(store, lookups, options);
        if !volume.is_read_only() {
            match volume.begin_writing() {
                // As where the recovery lacks what only writers need (S-16.6), or cannot write (S-16.33).
                Err(Error::Store(why)) if why.ends_writing_of_a_resume() => volume.store.end_writing(why),
                begun => begun?,
            }
        }
        volume.start_scrubs();
        resumed.parts.volume = begun.elapsed();
        Ok((volume, resumed))
    }

    /// The memory that a restarted server needs, of a volume whose store was opened with `lasting`. Errors: no descriptors
    /// are left.
    pub fn remains(&self) -> Result<Remains> {
        let mut remains = self.store.remains()?;
        if let Some(lookups) = self.lookups.descriptor() {
            let lookups = lookups.try_clone_to_owned();
            let source = |source| keepfs_store::Error::Memory {
                bytes: 0,
                source: Arc::new(source),
            };
            remains.add(LOOKUPS, lookups.map_err(source)?);
        }
        Ok(remains)
    }

    /// Whether changes were lost since the mount was made, by this server's predecessor or one before (S-16.5).
    pub fn has_lost(&self) -> bool {
        self.lookups.has_lost()
    }

    /// Calls `each` with every inode that is looked up: where changes were lost, what the kernel has cached of it is not to be
    /// believed (S-16.5).
    pub fn each_looked_up(&self, mut each: impl FnMut(Ino)) {
        self.lookups.each_held(|ino| each(Ino(ino)));
    }
}
