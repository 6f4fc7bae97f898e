//! A loop device over a sparse file or over a modelled SSD, and what the kernel counted on it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use super::work::{end_within, server};
use xtask::suites::process::{command, run};

/// What the device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A file of this machine's disk, as fast as that is.
    None,
    /// The SSD of the ReconFS paper, modelled in memory (decision 0421).
    Ssd,
}

impl Profile {
    /// The one of this name.
    pub fn named(name: &str) -> Result<Self, String> {
        let found = [Self::None, Self::Ssd]
            .into_iter()
            .find(|profile| profile.name() == name);
        found.ok_or_else(|| format!("no profile {name}; profiles: none, ssd"))
    }

    /// As the tables say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ssd => "ssd",
        }
    }
}

/// Detached when dropped.
pub struct LoopDevice {
    node: PathBuf,
    ssd: Option<Ssd>,
}

/// The server of a modelled SSD.
struct Ssd {
    dir: PathBuf,
    child: Child,
}

/// What a modelled device takes for what nobody can do without.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Model {
    /// A flush.
    pub flush_us: f64,
    /// Writes in order.
    pub write_bytes_s: f64,
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
        Ok(Self {
            node: attach(file)?,
            ssd: None,
        })
    }

    /// The same over an SSD that the program `ssd` models at the new directory `dir`.
    pub fn modelled(ssd: &Path, dir: &Path, mib: u64) -> Result<Self, String> {
        std::fs::create_dir_all(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        let mut program = server(ssd, dir.parent().unwrap_or(dir));
        program.arg(dir).arg(mib.to_string()).stdout(Stdio::piped());
        let child = program.spawn().map_err(|e| format!("{}: {e}", ssd.display()))?;
        let mut ssd = Ssd {
            dir: dir.to_owned(),
            child,
        };
        let mut line = String::new();
        if let Some(pipe) = ssd.child.stdout.take() {
            let read = BufReader::new(pipe).read_line(&mut line);
            read.map_err(|e| format!("the modelled SSD: {e}"))?;
        }
        if line.trim() != "ready" {
            return Err("the modelled SSD did not come up (its words stand above)".into());
        }
        Ok(Self {
            node: attach(&dir.join("device"))?,
            ssd: Some(ssd),
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

    /// What the modelled SSD counted: that the requests of the loop device reach it. `None` without one.
    pub fn modelled_counters(&self) -> Option<Counters> {
        let told = self.told()?;
        Some(Counters {
            written: told["written_bytes"].as_u64()?,
            flushes: told["flushes"].as_u64()?,
        })
    }

    /// The rates of the modelled SSD, as it tells them. `None` without one.
    pub fn model(&self) -> Option<Model> {
        let told = self.told()?;
        Some(Model {
            flush_us: told["flush_us"].as_f64()?,
            write_bytes_s: told["write_bytes_s"].as_f64()?,
        })
    }

    fn told(&self) -> Option<serde_json::Value> {
        let text = std::fs::read_to_string(self.ssd.as_ref()?.dir.join("counters")).ok()?;
        serde_json::from_str(&text).ok()
    }
}

fn attach(file: &Path) -> Result<PathBuf, String> {
    let mut losetup = command("losetup", Path::new("/"));
    let node = run(losetup.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
    Ok(PathBuf::from(node.trim()))
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let quiet = |program: &str, args: &[&str], path: &Path| {
            let output = command(program, Path::new("/")).args(args).arg(path).output();
            output.is_ok_and(|output| output.status.success())
        };
        quiet("losetup", &["-d"], &self.node);
        let Some(ssd) = &mut self.ssd else { return };
        // The loop device lets go of the file a moment after it was told to.
        let tries = (0..50).any(|_| {
            let gone = quiet("umount", &[], &ssd.dir);
            if !gone {
                std::thread::sleep(Duration::from_millis(50));
            }
            gone
        });
        if !tries {
            quiet("umount", &["-l"], &ssd.dir);
        }
        end_within(&mut ssd.child, Duration::from_secs(5));
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
            written: self.written.saturating_sub(before.written),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }
}

#[cfg(test)]
mod tests;
