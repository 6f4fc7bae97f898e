//! The `uring` transport: FUSE over io_uring, one pinned thread per CPU that serves the requests of its CPU to the end.
//!
//! The kernel gives a request to the queue of the caller's CPU, so caller and server share a cache and no idle CPU
//! has to be woken: 6 to 7 µs for a round trip instead of 8 to 50. What would make the thread sleep
//! goes to workers, whose replies come back through a [`Bell`]. Forgotten inodes, interrupts and notifications
//! still go through `/dev/fuse`, which has one reader. Its server has no keeper. Why it is there at all:
//! `docs/decisions/0120-own-fuse-transport.md`.

mod ring;
mod setup;

pub(crate) use ring::{PAYLOAD, Slot};

use crate::error::FuseError;
use crate::reply::ReplyBuf;
use crate::transport::{Channel, DevTransport, RequestBuf, Service, Transport, io_flusher, pin};
use parking_lot::Mutex;
use ring::{Event, Ring};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Where workers leave slots with finished replies for the thread of their ring.
#[derive(Debug)]
struct Bell {
    event: File,
    done: Mutex<Vec<Slot>>,
    stop: AtomicBool,
}

impl Bell {
    fn new() -> io::Result<Bell> {
        Ok(Bell {
            event: File::from(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?),
            done: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    /// Hands a sealed slot over. The first one rings; those that come before the thread looks need not.
    fn hand_over(&self, slot: Slot) {
        let mut done = self.done.lock();
        done.push(slot);
        if done.len() == 1 {
            self.ring();
        }
    }

    fn ring(&self) {
        // Full only after 2^64 - 2 rings.
        let _ = (&self.event).write_all(&1_u64.to_ne_bytes());
    }

    /// Asks the thread to end.
    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.ring();
    }
}

/// The rings of one connection, not serving yet.
pub(crate) struct Prepared {
    rings: Vec<(u16, Ring)>,
    bells: Vec<Arc<Bell>>,
}

impl Prepared {
    /// Makes everything that can fail, before the kernel is told that there will be rings. Must come before mount(2):
    /// the kernel decides then what it offers. Errors: those of the kernel's parameter, of io_uring, `ENOMEM`.
    pub(crate) fn new(fuse: &File) -> io::Result<Prepared> {
        setup::enable()?;
        let cpus = setup::Cpus::of_this_machine()?;
        let depth = cpus.depth(ring::SLOT);
        let mut prepared = Prepared {
            rings: Vec::new(),
            bells: Vec::new(),
        };
        for (number, &cpu) in cpus.online.iter().enumerate() {
            let mut queues = vec![cpu; depth];
            // A CPU that is not there needs a slot all the same; should it come, its requests are served elsewhere.
            queues.extend(cpus.offline.iter().skip(number).step_by(cpus.online.len()));
            let bell = Arc::new(Bell::new()?);
            prepared
                .rings
                .push((cpu, Ring::new(fuse, number, &queues, &bell.event)?));
            prepared.bells.push(bell);
        }
        tracing::debug!(queues = cpus.online.len(), depth, "rings are prepared");
        Ok(prepared)
    }

    /// The transport of the connection `fuse`.
    pub(crate) fn into_transport(self, fuse: File) -> UringTransport {
        UringTransport {
            rings: Mutex::new(self.rings),
            bells: self.bells,
            dev: DevTransport::beside_ring(fuse),
        }
    }
}

/// Threads on rings, and one on `/dev/fuse`.
pub(crate) struct UringTransport {
    /// Taken by [`Transport::serve`].
    rings: Mutex<Vec<(u16, Ring)>>,
    bells: Vec<Arc<Bell>>,
    dev: DevTransport,
}

impl Transport for UringTransport {
    fn serve(&self, service: &dyn Service) -> Result<(), FuseError> {
        let rings = std::mem::take(&mut *self.rings.lock());
        thread::scope(|scope| {
            for ((cpu, ring), bell) in rings.into_iter().zip(&self.bells) {
                let builder = thread::Builder::new().name(format!("fuse-ring-{cpu}"));
                if let Err(error) = builder.spawn_scoped(scope, move || serve_ring(cpu, ring, bell, service)) {
                    // Without all its queues the kernel would wait for ever.
                    self.bells.iter().for_each(|bell| bell.stop());
                    return Err(FuseError::Thread(error));
                }
            }
            self.dev.reader(0, service).verdict()
        })
    }

    fn answer(&self, channel: Channel, request: &mut RequestBuf, reply: &ReplyBuf) -> io::Result<()> {
        let Some(mut slot) = request.take_slot() else {
            return self.dev.answer(channel, request, reply);
        };
        slot.seal(reply.bytes());
        let bell = self.bells.get(slot.ring()).ok_or(io::ErrorKind::NotFound)?;
        bell.hand_over(slot);
        Ok(())
    }

    fn notify(&self, message: &[u8]) -> io::Result<()> {
        self.dev.notify(message)
    }

    fn is_connected(&self) -> bool {
        self.dev.is_connected()
    }

    fn name(&self) -> &'static str {
        "uring"
    }
}

/// The life of the thread of one ring.
fn serve_ring(cpu: u16, mut ring: Ring, bell: &Bell, service: &dyn Service) {
    io_flusher();
    pin(cpu.into());
    if let Err(error) = ring.start() {
        tracing::error!(cpu, %error, "a ring cannot be used");
        return;
    }
    let mut request = RequestBuf::default();
    let mut reply = service.reply_buf();
    let (mut events, mut done) = (Vec::new(), Vec::new());
    loop {
        if let Err(error) = ring.wait(&mut events) {
            tracing::error!(cpu, %error, "a ring has failed");
            return;
        }
        for event in events.drain(..) {
            match event {
                Event::Request(slot) => {
                    request.hold(slot);
                    serve_one(&mut ring, &mut request, &mut reply, service);
                }
                Event::Bell => {
                    std::mem::swap(&mut *bell.done.lock(), &mut done);
                    done.drain(..).for_each(|slot| ring.lend(slot));
                    if bell.stop.load(Ordering::Acquire) {
                        return;
                    }
                }
                Event::Over { aborted } => {
                    tracing::debug!(cpu, aborted, "a ring has ended");
                    return;
                }
            }
        }
    }
}

/// Serves the request in `request`; if it was not handed to a worker its slot goes back at once.
fn serve_one(ring: &mut Ring, request: &mut RequestBuf, reply: &mut ReplyBuf, service: &dyn Service) {
    let answered = service.serve(Channel::FIRST, request, reply);
    if let Some(mut slot) = request.take_slot() {
        if !answered {
            // The kernel waits for no answer, but for its slot.
            reply.clear();
            reply.finish(0);
        }
        slot.seal(reply.bytes());
        ring.lend(slot);
    }
}
