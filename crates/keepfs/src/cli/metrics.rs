//! `keepfs metrics`: figures of the mounted pools for Prometheus, on standard output, in a file for node_exporter, or over HTTP.

mod families;
mod gather;
mod http;
mod text;

use super::args::Metrics;
use super::failure::Failure;
use super::replace::replace;
use super::visible::warn_of;
use super::{Outcome, registry, unserved};
use std::path::PathBuf;

/// What is told of what, again and again.
#[derive(Clone)]
struct Page {
    /// Mount points, absolute; all mounted pools without.
    dirs: Vec<PathBuf>,
}

impl Page {
    /// All metrics as they are now, in the exposition format.
    fn text(&self) -> String {
        families::text(&gather::all(&self.dirs))
    }
}

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
            let page = page.clone();
            let failure = http::serve(address, move || page.text());
            warn_of!("keepfs: cannot serve metrics at {address}: {failure}");
            return Ok(1);
        }
        (None, None) => print!("{}", page.text()),
    }
    Ok(0)
}
