//! A mount for one test.

use super::TRANSPORT;
use keepfs_fuse::{FuseError, How, MountConfig, Notifier, Session, Tally, TransportKind, Unmounter, mount};
use keepfs_testkit::model::Model;
use keepfs_vfs::Vfs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// After so long nobody is between fork and exec any more.
pub const BUSY_MAX: Duration = Duration::from_secs(10);

/// A file system mounted on a fresh directory, served by a thread of this process.
pub struct Mount {
    dir: tempfile::TempDir,
    pub unmounter: Unmounter,
    pub notifier: Notifier,
    pub tally: Arc<Tally>,
    server: Option<JoinHandle<Result<(), FuseError>>>,
}

/// Whether real mounts are possible; says so if not.
pub fn possible() -> bool {
    let found = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
    if !found {
        skipped("root and /dev/fuse");
    }
    found
}

/// Says that a test is skipped, past what the harness keeps of a test that passes: `cargo xtask test` counts it.
fn skipped(needs: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: needs {needs}");
}

/// Mounts with the transport of this module, and makes sure that it is in use.
pub fn mount_here(vfs: Arc<dyn Vfs>, config: &MountConfig) -> Result<Session, FuseError> {
    let config = MountConfig {
        transport: TRANSPORT,
        ..config.clone()
    };
    let session = mount(vfs, &config)?;
    match (
        TRANSPORT,
        Path::new("/sys/module/fuse/parameters/enable_uring").exists(),
    ) {
        (TransportKind::Uring, true) => assert_eq!(session.transport(), "uring"),
        (TransportKind::Uring, false) => skipped("FUSE over io_uring; /dev/fuse is tested again instead"),
        _ => assert_eq!(session.transport(), "dev"),
    }
    Ok(session)
}

impl Mount {
    /// Mounts the oracle with the default configuration.
    pub fn model() -> Option<Mount> {
        Mount::with(Arc::new(Model::default()), MountConfig::default())
    }

    /// Mounts `vfs`; `config.mountpoint` is chosen here.
    pub fn with(vfs: Arc<dyn Vfs>, mut config: MountConfig) -> Option<Mount> {
        if !possible() {
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        config.mountpoint = dir.path().to_owned();
        let session = mount_here(vfs, &config).unwrap();
        let (unmounter, notifier, tally) = (session.unmounter(), session.notifier(), session.tally());
        let server = Some(std::thread::spawn(move || session.run()));
        Some(Mount {
            dir,
            unmounter,
            notifier,
            tally,
            server,
        })
    }

    /// A path on the mount.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Where it is mounted.
    pub fn root(&self) -> &Path {
        self.dir.path()
    }

    /// Unmounts and waits for the server's end. A child that another test has just started holds copies of all open
    /// files until its exec, so `EBUSY` counts only if it stays.
    pub fn unmount(mut self) -> Result<(), FuseError> {
        let end = Instant::now() + BUSY_MAX;
        loop {
            match self.unmounter.unmount(How::Gentle) {
                Err(FuseError::Busy { .. }) if Instant::now() < end => std::thread::yield_now(),
                unmounted => break unmounted?,
            }
        }
        self.join()
    }

    /// Waits for the server's end.
    pub fn join(&mut self) -> Result<(), FuseError> {
        self.server.take().map_or(Ok(()), |server| server.join().unwrap())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.server.is_some() {
            let _ = self.unmounter.unmount(How::Lazy);
            let _ = self.join();
        }
    }
}
