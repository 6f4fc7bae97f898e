//! A thread that panics, but in a request that it answers, ends the server: nobody else does its work, and what it held half done is
//! not to be trusted. The keeper starts the next server, which goes on with what was committed (decision 0770).

use keepfs_fuse::is_caught;
use std::panic;
use std::thread;

/// How the threads of the background are called.
const BACKGROUND: &str = "keepfs-";
/// How those are called that serve requests. They catch the panic of a request and answer `EIO`; one that panics elsewhere serves no more,
/// and with the last of them the mount would hang.
const SERVING: &str = "fuse-";

/// From here on such a panic is told as every panic is, and then ends this process.
pub fn end_the_server() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        tell(panic);
        let own = thread::current();
        let ends = |name: &&str| name.starts_with(BACKGROUND) || name.starts_with(SERVING) && !is_caught();
        if let Some(name) = own.name().filter(ends) {
            tracing::error!(name, "a thread that nobody replaces panicked; this server ends");
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests;
