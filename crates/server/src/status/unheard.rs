//! What is said of a mount whose server tells nothing.

use crate::control::Silent;
use crate::failure::Failure;
use crate::figures::Status;
use crate::registry::{self, Record};
use crate::table;
use crate::unserved::{self, Unserved};
use crate::visible::Shown;
use std::path::Path;

/// A pool, and where it is mounted, of which nobody tells more.
fn untold(pool: &Path, dir: Option<&Path>) -> Status {
    let mut status = Status::unknown(pool).as_told();
    status.dir = dir.map(Path::to_owned);
    status
}

/// A mount whose server is not to be found: it is gone, another user's, or has no control socket.
pub fn unasked(mount: &table::Mount, why: Unserved) -> Status {
    let mut status = untold(Path::new("unknown"), Some(&mount.dir));
    let state = match why {
        Unserved::Ended => "UNAVAIL",
        _ => "UNKNOWN",
    };
    status.say(state, why.status(), &why.action(&mount.dir));
    status
}

/// A pool that something has open of which nothing is known here (S-18.21). `by`: what can be seen of that.
pub fn in_use(pool: &Path, by: &str) -> Status {
    let mut status = untold(&registry::settled(pool), None);
    status.say(
        "UNKNOWN",
        &format!("it is in use ({by}), and no server that /run knows has it"),
        "ask where it is mounted (namespace, chroot, container), or wait until what has it open (fuser) has ended",
    );
    status
}

/// One that cannot be asked, and why.
pub fn silent(record: &Record, failure: &Failure) -> Status {
    let mut status = untold(&record.pool, Some(&record.dir));
    let action = match unserved::is_root() {
        true => "ask with the keepfs that mounted it",
        false => "ask as root, with the keepfs that mounted it",
    };
    status.say("UNKNOWN", &failure.to_string(), action);
    status
}

/// One that does not answer.
pub fn hung(record: &Record, why: &Silent) -> Status {
    let mut status = untold(&record.pool, Some(&record.dir));
    let dir = record.dir.shown();
    let action = format!(
        "see to its device (dmesg) and to the process; keepfs unmount -f {dir} ends the mount, and its users get errors"
    );
    status.say("UNKNOWN", &why.to_string(), &action);
    status
}

/// One that is gone.
pub fn dead(record: &Record) -> Status {
    let mut status = untold(&record.pool, Some(&record.dir));
    let dir = record.dir.shown();
    let action = format!("keepfs unmount {dir}, then mount it again; what was synced is there");
    status.say(
        "UNAVAIL",
        &match record.kept {
            true => format!("its server and its keeper (process {}) have died", record.pid),
            false => format!("its server (process {}) has died", record.pid),
        },
        &action,
    );
    status.errors.push(format!("every access to {dir} fails"));
    if let Some(words) = record.last_words() {
        let first = words.lines().next().unwrap_or_default();
        status
            .errors
            .push(format!("its last words (more by keepfs events): {first}"));
    }
    status
}
