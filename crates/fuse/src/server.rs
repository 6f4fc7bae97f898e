//! What stands between transport and dispatcher: who does a request, and the end of it all.

use crate::caught::caught;
use crate::config::MountConfig;
use crate::dispatch::{Dispatcher, Outcome, Parts};
use crate::ended::Ended;
use crate::init::Granted;
use crate::notify::Notifier;
use crate::pace::Pace;
use crate::protocol::Opcode;
use crate::protocol::request::{InHeader, ReadIn, WriteIn};
use crate::reply::ReplyBuf;
use crate::syncs::Syncs;
use crate::sys;
use crate::tally::Tally;
use crate::transport::{Channel, RequestBuf, Service, Transport, io_flusher};
use crate::workers::{Job, Work, Workers};
use keepfs_vfs::{Errno, Ino};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// Requests up to this size are copied when a worker takes them; of larger ones the buffer itself changes hands.
const COPY_MAX: usize = 4096;

/// Serves one connection.
pub(crate) struct Server {
    dispatcher: Dispatcher,
    transport: Arc<dyn Transport>,
    workers: Workers,
    syncs: Syncs,
    threads: Mutex<Vec<JoinHandle<()>>>,
    granted: Granted,
    notifier: Notifier,
    offload_bytes: u32,
    sync_deadline: Duration,
    reads: Pace,
    writes: Pace,
    others: Pace,
    tally: Arc<Tally>,
    ended: Ended,
}

/// Who shall do a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Reader,
    Worker,
    /// A worker, together with others of its kind.
    Round,
}

impl Server {
    pub(crate) fn new(
        dispatcher: Dispatcher,
        transport: Arc<dyn Transport>,
        config: &MountConfig,
        granted: Granted,
        notifier: Notifier,
    ) -> Server {
        Server {
            dispatcher,
            transport,
            workers: Workers::new(config.workers_max),
            syncs: Syncs::default(),
            threads: Mutex::default(),
            granted,
            notifier,
            offload_bytes: config.offload_bytes,
            sync_deadline: config.sync_deadline,
            reads: Pace::default(),
            writes: Pace::default(),
            others: Pace::default(),
            tally: Arc::default(),
            ended: Ended::default(),
        }
    }

    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    /// From here on every request is answered `EIO`, and the file system is not asked.
    pub(crate) fn refuse_all(&self) {
        let _ = self.ended.come(|| Err(Errno::EIO));
    }

    pub(crate) fn transport(&self) -> &Arc<dyn Transport> {
        &self.transport
    }

    pub(crate) fn granted(&self) -> Granted {
        self.granted
    }

    pub(crate) fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// Waits until the workers have done all that is queued and have ended, so that nobody holds the `Vfs` any more.
    pub(crate) fn stop_workers(&self) {
        self.workers.stop();
        let threads = std::mem::take(&mut *self.threads.lock());
        if threads.into_iter().map(JoinHandle::join).any(|ended| ended.is_err()) {
            tracing::error!("a worker panicked outside of a request");
        }
    }

    /// Unmounts the file system when no request is under way any more; the first call decides, later ones repeat it.
    pub(crate) fn finish(&self) -> Result<(), Errno> {
        self.ended.come(|| {
            let unmounted = caught(|| self.dispatcher.vfs().unmount());
            let result = unmounted.unwrap_or(Err(Errno::EIO));
            if let Err(errno) = result {
                tracing::error!(%errno, "unmount could not make everything durable");
            }
            result
        })
    }

    /// Decides who does a request, by its head and size and by how long its kind takes.
    fn who(&self, request: &RequestBuf) -> By {
        let Ok((header, body)) = InHeader::read_from_prefix(request.bytes()) else {
            return By::Reader;
        };
        let Some(op) = Opcode::from_wire(header.opcode) else {
            return By::Reader;
        };
        match op {
            Opcode::Fsync | Opcode::Fsyncdir => By::Round,
            Opcode::Syncfs | Opcode::Destroy => By::Worker,
            _ if self.is_long_by_nature(op, body) => By::Worker,
            Opcode::Forget | Opcode::BatchForget | Opcode::Release | Opcode::Releasedir => By::Reader,
            Opcode::Read => self.by_size(op, ReadIn::read_from_prefix(body).map_or(0, |(args, _)| args.size)),
            Opcode::Write => self.by_size(op, WriteIn::read_from_prefix(body).map_or(0, |(args, _)| args.size)),
            _ => self.by_size(op, 0),
        }
    }

    fn by_size(&self, op: Opcode, size: u32) -> By {
        match size >= self.offload_bytes || self.pace(op).is_slow() {
            true => By::Worker,
            false => By::Reader,
        }
    }

    /// Requests that may take as long as the device does, and whose time says nothing about others: an ioctl may be
    /// fstrim(8), a write may be a synchronous one.
    fn is_long_by_nature(&self, op: Opcode, body: &[u8]) -> bool {
        let syncs = |(args, _): (WriteIn, _)| self.dispatcher.syncs_write(&args).is_some();
        match op {
            Opcode::Fallocate | Opcode::CopyFileRange | Opcode::CopyFileRange64 | Opcode::Ioctl => true,
            Opcode::Write => WriteIn::read_from_prefix(body).is_ok_and(syncs),
            _ => false,
        }
    }

