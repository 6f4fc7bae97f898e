//! One file system on one new device: made, mounted, worked on, taken down.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;

use super::device::{Counters, LoopDevice, Model, Profile};
use super::figure::{Figure, Work};
use super::mounted::Mounted;
use super::peers::Peer;
use super::programs::Programs;
use super::sample::Sample;
use super::work::{Stop, limited};
use xtask::suites::process::command;
use xtask::sweep::Scratch;

/// How long a workload may take beyond its seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// What all sessions of a run share.
pub struct Bench {
    /// Programs.
    pub programs: Programs,
    /// Set by a signal.
    pub stop: Stop,
    /// Seconds of a workload.
    pub seconds: f64,
    /// Most rounds.
    pub rounds: u32,
    /// Percent of the size of file sets, instead of each workload's own.
    pub percent: Option<usize>,
    /// MiB of a device.
    pub device_mib: u64,
    /// This device instead of each figure's own.
    pub profile: Option<Profile>,
}

impl Bench {
    /// The device that a figure is measured on.
    pub fn profile(&self, figure: &Figure) -> Profile {
        self.profile.unwrap_or(figure.profile)
    }
}

/// What the number of requests of a kind is called in a sample, before its name.
pub const REQUEST: &str = "request ";

/// A mounted file system.
pub struct Session<'b> {
    bench: &'b Bench,
    /// What it is.
    pub peer: &'static Peer,
    // Taken down in this order.
    mounted: Option<Mounted>,
    device: Option<LoopDevice>,
    dir: PathBuf,
    options: Vec<String>,
    _scratch: Scratch,
}

impl<'b> Session<'b> {
    /// Makes the file system on a new device and mounts it; `options` are for Keepfs.
    pub fn new(bench: &'b Bench, peer: &'static Peer, profile: Profile, options: &[&str]) -> Result<Self, String> {
        let mut session = Self::on_device(bench, peer, profile, options)?;
        peer.make(&bench.programs, session.node())?;
        session.mount()?;
        Ok(session)
    }

    /// A new device with nothing on it, for a file system that is not mounted.
    pub fn on_device(
        bench: &'b Bench,
        peer: &'static Peer,
        profile: Profile,
        options: &[&str],
    ) -> Result<Self, String> {
        bench.stop.check()?;
        let scratch = Scratch::within(bench.programs.scratch())?;
        let device = match (peer.has_device(), profile) {
            (false, _) => None,
            (true, Profile::None) => Some(LoopDevice::create(&scratch.path().join("device"), bench.device_mib)?),
            (true, Profile::Ssd) => {
                let dir = scratch.path().join("ssd");
                Some(LoopDevice::modelled(&bench.programs.ssd, &dir, bench.device_mib)?)
            }
        };
        let dir = scratch.path().join("mnt");
        std::fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Self {
            bench,
            peer,
            mounted: None,
            device,
            dir,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            _scratch: scratch,
        })
    }

    /// Where it is mounted.
    pub fn dir(&self) -> &std::path::Path {
        &self.dir
    }

    /// The device; nothing for a file system in memory.
    pub fn node(&self) -> &std::path::Path {
        self.device.as_ref().map_or(std::path::Path::new(""), LoopDevice::node)
    }

    /// Mounts it.
    pub fn mount(&mut self) -> Result<(), String> {
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let mounted = self
            .peer
            .mount(&self.bench.programs, self.node(), &self.dir, &options)?;
        self.mounted = Some(mounted);
        Ok(())
    }

    /// Unmounts it; everything is on the device then.
    pub fn unmount(&mut self) -> Result<(), String> {
        self.mounted.take().map_or(Ok(()), |mut mounted| mounted.end())
    }

    /// Kills the server of Keepfs and takes the dead mount away.
    pub fn kill(&mut self) -> Result<(), String> {
        self.mounted.take().map_or(Ok(()), Mounted::kill)
    }

    /// The process that serves Keepfs.
    pub fn server_pid(&self) -> Result<i64, String> {
        let mounted = self.mounted.as_ref().ok_or("nothing is mounted")?;
        mounted.status()?["server_pid"]
            .as_i64()
            .ok_or_else(|| "status has no server_pid".into())
    }

    /// Runs a workload and returns what it printed.
    pub fn run(&self, workload: &str, share: f64) -> Result<Value, String> {
        let seconds = self.bench.seconds * share;
        let mut program = command(&self.bench.programs.bench, self.bench.programs.scratch());
        program.arg(workload).arg(&self.dir).arg(seconds.to_string());
        program.args(self.bench.percent.map(|percent| percent.to_string()));
        let limit = PATIENCE + Duration::from_secs_f64(seconds);
        let line = limited(&mut program, limit, &self.bench.stop)?;
        serde_json::from_str(&line).map_err(|e| format!("{workload}: {e}: {line}"))
    }

    /// Prepares and measures a workload.
    pub fn measure(&mut self, work: &Work) -> Result<Sample, String> {
        if let Some(prepare) = work.prepare {
            self.run(prepare, 0.0)?;
        }
        if work.anew {
            self.unmount()?;
            self.mount()?;
        }
        let before = self.counted()?;
        let done = self.run(work.name, work.share)?;
        let after = self.counted()?;
        let mut sample = Sample::of(work.name, self.peer.name, &done);
        after.put(&before, &mut sample);
        if sample.unit == "s" {
            after.put_requests(&before, &mut sample);
        }
        Ok(sample)
    }

    /// The counters of the device, and Keepfs's own of the same moment.
    pub fn counted(&self) -> Result<Counted, String> {
        let Some(device) = &self.device else {
            return Ok(Counted::default());
        };
        let mut own = self.status()?;
        // Until nothing was written between the two looks.
        for _ in 0..20 {
            let counters = device.counters()?;
            let again = self.status()?;
            if again.as_ref().map(own_counters) == own.as_ref().map(own_counters) {
                let requests = self.mounted.as_ref().filter(|_| self.peer.is_keepfs());
                return Ok(Counted {
                    requests: requests.map_or(Ok(Vec::new()), |mounted| mounted.status().map(|s| requests_of(&s)))?,
                    device: Some(counters),
                    modelled: device.modelled_counters(),
                    model: device.model(),
                    own: again,
                });
            }
            own = again;
        }
        Err("the server never stops writing".into())
    }

    fn status(&self) -> Result<Option<Value>, String> {
        match &self.mounted {
            Some(mounted) if self.peer.is_keepfs() => Ok(Some(mounted.status()?["written"].clone())),
            _ => Ok(None),
        }
    }
}

