//! The keeper of a mount. It holds what must outlive a server, and starts the next one when one dies.
//!
//! It is a descriptor store with a child and knows nothing of file systems: what it holds is named and opaque (see
//! [`crate::wire`]). What its servers may not do it has done by others: unmounting by `keepfs detach`, and being the next keeper by
//! a [`spare`]. It has one thread, is locked in memory and is the last that the kernel kills when memory is short
//! (X-8.1, decision 0530).

mod life;
mod mark;
mod spare;
mod strays;

use crate::deserted::{self, Private};
use crate::failure::Failure;
use crate::held::Held;
use crate::lives::{Begin, Death, Lives};
use crate::logging::{self, About, Level};
use crate::options::MountOptions;
use crate::program::OWN;
use crate::rooms::{CONNECTION, EVENTS, ID, SPARE};
use crate::words::Keep;
use crate::{Outcome, attach, namesake, place, registry, said, starter};
use life::{Child, End, Last, News, Program, Rest};
use mark::Mark;
use rustix::mm::{MlockAllFlags, mlockall};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use spare::{Before, Spare};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Child as Process;
use std::time::Duration;
use strays::Strays;

/// A keeper, between the lives of its servers.
struct Keeper {
    program: Program,
    held: Held,
    lives: Lives,
    begin: Begin,
    /// Signals arrive here as bytes.
    signals: UnixStream,
    /// The words of this keeper, for the next one.
    words: Vec<OsString>,
    /// For what it has to tell itself.
    about: About,
    /// How often in a row no server could be started.
    failed_starts: u32,
    /// The next keeper, if this one dies.
    spare: Option<Spare>,
    /// So many more are started when they die.
    spares_left: u32,
    /// Somebody wants the mount gone; tried with every server until one obeys.
    unmount: bool,
    /// Its namespace of mounts, if that may end before it does.
    private: Option<Private>,
    /// Seconds since it was looked who is there.
    unlooked_s: i64,
    /// Servers that have ended and are not gone (S-16.11, S-16.25).
    rests: Vec<Rest>,
    /// What servers left behind.
    strays: Strays,
    null: File,
}

/// The role `keep`: its first server answers the starter on the standard output.
pub fn run(args: &Keep) -> Outcome {
    match begin(args) {
        Ok(keeper) => match args.adopt {
            Some(before) => keeper.adopt(before),
            None => keeper.keep(true),
        },
        Err(failure) => {
            starter::tell(&failure.to_string());
            Ok(1)
        }
    }
}

fn begin(args: &Keep) -> Result<Keeper, Failure> {
    let options = MountOptions::parse(&args.options, args.sloppy)?;
    if !args.foreground {
        leave_the_starter()?;
    }
    let mark = match args.adopt {
        Some(_) => Mark::inherited(),
        None => Mark::new(),
    };
    let program = Program::of(args, mark.clone()).map_err(Failure::io("open", Path::new(OWN)))?;
    endure();
    Ok(Keeper {
        program,
        held: Held::default(),
        lives: Lives::new(options.restarts),
        begin: Begin::first(std::process::id()),
        words: words(args),
        about: About::of(&args.pool, &args.dir),
        failed_starts: 0,
        spare: None,
        spares_left: SPARES,
        signals: signals().map_err(|e| Failure::Other(format!("cannot wait for signals: {e}")))?,
        unmount: false,
        // Who waits in the foreground is somebody.
        private: Private::begin().filter(|_| !args.foreground),
        unlooked_s: 0,
        rests: Vec::new(),
        strays: Strays::begin(mark),
        null: nowhere()?,
    })
}

/// The starter's terminal is not ours: not its signals, not its directory, not its standard error.
fn leave_the_starter() -> Result<(), Failure> {
    // A server that started us has a session of its own already, and we may lead a group.
    if let Err(error) = rustix::process::setsid() {
        tracing::debug!(%error, "stays in its session");
    }
    let null = nowhere()?;
    rustix::stdio::dup2_stderr(&null).map_err(|e| Failure::Other(format!("cannot redirect standard error: {e}")))?;
    std::env::set_current_dir("/").map_err(Failure::io("go to", Path::new("/")))
}

fn nowhere() -> Result<File, Failure> {
    starter::nowhere().map_err(Failure::io("open", Path::new(starter::NOWHERE)))
}

