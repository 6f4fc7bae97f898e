//! A loop device over a sparse file, and what the kernel counted on it.

use std::path::{Path, PathBuf};

use crate::suites::process::{command, run};

/// Detached when dropped.
pub struct LoopDevice {
    node: PathBuf,
}

/// Writes and flushes that a device has completed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes written.
    pub written: u64,
    /// Cache flushes.
    pub flushes: u64,
}

impl LoopDevice {
    /// A new device of `mib` MiB over the new file `file`, which is written without the page cache in between.
    pub fn create(file: &Path, mib: u64) -> Result<Self, String> {
        let sized = std::fs::File::create(file).and_then(|made| made.set_len(mib << 20));
        sized.map_err(|e| format!("{}: {e}", file.display()))?;
        let mut losetup = command("losetup", Path::new("/"));
        let node = run(losetup.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        Ok(Self {
            node: PathBuf::from(node.trim()),
        })
    }

    /// The device node.
    pub fn node(&self) -> &Path {
        &self.node
    }

    /// The counters now.
    pub fn counters(&self) -> Result<Counters, String> {
        let name = self.node.file_name().unwrap_or_default();
        let path = Path::new("/sys/block").join(name).join("stat");
        let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        Counters::parse(&text).ok_or_else(|| format!("{}: {text}", path.display()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        drop(command("losetup", Path::new("/")).arg("-d").arg(&self.node).output());
    }
}

impl Counters {
    /// Reads the stat file of a block device (Documentation/block/stat.rst): field 7 is written sectors of 512 bytes,
    /// field 16 flushes.
    fn parse(stat: &str) -> Option<Self> {
        let fields: Vec<u64> = stat.split_whitespace().map_while(|field| field.parse().ok()).collect();
        Some(Self {
            written: 512 * fields.get(6)?,
            flushes: *fields.get(15)?,
        })
    }

    /// What was counted since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            written: self.written - before.written,
            flushes: self.flushes - before.flushes,
        }
    }
}

#[cfg(test)]
mod tests;
