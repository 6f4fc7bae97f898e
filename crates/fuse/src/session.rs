//! A mount and its server: from mount(2) and the handshake to the last reply.

use crate::config::{MountConfig, TransportKind};
use crate::connection::Connection;
use crate::dispatch::Dispatcher;
use crate::error::FuseError;
use crate::init::{Granted, negotiate};
use crate::mountpoint::{self, How, Mounted};
use crate::notify::{Notifications, Notifier};
use crate::protocol::flags::init::OVER_IO_URING;
use crate::protocol::reply::OutHeader;
use crate::protocol::request::{InHeader, InitIn};
use crate::protocol::{NOTIFY_INC_EPOCH, NOTIFY_RESEND, Opcode};
use crate::server::Server;
use crate::tally::Tally;
use crate::transport::{DevTransport, Transport};
use crate::uring::Prepared;
use crate::{sys, tune};
use keepfs_vfs::{Errno, Ino, Vfs};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Bytes that the first read needs (`FUSE_MIN_READ_BUFFER`).
const FIRST_READ: usize = 8192;
/// Longest wait of the first answer until the kernel was told of all attributes. It takes microseconds for each inode; should it
/// ever wait for a reply, that comes after this.
const ATTRIBUTES_MAX: Duration = Duration::from_secs(10);

/// A mounted file system that waits to be served. Dropped without [`Session::run`], it is unmounted.
pub struct Session {
    server: Option<Arc<Server>>,
    notifier: Notifier,
    notifications: Option<Notifications>,
    /// What the first answer waits for ([`Session::disbelieve`]).
    attributes_told: Option<Receiver<()>>,
    unmounter: Unmounter,
}

/// Takes one certain mount down; usable from any thread, also while it is served.
#[derive(Clone, Debug)]
pub struct Unmounter {
    pub(crate) path: PathBuf,
    pub(crate) mounted: Mounted,
}

impl Unmounter {
    /// Unmounts, unless something else is mounted there by now.
    /// Errors: [`FuseError::Busy`], [`FuseError::NotMounted`], [`FuseError::NotPermitted`], [`FuseError::Unmount`].
    pub fn unmount(&self, how: How) -> Result<(), FuseError> {
        match mountpoint::find(&self.path) {
            Some(found) if found == self.mounted => mountpoint::unmount(&self.path, how),
            _ => Err(FuseError::NotMounted {
                path: self.path.clone(),
            }),
        }
    }

    /// Of the mount that a [`Connection`] is described to be of. Errors: [`FuseError::Handshake`] if the description is none.
    pub fn of(description: &[u8]) -> Result<Unmounter, FuseError> {
        Connection::mount_of(description)
    }

    /// Tells the kernel what it takes only after the handshake: read-ahead, and how much may be dirty. What cannot be set stays
    /// at its slow default and is logged.
    pub fn tune(&self, config: &MountConfig) {
        tune::tune(&self.mounted, config);
    }

    /// The device number of the mount, `major:minor`.
    pub fn device(&self) -> &str {
        &self.mounted.device
    }

