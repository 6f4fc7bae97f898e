//! Mounting: by the server itself, or for a server that gives up the right to mount before it reads a pool, by a helper that
//! it starts first and that reads none (decision 0580).

use crate::claim::Opened;
use crate::failure::Failure;
use crate::options::{Anchor, MountOptions};
use crate::program::OWN;
use crate::registry::{self, Record};
use crate::said::{Attached, Said};
use crate::visible::Shown;
use crate::words::{Attach, Detach, Serve};
use crate::{Outcome, control, environment, starter, wire};
use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{Connection, FuseError, How, MountConfig, Session, Unmounter};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What is said of a mount without an anchor.
const WITHOUT: &str = "sync(2) and umount(2) do not wait, fsync(2) and `keepfs unmount` do";

/// Mounts by this process; whether with an anchor.
pub fn here(pool: &Opened, dir: &Path, options: &MountOptions) -> Result<(Session, bool), Failure> {
    let config = options.mount(pool.path(), dir);
    let mount = |config: &MountConfig| keepfs_fuse::mount(pool.volume().clone(), config);
    with_anchor(pool.path(), options.anchor, config, mount, |said| {
        tracing::warn!("{said}")
    })
}

/// Mounts with the anchor that is wanted, or says why without.
fn with_anchor<T>(
    pool: &Path,
    wanted: Anchor,
    mut config: MountConfig,
    mount: impl Fn(&MountConfig) -> Result<T, FuseError>,
    mut warn: impl FnMut(String),
) -> Result<(T, bool), Failure> {
    let anchor = match wanted {
        Anchor::None => None,
        _ => match LoopAnchor::attach(&pool.shown()) {
            Ok(anchor) => Some(anchor),
            Err(error) if wanted == Anchor::Loop => return Err(error.into()),
            Err(error) => {
                warn(format!("no anchor ({error}): {WITHOUT}"));
                None
            }
        },
    };
    config.anchor = anchor.as_ref().map(|anchor| anchor.path().to_owned());
    match (mount(&config), anchor) {
        (Ok(mounted), anchor) => Ok((mounted, anchor.is_some())),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(anchor)) => {
            let error = anchor.detach().err().unwrap_or(error);
            if wanted == Anchor::Loop {
                return Err(error.into());
            }
            // A kernel that refuses the anchor may still mount without.
            config.anchor = None;
            let mounted = mount(&config)?;
            warn(format!("mounted without an anchor ({error}): {WITHOUT}"));
            Ok((mounted, false))
        }
    }
}

/// A process that mounts when it is told to. Until [`Helper::release`] it takes the mount away again when this is dropped or
/// the server dies.
pub struct Helper {
    socket: Option<OwnedFd>,
    process: Child,
    is_waited_for: bool,
}

impl Helper {
    /// Starts it, with all the rights that this process has now. Its standard output is `keeper`, this process's talk to its
    /// keeper, which so hears the end of both. Errors: it cannot be started.
    pub fn start(args: &Serve, keeper: OwnedFd, keeper_pid: u32) -> io::Result<Helper> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(OWN);
        environment::bare(&mut command);
        command.arg("attach").arg("--keeper").arg(keeper_pid.to_string());
        command.arg(&args.pool).arg(&args.dir);
        for list in &args.options {
            command.arg("-o").arg(list);
        }
        command.args(args.sloppy.then_some("--sloppy"));
        command
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::from(keeper))
            .stderr(Stdio::null());
        let process = command.spawn()?;
        let socket = Some(ours);
        Ok(Helper {
            socket,
            process,
            is_waited_for: true,
        })
    }

    /// As [`here`], by the helper; the handshake is this process's. Errors: what the helper met.
    pub fn mount(&self, pool: &Opened, dir: &Path, options: &MountOptions) -> Result<(Session, bool), Failure> {
        let gone = || Failure::Other("the process that mounts has died".into());
        let socket = self.socket.as_ref().ok_or_else(gone)?.as_fd();
        wire::send(socket, &Said::Attach, b"", &[]).map_err(|_| gone())?;
        loop {
            let message = wire::receive(socket, true).ok().flatten().ok_or_else(gone)?;
            let text = || String::from_utf8_lossy(&message.bytes).into_owned();
            let anchored = match message.said {
                Some(Said::Warning) => {
                    tracing::warn!("{}", text());
                    continue;
                }
                Some(Said::Attached(how)) => how == Attached::Anchored,
                _ => return Err(Failure::Other(text())),
            };
            let attached = Connection {
                description: message.bytes,
                descriptors: message.descriptors,
            };
            let config = options.mount(pool.path(), dir);
            let session = keepfs_fuse::mount_attached(pool.volume().clone(), &config, attached)?;
            return Ok((session, anchored));
        }
    }

    /// The keeper has the connection by now, and the mount does not stay: it is gone when this process and what the keeper holds are,
    /// for which the keeper waits, so this one must not.
    pub fn abandon(mut self) {
        self.is_waited_for = false;
    }

    /// The mount stays; returns when the helper has tuned it and is gone.
    pub fn release(mut self) {
        if let Some(socket) = self.socket.take()
            && let Err(error) = wire::send(socket.as_fd(), &Said::Stays, b"", &[])
        {
            tracing::debug!(%error, "the process that mounted is gone already");
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        drop(self.socket.take());
        // It ends when nobody is at the other end; its exit says nothing.
        if self.is_waited_for {
            let _ = self.process.wait();
        }
    }
}