/// Counters at one moment.
#[derive(Default)]
pub struct Counted {
    device: Option<Counters>,
    modelled: Option<Counters>,
    model: Option<Model>,
    /// `written` of `keepfs status`.
    own: Option<Value>,
    /// Requests of the kernel by name, since the server began.
    requests: Vec<(String, f64)>,
}

fn requests_of(status: &Value) -> Vec<(String, f64)> {
    let operations = status["serving"]["operations"].as_array().into_iter().flatten();
    operations
        .filter_map(|one| Some((one["name"].as_str()?.to_owned(), one["requests"].as_f64()?)))
        .collect()
}

/// What Keepfs says that it wrote and flushed.
fn own_counters(written: &Value) -> Counters {
    let classes = written["class_bytes"].as_object().into_iter().flatten();
    Counters {
        written: classes.filter_map(|(_, bytes)| bytes.as_u64()).sum(),
        flushes: written["flushes"].as_u64().unwrap_or_default(),
    }
}

impl Counted {
    /// Puts what the kernel asked for since `before`, by name and together.
    fn put_requests(&self, before: &Self, sample: &mut Sample) {
        let was = |name: &str| before.requests.iter().find(|(other, _)| other == name);
        let mut all = 0.0;
        for (name, count) in &self.requests {
            let count = count - was(name).map_or(0.0, |(_, count)| *count);
            all += count;
            sample.more.insert(format!("{REQUEST}{name}"), count);
        }
        if !self.requests.is_empty() {
            sample.more.insert("requests".into(), all);
        }
    }

    /// Puts what was counted since `before` into the sample.
    fn put(&self, before: &Self, sample: &mut Sample) {
        let mut put = |name: &str, value: f64| sample.more.insert(name.to_owned(), value);
        let mut both = |names: [&str; 2], after: Option<Counters>, before: Option<Counters>| {
            if let (Some(after), Some(before)) = (after, before) {
                let since = after.since(before);
                put(names[0], since.written as f64);
                put(names[1], since.flushes as f64);
            }
        };
        both(["written", "flushes"], self.device, before.device);
        both(["modelled_written", "modelled_flushes"], self.modelled, before.modelled);
        let own = |counted: &Self| counted.own.as_ref().map(own_counters);
        both(["own_written", "own_flushes"], own(self), own(before));
        if let Some(model) = self.model {
            put("model_flush_us", model.flush_us);
            put("model_write_bytes_s", model.write_bytes_s);
        }
        let (Some(after), Some(before)) = (&self.own, &before.own) else {
            return;
        };
        let number = |value: &Value| value.as_u64().unwrap_or_default() as f64;
        let (new, old) = (&after["compaction"], &before["compaction"]);
        for name in ["pages", "bytes"] {
            put(&format!("compaction_{name}"), number(&new[name]) - number(&old[name]));
        }
        let sizes = new["dirty_sizes"].as_array().into_iter().flatten();
        for (at, count) in sizes.enumerate() {
            put(&format!("dirty_{at}"), number(count) - number(&old["dirty_sizes"][at]));
        }
        put(
            "checkpoints",
            number(&after["checkpoints"]) - number(&before["checkpoints"]),
        );
    }
}
