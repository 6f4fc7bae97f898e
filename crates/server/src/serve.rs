//! The server of a mount: opens the pool, mounts it, serves until it is unmounted, closes the pool.

use crate::attach::{self, Helper};
use crate::claim::{Claim, Opened};
use crate::control::{Answers, Control};
use crate::failure::Failure;
use crate::held::Held;
use crate::kept::Kept;
use crate::live::{Live, follow};
use crate::logging::{self, About, LogTo, Ring};
use crate::options::MountOptions;
use crate::question::Question;
use crate::registry::{self, Record};
use crate::said::Said;
use crate::starter::{self, NOWHERE, READY, WARNS};
use crate::visible::Shown;
use crate::visible::one_line;
use crate::waiting::patiently;
use crate::words::Serve;
use crate::{Outcome, concerned, confine, deserted, exposed, log_file, namesake, panics, rights};
mod succeed;

use keepfs_fuse::{Session, Unmounter};
use keepfs_media::file::Handed;
use rustix::fs::Mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

/// What is served, and where.
pub struct Mounted {
    /// The mount.
    pub session: Session,
    /// The control socket, if there is one.
    pub control: Option<Arc<Control>>,
    /// The keeper, if there is one.
    pub kept: Option<Arc<Kept>>,
    /// What keeps the events.
    pub ring: Ring,
    /// Without a keeper: what it would hold of the pool.
    pub alone: Option<Alone>,
}

/// The pool, which nobody else can have until this is closed, and the lock of its id.
pub struct Alone {
    device: Handed,
    id: Option<File>,
}

/// What stands by a server from its first moment.
struct Beside {
    ring: Ring,
    kept: Option<Arc<Kept>>,
    /// Mounts, if this process will not have the right to.
    helper: Option<Helper>,
    /// Somebody waits for the answer.
    is_awaited: bool,
}

/// The role `serve`: the first line on standard output says `ready`, or what went wrong.
pub fn in_background(args: &Serve) -> Outcome {
    match begin_in_background(args) {
        Ok(mounted) => {
            // Whoever is told that it serves finds it confined: nothing can be opened any more then.
            let null = starter::nowhere().map_err(Failure::io("open", Path::new(NOWHERE)))?;
            if mounted.kept.is_some() {
                confine::begin();
            }
            // Behind an answer, which its keeper may give, who has gone has heard it.
            let is_unheard = !args.foreground && starter::is_gone();
            let told = tell_keeper(mounted.kept.as_deref());
            if !args.foreground {
                starter::answer(READY, &null);
            }
            if is_unheard {
                give_up(mounted.kept.as_deref());
            }
            let served = mounted.serve();
            told.and(served).map(|()| 0)
        }
        Err(failure) => {
            let said = failure.to_string();
            starter::tell(&said);
            // For the next server, if a keeper starts one.
            eprintln!("{}", one_line(&said));
            if !args.kept {
                registry::forget_words(std::process::id());
            }
            Ok(1)
        }
    }
}

/// Who asked for the mount has gone meanwhile: it ends (S-16.29).
fn give_up(kept: Option<&Kept>) {
    let done = match kept {
        Some(kept) => kept.say(&Said::Unmount, b""),
        // As by a signal, beside who serves.
        None => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM)
            .map_err(io::Error::from),
    };
    match done {
        Ok(()) => tracing::warn!("who asked for this mount has gone: it is unmounted"),
        Err(error) => tracing::warn!(%error, "who asked for this mount has gone, and it cannot be unmounted"),
    }
}

/// Everything that must outlive this server is with the keeper by now.
fn tell_keeper(kept: Option<&Kept>) -> Result<(), Failure> {
    let told = kept.map_or(Ok(()), |kept| kept.say(&Said::Ready, b""));
    told.map_err(|e| Failure::Other(format!("cannot tell the keeper: {e}")))
}