    /// Where the time of `op` is counted.
    fn pace(&self, op: Opcode) -> &Pace {
        match op {
            Opcode::Read => &self.reads,
            Opcode::Write => &self.writes,
            _ => &self.others,
        }
    }

    /// Handles a request whose time counts. `waited`: how long it was handed over. `true`: the reply is to be sent; it is
    /// in `reply`, or where `request` says.
    fn handle_timed(&self, request: &mut RequestBuf, reply: &mut ReplyBuf, waited: Option<Duration>) -> bool {
        let Some((header, op)) = asked(request) else {
            return self.handle_where_it_lies(request, reply).0;
        };
        let is_long = self.is_long_by_nature(op, request.bytes().get(size_of::<InHeader>()..).unwrap_or_default());
        let pace = self.pace(op);
        let before = pace.is_watched().then(sys::times_slept);
        let started = Instant::now();
        let (answer, len) = self.handle_where_it_lies(request, reply);
        let took = started.elapsed();
        self.tally.handled(op, waited, took);
        let bytes = request.parts().len().max(len);
        match before {
            _ if is_long => {}
            Some(Ok(before)) => pace.watched(took, sys::times_slept().is_ok_and(|now| now != before), bytes),
            Some(Err(_)) | None => pace.took(took, bytes),
        }
        if op == Opcode::Ioctl {
            // chattr changes ctime, but the kernel believes what it has cached.
            self.notifier.inval_inode(Ino(header.nodeid), -1, 0);
        }
        if op == Opcode::Write && self.dispatcher.owes(Ino(header.nodeid)) {
            // It asks before the next write(2), which gets ENOSPC (S-20.14).
            self.notifier.inval_inode(Ino(header.nodeid), -1, 0);
        }
        answer
    }

    /// Handles a request; its reply is built where the kernel fetches it if that is possible. Returns whether there
    /// is a reply, and how long it is.
    fn handle_where_it_lies(&self, request: &mut RequestBuf, reply: &mut ReplyBuf) -> (bool, usize) {
        if let Some((parts, area)) = request.in_place() {
            let mut reply = ReplyBuf::over(area);
            return (self.handle(parts, &mut reply), reply.bytes().len());
        }
        (self.handle(request.parts(), reply), reply.bytes().len())
    }

    /// Handles a request on this thread. `true`: send `reply`.
    fn handle(&self, request: Parts<'_>, reply: &mut ReplyBuf) -> bool {
        let ended = self.ended.hold_off();
        if ended.is_some() {
            return refuse(request.head, reply);
        }
        self.dispatcher.handle_parts(request, reply) == Outcome::Reply
    }

    fn answer(&self, job: &mut Job, reply: &ReplyBuf) {
        let started = Instant::now();
        if let Err(error) = self.transport.answer(job.channel, &mut job.request, reply) {
            // Nobody waits any more after an abort.
            tracing::debug!(%error, "a reply was not delivered");
        }
        if let Some((_, op)) = asked(&job.request) {
            self.tally.replied(op, started.elapsed());
        }
    }

    /// Starts a worker; if that fails and there is none, this thread does what is queued.
    fn start_worker(self: &Arc<Self>) {
        let server = self.clone();
        let builder = thread::Builder::new().name("fuse-work".into());
        let error = match builder.spawn(move || server.work()) {
            Ok(thread) => return self.threads.lock().push(thread),
            Err(error) => error,
        };
        tracing::error!(%error, "a worker could not be started");
        self.workers.ended();
        if self.workers.none_running() {
            let mut reply = self.dispatcher.reply_buf();
            while let Some(work) = self.workers.poll() {
                self.do_work(work, &mut reply);
            }
        }
    }

    /// The life of a worker.
    fn work(self: Arc<Self>) {
        let _counted = Counted(&self.workers);
        io_flusher();
        let mut reply = self.dispatcher.reply_buf();
        while let Some(work) = self.workers.next() {
            self.do_work(work, &mut reply);
        }
    }

    fn do_work(self: &Arc<Self>, work: Work, reply: &mut ReplyBuf) {
        let mut job = match work {
            Work::Syncs => return self.sync_rounds(reply),
            Work::Request(job) => job,
        };
        self.do_job(&mut job, reply);
        if job.request.bytes().len() > COPY_MAX {
            self.workers.give_back(job.request);
        }
    }

    /// Has a worker do `work`.
    fn hand_over(self: &Arc<Self>, work: Work) {
        if self.workers.push(work) {
            self.start_worker();
        }
    }