    /// Where it is mounted, an absolute path without links.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Says whether a file system is mounted still. It holds nothing open.
#[derive(Clone, Default)]
pub struct Lifeline {
    transport: Option<Weak<dyn Transport>>,
}

impl Lifeline {
    /// Whether it is mounted still, wherever. While it is, its device number is nobody else's: a line with that number in a
    /// table of mounts that was read before this call is of this file system.
    pub fn is_connected(&self) -> bool {
        let transport = self.transport.as_ref().and_then(Weak::upgrade);
        transport.is_some_and(|transport| transport.is_connected())
    }
}

/// Mounts `vfs` as `config` says and shakes hands with the kernel. Nothing is answered until [`Session::run`].
/// Errors: every kind of [`FuseError`] that is about mounting; nothing stays mounted then.
pub fn mount(vfs: Arc<dyn Vfs>, config: &MountConfig) -> Result<Session, FuseError> {
    let path = mountpoint::resolve(&config.mountpoint)?;
    let channel = sys::open_fuse().map_err(open_error)?;
    let rings = prepare_rings(&channel, config);
    let mounted = mountpoint::attach(&channel, &path, config)?;
    let unmounter = Unmounter { path, mounted };
    let session = begin(vfs, config, channel, rings, unmounter.clone())?;
    unmounter.tune(config);
    Ok(session)
}

/// Mounts as `config` says and leaves the handshake to [`mount_attached`], which needs no right to mount: the connection has
/// one descriptor. Errors: every kind of [`FuseError`] that is about mounting; nothing stays mounted then.
pub fn attach(config: &MountConfig) -> Result<Connection, FuseError> {
    let path = mountpoint::resolve(&config.mountpoint)?;
    let channel = sys::open_fuse().map_err(open_error)?;
    let mounted = mountpoint::attach(&channel, &path, config)?;
    let nothing_yet = Granted {
        minor: 0,
        flags: 0,
        max_write: 0,
    };
    let channel = vec![channel.into()];
    Ok(Connection::of(nothing_yet, &Unmounter { path, mounted }, channel))
}

/// Shakes hands over a connection of [`attach`] and goes on as [`mount`], through `/dev/fuse`, without opening a file but that.
/// [`Unmounter::tune`] is for whoever may.
/// Errors: [`FuseError::Handshake`], [`FuseError::OldKernel`], [`FuseError::Device`]; it is for the caller to unmount then.
pub fn mount_attached(vfs: Arc<dyn Vfs>, config: &MountConfig, attached: Connection) -> Result<Session, FuseError> {
    let (_, unmounter, channels) = attached.parts()?;
    let channel = channels.into_iter().next().ok_or(FuseError::Handshake {
        what: "no descriptor of the connection was handed over",
    })?;
    begin(vfs, config, channel, None, unmounter)
}

/// From the mount to the session.
fn begin(
    vfs: Arc<dyn Vfs>,
    config: &MountConfig,
    channel: File,
    rings: Option<Prepared>,
    unmounter: Unmounter,
) -> Result<Session, FuseError> {
    match connect(channel, rings, config) {
        Ok((transport, granted)) => Ok(Session::new(vfs, config, transport, granted, unmounter)),
        Err(error) => {
            // The channel is closed by now, so the kernel waits for nobody.
            let _ = unmounter.unmount(How::Lazy);
            Err(error)
        }
    }
}

/// Goes on with a connection that another server served and left (it died, or made room), through `/dev/fuse`. What that
/// server had read and not answered comes again, and says so ([`keepfs_vfs::Request::resent`]). Errors: [`FuseError::Handshake`] if it is no connection.
pub fn resume(vfs: Arc<dyn Vfs>, config: &MountConfig, connection: Connection) -> Result<Session, FuseError> {
    let (granted, unmounter, channels) = connection.parts()?;
    let transport = DevTransport::new(channels);
    if let Err(error) = notify(&transport, NOTIFY_RESEND) {
        // It was unmounted meanwhile, or aborted; the readers will hear of it.
        tracing::warn!(%error, "the kernel did not send again what the last server had not answered");
    }
    let session = Session::new(vfs, config, Arc::new(transport), granted, unmounter);
    if let Some(server) = &session.server {
        server.dispatcher().goes_on_for_another();
    }
    Ok(session)
}

/// Sends a notification that is nothing but its code, for which the kernel takes no lock.
fn notify(transport: &dyn Transport, code: i32) -> io::Result<()> {
    let message = OutHeader {
        len: size_of::<OutHeader>() as u32,
        error: code,
        unique: 0,
    };
    transport.notify(message.as_bytes())
}

/// The rings, if io_uring is wanted and possible.
fn prepare_rings(channel: &File, config: &MountConfig) -> Option<Prepared> {
    if config.transport != TransportKind::Uring {
        return None;
    }
    let prepared = Prepared::new(channel);
    prepared
        .inspect_err(|error| tracing::warn!(%error, "io_uring cannot be used here; serving through /dev/fuse"))
        .ok()
}

/// The handshake, and the transport that came of it.
fn connect(
    channel: File,
    rings: Option<Prepared>,
    config: &MountConfig,
) -> Result<(Arc<dyn Transport>, Granted), FuseError> {
    let granted = handshake(&channel, config, rings.is_some())?;
    match rings {
        Some(rings) if granted.has(OVER_IO_URING) => return Ok((Arc::new(rings.into_transport(channel)), granted)),
        Some(_) => tracing::warn!("the kernel does not offer FUSE over io_uring; serving through /dev/fuse"),
        None => {}
    }
    let readers = config.readers();
    let mut channels = vec![channel];
    while channels.len() < readers {
        channels.push(sys::clone_fuse(&channels[0]).map_err(FuseError::Device)?);
    }
    Ok((Arc::new(DevTransport::new(channels)), granted))
}

/// Reads INIT and answers it; `rings`: there are rings, so that the kernel may be told to use them.
fn handshake(mut channel: &File, config: &MountConfig, rings: bool) -> Result<Granted, FuseError> {
    let without_rings = MountConfig {
        transport: TransportKind::Dev,
        ..config.clone()
    };
    let config = if rings { config } else { &without_rings };
    let mut bytes = vec![0; FIRST_READ];
    let len = channel.read(&mut bytes).map_err(FuseError::Device)?;
    let short = FuseError::Handshake {
        what: "the first request is too short",
    };
    let Ok((header, rest)) = InHeader::read_from_prefix(&bytes[..len]) else {
        return Err(short);
    };
    if header.opcode != Opcode::Init as u32 {
        return Err(FuseError::Handshake {
            what: "the first request is not INIT",
        });
    }
    let Ok((major_minor, _)) = <[u32; 2]>::read_from_prefix(rest) else {
        return Err(short);
    };
    let Ok((offer, _)) = InitIn::read_from_prefix(rest) else {
        return Err(FuseError::OldKernel {
            major: major_minor[0],
            minor: major_minor[1],
        });
    };
    let (answer, granted) = negotiate(&offer, config)?;
    let mut message = Vec::new();
    let len = size_of::<OutHeader>() + size_of_val(&answer);
    message.extend_from_slice(
        OutHeader {
            len: len as u32,
            error: 0,
            unique: header.unique,
        }
        .as_bytes(),
    );
    message.extend_from_slice(answer.as_bytes());
    channel.write_all(&message).map_err(FuseError::Device)?;
    tracing::info!(
        minor = granted.minor,
        flags = format!("{:#x}", granted.flags),
        "FUSE connection is up"
    );
    Ok(granted)
}

fn open_error(error: io::Error) -> FuseError {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => FuseError::NoDevice,
        Some(libc::EACCES | libc::EPERM) => FuseError::NotPermitted {
            what: "opening /dev/fuse",
        },
        _ => FuseError::Device(error),
    }
}