/// The role `attach`: mounts for the server at the other end of the standard input.
pub fn run(args: &Attach) -> Outcome {
    let failed = |error: io::Error| Failure::Other(format!("no server: {error}"));
    let socket = rustix::stdio::stdin().try_clone_to_owned().map_err(failed)?;
    let next = || wire::receive(socket.as_fd(), true).map_err(failed);
    if next()?.is_none() {
        return Ok(1);
    }
    let attached = attach(args, |said| {
        drop(wire::send(socket.as_fd(), &Said::Warning, said.as_bytes(), &[]))
    });
    let (description, told) = match attached {
        Ok((attached, anchored)) => {
            if let Err(error) = publish(args, &Unmounter::of(&attached.description)?) {
                let said = format!("`keepfs status` will not find this mount: {error}");
                wire::send(socket.as_fd(), &Said::Warning, said.as_bytes(), &[]).map_err(failed)?;
            }
            let how = if anchored { Attached::Anchored } else { Attached::Plain };
            let told = wire::send(
                socket.as_fd(),
                &Said::Attached(how),
                &attached.description,
                &attached.descriptors,
            );
            (attached.description, told)
        }
        Err(failure) => {
            let said = failure.to_string();
            wire::send(socket.as_fd(), &Said::Failed, said.as_bytes(), &[]).map_err(failed)?;
            return Ok(1);
        }
    };
    let unmounter = Unmounter::of(&description)?;
    // A server that ends before it serves leaves nothing behind, nor one that was gone before it had the connection.
    match told.map_err(failed).and_then(|()| next()) {
        Ok(Some(_)) => {
            let options = MountOptions::parse(&args.options, args.sloppy)?;
            unmounter.tune(&options.mount(&args.pool, &args.dir));
            Ok(0)
        }
        _ => {
            unmounter.unmount(How::Lazy)?;
            Ok(1)
        }
    }
}

/// Where the mount is found, for others to read: the server, which has read the pool by now, may write no such thing.
fn publish(args: &Attach, mount: &Unmounter) -> io::Result<()> {
    control::forget_dead(mount.device());
    if !registry::is_heard(args.keeper) {
        return Err(io::ErrorKind::NotConnected.into());
    }
    let record = Record {
        pid: args.keeper,
        kept: true,
        pool: args.pool.clone(),
        identities: registry::identities(&args.pool),
        births: registry::births(&args.pool),
        dir: mount.path().to_owned(),
        device: mount.device().to_owned(),
        since_ns: registry::now_ns(),
        options: args.options.clone(),
    };
    rustix::process::umask(Mode::from_raw_mode(0o077));
    record.publish()
}

fn attach(args: &Attach, warn: impl FnMut(String)) -> Result<(Connection, bool), Failure> {
    let options = MountOptions::parse(&args.options, args.sloppy)?;
    let config = options.mount(&args.pool, &args.dir);
    with_anchor(&args.pool, options.anchor, config, keepfs_fuse::attach, warn)
}

/// The role `detach`: takes one certain mount down, for its keeper. If it is in use its name goes at once, and
/// the server with its last user.
///
/// The description is the server's, which may have been taken over: it must fit what was published when the mount was made.
pub fn detach(args: &Detach) -> Outcome {
    let taken = take_down(args);
    if let Err(failure) = &taken {
        // For the keeper.
        starter::tell(&failure.to_string());
    }
    taken.map(|()| 0)
}

fn take_down(args: &Detach) -> Result<(), Failure> {
    let mount = Unmounter::of(&args.description.clone().into_vec())?;
    match registry::of(args.keeper) {
        Ok(record) if record.device != mount.device() => Err(Failure::Other(format!(
            "{}: not the mount of this keeper",
            mount.path().shown()
        ))),
        // Without a record nobody finds the mount; it can be unmounted.
        _ => Ok(unmount(&mount)?),
    }
}

/// Starts [`detach`] of the mount with this description; what went wrong comes on its standard output. Errors: it cannot be
/// started.
pub fn start_detach(description: &[u8]) -> io::Result<Child> {
    let mut command = Command::new(OWN);
    command.args(["detach", "--keeper", &std::process::id().to_string()]);
    command.arg(OsString::from_vec(description.to_vec()));
    environment::bare(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command.spawn()
}

/// Unmounts, lazily if it is in use.
pub fn unmount(unmounter: &Unmounter) -> Result<(), FuseError> {
    match unmounter.unmount(How::Gentle) {
        Err(FuseError::Busy { path }) => {
            tracing::warn!(path = %path.shown(), "in use: unmounted lazily");
            unmounter.unmount(How::Lazy)
        }
        other => other,
    }
}
