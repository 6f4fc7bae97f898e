//! Of pools with one id a machine has one mounted at a time (S-2.18): events, and whoever names a pool by `UUID=`, go by the id.
//!
//! Who mounts a pool holds the file of its id locked, shared, for as long as it is mounted; the keeper holds it too. Whoever has
//! the lock for himself alone writes into the file which pool it is, and everybody believes what stands there when he has his own.

use crate::failure::Failure;
use crate::registry::{self, FOLDER};
use crate::visible::Shown;
use crate::waiting::{LEAVING, LOOK, wait_for_ending_servers};
use crate::{table, told_path, visible};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// How the file of an id ends.
const ENDING: &str = "pool";
/// How long it is waited for one who writes who he is, which takes him no time.
const WRITING: Duration = Duration::from_secs(2);

/// Which pool has an id.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct User {
    #[serde(flatten, with = "told_path::pool")]
    pool: PathBuf,
    /// [`registry::identities`].
    identities: Vec<String>,
    /// Where it is to be mounted.
    #[serde(flatten, with = "told_path::dir")]
    dir: PathBuf,
}

impl User {
    /// Whether both have the same bytes.
    fn is_same(&self, other: &User) -> bool {
        self.pool == other.pool && self.identities == other.identities
            || self.identities.iter().any(|name| other.identities.contains(name))
    }

    fn is_mounted(&self) -> bool {
        table::at(&self.dir).is_some_and(|mount| mount.is_keepfs())
    }
}

/// Who has an id.
enum Claimed {
    /// We, as long as this is open.
    Ours(File),
    /// Another pool.
    Anothers(User),
}

/// Has the id for the pool at `pool`, to be mounted at `dir`, as long as the file is open. `None`: no such file can be had here,
/// which is told. Errors: another pool has it, as far as can be seen here.
pub fn claim(id: &str, pool: &Path, dir: &Path) -> Result<Option<File>, Failure> {
    let ours = User {
        pool: pool.to_owned(),
        identities: registry::identities(pool),
        dir: dir.to_owned(),
    };
    let mut until = None;
    loop {
        let other = match claim_in(Path::new(FOLDER), id, &ours) {
            Ok(Claimed::Ours(file)) => return Ok(Some(file)),
            Ok(Claimed::Anothers(other)) => other,
            Err(error) => {
                tracing::warn!(%error, id, "it cannot be seen whether another pool with this UUID is mounted");
                return Ok(None);
            }
        };
        // It may be about to leave.
        let until = *until.get_or_insert_with(|| {
            wait_for_ending_servers(&other.pool);
            Instant::now() + LEAVING
        });
        if other.is_mounted() || Instant::now() > until {
            return Err(refusal(&ours, &other));
        }
        thread::sleep(LOOK);
    }
}

fn refusal(ours: &User, other: &User) -> Failure {
    let pool = visible::path(&ours.pool);
    Failure::Other(format!(
        "{}: a pool with the same UUID, {}, is in use at {}; if this one is a copy, give it a UUID of its own (`keepfs set --new-id {pool}`), \
         or look at it beside the other with the mount options ro,nouuid",
        ours.pool.shown(),
        other.pool.shown(),
        other.dir.shown(),
    ))
}

fn claim_in(folder: &Path, id: &str, ours: &User) -> io::Result<Claimed> {
    fs::create_dir_all(folder)?;
    let path = folder.join(format!("{id}.{ENDING}"));
    let until = Instant::now() + WRITING;
    loop {
        let mut options = File::options();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)?;
        if is_locked(&file, FlockOperation::NonBlockingLockExclusive)? && !is_removed(&file)? {
            let text = serde_json::to_vec(ours)?;
            file.write_all_at(&text, 0)?;
            file.set_len(text.len() as u64)?;
        }
        // The kernel may give the lock to another one in between: what stands in the file counts, whoever wrote it.
        if is_locked(&file, FlockOperation::NonBlockingLockShared)?
            && !is_removed(&file)?
            && let Ok(user) = serde_json::from_slice::<User>(&whole(&file)?)
        {
            return Ok(match user.is_same(ours) {
                true => Claimed::Ours(file),
                false => Claimed::Anothers(user),
            });
        }
        if Instant::now() > until {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{} stays locked", path.shown()),
            ));
        }
        drop(file);
        thread::sleep(LOOK);
    }
}

fn is_locked(file: &File, how: FlockOperation) -> io::Result<bool> {
    match flock(file, how) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Whether who had it before has removed it: nobody finds it any more.
fn is_removed(file: &File) -> io::Result<bool> {
    Ok(file.metadata()?.nlink() == 0)
}

fn whole(file: &File) -> io::Result<Vec<u8>> {
    let mut text = vec![0; file.metadata()?.len() as usize];
    file.read_exact_at(&mut text, 0)?;
    Ok(text)
}

/// The pool is closed: the file goes if nobody else has it. It is let go of when it is closed.
pub fn end(file: &File) {
    if is_locked(file, FlockOperation::NonBlockingLockExclusive).unwrap_or(false) {
        registry::remove_open(file, ENDING);
    }
}

/// Whether the id is another pool's now, and so is what is kept of it.
pub fn is_anothers(id: &str, pool: &Path) -> bool {
    let of = |file: &File| {
        let is_used = !is_locked(file, FlockOperation::NonBlockingLockExclusive)?;
        let user: User = serde_json::from_slice(&whole(file)?)?;
        let names = registry::identities(pool);
        Ok::<bool, io::Error>(is_used && !user.identities.iter().any(|name| names.contains(name)))
    };
    let file = File::open(Path::new(FOLDER).join(format!("{id}.{ENDING}")));
    file.and_then(|file| of(&file)).unwrap_or(false)
}

#[cfg(test)]
mod tests;
