//! How commands talk to a running server: a socket that only root may use, one line asked, one answer in JSON.
//!
//! Clients are heard side by side, so that one that is slow stops no others; questions are answered one after the other.
//! `status`, `events`, `follow` and `sync` are answered when they are done. `wait` is answered twice: at once, and when the pool is closed;
//! the connection is closed when the pool is free for others.
//!
//! What may rightly take long is waited for as long as the server gives signs of life on other connections (decision 0846).

use crate::clients::{Client, Clients};
use crate::question::{Durable, Question, Told, UNKNOWN};
use crate::registry::{self, Record};
use crate::servers;
use crate::until::Until;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// How long a client may take to say what it wants, all of it, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a server may take to answer whoever must not wait for one that hangs.
pub const SOON: Duration = Duration::from_secs(2);
/// How long one that has just begun may: it takes over what the one before it left.
const BEGINNING: Duration = Duration::from_secs(20);
/// How often it is looked then which one that is, and how many are enough: whatever ends them ends the next one too.
const LOOK: Duration = Duration::from_millis(100);
const IN_A_ROW: usize = 3;
/// How often who waits for an answer asks for one.
const SIGN_EVERY: Duration = Duration::from_millis(500);
/// Clients that are heard at a time.
const CLIENTS_MAX: usize = 64;
/// Longest question, bytes.
const QUESTION_MAX: u64 = 8192;

/// What a server answers to a question; `None` if it does not know it.
pub type Answers = dyn Fn(&Question) -> Option<Value> + Send + Sync;

/// How long a server that ends waits for those who have come and not asked yet.
const LAST_COMERS: Duration = Duration::from_secs(1);

/// Those who wait for the pool to be closed, and what they were told when it was.
#[derive(Default)]
struct Waiters {
    waiting: Vec<Arc<UnixStream>>,
    told: Option<String>,
}

/// The server's end.
pub struct Control {
    record: Mutex<Record>,
    waiters: Arc<Mutex<Waiters>>,
    clients: Arc<Clients<UnixStream>>,
    /// Held from when a client is taken until it has a place.
    taking: Arc<Mutex<()>>,
    listener: OwnedFd,
}

impl Control {
    /// Listens, and tells others of it. The process's umask decides who may connect: it must be 077.
    pub fn open(record: Record, answers: Arc<Answers>) -> io::Result<Control> {
        forget_dead(&record.device);
        record.publish()?;
        Control::over(registry::listen(record.pid)?, record, answers)
    }

    /// Listens where a server before this one did; who connected since then is answered too.
    pub fn over(listener: UnixListener, record: Record, answers: Arc<Answers>) -> io::Result<Control> {
        let kept = listener.try_clone()?.into();
        let waiters = Arc::new(Mutex::new(Waiters::default()));
        let desk = Arc::new(Desk {
            answers,
            answering: Mutex::new(()),
            waiters: waiters.clone(),
        });
        let clients = Clients::new(CLIENTS_MAX, servers::HEARS);
        let taking = Arc::new(Mutex::new(()));
        let (places, takes) = (clients.clone(), taking.clone());
        thread::Builder::new().name(servers::HEARS.into()).spawn(move || {
            loop {
                let _ = poll(&mut [PollFd::new(&listener, PollFlags::IN)], None);
                let _taking = takes.lock();
                let Ok((client, _)) = listener.accept() else { continue };
                let desk = desk.clone();
                places.hear(client, move |client| {
                    if let Err(error) = desk.serve(client) {
                        tracing::debug!(%error, "a client of the control socket went away");
                    }
                });
            }
        })?;
        Ok(Control {
            record: Mutex::new(record),
            waiters,
            clients,
            taking,
            listener: kept,
        })
    }

    /// The listening socket once more, for whoever keeps it. Errors: no free descriptor.
    pub fn listener(&self) -> io::Result<OwnedFd> {
        self.listener.try_clone()
    }