/// What can be had of a life longer than others'; nothing of it is needed for the work.
fn endure() {
    // Not in a container without these rights.
    let _ = std::fs::write("/proc/self/oom_score_adj", "-1000");
    let _ = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT);
    let _ = rustix::process::configure_io_flusher_behavior(true);
}

fn signals() -> io::Result<UnixStream> {
    let (arrive, raise) = UnixStream::pair()?;
    arrive.set_nonblocking(true)?;
    for signal in [SIGTERM, SIGINT] {
        signal_hook::low_level::pipe::register(signal, raise.try_clone()?)?;
    }
    // A terminal that goes away means nothing to a mount.
    signal_hook::flag::register(SIGHUP, std::sync::Arc::default())?;
    Ok(arrive)
}

impl Keeper {
    /// One server after another until one ends in order. `first`: the next is the first, whose failure is its starter's.
    fn keep(mut self, mut first: bool) -> Outcome {
        loop {
            if let Err(why) = self.provide_spare() {
                self.tell(&why);
            }
            let child = Child::start(&self.program, first, &self.held, &self.begin);
            let last = match child {
                Ok(child) => {
                    self.failed_starts = 0;
                    self.see_to_its_end(child, first)
                }
                Err(error) if first => return Err(Failure::io("start", Path::new(OWN))(error)),
                Err(error) => self.not_started(&error),
            };
            if let Some(code) = last {
                return Ok(code);
            }
            first = false;
        }
    }

    /// No server could be started: other programs are tried, then it is waited. The exit code, if nothing has helped (S-16.10, S-16.24).
    fn not_started(&mut self, error: &io::Error) -> Option<u8> {
        if self.program.restore(false) || self.program.return_to_own() {
            self.tell(&format!(
                "the program that `keepfs upgrade` named cannot be started ({error}); servers are of the one before"
            ));
            return None;
        }
        self.failed_starts += 1;
        if self.failed_starts == STARTS {
            self.tell_the_end(&format!("none could be started: {error}"));
            return Some(1);
        }
        if self.failed_starts == 1 {
            self.tell(&format!(
                "no server can be started ({error}); tried again each second, {STARTS} times"
            ));
        }
        std::thread::sleep(BETWEEN_STARTS);
        None
    }

    fn tell(&self, text: &str) {
        tell(&self.about, &self.held, text);
    }

    /// The last that is told of a mount.
    fn tell_the_end(&self, why: &str) {
        self.tell(&format!(
            "this mount has no server any more ({why}); unmount it and mount it again, what was synced is there"
        ));
    }

    /// Takes over a server whose keeper, `before`, has died, and its successors.
    fn adopt(mut self, before: u32) -> Outcome {
        let (strays, about) = (&self.strays, &self.about);
        let mut overdue = |held: &Held| tell_ended(about, held, &strays.end(&[], true));
        let before_us = Before::of(before);
        let child = Child::adopt(&mut self.held, &mut self.begin, &before_us, &mut overdue);
        let child = child.map_err(|e| Failure::Other(format!("cannot take over: {e}")))?;
        (self.begin.keeper_pid, self.begin.version) = (std::process::id(), said::FIRST);
        if let Err(error) = place::moved(&mut self.held, before, self.begin.keeper_pid) {
            let why = format!("`keepfs status` will not find this mount ({error})");
            match &child {
                Some(child) => child.says(&why),
                None => self.tell(&why),
            }
        }
        let Some(child) = child else {
            tell_ended(&self.about, &self.held, &self.strays.end(&[], true));
            self.tell(
                "the keeper of this mount died while its server made room; the one that stood ready starts the next",
            );
            self.make_room(registry::take_wish(before));
            return self.keep(false);
        };
        self.provide_spare_beside(&child);
        match self.see_to_its_end(child, false) {
            Some(code) => Ok(code),
            None => self.keep(false),
        }
    }

    /// The server has ended so that `wish`, or what served before, takes its place. Whoever stands ready stays until that serves.
    fn make_room(&mut self, wish: Option<PathBuf>) {
        if let Some(Err(error)) = wish.map(|path| self.program.replace(&path)) {
            self.tell(&format!(
                "the program that `keepfs upgrade` named cannot be opened ({error}); servers are of the one before"
            ));
        }
        self.begin.next(None);
    }

    /// Sees to it that there is a spare. Errors: why there is none.
    fn provide_spare(&mut self) -> Result<(), String> {
        if self.spare.is_none() {
            self.spare = Some(self.new_spare()?);
        }
        Ok(())
    }

