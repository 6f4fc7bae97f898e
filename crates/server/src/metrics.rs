//! Figures of the mounted pools for Prometheus.

mod families;
mod gather;
mod http;
mod text;

pub use http::Listening;

use std::path::PathBuf;

/// What is told of what, again and again.
#[derive(Clone)]
pub struct Page {
    /// Mount points, absolute; all mounted pools without.
    pub dirs: Vec<PathBuf>,
}

impl Page {
    /// All metrics as they are now, in the exposition format.
    pub fn text(&self) -> String {
        families::text(&gather::all(&self.dirs))
    }
}