    /// The mount has another keeper from now on, which has moved the files.
    pub fn moved_to(&self, keeper_pid: u32) {
        self.record.lock().pid = keeper_pid;
    }

    /// The pool is closed: tells those who wait how it went. The record is taken away, unless a keeper still holds the pool,
    /// which does it then; returns the sockets of those who wait: they wait until these are closed.
    pub fn close(&self, result: Result<(), String>) -> Vec<OwnedFd> {
        let record = self.record.lock();
        if !record.kept {
            record.withdraw();
        }
        let answer = format!("{}\n", json!(Durable::from(result)));
        {
            let mut waiters = self.waiters.lock();
            for waiter in &waiters.waiting {
                // A client that does not wait any more does not matter.
                let _ = (&**waiter).write_all(answer.as_bytes());
            }
            waiters.told = Some(answer);
        }
        self.hear_all_who_came();
        let waiting = core::mem::take(&mut self.waiters.lock().waiting);
        let kept = |waiter: Arc<UnixStream>| waiter.as_fd().try_clone_to_owned().ok();
        waiting.into_iter().filter_map(kept).collect()
    }

    /// Whoever connected before is heard now: who waited for a server that died comes while the next one ends what that began, and would
    /// take the end of this one for another death (S-16.34).
    fn hear_all_who_came(&self) {
        let until = Instant::now() + LAST_COMERS;
        while let Some(taking) = self.taking.try_lock_until(until) {
            let came = poll(
                &mut [PollFd::new(&self.listener, PollFlags::IN)],
                Some(&Timespec::default()),
            );
            drop(taking);
            if !came.is_ok_and(|came| came > 0) || Instant::now() >= until {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        self.clients.wait_until_empty(until);
    }
}

/// Takes away what servers left that died and are mounted no more, or whose device number is by now that of the mount that is
/// made: `device`.
pub fn forget_dead(device: &str) {
    for record in registry::all() {
        let stale = record.device == device || !record.is_mounted();
        if stale && matches!(connect(&record), Err(Silent::Dead)) {
            record.withdraw();
        }
    }
}

/// Takes away what those left who were killed before they had published their mount.
pub fn forget_unfinished() {
    for pid in registry::unpublished() {
        let is_gone = !Path::new(&format!("/proc/{pid}")).exists();
        // One in another PID namespace is not seen, but listens.
        if is_gone && dial(&registry::socket_of(pid)).is_err_and(|error| is_dead(&error)) {
            registry::forget(pid);
        }
    }
}

/// Where clients are heard.
struct Desk {
    answers: Arc<Answers>,
    /// Held while a question is answered: what it changes is changed by one at a time.
    answering: Mutex<()>,
    waiters: Arc<Mutex<Waiters>>,
}

impl Desk {
    fn serve(&self, client: &Client<UnixStream>) -> io::Result<()> {
        let mut stream = &*client.connection;
        let question = question(stream, Instant::now() + PATIENCE)?;
        client.is_answered(true);
        if question == Ok(Question::Wait) {
            stream.set_write_timeout(Some(PATIENCE))?;
            // Who has the first answer may unmount at once: the pool is not closed before he is among those who are told.
            let mut waiters = self.waiters.lock();
            writeln!(stream, "{}", json!(Told::default()))?;
            if let Some(answer) = &waiters.told {
                stream.write_all(answer.as_bytes())?;
            }
            waiters.waiting.push(client.connection.clone());
            return Ok(());
        }
        // In one piece: a value writes itself in thousands of small ones.
        let answer = format!("{}\n", self.answer(&question));
        let until = Instant::now() + PATIENCE;
        Until { stream, until }.write_all(answer.as_bytes())
    }

    fn answer(&self, question: &Result<Question, String>) -> Value {
        let question = match question {
            Ok(Question::Alive) => return json!(Told::default()),
            Ok(question) => question,
            Err(why) => return json!(Told::error(why)),
        };
        // Who only looks waits for nobody who is slow to change something.
        let _answering = (!question.is_look()).then(|| self.answering.lock());
        (self.answers)(question).unwrap_or_else(|| json!(Told::error(UNKNOWN)))
    }
}

/// What a client asks, whole by `until`, or why it is not answered.
fn question(client: &UnixStream, until: Instant) -> io::Result<Result<Question, String>> {
    let mut question = String::new();
    BufReader::new(Until { stream: client, until }.take(QUESTION_MAX)).read_line(&mut question)?;
    Ok(Question::read(question.trim()))
}

/// Why a server does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Silent {
    /// Its process is gone.
    #[error("its server has died")]
    Dead,
    /// Its process is there, and does not answer.
    #[error(
        "its server has not answered for {} s: {why}; {}`keepfs unmount -f` ends such a mount",
        SOON.as_secs(),
        if *may_do { "what was asked of it may still be done when it goes on; " } else { "" }
    )]
    Hung {
        /// What can be seen of it.
        why: String,
        /// It was asked to change something.
        may_do: bool,
        /// It is not one: they end one after the other.
        in_a_row: bool,
    },
    /// It cannot be asked.
    #[error("its server cannot be asked: {0}")]
    Io(#[from] io::Error),
    /// It does not do it.
    #[error("{0}")]
    Refused(String),
    /// Its answer is not one to the question.
    #[error(
        "its server is of another version, and its answer is not understood ({0}); use the command of the server's release, or \
         unmount it and mount it again"
    )]
    Nonsense(#[from] serde_json::Error),
}