impl Session {
    fn new(
        vfs: Arc<dyn Vfs>,
        config: &MountConfig,
        transport: Arc<dyn Transport>,
        granted: Granted,
        unmounter: Unmounter,
    ) -> Session {
        let dispatcher = Dispatcher::new(vfs, config, granted);
        let (notifier, notifications) = Notifier::new(dispatcher.sweeps().clone());
        let server = Server::new(dispatcher, transport, config, granted, notifier.clone());
        Session {
            server: Some(Arc::new(server)),
            notifier,
            notifications: Some(notifications),
            attributes_told: None,
            unmounter,
        }
    }

    /// What a keeper needs to hold before [`Session::run`], so that the mount outlives this server; `None` over io_uring,
    /// whose requests die with their server. Errors: [`FuseError::Device`] without free descriptors.
    pub fn connection(&self) -> Result<Option<Connection>, FuseError> {
        let Some(server) = &self.server else {
            return Ok(None);
        };
        let descriptors = server.transport().descriptors().map_err(FuseError::Device)?;
        let connection = Connection::of(server.granted(), &self.unmounter, descriptors);
        Ok((!connection.descriptors.is_empty()).then_some(connection))
    }

    /// Changes that the kernel was told of are lost: any name may be another one than before, and it is to believe nothing that it
    /// has cached of `inos`, which are all that it has looked up (S-16.20). Before the first answer it asks again for each name,
    /// and for the attributes of all; the bytes go while requests are answered ([`Notifier::disbelieve`]). One before Linux 6.16 cannot ask for all names, and believes those that it has, for as long as
    /// it was told.
    pub fn disbelieve(&mut self, inos: &[Ino]) {
        let Some(server) = &self.server else { return };
        if let Err(error) = notify(&**server.transport(), NOTIFY_INC_EPOCH) {
            tracing::warn!(%error, "the kernel may believe names that are lost; unmount the pool and mount it again");
        }
        self.attributes_told = Some(self.notifier.disbelieve(inos));
    }

