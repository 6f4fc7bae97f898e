//! What the limits of whoever mounts leave to the servers of the mount, which live longer and work for others (S-16.34).

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bytes of stack of the first thread: what programs have by default.
const STACK: u64 = 8 << 20;
/// Descriptors: what programs have by default.
const DESCRIPTORS: u64 = 1024;

/// Raises the limits that end a server for its work: seconds of processor, sizes of files, stack, descriptors. Whoever may not goes as far as
/// he may. Memory stays limited: an arena that does not fit is refused before the mount begins (S-16.32).
pub fn raise() {
    for (what, least) in [
        (Resource::Cpu, None),
        (Resource::Fsize, None),
        (Resource::Stack, Some(STACK)),
        (Resource::Nofile, Some(DESCRIPTORS)),
    ] {
        raise_one(what, least);
    }
}

/// Raises the stack alone, as far as this process may: for a command, which lives no longer than who calls it waits.
pub fn raise_stack() {
    raise_one(Resource::Stack, Some(STACK));
}

fn raise_one(what: Resource, least: Option<u64>) {
    let has = getrlimit(what);
    let wanted = wanted(&has, least);
    if wanted != has && setrlimit(what, wanted).is_err() {
        // Who may not raise the greatest one; what is left is told where it is met.
        let _ = setrlimit(what, allowed(&has, &wanted));
    }
}

/// The limit that is to be had: at least `least`, or none.
fn wanted(has: &Rlimit, least: Option<u64>) -> Rlimit {
    let at_least = |limit: Option<u64>| least.and_then(|least| limit.map(|limit| limit.max(least)));
    Rlimit {
        current: at_least(has.current),
        maximum: at_least(has.maximum),
    }
}

/// What of it may be had by who may not raise the greatest one.
fn allowed(has: &Rlimit, wanted: &Rlimit) -> Rlimit {
    Rlimit {
        current: least_of(wanted.current, has.maximum),
        maximum: has.maximum,
    }
}

/// The lesser of two limits, of which none is none.
fn least_of(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