impl Silent {
    /// The same of a server that has the question, which changes something or not.
    fn asked(self, may_do: bool) -> Silent {
        match self {
            Silent::Hung { why, in_a_row, .. } => Silent::Hung { why, may_do, in_a_row },
            other => other,
        }
    }
}

/// How long an answer is waited for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// [`SOON`].
    Soon,
    /// As long as the server gives signs of life: what it is asked may rightly take long.
    WhileAlive,
}

/// Asks the server of `record` one question; if it dies over it and has a keeper, the next server. Waits as long as it lives.
pub fn ask<T: DeserializeOwned>(record: &Record, question: &Question) -> Result<T, Silent> {
    ask_with(record, question, Patience::WhileAlive)
}

/// The same of who must not wait for a server that is slow either.
pub fn ask_soon<T: DeserializeOwned>(record: &Record, question: &Question) -> Result<T, Silent> {
    ask_with(record, question, Patience::Soon)
}

fn ask_with<T: DeserializeOwned>(record: &Record, question: &Question, patience: Patience) -> Result<T, Silent> {
    let mut record = record.clone();
    for _ in 0..TRIES {
        match one_answer(&record, question, patience) {
            // Its keeper has died since the record was read: its files have other names.
            Err(Silent::Dead) if record.kept => match registry::moved(&record) {
                Some(moved) => record = moved,
                None if process_of(&record).is_ok() => {}
                None => break,
            },
            other => return other,
        }
    }
    Err(Silent::Dead)
}

/// Servers that may die over a question.
const TRIES: usize = 8;

/// As [`ask`], but of one server only.
pub fn ask_once<T: DeserializeOwned>(record: &Record, question: &Question) -> Result<T, Silent> {
    one_answer(record, question, Patience::WhileAlive)
}

/// Whether its server lives, for who is about to call the kernel on its mount and could not be stopped then. One that has died is none
/// that hangs: the kernel says so. Errors: it hangs.
pub fn alive(record: &Record) -> Result<(), Silent> {
    let is_beginning = || servers::of(record).is_some_and(|server| server.is_beginning());
    match one_answer::<Told>(record, &Question::Alive, Patience::Soon) {
        Err(Silent::Hung { in_a_row: false, .. }) if is_beginning() => Ok(()),
        Err(silent @ Silent::Hung { .. }) => Err(silent),
        _ => Ok(()),
    }
}