fn begin_in_background(args: &Serve) -> Result<Mounted, Failure> {
    let options = MountOptions::parse(&args.options, args.sloppy)?;
    let (kept, handed) = match args.kept {
        true => {
            let begun = Kept::begin().map_err(|e| Failure::Other(format!("no keeper: {e}")))?;
            (Some(Arc::new(begun.0)), begun.1)
        }
        false => {
            if let Some(Err(error)) = deserted::watch() {
                tracing::warn!(%error, "this mount may outlive its namespace");
            }
            (None, Held::default())
        }
    };
    let start = |kept: &Arc<Kept>| Helper::start(args, kept.talk()?, kept.told().keeper_pid);
    let helper = kept.as_ref().filter(|_| handed.is_empty()).map(start).transpose();
    let helper = helper.map_err(|e| Failure::Other(format!("cannot start what mounts: {e}")))?;
    let log = open_log(&options, &args.pool)?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let last_words = match args.foreground {
        true => String::new(),
        false => leave_the_starter(args, log.as_ref(), kept.as_deref())?,
    };
    let to = match (log, args.foreground) {
        (Some(log), _) => LogTo::File(log),
        (None, true) => LogTo::Stderr,
        (None, false) => LogTo::Ring,
    };
    let beside = Beside {
        ring: logging::of_server(to, About::of(&args.pool, &args.dir)),
        kept,
        helper,
        is_awaited: !args.foreground,
    };
    match (&beside.kept, handed.is_empty()) {
        (Some(kept), false) => succeed::begin(args, &options, beside.ring, kept, handed, &last_words),
        _ => begin(&args.pool, &args.dir, &options, &args.options, beside),
    }
}

/// The starter's terminal is not ours: not its signals, not its directory, not its standard error. Returns what the server
/// before this one wrote there.
fn leave_the_starter(args: &Serve, log: Option<&File>, kept: Option<&Kept>) -> Result<String, Failure> {
    let named_after = kept.map_or_else(std::process::id, |kept| kept.told().keeper_pid);
    let unheard = |_| Ok((starter::nowhere()?, String::new()));
    let stderr = match log {
        Some(log) => log.try_clone().map(|log| (log, String::new())),
        None => registry::words_file(named_after).or_else(unheard),
    };
    let (stderr, last_words) = stderr.map_err(Failure::io("open the log of", &args.pool))?;
    rustix::process::setsid().map_err(|e| Failure::Other(format!("cannot leave the terminal: {e}")))?;
    rustix::stdio::dup2_stderr(&stderr).map_err(|e| Failure::Other(format!("cannot redirect standard error: {e}")))?;
    std::env::set_current_dir("/").map_err(Failure::io("go to", Path::new("/")))?;
    Ok(last_words)
}

fn open_log(options: &MountOptions, pool: &Path) -> Result<Option<File>, Failure> {
    let log = options.log.as_deref();
    log.map(|log| log_file::open(log, pool)).transpose()
}

/// `mount --foreground`.
pub fn in_foreground(pool: &Path, dir: &Path, options: &MountOptions, given: &[String]) -> Outcome {
    let log = open_log(options, pool)?;
    let ring = logging::of_server(log.map_or(LogTo::Stderr, LogTo::File), About::of(pool, dir));
    begin(
        pool,
        dir,
        options,
        given,
        Beside {
            ring,
            kept: None,
            helper: None,
            is_awaited: false,
        },
    )?
    .serve()?;
    Ok(0)
}

