//! The server of a mount: opens the pool, mounts it, serves until it is unmounted, closes the pool.

use super::args::Serve;
use super::control::{Answers, Control};
use super::failure::Failure;
use super::logging::{self, LogTo, Ring};
use super::options::{Anchor, MountOptions};
use super::registry::{self, Record};
use super::unmount::patiently;
use super::{Outcome, follow, status, table};
use keepfs::Pool;
use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{FuseError, How, MountConfig, Session, Tally, Unmounter};
use rustix::fs::Mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// What the server says when the mount is usable.
pub const READY: &str = "ready";

/// What is served, and where.
struct Mounted {
    session: Session,
    control: Option<Control>,
}

/// The hidden command `serve`: the first line on standard output says `ready`, or what went wrong.
pub fn in_background(args: &Serve) -> Outcome {
    match begin_in_background(args) {
        Ok(mounted) => {
            let said = say_ready(args);
            let served = mounted.serve();
            said.and(served).map(|()| 0)
        }
        Err(failure) => {
            registry::forget_words(std::process::id());
            println!("{failure}");
            Ok(1)
        }
    }
}

fn begin_in_background(args: &Serve) -> Result<Mounted, Failure> {
    let options = MountOptions::parse(&args.options, args.sloppy)?;
    let log = options.log.as_deref().map(open_log).transpose()?;
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let stderr = match &log {
        Some(log) => log.try_clone(),
        None => registry::words_file(std::process::id()).or_else(|_| File::options().write(true).open("/dev/null")),
    };
    let stderr = stderr.map_err(Failure::io("open the log of", &args.pool))?;
    // The starter's terminal is not ours: not its signals, not its directory, not its standard error.
    rustix::process::setsid().map_err(|e| Failure::Other(format!("cannot leave the terminal: {e}")))?;
    rustix::stdio::dup2_stderr(&stderr).map_err(|e| Failure::Other(format!("cannot redirect standard error: {e}")))?;
    std::env::set_current_dir("/").map_err(Failure::io("go to", Path::new("/")))?;
    let to = log.map_or(LogTo::Ring, LogTo::File);
    begin(&args.pool, &args.dir, &options, &args.options, logging::of_server(to))
}

fn open_log(path: &Path) -> Result<File, Failure> {
    let log = File::options().create(true).append(true).open(path);
    log.map_err(Failure::io("open the log", path))
}

/// The last word to the starter, who reads until here.
fn say_ready(args: &Serve) -> Result<(), Failure> {
    println!("{READY}");
    let said = io::stdout()
        .flush()
        .map_err(Failure::io("answer the starter of", &args.pool));
    let null = File::options().write(true).open("/dev/null");
    match null.and_then(|null| Ok(rustix::stdio::dup2_stdout(&null)?)) {
        Ok(()) => said,
        Err(error) => Err(Failure::io("redirect the output of", &args.pool)(error)),
    }
}

/// `mount --foreground`.
pub fn in_foreground(pool: &Path, dir: &Path, options: &MountOptions, given: &[String]) -> Outcome {
    let log = options.log.as_deref().map(open_log).transpose()?;
    let ring = logging::of_server(log.map_or(LogTo::Stderr, LogTo::File));
    begin(pool, dir, options, given, ring)?.serve()?;
    Ok(0)
}

/// Everything up to the moment when the mount can be used. `given`: the words of the options.
fn begin(pool: &Path, dir: &Path, options: &MountOptions, given: &[String], ring: Ring) -> Result<Mounted, Failure> {
    rustix::process::umask(Mode::from_raw_mode(0o077));
    if let Err(error) = rustix::process::configure_io_flusher_behavior(true) {
        tracing::debug!(%error, "not allowed to be an I/O flusher");
    }
    ignore_limit_signals()?;
    let opened = open(pool, options)?;
    let (session, anchored) = attach(&opened, dir, options)?;
    let unmounter = session.unmounter();
    unmount_at_signals(unmounter.clone()).map_err(|e| Failure::Other(format!("cannot wait for signals: {e}")))?;
    let mount = table::at(unmounter.path());
    let record = Record {
        pid: std::process::id(),
        pool: pool.to_owned(),
        dir: unmounter.path().to_owned(),
        device: mount.map(|mount| mount.device).unwrap_or_default(),
        since_ns: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_nanos() as u64),
        options: given.to_vec(),
    };
    let way = (anchored, session.transport(), session.tally());
    let control = listen(record, &opened, options, way, ring);
    Ok(Mounted { session, control })
}