    /// The next keeper shall be of the program that `child` serves with: the spare that there is ends when the server has the
    /// new one (S-16.12).
    fn renew_spare(&mut self, child: &Child) {
        if self.spare.as_ref().is_none_or(|spare| spare.is_of(&self.program)) {
            return;
        }
        let before = self.held.take(SPARE);
        match self.new_spare() {
            Ok(new) if child.hand_spare(&self.held).is_ok() => {
                self.spare.replace(new).into_iter().for_each(Spare::end);
            }
            // The one before goes on.
            new => {
                new.into_iter().for_each(Spare::end);
                before.into_iter().for_each(|before| self.held.put(SPARE, before));
            }
        }
    }

    /// Starts a spare, of the program that servers are started from, and holds it. Errors: why there is none.
    fn new_spare(&mut self) -> Result<Spare, String> {
        match Spare::start(&self.program, &self.words) {
            Ok((spare, item)) => {
                self.held.put(SPARE, item);
                Ok(spare)
            }
            // Without one the death of this keeper is the death of the mount when its server dies.
            Err(error) => Err(format!(
                "no keeper stands ready ({error}): if this one dies, the mount ends with its server"
            )),
        }
    }

    /// The same beside a server, which gets it, or tells why there is none.
    fn provide_spare_beside(&mut self, child: &Child) {
        match self.provide_spare() {
            // A server that is gone is seen by others.
            Ok(()) => drop(child.hand_spare(&self.held)),
            Err(why) => child.says(&why),
        }
    }

    /// There is none any more, or it is not wanted.
    fn drop_spare(&mut self) {
        drop(self.held.take(SPARE));
        self.spare.take().into_iter().for_each(Spare::end);
    }

    /// Nothing has come for a while: looks after what nobody tells.
    fn look(&mut self, child: &mut Child) {
        self.rests.retain_mut(|rest| !rest.is_gone(0));
        self.strays.reap(&self.started(child));
        if self.program.is_on_trial() && child.is_overdue() {
            self.tell(&format!(
                "the program that `keepfs upgrade` named has not begun to serve within {} s: it is killed",
                life::TRIAL.as_secs()
            ));
            child.kill();
        }
        self.unlooked_s += life::LOOK_S;
        if self.unlooked_s < deserted::LOOK_S {
            return;
        }
        self.unlooked_s = 0;
        let spare = self.spare.as_ref().map(Spare::pid);
        // Whatever program they are of.
        let own: Vec<u32> = [std::process::id(), child.pid()].into_iter().chain(spare).collect();
        if self.private.as_mut().is_some_and(|private| private.is_deserted(&own)) {
            self.unmount = true;
            child.unmount(&self.held, self.unmount);
        }
    }

    /// Those of its processes that it has started itself.
    fn started(&self, child: &Child) -> Vec<u32> {
        let rests = self.rests.iter().map(Rest::pid);
        let spare = self.spare.as_ref().map(Spare::pid);
        child.pids().chain(rests).chain(spare).collect()
    }

    /// The server has ended: so does what it left behind, which may have what was held (S-16.27).
    fn end_strays(&self, child: &Child) {
        let ended = self.strays.end(&self.started(child), child.is_anothers());
        tell_ended(&self.about, &self.held, &ended);
    }

    /// All is done: nothing is held any more, and those who wait for that are told.
    fn let_go(&mut self, last: Last) {
        // The next user of the pool makes a file of the same name.
        if let Some(events) = self.held.take(EVENTS) {
            let events = events.descriptors.into_iter().map(File::from);
            events.for_each(|events| registry::remove_empty_events(&events));
        }
        if let Some(id) = self.held.take(ID) {
            id.descriptors.into_iter().for_each(|id| namesake::end(&id.into()));
        }
        // The mount is gone, and with it what they waited for.
        self.rests.retain_mut(|rest| !rest.is_gone(REST_S));
        // Who finds the files gone finds the pool free.
        self.held = Held::default();
        registry::forget(std::process::id());
        drop(last.waiting);
    }