/// Everything up to the moment when the mount can be used. `given`: the words of the options.
fn begin(
    pool: &Path,
    dir: &Path,
    options: &MountOptions,
    given: &[String],
    beside: Beside,
) -> Result<Mounted, Failure> {
    let Beside {
        ring,
        kept,
        helper,
        is_awaited,
    } = beside;
    let claim: Claim = patiently(pool, || Ok(Claim::new(pool, &options.open())?))?;
    claim.prepare_writing();
    if let Some(why) = exposed::of(pool) {
        tracing::warn!("{why}");
    }
    // With a keeper nothing can be listened on, and no file opened but a few, when the pool is read.
    let listener = kept.as_ref().and_then(|kept| listen_early(kept.told().keeper_pid));
    let id = claim_id(&ring, &claim.id()?, (pool, dir), options)?;
    let lock = ring.file().ok().flatten().map(File::from);
    let claim = claim.mounted_at(dir, lock.as_ref());
    let claim = claim.unless(is_awaited.then_some(starter::is_gone));
    stand_by(kept.is_some())?;
    // What opening it tells is of this mount (S-18.18).
    let since_ns = registry::now_ns();
    let opened = open(claim, options)?;
    if let Some(said) = opened.volume().store().superblocks_lost() {
        starter::tell(&format!("{WARNS}{}: {said}", pool.shown()));
    }
    // Who gave it up before it was there shall not find it later.
    if is_awaited && starter::is_gone() {
        return Err(Failure::Other(
            "who asked for this mount has gone: nothing is mounted".into(),
        ));
    }
    let (session, anchored) = match &helper {
        Some(helper) => helper.mount(&opened, dir, options)?,
        None => attach::here(&opened, dir, options)?,
    };
    let unmounter = session.unmounter();
    unmount_at_signals(unmounter.clone(), kept.clone())?;
    let record = Record {
        pid: kept
            .as_ref()
            .map_or_else(std::process::id, |kept| kept.told().keeper_pid),
        kept: kept.is_some(),
        pool: pool.to_owned(),
        identities: registry::identities(pool),
        births: registry::births(pool),
        dir: unmounter.path().to_owned(),
        device: unmounter.device().to_owned(),
        since_ns,
        options: given.to_vec(),
    };
    let live = live(
        record,
        &opened,
        options,
        (anchored, &session),
        ring.clone(),
        kept.as_ref(),
    );
    let control = listen(live.clone(), listener);
    if let Some(kept) = &kept {
        let id = id.as_ref().map(File::try_clone).transpose();
        let id = id.map_err(|e| Failure::Other(format!("no free descriptor: {e}")))?;
        let handed = succeed::hand_over(kept, &opened, &session, &live, (control.as_deref(), id));
        if let Err(failure) = handed.and_then(|()| succeed::watch(kept, &opened, control.as_ref())) {
            // Who waited for it here would be waited for (S-16.30).
            helper.into_iter().for_each(Helper::abandon);
            return Err(failure);
        }
    }
    if let Some(helper) = helper {
        helper.release();
    }
    let alone = match kept {
        Some(_) => None,
        None => Some(Alone {
            device: opened.device()?,
            id,
        }),
    };
    Ok(Mounted {
        session,
        control,
        kept,
        ring,
        alone,
    })
}

/// From here on the id is this mount's, and events are kept in its file, opened while that is allowed. Errors: another pool has it.
fn claim_id(
    ring: &Ring,
    id: &str,
    (pool, dir): (&Path, &Path),
    options: &MountOptions,
) -> Result<Option<File>, Failure> {
    if options.nouuid {
        return Ok(None);
    }
    let claimed = namesake::claim(id, pool, dir)?;
    let file = registry::open_events(id);
    if let Err(error) = file.and_then(|file| ring.keep_in(file)) {
        tracing::warn!(%error, id, "events are not kept");
    }
    Ok(claimed)
}

/// What every server does before it touches a pool. `kept`: it has a keeper, which has the rights that it needs no more.
pub fn stand_by(kept: bool) -> Result<(), Failure> {
    #[cfg(feature = "planted")]
    crate::planted::begin().map_err(Failure::Other)?;
    panics::end_the_server();
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "not allowed to be an I/O flusher");
    }
    if let Err(error) = rights::give_up(kept) {
        tracing::warn!(%error, "this server keeps rights that it does not need");
    }
    match kept {
        true => confine::before_reading(),
        false => confine::alone(),
    }
    #[cfg(feature = "planted")]
    crate::planted::before_reading(kept);
    ignore_limit_signals()
}

fn open(claim: Claim, options: &MountOptions) -> Result<Opened, Failure> {
    let opened = claim.open(&options.open())?;
    if opened.volume().store().pool().is_test {
        tracing::warn!("this is a pool for tests: faults may be injected into it");
    }
    Ok(opened)
}

