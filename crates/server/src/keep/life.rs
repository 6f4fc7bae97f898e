//! One server, as its keeper sees it: started or taken over, attended until it ends.

use super::mark::Mark;
use super::spare::{Before, Spare};
use crate::held::{Held, Item};
use crate::lives::Begin;
use crate::program::{self, OWN};
use crate::rooms::{CONNECTION, ROOMS, SPARE};
use crate::said::Said;
use crate::wire;
use crate::words::Keep;
use crate::{attach, environment, heap, registry, starter, task};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What is started as server: an open file, which stays what it is whatever becomes of its path (S-16.10).
pub struct Program {
    open: File,
    /// What it was before it was replaced by one that has not served yet.
    former: Option<File>,
    words: Vec<OsString>,
    foreground: bool,
    mark: Mark,
}

impl Program {
    /// This program, with the words of `args`. Errors: it cannot be opened.
    pub fn of(args: &Keep, mark: Mark) -> io::Result<Program> {
        let mut words = vec![
            "serve".into(),
            "--kept".into(),
            args.pool.clone().into(),
            args.dir.clone().into(),
        ];
        for list in &args.options {
            words.extend(["-o".into(), list.into()]);
        }
        words.extend(args.sloppy.then(|| "--sloppy".into()));
        words.extend(args.foreground.then(|| "--foreground".into()));
        Ok(Program {
            open: program::open(Path::new(OWN))?,
            former: None,
            words,
            foreground: args.foreground,
            mark,
        })
    }

    /// Starts it, when it has got its words.
    pub fn command(&self) -> Command {
        let mut command = Command::new(format!("/proc/self/fd/{}", self.open.as_raw_fd()));
        environment::bare(&mut command);
        self.mark.put_on(&mut command);
        command
    }

    /// Device and inode number of what is started.
    pub fn identity(&self) -> Option<(u64, u64)> {
        identity(&self.open)
    }

    /// From here on what is at `path` now is started. Errors: it is no program; nothing has changed.
    pub fn replace(&mut self, path: &Path) -> io::Result<()> {
        let open = program::open(path)?;
        self.former = Some(std::mem::replace(&mut self.open, open));
        Ok(())
    }

    /// The server of the last replacement has ended, and `served` before or not. If not, it is taken back; whether it was.
    pub fn restore(&mut self, served: bool) -> bool {
        match self.former.take().filter(|_| !served) {
            Some(former) => {
                self.open = former;
                true
            }
            None => false,
        }
    }

    /// Whether it was replaced, and that one has not served yet.
    pub fn is_on_trial(&self) -> bool {
        self.former.is_some()
    }

    /// From here on the program is started that this process is; whether it was another one.
    pub fn return_to_own(&mut self) -> bool {
        match program::open(Path::new(OWN)) {
            Ok(own) if identity(&own) != self.identity() => {
                self.open = own;
                true
            }
            _ => false,
        }
    }
}

fn identity(file: &File) -> Option<(u64, u64)> {
    file.metadata().map(|found| (found.dev(), found.ino())).ok()
}

/// The last word of a server.
#[derive(Debug)]
pub struct Last {
    /// The exit code.
    pub code: u8,
    /// To be closed when nothing is held any more: who is at their other ends waits for that.
    pub waiting: Vec<OwnedFd>,
}

/// How a server ended.
#[derive(Debug)]
pub enum End {
    /// It said that all is done; its process may still be there.
    Orderly(Last),
    /// It made room for another program.
    MadeRoom(Option<PathBuf>),
    /// Anything else.
    Died {
        /// By what, in words.
        how: String,
        /// Its exit code, if it had one.
        code: Option<u8>,
    },
}

/// What a keeper hears while its server lives.
#[derive(Debug)]
pub enum News {
    /// The server has ended.
    Ended(End),
    /// It serves from now on.
    Serves,
    /// The spare is gone.
    NoSpare,
    /// Nothing for [`LOOK_S`].
    Nothing,
}

/// How often it is looked what nobody tells, seconds: each look reads one small file.
pub const LOOK_S: i64 = 1;

/// How long a program that an upgrade named may live without serving (S-16.10): a server needs milliseconds, on a machine with forty
/// times the work it can do some seconds.
pub const TRIAL: Duration = Duration::from_secs(30);

