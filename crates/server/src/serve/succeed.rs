//! A server in the place of another: what a server leaves with its keeper, and how the next one goes on from it.

use crate::claim::{Claim, Opened};
use crate::control::{Answers, Control};
use crate::failure::Failure;
use crate::figures::Status;
use crate::held::{Held, Item};
use crate::history;
use crate::image::DeviceImage;
use crate::kept::Kept;
use crate::live::{Live, follow, leave_remains};
use crate::lives::{Begin, Death, Mode};
use crate::logging::Ring;
use crate::options::MountOptions;
use crate::pause::{Lap, Pause};
use crate::place::Place;
use crate::question::{Question, Told};
use crate::registry::Record;
use crate::rooms::{CONNECTION, CONTROL, DEVICE, EVENTS, FINDINGS, ID, PLACE, REMAINS};
use crate::serve::{self, Mounted};
use crate::visible::Shown;
use crate::words::Serve;
use keepfs_fuse::{Connection, Session};
use keepfs_media::file::Handed;
use keepfs_store::Remains;
use keepfs_store::memory::named_fault;
use keepfs_vfs::{Refusing, Vfs};
use serde_json::json;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

/// Leaves with the keeper what the next server needs. Errors: too many descriptors, or none is free.
pub fn hand_over(
    kept: &Arc<Kept>,
    pool: &Opened,
    session: &Session,
    live: &Live,
    (control, id): (Option<&Control>, Option<File>),
) -> Result<(), Failure> {
    let put = |name: &str, bytes: &[u8], descriptors: Vec<OwnedFd>| {
        let put = kept.put(name, bytes, descriptors);
        put.map_err(|e| {
            Failure::Other(format!(
                "the keeper cannot take the {name} (keeper=off does without): {e}"
            ))
        })
    };
    let connection = session.connection()?;
    let connection = connection.ok_or_else(|| Failure::Other("this connection cannot change hands".into()))?;
    put(CONNECTION, &connection.description, connection.descriptors)?;
    let device = pool.device()?;
    put(DEVICE, &device.roles, device.descriptors)?;
    set_aside(kept, pool);
    leave_remains(kept, pool.volume())?;
    put(
        PLACE,
        &live.place_of(pool.volume(), !live.options.read_only)?,
        Vec::new(),
    )?;
    if let Some(id) = id {
        put(ID, b"", vec![id.into()])?;
    }
    if let Ok(Some(events)) = live.ring.file() {
        put(EVENTS, b"", vec![events])?;
    }
    if let Some(control) = control {
        let listener = control
            .listener()
            .map_err(|e| Failure::Other(format!("no free descriptor: {e}")))?;
        put(CONTROL, b"", vec![listener])?;
    }
    Ok(())
}

/// From here on what this server tells survives it (S-18.7).
fn set_aside(kept: &Arc<Kept>, pool: &Opened) {
    let kept = kept.clone();
    pool.volume().store().history().set_aside(move |findings| {
        if let Err(error) = kept.put_at_once(FINDINGS, findings) {
            tracing::debug!(%error, "the keeper does not take what was told");
        }
    });
}

fn remains(item: Item) -> Remains {
    let names = String::from_utf8_lossy(&item.bytes).into_owned();
    let names = names.lines().map(str::to_owned);
    Remains::from_named(names.zip(item.descriptors).collect())
}

/// Sees to it that there is a keeper.
pub fn watch(kept: &Arc<Kept>, pool: &Opened, control: Option<&Arc<Control>>) -> Result<(), Failure> {
    let (volume, control) = (Arc::downgrade(pool.volume()), control.cloned());
    let before = move || {
        if let Some(Err(errno)) = volume.upgrade().map(|volume| volume.syncfs()) {
            tracing::error!(%errno, "not everything could be made durable");
        }
    };
    // Servers that died too often are not to make it worse: the one that refuses changes stays.
    if kept.told().mode == Mode::Normal {
        pool.volume().store().hand_on_to_successor(|error| {
            tracing::error!(%error, "memory is damaged beyond repair; this server ends, and the next one makes its memory anew");
            std::process::abort();
        });
    }
    let after = move |told: &Begin| {
        tracing::warn!(pid = told.keeper_pid, "there is a keeper again");
        if let Some(control) = &control {
            control.moved_to(told.keeper_pid);
        }
    };
    let watched = kept.clone().watch(before, after);
    watched.map_err(|e| Failure::Other(format!("cannot watch the keeper: {e}")))
}