fn open(pool: &Path, options: &MountOptions) -> Result<Pool, Failure> {
    patiently(pool, || Ok(Pool::open(pool, &options.open())?))
}

/// Mounts; whether with an anchor.
fn attach(pool: &Pool, dir: &Path, options: &MountOptions) -> Result<(Session, bool), Failure> {
    let mut config = options.mount(pool.path(), dir);
    let anchor = anchor(&pool.path().display().to_string(), options.anchor)?;
    config.anchor = anchor.as_ref().map(|anchor| anchor.path().to_owned());
    let session = keepfs_fuse::mount(pool.volume().clone(), &config);
    match (session, anchor) {
        (Ok(session), anchor) => Ok((session, anchor.is_some())),
        (Err(error), None) => Err(error.into()),
        (Err(error), Some(anchor)) => {
            let detached = anchor.detach();
            if options.anchor == Anchor::Loop {
                return Err(error.into());
            }
            without_anchor(pool, config, detached.err().unwrap_or(error))
        }
    }
}

/// A kernel that refuses the anchor may still mount without.
fn without_anchor(pool: &Pool, mut config: MountConfig, error: FuseError) -> Result<(Session, bool), Failure> {
    config.anchor = None;
    let session = keepfs_fuse::mount(pool.volume().clone(), &config)?;
    tracing::warn!(%error, "mounted without an anchor: sync(2) and umount(2) do not wait, fsync(2) and `keepfs unmount` do");
    Ok((session, false))
}

fn anchor(label: &str, wanted: Anchor) -> Result<Option<LoopAnchor>, Failure> {
    if wanted == Anchor::None {
        return Ok(None);
    }
    match LoopAnchor::attach(label) {
        Ok(anchor) => Ok(Some(anchor)),
        Err(error) if wanted == Anchor::Loop => Err(error.into()),
        Err(error) => {
            tracing::warn!(%error, "no anchor: sync(2) and umount(2) do not wait, fsync(2) and `keepfs unmount` do");
            Ok(None)
        }
    }
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

/// SIGTERM and SIGINT unmount. If the mount is in use its name goes at once, and the server with its last user.
fn unmount_at_signals(unmounter: Unmounter) -> io::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT])?;
    let wait = move || {
        for signal in signals.forever() {
            let done = match unmounter.unmount(How::Gentle) {
                Err(FuseError::Busy { path }) => {
                    tracing::warn!(signal, path = %path.display(), "in use: unmounted lazily");
                    unmounter.unmount(How::Lazy)
                }
                other => other,
            };
            if let Err(error) = done {
                tracing::warn!(signal, %error, "cannot unmount");
            }
        }
    };
    thread::Builder::new().name("keepfs-signals".into()).spawn(wait)?;
    Ok(())
}

/// Opens the control socket. A mount without one works, but `status` knows little of it.
fn listen(
    record: Record,
    pool: &Pool,
    options: &MountOptions,
    way: (bool, &'static str, Arc<Tally>),
    ring: Ring,
) -> Option<Control> {
    let live = Arc::new(status::Live::new(
        record.clone(),
        options.clone(),
        way,
        ring.clone(),
        Arc::downgrade(pool.volume()),
    ));
    if let Err(error) = follow::watch(live.clone()) {
        tracing::warn!(%error, "a remount by mount(2) is not noticed; `keepfs mount -o remount` is");
    }
    let answers: Arc<Answers> = Arc::new(move |question: &str| match question {
        "status" => serde_json::to_value(live.status()).ok(),
        "sync" => Some(live.sync()),
        "follow" => Some(live.follow()),
        "write" => Some(live.begin_writing()),
        "events" => serde_json::to_value(live.ring.events()).ok(),
        _ => None,
    });
    match Control::open(record, answers) {
        Ok(control) => {
            let events = registry::events_file(&pool.volume().store().pool().id.to_string());
            if let Err(error) = ring.keep_in(&events) {
                tracing::warn!(%error, file = %events.display(), "events are not kept");
            }
            Some(control)
        }
        Err(error) => {
            tracing::warn!(%error, "no control socket: `keepfs status` cannot ask this server");
            None
        }
    }
}

impl Mounted {
    /// Serves until the end.
    fn serve(self) -> Result<(), Failure> {
        let served = self.session.run();
        if let Err(error) = &served {
            tracing::error!(%error, "the mount has ended");
        }
        if let Some(control) = self.control {
            control.close(served.as_ref().map(drop).map_err(ToString::to_string));
        }
        Ok(served?)
    }
}