    /// The first server died before it served, `how`: no mount is left, and its starter knows why. If it told that itself
    /// it did so before us.
    fn never_served(&mut self, child: &Child, how: &str) {
        let mount = self.held.take(CONNECTION).map(|connection| connection.bytes);
        // Nobody serves it and nobody will: with the last descriptor of it the kernel stops waiting for answers.
        self.held = Held::default();
        self.drop_spare();
        // What mounts may not have done so yet; if it was not told that the mount stays, it takes it away again.
        child.hear_out();
        self.end_strays(child);
        if let Some(mount) = mount
            && let Err(error) = attach::start_detach(&mount).and_then(Process::wait_with_output)
        {
            self.tell(&format!(
                "a mount without a server is left, as nothing could be started that takes it away ({error}); umount -l does"
            ));
        }
        registry::forget(std::process::id());
        let said = format!("the server died before the mount was usable ({how}); try again with -o log=FILE");
        starter::answer(&said, &self.null);
    }

    /// Serves `child` until it ends; the exit code, if it was the last.
    fn see_to_its_end(&mut self, mut child: Child, first: bool) -> Option<u8> {
        let end = loop {
            match child.attend(&mut self.held, &self.signals, self.spare.as_ref(), &mut self.unmount) {
                News::Ended(end) => break end,
                News::Serves => self.renew_spare(&child),
                News::NoSpare => {
                    // One that cannot live is not started again and again.
                    self.drop_spare();
                    if self.spares_left > 0 {
                        self.spares_left -= 1;
                        self.provide_spare_beside(&child);
                    }
                }
                News::Nothing => self.look(&mut child),
            }
        };
        // Of the first one, who mounts may be among them, and takes the mount away.
        if !first || child.was_ready() {
            self.end_strays(&child);
        }
        let (how, code) = match end {
            End::Orderly(last) => {
                let code = last.code;
                // It may hold what it was to stand in with.
                self.drop_spare();
                self.let_go(last);
                child.leave();
                return Some(code);
            }
            End::Died { how, code } if first && !child.was_ready() => {
                self.never_served(&child, &how);
                return Some(code.unwrap_or(1));
            }
            End::MadeRoom(wish) => {
                self.rests.extend(child.rest());
                self.make_room(wish);
                return None;
            }
            End::Died { how, code } => (how, code),
        };
        let served = child.was_ready();
        self.rests.extend(child.rest());
        if self.program.restore(served) {
            // The new program does not even start: back to the one that did.
            self.tell(&format!(
                "the program that `keepfs upgrade` named ended before it served ({how}); servers are of the one before"
            ));
            // One that ends by itself has refused, or is no server.
            self.begin.next(code.is_none().then(|| Death::now(how)));
            return None;
        }
        self.begin.next(Some(Death::now(how)));
        match self.lives.died(crate::lives::now()) {
            Some(mode) => {
                self.begin.mode = mode;
                None
            }
            // Not even a server that refuses everything lives: the mount ends as without a keeper.
            None => {
                self.tell_the_end("they died too often");
                Some(1)
            }
        }
    }
}

/// Tells what no server can. A machine without a log of the system has the events all the same.
fn tell(about: &About, held: &Held, text: &str) {
    let events = held.get(EVENTS).and_then(|item| item.descriptors.first());
    logging::tell_alone(about.clone(), events, Level::ERROR, text);
}

/// Tells of processes that were left behind: how many are killed, and who does not end.
fn tell_ended(about: &About, held: &Held, (ended, left): &(usize, Vec<u32>)) {
    if *ended > 0 {
        let text = format!("{ended} processes are killed that a server of this mount had started and left behind");
        tell(about, held, &text);
    }
    for pid in left {
        let text = format!(
            "process {pid}, which a server of this mount left behind, was killed and does not end: the pool may stay in use until it does"
        );
        tell(about, held, &text);
    }
}

/// How often in a row it is tried to start a server: what keeps a machine from starting programs may pass.
const STARTS: u32 = 60;
const BETWEEN_STARTS: Duration = Duration::from_secs(1);

/// How long it is waited for what is left of a server when its mount is gone, seconds.
const REST_S: i64 = 5;

/// Spares that may die before none is started any more.
const SPARES: u32 = 16;

/// The words after `keep --adopt` for the next keeper of what `args` says.
fn words(args: &Keep) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![args.pool.clone().into(), args.dir.clone().into()];
    for list in &args.options {
        words.extend(["-o".into(), list.into()]);
    }
    words.extend(args.sloppy.then(|| "--sloppy".into()));
    words.extend(args.foreground.then(|| "--foreground".into()));
    words
}
