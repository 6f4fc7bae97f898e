//! `keepfs metrics`: figures of the mounted pools for Prometheus, on standard output, in a file for node_exporter, or over HTTP.

use super::args::Metrics;
use super::out;
use super::replace::replace;
use super::tell::{say, warn_of};
use keepfs_server::metrics::{Listening, Page};
use keepfs_server::visible::one_line;
use keepfs_server::{Failure, Outcome, registry, unserved};
use std::io::{self, IsTerminal};

/// Prints, writes or serves them.
pub fn run(args: &Metrics) -> Outcome {
    if !unserved::is_root() {
        // A mount that could not be asked must not look like one that is down.
        return Err(Failure::Other(
            "only root may ask the servers of mounts for their figures".into(),
        ));
    }
    let page = Page {
        dirs: args.dirs.iter().map(|dir| registry::settled(dir)).collect(),
    };
    match (&args.textfile, &args.listen) {
        (Some(path), _) => replace(path, &page.text(), 0o644).map_err(Failure::io("write", path))?,
        (None, Some(address)) => {
            let listening = match Listening::at(address) {
                Ok(listening) => listening,
                Err(failure) => {
                    warn_of!("keepfs: cannot serve metrics at {address}: {failure}");
                    return Ok(1);
                }
            };
            say!("metrics at http://{}/metrics", listening.address);
            out::finish();
            listening.serve(move || page.text())
        }
        // Labels are what users made them: a program gets them as they are, a terminal is given no commands (S-18.10).
        (None, None) if io::stdout().is_terminal() => page.text().lines().for_each(|line| say!("{}", one_line(line))),
        (None, None) => print!("{}", page.text()),
    }
    Ok(0)
}