/// A server that goes on where the one before it ended. `last_words`: what that one wrote to standard error.
pub fn begin(
    args: &Serve,
    options: &MountOptions,
    ring: Ring,
    kept: &Arc<Kept>,
    mut handed: Held,
    last_words: &str,
) -> Result<Mounted, Failure> {
    let told = kept.told();
    let mut pause = Pause {
        start: told.last_death.as_ref().map_or(0, Death::ago_us),
        ..Pause::default()
    };
    let mut lap = Lap::begin();
    let events = handed.take(EVENTS).and_then(|item| item.descriptors.into_iter().next());
    if let Some(Err(error)) = events.map(|events| ring.keep_in(events.into())) {
        tracing::warn!(%error, "events are not kept");
    }
    let place = item(&mut handed, PLACE)?;
    let mut place = Place::read(&place.bytes).map_err(|e| Failure::Other(format!("cannot go on: {e}")))?;
    let options = &MountOptions {
        read_only: place.writing.map_or(options.read_only, |writing| !writing),
        ..options.clone()
    };
    // Made from files that cannot be opened later.
    let fault = named_fault(last_words).filter(|_| told.after_death);
    let claim = match told.mode {
        Mode::Failing => None,
        _ => Some(claim(&args.pool, options, &mut handed)?),
    };
    serve::stand_by(true)?;
    place.record.pid = told.keeper_pid;
    let lock = ring.file().ok().flatten().map(File::from);
    let nonce = place.nonce.map(u128::to_be_bytes);
    let claim = claim.map(|claim| claim.mounted_at(&place.record.dir, lock.as_ref()).in_place_of(nonce));
    let connection = item(&mut handed, CONNECTION)?;
    let connection = Connection {
        description: connection.bytes,
        descriptors: connection.descriptors,
    };
    let listener = handed
        .take(CONTROL)
        .and_then(|item| item.descriptors.into_iter().next());
    let listener = listener.map(UnixListener::from);
    let config = options.mount(&args.pool, &place.record.dir);
    let Some(claim) = claim else {
        let session = keepfs_fuse::resume(Arc::new(Refusing), &config, connection)?;
        session.refuse_all();
        let device = handed.take(DEVICE).map(device);
        let image = device.and_then(|device| DeviceImage::handed(&args.pool, device, &options.open()).ok());
        return failing(session, place.record, ring, kept, (listener, image));
    };
    let findings = handed.take(FINDINGS).map(|item| item.bytes).unwrap_or_default();
    let remains = remains(item(&mut handed, REMAINS)?).with_findings(findings);
    tell(&told, fault.is_some(), last_words);
    pause.confine = lap.micros();
    let how = told.last_death.as_ref().map(|death| death.how.as_str());
    // Who is killed from outside dies of no request.
    let claim = claim.blaming_requests(how != Some("signal 9"));
    let (pool, resumed) = claim.resume(&options.open(), remains)?;
    pause.resumed(&resumed.parts);
    lap.micros();
    set_aside(kept, &pool);
    // From here on a death is resumed from this server's memory; before, from the last one's.
    leave_remains(kept, pool.volume())?;
    if let Some((address, report)) = fault {
        pool.volume().store().tell_guard_fault(address, &report);
    }
    let mut session = keepfs_fuse::resume(pool.volume().clone(), &config, connection)?;
    // A server before this one may have died before the kernel was told of all.
    if pool.volume().has_lost() {
        let mut inos = Vec::new();
        pool.volume().each_looked_up(|ino| inos.push(ino));
        session.disbelieve(&inos);
    }
    if told.mode == Mode::ReadOnly {
        tracing::error!(
            deaths = told.deaths,
            "servers of this mount died too often; changes are refused"
        );
        session.refuse_changes();
    }
    serve::unmount_at_signals(session.unmounter(), Some(kept.clone()))?;
    let way = (place.anchored, &session);
    let live = serve::live(place.record, &pool, options, way, ring.clone(), Some(kept));
    // What was remounted since must hold for the first request.
    drop(live.follow());
    if let Some(death) = told.last_death.as_ref().filter(|_| told.after_death) {
        pause.serve = lap.micros();
        tracing::info!(us = ?pause, beyond = resumed.beyond, "the parts of the pause");
        *live.pause.lock() = (death.ago_us() / 1000, pause);
    }
    let control = serve::listen(live, listener);
    watch(kept, &pool, control.as_ref())?;
    Ok(Mounted {
        session,
        control,
        kept: Some(kept.clone()),
        ring,
        alone: None,
    })
}

