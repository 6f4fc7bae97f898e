//! The `/dev/fuse` transport: one reader per CPU, pinned, on a cloned descriptor; no spinning, which helps one client and
//! hurts two.
//!
//! Pinning is what makes it fast: a reader on the caller's CPU is woken without a trip to an idle one. The
//! descriptors are handed in, so that a keeper process can own them and outlive the server.

use super::{Channel, RequestBuf, Service, Transport};
use crate::cpus;
use crate::error::FuseError;
use crate::reply::ReplyBuf;
use crate::sys;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

/// How long the reader beside a ring lets forgotten inodes gather: one by one each costs a wake-up of another CPU.
const GATHER: Duration = Duration::from_millis(1);

/// Readers on the descriptors of one connection.
#[derive(Debug)]
pub struct DevTransport {
    channels: Vec<File>,
    cpus: Vec<usize>,
    /// Nobody waits for what comes: requests go through a ring.
    beside_ring: bool,
}

/// Why a reader stopped.
pub(crate) enum Stop {
    Unmounted,
    Aborted,
    Failed(io::Error),
}

impl Stop {
    /// What it means for the mount.
    pub(crate) fn verdict(self) -> Result<(), FuseError> {
        match self {
            Stop::Unmounted => Ok(()),
            Stop::Aborted => Err(FuseError::Aborted),
            Stop::Failed(error) => Err(FuseError::Device(error)),
        }
    }
}

impl DevTransport {
    /// A transport with one reader per descriptor in `channels`, all of one mounted connection.
    pub fn new(channels: Vec<File>) -> DevTransport {
        DevTransport {
            channels,
            cpus: cpus::allowed(),
            beside_ring: false,
        }
    }

    /// A transport with one reader that is not pinned, for what does not come through the ring.
    pub(crate) fn beside_ring(channel: File) -> DevTransport {
        DevTransport {
            channels: vec![channel],
            cpus: Vec::new(),
            beside_ring: true,
        }
    }

    /// Serves one descriptor until the file system is unmounted.
    pub(crate) fn reader(&self, index: usize, service: &dyn Service) -> Stop {
        io_flusher();
        if !self.cpus.is_empty() {
            pin(self.cpus[index % self.cpus.len()]);
        }
        let mut channel = &self.channels[index];
        let mut request = RequestBuf::new(service.request_size());
        let mut reply = service.reply_buf();
        loop {
            if let Err(error) = request.fill(|buf| channel.read(buf)) {
                match retry(error) {
                    Some(stop) => return stop,
                    None => continue,
                }
            }
            if request.bytes().is_empty() {
                return Stop::Unmounted;
            }
            if service.serve(Channel(index), &mut request, &mut reply) {
                let started = Instant::now();
                answered(channel.write_all(reply.bytes()));
                service.replied(&request, started.elapsed());
            } else if self.beside_ring {
                // Inodes were forgotten; what comes next comes at once, as one request.
                thread::sleep(GATHER);
            }
        }
    }
}

/// Keeps this thread on `cpu` if that is possible.
pub(crate) fn pin(cpu: usize) {
    if let Err(error) = cpus::pin_to(cpu) {
        tracing::warn!(cpu, %error, "a reader is not pinned; it works, but slower");
    }
}

/// Marks this thread as one that a mount depends on, so that a shortage of memory does not wait for it.
pub(crate) fn io_flusher() {
    if let Err(error) = cpus::mark_io_flusher() {
        tracing::debug!(%error, "not marked as serving a file system; matters only when memory is short");
    }
}

/// What a failed read means: `None` to read again.
fn retry(error: io::Error) -> Option<Stop> {
    match error.raw_os_error() {
        // ENOENT: the request was taken back before we got it.
        Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => None,
        Some(libc::ENODEV) => Some(Stop::Unmounted),
        Some(libc::ECONNABORTED) => Some(Stop::Aborted),
        _ => Some(Stop::Failed(error)),
    }
}

/// Logs a reply that was not delivered. ENOENT: the connection has been aborted and nobody waits.
fn answered(sent: io::Result<()>) {
    match sent {
        Err(error) if !matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => {
            tracing::error!(%error, "a reply was not delivered");
        }
        _ => {}
    }
}

impl Transport for DevTransport {
    fn serve(&self, service: &dyn Service) -> Result<(), FuseError> {
        thread::scope(|scope| {
            let mut readers = Vec::new();
            for index in 0..self.channels.len() {
                let builder = thread::Builder::new().name(format!("fuse-read-{index}"));
                match builder.spawn_scoped(scope, move || self.reader(index, service)) {
                    Ok(reader) => readers.push(reader),
                    Err(error) if index == 0 => return Err(FuseError::Thread(error)),
                    Err(error) => tracing::warn!(index, %error, "fewer readers than wanted"),
                }
            }
            let mut result = Ok(());
            for reader in readers {
                match reader.join() {
                    Ok(stop) => result = result.and(stop.verdict()),
                    Err(_) => tracing::error!("a reader panicked outside of a request"),
                }
            }
            result
        })
    }

    fn answer(&self, channel: Channel, _: &mut RequestBuf, reply: &ReplyBuf) -> io::Result<()> {
        let mut channel = self.channels.get(channel.0).ok_or(io::ErrorKind::NotFound)?;
        // One write is one message: a short write does not exist on this device.
        channel.write_all(reply.bytes())
    }

    fn notify(&self, message: &[u8]) -> io::Result<()> {
        let mut channel = self.channels.first().ok_or(io::ErrorKind::NotFound)?;
        channel.write_all(message)
    }

    fn descriptors(&self) -> io::Result<Vec<OwnedFd>> {
        self.channels
            .iter()
            .map(|channel| Ok(channel.try_clone()?.into()))
            .collect()
    }

    fn is_connected(&self) -> bool {
        self.channels.first().is_some_and(sys::is_connected)
    }

    fn name(&self) -> &'static str {
        "dev"
    }
}
