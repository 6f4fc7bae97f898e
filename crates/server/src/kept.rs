//! The server's side of its keeper: what it puts there, and what happens when the keeper dies.

use crate::held::{Held, Item, fits};
use crate::lives::Begin;
use crate::rooms::{ROOMS, SPARE};
use crate::said::Said;
use crate::wire;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread;

/// A server's keeper.
pub struct Kept {
    state: Mutex<State>,
}

struct State {
    socket: OwnedFd,
    /// What was put, once more, for a new keeper.
    put: Held,
    begin: Begin,
    /// The keeper that stands ready: its process, and a socket to it.
    spare: Option<(u32, OwnedFd)>,
    /// All is done: no other keeper is wanted.
    ended: bool,
    /// The last keeper has died, and none stood ready.
    orphan: bool,
}

impl Kept {
    /// The keeper at the other end of the standard input, and what it holds. Errors: there is none.
    pub fn begin() -> io::Result<(Kept, Held)> {
        let socket = rustix::stdio::stdin().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let mut handed = Held::default();
        loop {
            let message = wire::receive(socket.as_fd(), true)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            match &message.said {
                Some(Said::Put(name)) => {
                    let name = name.clone();
                    handed.put(&name, message.into());
                }
                Some(Said::Begin) => {
                    let begin = Begin::read(&message.bytes)?;
                    let spare = handed.take(SPARE).and_then(spare);
                    // Before anything is put: what it may hold is of the server before (S-16.26).
                    if let Some((_, socket)) = &spare {
                        heard(wire::send(socket.as_fd(), &Said::StandDown, b"", &[]))?;
                    }
                    let state = State {
                        socket,
                        put: handed.try_clone()?,
                        begin,
                        spare,
                        ended: false,
                        orphan: false,
                    };
                    let state = Mutex::new(state);
                    return Ok((Kept { state }, handed));
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// The talk to the keeper once more, for a process whose end the keeper shall hear too. Errors: no free descriptor.
    pub fn talk(&self) -> io::Result<OwnedFd> {
        self.state.lock().socket.try_clone()
    }

    /// What the server was told when it began; after the keeper's death, with the new keeper.
    pub fn told(&self) -> Begin {
        self.state.lock().begin.clone()
    }

    /// Whether there is a keeper.
    pub fn has_keeper(&self) -> bool {
        !self.state.lock().orphan
    }

    /// The process that stands ready to be the next keeper, if there is one.
    pub fn spare_pid(&self) -> Option<u32> {
        let state = self.state.lock();
        let (pid, socket) = state.spare.as_ref()?;
        let mut fds = [PollFd::new(socket, PollFlags::empty())];
        // Hung up: it is gone, and nobody has said so.
        let lives = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|gone| gone == 0);
        lives.then_some(*pid)
    }

    /// The keeper holds this from now on, in the place of what it had under `name`. When this returns, the death of this
    /// process cannot close the descriptors any more. Errors: there is no room for it (a sentence).
    pub fn put(&self, name: &str, bytes: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let item = Item {
            bytes: bytes.to_owned(),
            descriptors,
        };
        fits(&ROOMS, name, &item).map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let mut state = self.state.lock();
        let sent = wire::send_item(state.socket.as_fd(), name, &item);
        state.put.put(name, item);
        heard(sent)
    }

    /// As [`Kept::put`] of bytes, without waiting for a keeper that does not listen. Errors: as there; too much is unread.
    pub fn put_at_once(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state.lock();
        let told = wire::tell(state.socket.as_fd(), &Said::Put(name.to_owned()), bytes, &[]);
        let (bytes, descriptors) = (bytes.to_owned(), Vec::new());
        state.put.put(name, Item { bytes, descriptors });
        heard(told)
    }

    /// Says something to the keeper. Errors: none that the server need do anything about but say.
    pub fn say(&self, said: &Said, bytes: &[u8]) -> io::Result<()> {
        heard(wire::send(self.state.lock().socket.as_fd(), said, bytes, &[]))
    }

    /// The last word: all is done, with this exit code. Nothing that was put is open in this process any more when the keeper
    /// hears it. It lets all go, removes what others find the mount by, and closes `waiting`. Errors: as [`Kept::say`].
    pub fn end(&self, code: u8, mut waiting: Vec<OwnedFd>) -> io::Result<()> {
        let mut state = self.state.lock();
        state.ended = true;
        state.put = Held::default();
        // Those left out hear of it when the server closes them, and try again.
        waiting.truncate(wire::DESCRIPTORS_MAX);
        heard(wire::send(state.socket.as_fd(), &Said::Ended(code), b"", &waiting))
    }

    /// Sees to it that there is always a keeper: when it dies, `before` is called (which makes everything durable) and
    /// the one that stands ready gets everything, then `after` with what changed. Errors: no thread, no descriptor.
    pub fn watch(
        self: Arc<Self>,
        before: impl Fn() + Send + 'static,
        after: impl Fn(&Begin) + Send + 'static,
    ) -> io::Result<()> {
        let mut socket = self.state.lock().socket.try_clone()?;
        let watch = move || {
            loop {
                // A keeper that talks nonsense is none.
                while let Ok(Some(message)) = wire::receive(socket.as_fd(), true) {
                    match &message.said {
                        Some(Said::Put(name)) if name == SPARE => self.state.lock().spare = spare(message.into()),
                        Some(Said::Stays) => {
                            let why = String::from_utf8_lossy(&message.bytes);
                            tracing::error!(%why, "the mount could not be taken down; it goes on");
                        }
                        Some(Said::Says) => {
                            let what = String::from_utf8_lossy(&message.bytes);
                            tracing::error!("its keeper says: {what}");
                        }
                        Some(Said::Refused) => {
                            let why = String::from_utf8_lossy(&message.bytes);
                            tracing::error!(%why, "the keeper did not take what this server left with it");
                        }
                        _ => {}
                    }
                }
                tracing::error!(
                    "the keeper of this mount has died; making everything durable and going on with another"
                );
                before();
                match self.change_keeper() {
                    Ok(new) => socket = new,
                    Err(error) => {
                        self.state.lock().orphan = true;
                        tracing::error!(%error, "there is no keeper any more: the mount ends with this server");
                        return;
                    }
                }
                after(&self.told());
            }
        };
        thread::Builder::new().name("keepfs-keeper".into()).spawn(watch)?;
        Ok(())
    }

    /// Hands everything to the keeper that stands ready; the socket to it once more.
    fn change_keeper(&self) -> io::Result<OwnedFd> {
        let mut state = self.state.lock();
        if state.ended {
            return Err(io::ErrorKind::NotFound.into());
        }
        let (pid, socket) = state.spare.take().ok_or(io::ErrorKind::NotFound)?;
        state.begin.keeper_pid = pid;
        wire::send_all(socket.as_fd(), &state.put)?;
        let begin = serde_json::to_vec(&state.begin)?;
        wire::send(socket.as_fd(), &Said::Serving(std::process::id()), &begin, &[])?;
        state.socket = socket.try_clone()?;
        Ok(socket)
    }

    /// Ends this process so that the keeper starts the program in its place that was wished; the mount goes on. Errors: the
    /// keeper was not told, and this server goes on.
    pub fn make_room(&self) -> io::Result<()> {
        let state = self.state.lock();
        let spare = state.spare.as_ref().map(|(_, socket)| socket.as_fd());
        // Until the next server has begun the keeper is the only one who holds anything: this one holds it too (S-16.12).
        if let Some(spare) = spare {
            let begin = serde_json::to_vec(&state.begin)?;
            heard(wire::send_all(spare, &state.put))?;
            heard(wire::send(spare, &Said::StandIn, &begin, &[]))?;
        }
        if let Err(error) = wire::send(state.socket.as_fd(), &Said::Upgrade, b"", &[]) {
            if let Some(spare) = spare {
                heard(wire::send(spare, &Said::StandDown, b"", &[]))?;
            }
            return Err(error);
        }
        std::process::exit(0)
    }
}

/// Process and socket of the keeper that stands ready.
fn spare(item: Item) -> Option<(u32, OwnedFd)> {
    let pid = std::str::from_utf8(&item.bytes).ok()?.parse().ok()?;
    Some((pid, item.descriptors.into_iter().next()?))
}

/// A keeper that is gone is the watch's affair.
fn heard(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
        other => other,
    }
}
