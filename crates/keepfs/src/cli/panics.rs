//! A thread of the background that panics ends the server: nobody else does its work, and what it held half done is not to be
//! trusted. The keeper starts the next server, which goes on with what was committed (decision 0770).

use std::panic;
use std::thread;

/// How the threads of the background are called. Those that serve requests catch a panic and answer `EIO`; they have other names.
const BACKGROUND: &str = "keepfs-";

/// From here on such a panic is told as every panic is, and then ends this process.
pub fn end_the_server() {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        tell(panic);
        let own = thread::current();
        if let Some(name) = own.name().filter(|name| name.starts_with(BACKGROUND)) {
            tracing::error!(name, "a thread of the background panicked; this server ends");
            std::process::abort();
        }
    }));
}

#[cfg(test)]
mod tests;