/// The pool that the server before this one had open.
fn claim(pool: &Path, options: &MountOptions, handed: &mut Held) -> Result<Claim, Failure> {
    let claim = Claim::adopt(pool, device(item(handed, DEVICE)?), &options.open())?;
    claim.prepare_writing();
    Ok(claim)
}

fn device(item: Item) -> Handed {
    Handed {
        descriptors: item.descriptors,
        roles: item.bytes,
    }
}

/// A server that refuses everything, and says so.
fn failing(
    session: Session,
    record: Record,
    ring: Ring,
    kept: &Arc<Kept>,
    (listener, image): (Option<UnixListener>, Option<DeviceImage>),
) -> Result<Mounted, Failure> {
    serve::unmount_at_signals(session.unmounter(), Some(kept.clone()))?;
    let told = kept.told();
    tracing::error!(
        deaths = told.deaths,
        "servers of this mount died too often; every request is refused"
    );
    let status = move |record: &Record| {
        let mut status = Status::unknown(&record.pool);
        status.dir = Some(record.dir.clone());
        status.server_pid = Some(std::process::id());
        status.say(
            "FAULTED",
            "its servers died too often; every access fails",
            &format!(
                "see `keepfs events`; keepfs unmount {}, check it, then mount it again",
                record.dir.shown()
            ),
        );
        status.errors.push(format!("{} servers died", told.deaths));
        status
    };
    let refused = json!(Told::error(format!(
        "its servers died too often ({} did) and every access fails; {}",
        told.deaths,
        follow::CHECKED
    )));
    let about = record.clone();
    let noticed = ring.clone();
    let answers: Arc<Answers> = Arc::new(move |question: &Question| match question {
        Question::Status => serde_json::to_value(status(&about)).ok(),
        Question::Events => serde_json::to_value(noticed.events()).ok(),
        // Where the pool cannot be read there are the events alone. All else nobody does here, and that is told (S-16.39).
        other => {
            let found = image.as_ref().and_then(|image| history::answer_offline(image, other));
            let none = || matches!(other, Question::History(_)).then(|| json!([]));
            found.or_else(none).or_else(|| Some(refused.clone()))
        }
    });
    let control = listener.and_then(|listener| serve::opened(Control::over(listener, record, answers)));
    Ok(Mounted {
        session,
        control,
        kept: Some(kept.clone()),
        ring,
        alone: None,
    })
}

/// Tells of the death before. `by_guard`: a guard ended that server.
fn tell(told: &Begin, by_guard: bool, last_words: &str) {
    let Some(death) = told.last_death.as_ref().filter(|_| told.after_death) else {
        // A program that was refused may have said why.
        if !last_words.is_empty() {
            tracing::warn!(last_words, "what came before this server said something at its end");
        }
        return;
    };
    match last_words {
        // Told of by the pool's history too, once that is open.
        _ if by_guard => {
            tracing::error!(how = %death.how, deaths = told.deaths, "a guard ended a server of this mount; this one took its place");
        }
        "" => {
            tracing::error!(how = %death.how, deaths = told.deaths, "a server of this mount died; this one took its place")
        }
        words => tracing::error!(
            how = %death.how, deaths = told.deaths, last_words = %words,
            "a server of this mount died; this one took its place"
        ),
    }
}

fn item(handed: &mut Held, name: &str) -> Result<Item, Failure> {
    handed
        .take(name)
        .ok_or_else(|| lost(name, &io::Error::from(io::ErrorKind::NotFound)))
}

fn lost(name: &str, why: &dyn std::fmt::Display) -> Failure {
    Failure::Other(format!("the keeper has no {name}: {why}"))
}