/// A file that may not grow is an error of a write, not the end of the server.
fn ignore_limit_signals() -> Result<(), Failure> {
    let noticed = Arc::new(AtomicBool::new(false));
    let registered = [SIGXFSZ, SIGHUP].map(|signal| signal_hook::flag::register(signal, noticed.clone()));
    for result in registered {
        result.map_err(|e| Failure::Other(format!("cannot set a signal aside: {e}")))?;
    }
    Ok(())
}

/// SIGTERM and SIGINT unmount, or have the keeper do it. If the mount is in use its name goes at once, and the server with
/// its last user.
pub fn unmount_at_signals(unmounter: Unmounter, kept: Option<Arc<Kept>>) -> Result<(), Failure> {
    let failed = |error| Failure::Other(format!("cannot wait for signals: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed)?;
    let wait = move || {
        for signal in signals.forever() {
            let done = match &kept {
                Some(kept) => kept.say(&Said::Unmount, b"").map_err(|error| error.to_string()),
                None => attach::unmount(&unmounter).map_err(|error| error.to_string()),
            };
            if let Err(error) = done {
                tracing::warn!(signal, %error, "cannot unmount");
            }
        }
    };
    let thread = thread::Builder::new().name("keepfs-signals".into()).spawn(wait);
    thread.map(drop).map_err(failed)
}

/// What the control socket answers from.
pub fn live(
    record: Record,
    pool: &Opened,
    options: &MountOptions,
    (anchored, session): (bool, &Session),
    ring: Ring,
    kept: Option<&Arc<Kept>>,
) -> Arc<Live> {
    let way = (anchored, session.transport(), session.tally());
    let mut live = Live::new(record, options.clone(), way, ring, Arc::downgrade(pool.volume()));
    live.lifeline = session.lifeline();
    live.kept = kept.cloned();
    Arc::new(live)
}

/// Opens the control socket, or goes on with one that was open before. A mount without one works, but `status` knows
/// little of it.
pub fn listen(live: Arc<Live>, listener: Option<UnixListener>) -> Option<Arc<Control>> {
    if let Err(error) = follow::watch(live.clone()) {
        tracing::warn!(%error, "a remount by mount(2) is not noticed; `keepfs mount -o remount` is");
    }
    if let Err(error) = concerned::watch(&live.volume) {
        tracing::warn!(%error, "the log does not name the files that are damaged; `keepfs events` does");
    }
    let record = live.record.clone();
    let answers: Arc<Answers> = Arc::new(move |question: &Question| live.answer(question));
    opened(match listener {
        Some(listener) => Control::over(listener, record, answers),
        None => Control::open(record, answers),
    })
}

/// The socket of a server that has not read its pool.
fn listen_early(keeper: u32) -> Option<UnixListener> {
    registry::listen(keeper).inspect_err(no_control).ok()
}

/// A mount without a control socket works, but `status` knows little of it.
pub fn opened(control: io::Result<Control>) -> Option<Arc<Control>> {
    control.inspect_err(no_control).ok().map(Arc::new)
}

fn no_control(error: &io::Error) {
    tracing::warn!(%error, "no control socket: `keepfs status` cannot ask this server");
}

impl Mounted {
    /// Serves until the end.
    fn serve(self) -> Result<(), Failure> {
        let served = self.session.run();
        if let Err(error) = &served {
            tracing::error!(%error, "the mount has ended");
        }
        let closed = self
            .control
            .map(|control| control.close(served.as_ref().map(drop).map_err(ToString::to_string)));
        if let Some(kept) = self.kept {
            let code = u8::from(served.is_err());
            if let Err(error) = kept.end(code, closed.unwrap_or_default()) {
                tracing::error!(%error, "the keeper was not told of the end");
            }
        } else {
            // The next user of the pool makes a file of the same name.
            if let Ok(Some(events)) = self.ring.file() {
                registry::remove_empty_events(&events.into());
            }
            if let Some(Alone { device, id }) = self.alone {
                id.iter().for_each(namesake::end);
                drop((id, device));
            }
            // Closed by the end of this process, which has let go of everything then.
            std::mem::forget(closed);
        }
        Ok(served?)
    }
}
