//! The server's side of its keeper: what it puts there, and what happens when the keeper dies.

use super::held::{Held, Item};
use super::lives::Begin;
use super::wire;
use parking_lot::Mutex;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;

/// A server's keeper.
pub struct Kept {
    state: Mutex<State>,
    /// Words after `keep`, for a new one.
    words: Vec<OsString>,
}

struct State {
    socket: OwnedFd,
    /// What was put, once more, for a new keeper.
    put: Held,
    begin: Begin,
    /// The keeper, if this server started it.
    keeper: Option<Child>,
}

impl Kept {
    /// The keeper at the other end of the standard input, and what it holds. `words`: those of a new keeper, after `keep`.
    /// Errors: there is none.
    pub fn begin(words: Vec<OsString>) -> io::Result<(Kept, Held)> {
        let socket = rustix::stdio::stdin().try_clone_to_owned()?;
        rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
        let mut handed = Held::default();
        loop {
            let message = wire::receive(socket.as_fd(), true)?.ok_or(io::ErrorKind::UnexpectedEof)?;
            let words_said: Vec<&str> = message.words.iter().map(String::as_str).collect();
            match words_said[..] {
                ["put", name] => {
                    let name = name.to_owned();
                    handed.put(&name, message.into());
                }
                ["begin"] => {
                    let begin = serde_json::from_slice(&message.bytes)?;
                    let state = State {
                        socket,
                        put: handed.try_clone()?,
                        begin,
                        keeper: None,
                    };
                    let state = Mutex::new(state);
                    return Ok((Kept { state, words }, handed));
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// What the server was told when it began; after the keeper's death, with the new keeper.
    pub fn told(&self) -> Begin {
        self.state.lock().begin.clone()
    }

    /// The keeper holds this from now on, in the place of what it had under `name`. When this returns, the death of this
    /// process cannot close the descriptors any more. Errors: too much for one message.
    pub fn put(&self, name: &str, bytes: &[u8], descriptors: Vec<OwnedFd>) -> io::Result<()> {
        let item = Item {
            bytes: bytes.to_owned(),
            descriptors,
        };
        let mut state = self.state.lock();
        let sent = wire::send_item(state.socket.as_fd(), name, &item);
        state.put.put(name, item);
        heard(sent)
    }

    /// Says something to the keeper. Errors: none that the server need do anything about but say.
    pub fn say(&self, words: &str, bytes: &[u8]) -> io::Result<()> {
        heard(wire::send(self.state.lock().socket.as_fd(), words, bytes, &[]))
    }

    /// Sees to it that there is always a keeper: when it dies, `before` is called (which makes everything durable) and
    /// another is started, then `after` with what changed. Errors: no thread, no descriptor.
    pub fn watch(
        self: Arc<Self>,
        before: impl Fn() + Send + 'static,
        after: impl Fn(&Begin) + Send + 'static,
    ) -> io::Result<()> {
        let mut socket = self.state.lock().socket.try_clone()?;
        let watch = move || {
            loop {
                // Nothing is said to a server that serves; a keeper that talks nonsense is none.
                while let Ok(Some(_)) = wire::receive(socket.as_fd(), true) {}
                tracing::error!("the keeper of this mount has died; making everything durable and starting another");
                before();
                match self.start_keeper() {
                    Ok(new) => socket = new,
                    Err(error) => {
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

    /// Starts a keeper and hands it everything; the socket to it once more.
    fn start_keeper(&self) -> io::Result<OwnedFd> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut state = self.state.lock();
        if let Some(mut dead) = state.keeper.take() {
            dead.wait()?;
        }
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["keep", "--adopt"])
            .args(&self.words)
            .stdin(Stdio::from(theirs));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        drop(command);
        state.begin.keeper_pid = child.id();
        state.keeper = Some(child);
        wire::send_all(ours.as_fd(), &state.put)?;
        let begin = serde_json::to_vec(&state.begin)?;
        wire::send(ours.as_fd(), &format!("serving {}", std::process::id()), &begin, &[])?;
        state.socket = ours.try_clone()?;
        Ok(ours)
    }

    /// Ends this process so that the keeper starts `program` in its place; the mount goes on. Errors: the keeper was not
    /// told, and this server goes on.
    pub fn make_room(&self, program: &Path) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let state = self.state.lock();
        wire::send(state.socket.as_fd(), "upgrade", program.as_os_str().as_bytes(), &[])?;
        std::process::exit(0)
    }
}

/// A keeper that is gone is the watch's affair.
fn heard(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => Ok(()),
        other => other,
    }
}