    /// Rounds of fsyncs until none waits.
    fn sync_rounds(self: &Arc<Self>, reply: &mut ReplyBuf) {
        loop {
            let mut jobs = self.syncs.take();
            if jobs.is_empty() {
                return;
            }
            let begun = Instant::now();
            let results = self.fsyncs(&jobs);
            let took = begun.elapsed();
            self.syncs.took(took);
            for (job, result) in jobs.iter_mut().zip(results) {
                if let Some((_, op)) = asked(&job.request) {
                    self.tally.handled(op, Some(begun - job.arrived), took);
                }
                match job.request.in_place() {
                    Some((_, area)) => finish_reply(result, job.unique, &mut ReplyBuf::over(area)),
                    None => finish_reply(result, job.unique, reply),
                }
                self.answer(job, reply);
            }
        }
    }

    /// All of `jobs` with one flush; how it went for each.
    fn fsyncs(&self, jobs: &[Job]) -> Vec<Result<(), Errno>> {
        let ended = self.ended.hold_off();
        match *ended {
            Some(_) => vec![Err(Errno::EIO); jobs.len()],
            None => self.dispatcher.fsyncs(jobs.iter().map(|job| job.request.parts())),
        }
    }

    fn do_job(self: &Arc<Self>, job: &mut Job, reply: &mut ReplyBuf) {
        let begun = Instant::now();
        let waited = begun - job.arrived;
        let answer = match asked(&job.request).map(|(_, op)| op) {
            Some(Opcode::Destroy) => {
                finish_reply(self.finish(), job.unique, reply);
                true
            }
            Some(Opcode::Syncfs) => {
                let answer = self.sync_by_deadline(job, reply);
                self.tally.handled(Opcode::Syncfs, Some(waited), begun.elapsed());
                answer
            }
            _ => self.handle_timed(&mut job.request, reply, Some(waited)),
        };
        if answer {
            self.answer(job, reply);
        }
    }

    /// SYNCFS holds up every sync(2) of the machine: after the deadline it is answered `EIO`, and goes on behind.
    fn sync_by_deadline(self: &Arc<Self>, job: &mut Job, reply: &mut ReplyBuf) -> bool {
        let (done, wait) = mpsc::sync_channel(1);
        let (server, request) = (self.clone(), job.request.to_small());
        let started = thread::Builder::new().name("fuse-sync".into()).spawn(move || {
            let mut reply = ReplyBuf::new(0);
            server.handle(request.parts(), &mut reply);
            let _ = done.send(reply);
        });
        let result = match started {
            Ok(_) => wait.recv_timeout(self.sync_deadline),
            Err(_) => return self.handle(job.request.parts(), reply),
        };
        match result {
            Ok(done) => self.answer(job, &done),
            Err(_) => {
                tracing::error!(
                    deadline_s = self.sync_deadline.as_secs(),
                    "sync took too long; answered EIO"
                );
                reply.fail(job.unique, Errno::EIO);
                self.answer(job, reply);
            }
        }
        false
    }
}

/// A worker that is counted until it ends, whatever ends it.
struct Counted<'a>(&'a Workers);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.ended();
    }
}

/// The head of a request, and which operation it asks for, if that is known.
fn asked(request: &RequestBuf) -> Option<(InHeader, Opcode)> {
    let (header, _) = InHeader::read_from_prefix(request.bytes()).ok()?;
    Some((header, Opcode::from_wire(header.opcode)?))
}

/// The answer to whatever comes after the end: nothing for forgets, `EIO` for the rest.
fn refuse(request: &[u8], reply: &mut ReplyBuf) -> bool {
    let Ok((header, _)) = InHeader::read_from_prefix(request) else {
        return false;
    };
    if matches!(
        Opcode::from_wire(header.opcode),
        Some(Opcode::Forget | Opcode::BatchForget)
    ) {
        return false;
    }
    reply.fail(header.unique, Errno::EIO);
    true
}

fn finish_reply(result: Result<(), Errno>, unique: u64, reply: &mut ReplyBuf) {
    reply.clear();
    match result {
        Ok(()) => reply.finish(unique),
        Err(errno) => reply.fail(unique, errno),
    }
}

impl Service for Arc<Server> {
    fn serve(&self, channel: Channel, request: &mut RequestBuf, reply: &mut ReplyBuf) -> bool {
        let by = self.who(request);
        if by == By::Reader {
            return self.handle_timed(request, reply, None);
        }
        let (unique, task) =
            InHeader::read_from_prefix(request.bytes()).map_or((0, 0), |(header, _)| (header.unique, header.pid));
        let taken = match request.bytes().len() {
            0..=COPY_MAX => request.take_small(),
            _ => request.replace(self.workers.spare(self.request_size())),
        };
        let job = Job {
            channel,
            unique,
            task,
            arrived: Instant::now(),
            request: taken,
        };
        if by == By::Worker {
            self.hand_over(Work::Request(job));
        } else if self.syncs.push(job) {
            self.hand_over(Work::Syncs);
        }
        false
    }

    fn replied(&self, request: &RequestBuf, took: Duration) {
        if let Some((_, op)) = asked(request) {
            self.tally.replied(op, took);
        }
    }

    fn reply_buf(&self) -> ReplyBuf<'static> {
        self.dispatcher.reply_buf()
    }

    fn request_size(&self) -> usize {
        // The kernel wants room for the head, the largest fixed part and all the data.
        self.granted.max_write as usize + 4096
    }
}
