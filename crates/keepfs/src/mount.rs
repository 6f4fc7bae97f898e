//! Pools served at a directory, by any program.

use crate::error::Result;
use crate::pool::Pool;
use keepfs_server::Mount;
use keepfs_server::mount::Mounting;
use std::path::Path;

impl Pool {
    /// Mounts the pool at `pool` at the directory `dir`, as `keepfs mount` does, with the options that its `-o` takes; `""` for the usual
    /// ones. Returns when it can be used.
    ///
    /// The pool is not served by this process but by others, which are this program started once more: a keeper, and a server that is
    /// confined and that the keeper replaces when it dies. So `main` must call [`serve_if_asked`](crate::serve_if_asked) first. They
    /// outlive this program; `keepfs status`, `upgrade` and `unmount` know the mount as every other one. What of it is not as it should
    /// be is told to `tracing`.
    ///
    /// ```no_run
    /// fn main() -> Result<(), Box<dyn std::error::Error>> {
    ///     keepfs::serve_if_asked();
    ///     let mount = keepfs::Pool::mount("photos.pool", "/mnt/photos", "noatime,commit=1")?;
    ///     std::fs::write(mount.dir().join("note"), "first light")?;
    ///     mount.unmount()?; // everything is durable, and the pool is free
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Mount`](crate::Error::Mount): this process is not root's, the pool is in use or damaged, an option makes no sense, or
    /// `main` does not do what it must.
    pub fn mount(pool: impl AsRef<Path>, dir: impl AsRef<Path>, options: &str) -> Result<Mount> {
        let mounting = Mounting::of(pool.as_ref(), dir.as_ref(), &[options.to_owned()], false)?;
        Ok(mounting.in_background(&mut |line| tracing::warn!("{line}"))?)
    }
}