/// What is left of a server that has ended and is not gone (S-16.11).
pub struct Rest {
    process: Option<process::Child>,
    pid: u32,
    pidfd: OwnedFd,
}

impl Rest {
    /// Its process number, until it is gone.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it is gone by now, or within `seconds`: nothing is left of it then.
    pub fn is_gone(&mut self, seconds: i64) -> bool {
        let limit = Timespec {
            tv_sec: seconds,
            tv_nsec: 0,
        };
        let gone = poll(&mut [PollFd::new(&self.pidfd, PollFlags::IN)], Some(&limit)).is_ok_and(|gone| gone > 0);
        if gone {
            let _ = self.process.as_mut().map(process::Child::wait);
        }
        gone
    }
}

/// A server.
pub struct Child {
    /// `None` of a server that another process started.
    process: Option<process::Child>,
    pid: u32,
    pidfd: OwnedFd,
    socket: OwnedFd,
    ready: bool,
    /// When it is long past that it should serve.
    due: Option<Instant>,
    ended: Option<End>,
    /// Unmounts.
    detach: Option<Detach>,
    /// Somebody waits on our standard output for this server to serve; from then on it is this.
    awaited: Option<File>,
}

/// A process that unmounts.
struct Detach {
    process: process::Child,
    pidfd: OwnedFd,
}

impl Detach {
    fn start(connection: &[u8]) -> io::Result<Detach> {
        let process = attach::start_detach(connection)?;
        let pidfd = pidfd_open(Pid::from_child(&process), PidfdFlags::empty())?;
        Ok(Detach { process, pidfd })
    }

    /// To wait for its end.
    fn ends(&self) -> PollFd<'_> {
        PollFd::new(&self.pidfd, PollFlags::IN)
    }

    /// It has ended: nothing is left of it when this returns. Why the mount stays, if it does.
    fn reap(self) -> Option<Vec<u8>> {
        match self.process.wait_with_output() {
            Ok(output) if output.status.success() => None,
            Ok(output) if output.stdout.is_empty() => Some(output.status.to_string().into_bytes()),
            Ok(output) => Some(output.stdout.trim_ascii().to_vec()),
            Err(error) => Some(error.to_string().into_bytes()),
        }
    }
}

