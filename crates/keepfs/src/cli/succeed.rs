//! A server in the place of another: what a server leaves with its keeper, and how the next one goes on from it.

use super::args::Serve;
use super::control::{Answers, Control};
use super::failure::Failure;
use super::figures::Status;
use super::keep::held::{Held, Item};
use super::keep::kept::Kept;
use super::keep::lives::{Begin, Mode};
use super::logging::Ring;
use super::options::MountOptions;
use super::registry::Record;
use super::serve::{self, Mounted};
use super::status::Live;
use keepfs::Pool;
use keepfs_fuse::{Connection, Session};
use keepfs_vfs::Vfs;
use keepfs_vfs::model::Model;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The pool's device, open and locked.
const DEVICE: &str = "device";
/// The connection to the kernel.
const CONNECTION: &str = "connection";
/// The control socket, listening.
const CONTROL: &str = "control";
/// [`Place`].
const PLACE: &str = "place";

/// Where the server of a mount is found, and what no later server can find out.
#[derive(Serialize, Deserialize)]
struct Place {
    record: Record,
    anchored: bool,
}

/// Leaves with the keeper what the next server needs. Errors: too many descriptors, or none is free.
pub fn hand_over(
    kept: &Kept,
    pool: &Pool,
    session: &Session,
    live: &Live,
    control: Option<&Control>,
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
    put(DEVICE, b"", vec![pool.device()?])?;
    let place = Place {
        record: live.record.clone(),
        anchored: live.anchored,
    };
    let place = serde_json::to_vec(&place).map_err(|e| Failure::Other(e.to_string()))?;
    put(PLACE, &place, Vec::new())?;
    if let Some(control) = control {
        let listener = control
            .listener()
            .map_err(|e| Failure::Other(format!("no free descriptor: {e}")))?;
        put(CONTROL, b"", vec![listener])?;
    }
    Ok(())
}

/// Sees to it that there is a keeper.
pub fn watch(kept: &Arc<Kept>, pool: &Pool, control: Option<&Arc<Control>>) -> Result<(), Failure> {
    let (volume, control) = (Arc::downgrade(pool.volume()), control.cloned());
    let before = move || {
        if let Some(Err(errno)) = volume.upgrade().map(|volume| volume.syncfs()) {
            tracing::error!(%errno, "not everything could be made durable");
        }
    };
    let after = move |told: &Begin| {
        tracing::warn!(pid = told.keeper_pid, "there is a keeper again");
        if let Some(Err(error)) = control.as_ref().map(|control| control.move_to(told.keeper_pid)) {
            tracing::error!(%error, "`keepfs status` will not find this server");
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
    serve::stand_by()?;
    let told = kept.told();
    let place = item(&mut handed, PLACE)?;
    let mut place: Place = serde_json::from_slice(&place.bytes).map_err(|e| lost(PLACE, &e))?;
    place.record.pid = told.keeper_pid;
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
    if told.mode == Mode::Failing {
        let oracle: Arc<dyn Vfs> = Arc::<Model>::default();
        let session = keepfs_fuse::resume(oracle, &config, connection)?;
        session.refuse_all();
        return failing(session, place.record, ring, kept, listener);
    }
    let device = item(&mut handed, DEVICE)?.descriptors.into_iter().next();
    let device = device.ok_or_else(|| lost(DEVICE, &"it is closed"))?;
    let pool = Pool::open_handed(&args.pool, device, &options.open())?;
    let session = keepfs_fuse::resume(pool.volume().clone(), &config, connection)?;
    if told.mode == Mode::ReadOnly {
        session.refuse_changes();
    }
    serve::unmount_at_signals(session.unmounter())?;
    let way = (place.anchored, &session);
    let live = serve::live(place.record, &pool, options, way, ring, Some(kept));
    // What was remounted since must hold for the first request.
    drop(live.follow());
    tell(&told, last_words);
    if let Some(death) = told.last_death.as_ref().filter(|_| told.after_death) {
        live.pause_ms.store(death.ago_ms(), Ordering::Relaxed);
    }
    let control = serve::listen(live, listener);
    watch(kept, &pool, control.as_ref())?;
    Ok(Mounted {
        session,
        control,
        kept: Some(kept.clone()),
    })
}

/// A server that refuses everything, and says so.
fn failing(
    session: Session,
    record: Record,
    ring: Ring,
    kept: &Arc<Kept>,
    listener: Option<UnixListener>,
) -> Result<Mounted, Failure> {
    serve::unmount_at_signals(session.unmounter())?;
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
                record.dir.display()
            ),
        );
        status.errors.push(format!("{} servers died", told.deaths));
        status
    };
    let about = record.clone();
    let answers: Arc<Answers> = Arc::new(move |question: &str| match question {
        "status" => serde_json::to_value(status(&about)).ok(),
        "events" => serde_json::to_value(ring.events()).ok(),
        _ => None,
    });
    let control = listener.and_then(|listener| serve::opened(Control::over(listener, record, answers)));
    Ok(Mounted {
        session,
        control,
        kept: Some(kept.clone()),
    })
}

/// Tells of the death before.
fn tell(told: &Begin, last_words: &str) {
    let Some(death) = &told.last_death else { return };
    if !told.after_death {
        return;
    }
    match last_words {
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

impl Live {
    /// Makes room for `program`; the answer says why not. Everything is durable before.
    pub fn upgrade(&self, program: &Path) -> Value {
        let Some(kept) = &self.kept else {
            return json!({"error": "it has no keeper"});
        };
        let synced = self.sync();
        if synced["durable"] != true {
            return json!({"error": format!("not everything could be made durable: {}", synced["error"])});
        }
        match kept.make_room(program) {
            Ok(()) => json!({}),
            Err(error) => json!({"error": format!("its keeper was not told: {error}")}),
        }
    }
}