    /// See [`Dispatcher::refuse_changes`].
    pub fn refuse_changes(&self) {
        if let Some(server) = &self.server {
            server.dispatcher().refuse_changes();
        }
    }

    /// From here on every request is answered `EIO`, without asking the file system.
    pub fn refuse_all(&self) {
        if let Some(server) = &self.server {
            server.refuse_all();
        }
    }

    /// Serves until the file system is unmounted, then calls [`Vfs::unmount`], unless the kernel's DESTROY has done
    /// so before (with an anchor). Errors: [`FuseError::Aborted`], [`FuseError::Device`], [`FuseError::Thread`],
    /// [`FuseError::Unclean`].
    pub fn run(mut self) -> Result<(), FuseError> {
        let (Some(server), Some(notifications)) = (self.server.clone(), self.notifications.take()) else {
            return Ok(());
        };
        let notified = match notify_thread(notifications, server.transport().clone()) {
            Ok(thread) => thread,
            Err(error) => return ended(Err(error), server.finish()),
        };
        // From here on the mount belongs to those who use it: if the server fails they see an error, not an empty directory.
        self.server = None;
        let told = self
            .attributes_told
            .take()
            .map(|told| told.recv_timeout(ATTRIBUTES_MAX));
        if let Some(Err(_)) = told {
            tracing::warn!("the kernel may still believe attributes that are lost; requests are answered meanwhile");
        }
        let served = server.transport().clone().serve(&server.clone());
        server.stop_workers();
        self.notifier.stop();
        if notified.join().is_err() {
            tracing::error!("the thread that sends notifications panicked");
        }
        ended(served, server.finish())
    }

    /// A handle that takes this mount down, for signal handler threads.
    pub fn unmounter(&self) -> Unmounter {
        self.unmounter.clone()
    }

    /// A handle that tells the kernel what it must not believe any more.
    pub fn notifier(&self) -> Notifier {
        self.notifier.clone()
    }

    /// Says whether the file system is mounted still, also while it is served.
    pub fn lifeline(&self) -> Lifeline {
        let server = self.server.as_ref();
        Lifeline {
            transport: server.map(|server| Arc::downgrade(server.transport())),
        }
    }

    /// The transport in use, under the name it has as a mount option: `dev` or `uring`.
    pub fn transport(&self) -> &'static str {
        self.server.as_ref().map_or("none", |server| server.transport().name())
    }

    /// What this mount was asked for and where the server's time went; it can be kept and asked while the mount is served.
    pub fn tally(&self) -> Arc<Tally> {
        self.server
            .as_ref()
            .map(|server| server.tally().clone())
            .unwrap_or_default()
    }

    /// What was agreed with the kernel.
    pub fn granted(&self) -> Option<Granted> {
        self.server.as_ref().map(|server| server.granted())
    }
}

/// How a session ended: what went wrong while it served must not hide that something is lost.
fn ended(served: Result<(), FuseError>, unmounted: Result<(), Errno>) -> Result<(), FuseError> {
    match (served, unmounted) {
        (served, Ok(())) => served,
        (served, Err(errno)) => Err(FuseError::Unclean {
            errno,
            served: served.err().map(Box::new),
        }),
    }
}

fn notify_thread(
    notifications: Notifications,
    transport: Arc<dyn Transport>,
) -> Result<thread::JoinHandle<()>, FuseError> {
    let builder = thread::Builder::new().name("fuse-notify".into());
    builder
        .spawn(move || notifications.run(&*transport))
        .map_err(FuseError::Thread)
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // Closes the descriptors: umount would wait for an answer that nobody gives.
            drop(server);
            let _ = self.unmounter.unmount(How::Lazy);
        }
    }
}