impl Child {
    /// Starts a server, hands it all that is held, and tells it to begin. `first`: it answers the starter on our
    /// standard output. Errors: it could not be started.
    pub fn start(program: &Program, first: bool, held: &Held, begin: &Begin) -> io::Result<Child> {
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let awaited = (first && !program.foreground).then(starter::nowhere).transpose()?;
        let mut command = program.command();
        command.args(&program.words).stdin(Stdio::from(theirs));
        heap::one(&mut command);
        if !first {
            command.stdout(Stdio::null());
        }
        if !program.foreground {
            command.stderr(Stdio::null());
        }
        let process = command.spawn()?;
        // It closes our copy of the server's end.
        drop(command);
        let pid = Pid::from_child(&process);
        // The kernel may kill it before us.
        let _ = std::fs::write(format!("/proc/{pid}/oom_score_adj"), "0");
        let child = Child {
            pid: process.id(),
            pidfd: pidfd_open(pid, PidfdFlags::empty())?,
            process: Some(process),
            socket: ours,
            ready: false,
            due: Some(Instant::now() + TRIAL),
            ended: None,
            detach: None,
            awaited,
        };
        let text = serde_json::to_vec(begin)?;
        let told = wire::send_all(child.socket.as_fd(), held)
            .and_then(|()| wire::send(child.socket.as_fd(), &Said::Begin, &text, &[]));
        match told {
            // It died at once; `attend` sees how.
            Err(error) if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) => {
                Err(error)
            }
            _ => Ok(child),
        }
    }

    /// Takes over the server at the other end of the standard input; `None`: it made room for another, whom the keeper has not
    /// begun (S-16.12). `overdue` ends whom the keeper has begun and who has not come to serve when that is long past (S-16.31).
    /// Errors: it does not say what a server says then.
    pub fn adopt(
        held: &mut Held,
        begin: &mut Begin,
        before: &Before,
        overdue: &mut dyn FnMut(&Held),
    ) -> io::Result<Option<Child>> {
        let socket = rustix::stdio::stdin().try_clone_to_owned()?;
        let mut stands_in = false;
        loop {
            if stands_in && before.leaves_waiting(&socket) {
                overdue(held);
            }
            let Some(message) = wire::receive(socket.as_fd(), true)? else {
                return match stands_in {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            };
            match &message.said {
                Some(Said::Put(name)) => {
                    let name = name.clone();
                    // It goes without what has no room.
                    let _ = held.put_within(&ROOMS, &name, message.into());
                }
                Some(Said::StandIn) => {
                    *begin = Begin::read(&message.bytes)?;
                    stands_in = true;
                }
                Some(Said::StandDown) => {
                    *held = Held::default();
                    stands_in = false;
                }
                Some(Said::Serving(pid)) => {
                    let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
                    let pid = pid.ok_or(io::ErrorKind::InvalidData)?;
                    *begin = Begin::read(&message.bytes)?;
                    return Ok(Some(Child {
                        process: None,
                        pid: pid.as_raw_nonzero().get().unsigned_abs(),
                        pidfd: pidfd_open(pid, PidfdFlags::empty())?,
                        socket,
                        ready: true,
                        due: None,
                        ended: None,
                        detach: None,
                        awaited: None,
                    }));
                }
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether another keeper started it.
    pub fn is_anothers(&self) -> bool {
        self.process.is_none()
    }

    /// Its number, and that of who unmounts for it.
    pub fn pids(&self) -> impl Iterator<Item = u32> {
        let detach = self.detach.as_ref().map(|detach| detach.process.id());
        [self.pid].into_iter().chain(detach)
    }

    /// Whether it has begun to serve.
    pub fn was_ready(&self) -> bool {
        self.ready
    }

    /// Whether it lives without serving for longer than [`TRIAL`]; once.
    pub fn is_overdue(&mut self) -> bool {
        !self.ready && self.due.take_if(|due| Instant::now() >= *due).is_some()
    }

    /// Kills it: [`Child::attend`] hears of its end.
    pub fn kill(&self) {
        // One that has ended is dead.
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL);
    }

    /// Hands the running server what is held of the spare. Errors: it is gone, or does not listen.
    pub fn hand_spare(&self, held: &Held) -> io::Result<()> {
        match held.get(SPARE) {
            Some(item) => {
                let put = Said::Put(SPARE.to_owned());
                wire::tell(self.socket.as_fd(), &put, &item.bytes, &item.descriptors)
            }
            None => Ok(()),
        }
    }

    /// Holds what the server puts, and unmounts if that is wanted, until there is something for the keeper to do.
    pub fn attend(
        &mut self,
        held: &mut Held,
        mut signals: &UnixStream,
        spare: Option<&Spare>,
        unmount: &mut bool,
    ) -> News {
        let pause = Timespec {
            tv_sec: LOOK_S,
            tv_nsec: 0,
        };
        let mut listening = true;
        loop {
            let socket = match listening {
                true => PollFlags::IN,
                false => PollFlags::empty(),
            };
            let mut fds = [
                PollFd::new(&self.pidfd, PollFlags::IN),
                PollFd::new(&self.socket, socket),
                PollFd::new(signals, PollFlags::IN),
                spare.map_or(PollFd::new(signals, PollFlags::empty()), Spare::ends),
                self.detach
                    .as_ref()
                    .map_or(PollFd::new(signals, PollFlags::empty()), Detach::ends),
            ];
            // Interrupted by the signal that arrives: looked at in the next round.
            let Ok(ready) = poll(&mut fds, Some(&pause)) else {
                continue;
            };
            if ready == 0 {
                let Some(status) = task::ended(self.pid) else {
                    return News::Nothing;
                };
                self.hear_rest(held, listening);
                return News::Ended(self.end_as(Some(status)));
            }
            let [gone, said, signal, no_spare, detached] = fds.map(|fd| !fd.revents().is_empty());
            if detached {
                let stays = self.detach.take().and_then(Detach::reap);
                stays.into_iter().for_each(|why| self.stays(&why));
            }
            if signal {
                while signals.read(&mut [0; 16]).is_ok_and(|bytes| bytes > 0) {}
                *unmount = true;
                self.unmount(held, *unmount);
            }
            let served = self.ready;
            if said && listening {
                listening = self.listen(held, unmount);
            }
            // Its process has nothing more to say.
            if let Some(end @ End::Orderly(_)) = self.ended.take_if(|end| matches!(end, End::Orderly(_))) {
                return News::Ended(end);
            }
            if gone {
                self.hear_rest(held, listening);
                let status = self.process.as_mut().and_then(|process| process.wait().ok());
                return News::Ended(self.end_as(status));
            }
            if self.ready && !served {
                return News::Serves;
            }
            if no_spare && spare.is_some() {
                return News::NoSpare;
            }
        }
    }

    /// Takes what a server has said that says no more.
    fn hear_rest(&mut self, held: &mut Held, listening: bool) {
        while listening && self.listen(held, &mut false) {}
    }

    /// Unmounts, by another process: it waits until the server has made everything durable. A server that does not serve yet
    /// is waited for.
    pub fn unmount(&mut self, held: &Held, unmount: bool) {
        let Some(connection) = held.get(CONNECTION).filter(|_| unmount && self.ready) else {
            return;
        };
        // One at a time; the one before may have found the mount busy in another way than by being in use.
        if self.detach.is_some() {
            return;
        }
        match Detach::start(&connection.bytes) {
            Ok(detach) => self.detach = Some(detach),
            Err(error) => self.stays(format!("nothing can be started that unmounts ({error})").as_bytes()),
        }
    }

    /// Tells the server, which tells others, why its mount stays.
    fn stays(&self, why: &[u8]) {
        // A server that is gone need not know.
        let _ = wire::tell(self.socket.as_fd(), &Said::Stays, why, &[]);
    }

    /// What this keeper has to tell while a server is there, which tells others. One that is gone need not know.
    pub fn says(&self, what: &str) {
        let _ = wire::tell(self.socket.as_fd(), &Said::Says, what.as_bytes(), &[]);
    }

    /// Takes one message; `false` if none comes any more, or none now.
    fn listen(&mut self, held: &mut Held, unmount: &mut bool) -> bool {
        // A message that makes no sense ends the talk, and the server's death shows.
        let Ok(Some(message)) = wire::receive(self.socket.as_fd(), false) else {
            return false;
        };
        match &message.said {
            Some(Said::Put(name)) => {
                let name = name.clone();
                if let Err(why) = held.put_within(&ROOMS, &name, Item::from(message)) {
                    // A server that does not listen need not know.
                    let _ = wire::tell(self.socket.as_fd(), &Said::Refused, why.as_bytes(), &[]);
                }
            }
            Some(Said::Ready) => {
                self.ready = true;
                if let Some(null) = self.awaited.take() {
                    starter::answer(starter::READY, &null);
                }
                self.unmount(held, *unmount);
            }
            Some(Said::Unmount) => {
                *unmount = true;
                self.unmount(held, *unmount);
            }
            Some(Said::Ended(code)) => {
                let code = *code;
                let waiting = message.descriptors;
                self.ended = Some(End::Orderly(Last { code, waiting }));
            }
            // For which program, it does not say: what may have been taken over is not believed.
            Some(Said::Upgrade) => self.ended = Some(End::MadeRoom(registry::take_wish(process::id()))),
            _ => {}
        }
        true
    }

    /// Waits until nobody is at the other end of a server that is gone: what mounted for it has ended too.
    pub fn hear_out(&self) {
        while let Ok(Some(_)) = wire::receive(self.socket.as_fd(), true) {}
    }

    /// Waits for the process of a server that has said its last word. One that another process started is that one's to reap.
    pub fn leave(mut self) {
        drop(self.detach.take().and_then(Detach::reap));
        // Its last word counts, not how it left.
        let _ = self.process.as_mut().map(process::Child::wait);
    }

    /// What is left of the process of a server that has ended, if it is not gone.
    pub fn rest(self) -> Option<Rest> {
        let (process, pid, pidfd) = (self.process, self.pid, self.pidfd);
        let mut rest = Rest { process, pid, pidfd };
        (!rest.is_gone(0)).then_some(rest)
    }

    fn end_as(&mut self, status: Option<ExitStatus>) -> End {
        self.ended.take().unwrap_or_else(|| match status {
            Some(status) => died(status),
            None => End::Died {
                how: "unknown".into(),
                code: None,
            },
        })
    }
}

fn died(status: ExitStatus) -> End {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(code)) => format!("exit code {code}"),
        (None, None) => "unknown".into(),
    };
    End::Died {
        how,
        code: status.code().and_then(|code| u8::try_from(code).ok()),
    }
}
