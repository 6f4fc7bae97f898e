//! All mounts of this machine, each in a thread of its own, and the hooks that are run for what is different.

use super::event::Event;
use super::programs::{Programs, Settings};
use super::runner::{self, Limits};
use super::watch::{Told, Watch};
use crate::cli::out;
use crate::cli::tell::{say, warn_of};
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, Outcome, registry};
use parking_lot::Mutex;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::{BTreeSet, VecDeque};
use std::fs::{self, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

/// How often each mount is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Events that wait; of more than these the log alone is told.
const WAITING: usize = 64;
/// Events that are told to hooks at a time, each to one hook after the other.
const AT_A_TIME: usize = 4;

/// The mounts that are followed, by what nothing changes as long as they are there.
type Followed = Arc<Mutex<BTreeSet<(String, String)>>>;

/// An event, and what is there until the hooks for it have ended.
type Waiting = (Event, Arc<()>);

/// Why the settings cannot be used, if that was said.
type Complaint = Arc<Mutex<Option<String>>>;

/// Keeps others from the state as long as it is there: two that share one would run each hook twice.
fn alone(state: &Path) -> Result<File, Failure> {
    let folder = File::open(state).map_err(Failure::io("open", state))?;
    match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(folder),
        Err(Errno::WOULDBLOCK) => Err(Failure::Other(format!(
            "{}: another `keepfs hooks follow` keeps what it has told there; end it, or give this one a --state of its own",
            state.shown()
        ))),
        Err(error) => Err(Failure::io("lock", state)(error.into())),
    }
}

/// Follows until the process ends.
pub fn run(programs: &Programs, state: &Path, limits: Limits) -> Outcome {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(state);
    made.map_err(Failure::io("make the directory", state))?;
    let _alone = alone(state)?;
    // What is wrong with the settings is said at once, and not when something happens.
    programs.settings()?;
    for (path, refused) in programs.all() {
        match refused {
            Some(why) => warn_of!("keepfs: the hook {} is not run: {why}", path.shown()),
            None => say!("hook {}", path.shown()),
        }
    }
    out::finish();
    let (tell, hear) = sync_channel(WAITING);
    let (hear, complaint) = (Arc::new(Mutex::new(hear)), Complaint::default());
    for _ in 0..AT_A_TIME {
        let (hear, programs, complaint) = (hear.clone(), programs.clone(), complaint.clone());
        spawn("keepfs-hooks", move || run_hooks(&hear, &programs, &complaint, limits))?;
    }
    let followed = Followed::default();
    loop {
        for record in registry::all() {
            let key = (record.device.clone(), record.dir.shown());
            if !record.is_apart() && record.is_mounted() && followed.lock().insert(key.clone()) {
                let (watch, tell, followed) = (Watch::new(record, state), tell.clone(), followed.clone());
                spawn("keepfs-watch", move || {
                    follow(watch, &tell);
                    followed.lock().remove(&key);
                })?;
            }
        }
        thread::sleep(LOOK_AGAIN);
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let spawned = thread::Builder::new().name(name.into()).spawn(work);
    spawned
        .map(drop)
        .map_err(|error| Failure::Other(format!("cannot start a thread: {error}")))
}

/// Follows a mount. What was told is kept when the hooks for it have ended, so that who follows next tells again what these were not
/// told of.
fn follow(mut watch: Watch, tell: &SyncSender<Waiting>) {
    let mut unended: VecDeque<(Weak<()>, Option<Told>)> = VecDeque::new();
    while let Some(events) = watch.look() {
        let (hooks, is_quiet) = (Arc::new(()), events.is_empty());
        for event in events {
            match tell.try_send((event, hooks.clone())) {
                Ok(()) => {}
                Err(TrySendError::Full((event, _)) | TrySendError::Disconnected((event, _))) => {
                    warn_of!(
                        "keepfs: too much happens for the hooks; none is told of this: {}",
                        event.summary
                    );
                }
            }
        }
        match unended.back_mut().filter(|_| is_quiet) {
            Some((_, told)) => *told = watch.told(),
            None => unended.push_back((Arc::downgrade(&hooks), watch.told())),
        }
        drop(hooks);
        keep_ended(&watch, &mut unended);
        thread::sleep(LOOK_AGAIN);
    }
    while !unended.is_empty() {
        keep_ended(&watch, &mut unended);
        thread::sleep(LOOK_AGAIN);
    }
}

/// Keeps what was told before the first of which the hooks have not ended.
fn keep_ended(watch: &Watch, unended: &mut VecDeque<(Weak<()>, Option<Told>)>) {
    while let Some((_, told)) = unended.pop_front_if(|(hooks, _)| hooks.strong_count() == 0) {
        told.iter().for_each(|told| watch.keep(told));
    }
}

/// The settings. Where they cannot be used it is said, once, and they are waited for: a hook without them does nothing and calls it done.
fn settings(programs: &Programs, complaint: &Complaint) -> Settings {
    loop {
        let failure = match programs.settings() {
            Ok(settings) => {
                if complaint.lock().take().is_some() {
                    warn_of!("keepfs: the settings of hooks can be used again; what waited is told now");
                }
                return settings;
            }
            Err(failure) => failure.to_string(),
        };
        let mut complaint = complaint.lock();
        if complaint.as_ref() != Some(&failure) {
            warn_of!("keepfs: {failure}; hooks are not run, and events wait, until that is put right");
            *complaint = Some(failure);
        }
        drop(complaint);
        thread::sleep(LOOK_AGAIN);
    }
}

/// Tells one event after the other.
fn run_hooks(hear: &Mutex<Receiver<Waiting>>, programs: &Programs, complaint: &Complaint, limits: Limits) {
    loop {
        let Ok((event, _until_ended)) = hear.lock().recv() else {
            return;
        };
        let settings = settings(programs, complaint);
        for (path, refused) in programs.all() {
            let ended = match refused {
                Some(why) => runner::Ended::NotRun(why),
                None => runner::run(&path, &event, &settings, limits),
            };
            if !ended.is_good() {
                warn_of!("keepfs: the hook {} for \"{}\": {ended}", path.shown(), event.summary);
            }
        }
    }
}