fn one_answer<T: DeserializeOwned>(record: &Record, question: &Question, patience: Patience) -> Result<T, Silent> {
    let stream = connect(record)?;
    writeln!(&stream, "{}", question.line()).map_err(|error| broken(error, record))?;
    let changes = patience == Patience::WhileAlive && !question.is_look();
    let answer = said(record, &mut BufReader::new(&stream), patience).map_err(|silent| silent.asked(changes))?;
    match answer.is_empty() {
        true => Err(Silent::Dead),
        false => understood(&answer),
    }
}

/// An answer as its type; where it is none, but says why, that.
fn understood<T: DeserializeOwned>(answer: &str) -> Result<T, Silent> {
    serde_json::from_str(answer).map_err(|error| match serde_json::from_str(answer) {
        Ok(Told { error: Some(why), .. }) => Silent::Refused(why),
        _ => Silent::Nonsense(error),
    })
}

/// The line that a server says next.
fn said(record: &Record, stream: &mut BufReader<&UnixStream>, patience: Patience) -> Result<String, Silent> {
    let mut bytes = Vec::new();
    let mut has_come = |limit| whole(stream, &mut bytes, limit).map_err(|error| broken(error, record));
    match patience {
        Patience::Soon => {
            // One that has just begun gets more time.
            let has_come =
                has_come(SOON)? || (servers::are_awaited(record) && comes_of_the_next(record, &mut has_come)?);
            if !has_come {
                return Err(hung(record));
            }
        }
        Patience::WhileAlive => {
            let begun = Instant::now();
            while !has_come(SIGN_EVERY)? {
                let is_keeper_stopped = begun.elapsed() > SOON && servers::stopped_keeper(record).is_some();
                let sign = if is_keeper_stopped {
                    Err(hung(record))
                } else {
                    alive(record)
                };
                let Err(silent) = sign else { continue };
                // Its answer may have come meanwhile.
                if has_come(LEAST)? {
                    break;
                }
                return Err(silent);
            }
        }
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether an answer comes of a server that has just begun. Errors: they end one after the other, and none comes to answer.
fn comes_of_the_next(
    record: &Record,
    has_come: &mut impl FnMut(Duration) -> Result<bool, Silent>,
) -> Result<bool, Silent> {
    let (begun, mut seen) = (Instant::now(), Vec::new());
    while begun.elapsed() < BEGINNING {
        if has_come(LOOK)? {
            return Ok(true);
        }
        let server = servers::of(record).map(|server| server.pid);
        seen.extend(server.filter(|pid| !seen.contains(pid)));
        if seen.len() >= IN_A_ROW {
            return Err(Silent::Hung {
                why: "its servers end one after the other, and the system's log says why".into(),
                may_do: false,
                in_a_row: true,
            });
        }
    }
    Ok(false)
}

/// Reads on in a line; whether its end, or that of the connection, has come within `limit`.
fn whole(stream: &mut BufReader<&UnixStream>, bytes: &mut Vec<u8>, limit: Duration) -> io::Result<bool> {
    stream.get_ref().set_read_timeout(Some(limit))?;
    match stream.read_until(b'\n', bytes) {
        Ok(_) => Ok(true),
        Err(error) if is_late(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The shortest limit there is: one of nothing means none (socket(7)).
const LEAST: Duration = Duration::from_millis(1);

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// A connection that breaks is a server that died.
fn broken(error: io::Error, record: &Record) -> Silent {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Silent::Dead,
        _ if is_late(&error) => hung(record),
        _ => Silent::Io(error),
    }
}

fn hung(record: &Record) -> Silent {
    Silent::Hung {
        why: servers::why(record),
        may_do: false,
        in_a_row: false,
    }
}

/// The process whose end is the end of the mount's server, if `record` says which that is.
fn process_of(record: &Record) -> Result<OwnedFd, Silent> {
    let pid = i32::try_from(record.pid).ok().and_then(Pid::from_raw);
    pidfd(pid.ok_or(Silent::Dead)?)
}

fn connect(record: &Record) -> Result<UnixStream, Silent> {
    dial(&record.socket()).map_err(|error| match error.kind() {
        _ if is_dead(&error) => Silent::Dead,
        // Nobody takes those who came before us.
        io::ErrorKind::WouldBlock => hung(record),
        _ => Silent::Io(error),
    })
}

/// Whether nobody listens there.
fn is_dead(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Connects to a socket, at once or not.
fn dial(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Waiting for a server's end.
pub struct Wait {
    stream: BufReader<UnixStream>,
    process: OwnedFd,
    record: Record,
}

/// How a server ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything is durable.
    Durable,
    /// It said what went wrong.
    Unclean(String),
    /// It said nothing.
    Died,
}

impl Wait {
    /// From here on the end of the server cannot be missed. Begin before unmounting.
    pub fn begin(record: &Record) -> Result<Wait, Silent> {
        let stream = connect(record)?;
        let process = match record.kept {
            true => process_of(record)?,
            // Its listening socket tells who it is, whoever has had its number since.
            false => pidfd(
                rustix::net::sockopt::socket_peercred(&stream)
                    .map_err(io::Error::from)?
                    .pid,
            )?,
        };
        drop(stream);
        for _ in 0..TRIES {
            match (queue(record, Patience::Soon), record.kept) {
                (Ok(stream), _) => {
                    let record = record.clone();
                    return Ok(Wait {
                        stream,
                        process,
                        record,
                    });
                }
                (Err(Silent::Dead), true) => {}
                (Err(error), _) => return Err(error),
            }
        }
        Err(Silent::Dead)
    }

    /// Waits until the server or its keeper has let go of the pool.
    pub fn end(mut self) -> Ended {
        let mut last = String::new();
        // A connection that breaks is a server that died; the next one, if there is a keeper, ends what it began.
        while self.stream.read_line(&mut last).is_err() || last.is_empty() {
            match queue(&self.record, Patience::WhileAlive) {
                Ok(stream) if self.record.kept => self.stream = stream,
                _ => break,
            }
        }
        let _ = poll(&mut self.free(), None);
        match serde_json::from_str::<Value>(&last) {
            Ok(answer) if answer["durable"] == true => Ended::Durable,
            Ok(answer) => Ended::Unclean(answer["error"].as_str().unwrap_or("it did not say why").to_owned()),
            Err(_) => Ended::Died,
        }
    }

    /// Why the end will not come by itself, as far as that can be seen.
    pub fn stopped(&self) -> Option<String> {
        servers::stopped(&self.record)
    }

    /// Waits at most so long for the pool to be let go; whether it was, or another server has taken the place of one that died.
    pub fn end_within(&self, limit: Duration) -> bool {
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: limit.subsec_nanos().into(),
        };
        poll(&mut self.free(), Some(&limit)).is_ok_and(|ready| ready > 0)
    }

    /// The pool is free when the other end of the connection is closed, which its process may not have done when it died.
    fn free(&self) -> [PollFd<'_>; 2] {
        [
            PollFd::new(&self.process, PollFlags::IN),
            PollFd::new(self.stream.get_ref(), PollFlags::empty()),
        ]
    }
}

/// In the queue of those who are told of the end. `patience`: with being taken in.
fn queue(record: &Record, patience: Patience) -> Result<BufReader<UnixStream>, Silent> {
    let stream = connect(record)?;
    writeln!(&stream, "{}", Question::Wait.line()).map_err(|error| broken(error, record))?;
    let hello = said(record, &mut BufReader::with_capacity(1, &stream), patience)?;
    stream.set_read_timeout(None)?;
    match hello.is_empty() {
        true => Err(Silent::Dead),
        false => Ok(BufReader::new(stream)),
    }
}

fn pidfd(pid: Pid) -> Result<OwnedFd, Silent> {
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match error {
        rustix::io::Errno::SRCH => Silent::Dead,
        other => Silent::Io(other.into()),
    })
}

#[cfg(test)]
mod tests;
