//! A pool in a file, driven by the `keepfs` command as a user would.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;

use super::build;
use super::process::{announce, command, output, run, said};
use crate::paths;

/// A pool file and its mount point; unmounted when dropped.
pub struct Pool {
    binary: PathBuf,
    image: PathBuf,
    point: PathBuf,
    transport: Option<String>,
    /// What its servers forget, in a build that can be made to.
    planted: Option<String>,
    mounted: bool,
}

impl Pool {
    /// Makes a pool of `mib` MiB named `name` under `dir`, not yet mounted.
    pub fn create(dir: &Path, name: &str, mib: u64) -> Result<Self, String> {
        Self::create_with(dir, name, mib << 20, &[])
    }

    /// The same of `bytes`, with more arguments of `keepfs create`.
    pub fn create_with(dir: &Path, name: &str, bytes: u64, more: &[&str]) -> Result<Self, String> {
        let pool = Self {
            binary: build::keepfs()?,
            image: dir.join(format!("{name}.pool")),
            point: dir.join(name),
            transport: None,
            planted: None,
            mounted: false,
        };
        std::fs::create_dir_all(&pool.point).map_err(|e| format!("{}: {e}", pool.point.display()))?;
        run(pool
            .keepfs(&["create"])
            .arg(&pool.image)
            .args(["--size", &bytes.to_string()])
            .args(more))?;
        Ok(pool)
    }

    /// Mounts with this transport from now on; a mount that gets another fails.
    pub fn with_transport(mut self, transport: Option<String>) -> Self {
        self.transport = transport;
        self
    }

    /// Is served by `binary`, whose servers forget what `planted` says.
    pub fn served_by(mut self, binary: PathBuf, planted: Option<String>) -> Self {
        self.binary = binary;
        self.planted = planted;
        self
    }

    /// The mount point.
    pub fn point(&self) -> &Path {
        &self.point
    }

    /// Mounts; every user may enter. The server stays in the background and keeps the standard output of this process.
    pub fn mount(&mut self, options: &[&str]) -> Result<(), String> {
        let transport = self.transport.as_ref().map(|name| format!("transport={name}"));
        let ours = ["allow_other"].into_iter().chain(transport.as_deref());
        let options: Vec<&str> = ours.chain(options.iter().copied()).collect();
        let mut mount = self.keepfs(&["mount"]);
        mount.arg(&self.image).arg(&self.point).args(["-o", &options.join(",")]);
        announce(&mount);
        // Not `run`: the server would hold the pipe open for as long as it lives.
        let status = mount.status().map_err(|e| format!("keepfs mount: {e}"))?;
        if !status.success() {
            return Err(format!("keepfs mount: {status} (its messages stand above)"));
        }
        self.mounted = true;
        match &self.transport {
            Some(wanted) => self.check_transport(wanted),
            None => Ok(()),
        }
    }

    fn check_transport(&self, wanted: &str) -> Result<(), String> {
        let status = self.status()?;
        match status["mount"]["transport"].as_str() {
            Some(used) if used == wanted => Ok(()),
            used => Err(format!("asked for transport {wanted}, mounted with {used:?}")),
        }
    }

    /// Unmounts; everything is durable when this returns.
    pub fn unmount(&mut self) -> Result<(), String> {
        run(self.keepfs(&["unmount"]).arg(&self.point))?;
        self.mounted = false;
        Ok(())
    }

    /// Checks the unmounted pool: an error with its findings unless there are none.
    pub fn check(&self) -> Result<(), String> {
        self.check_with(&[])
    }

    /// The same with more arguments of `keepfs check`.
    pub fn check_with(&self, more: &[&str]) -> Result<(), String> {
        let mut check = self.keepfs(&["check"]);
        let output = output(check.args(more).arg(&self.image))?;
        if output.status.code() == Some(0) {
            Ok(())
        } else {
            Err(said(&check, &output))
        }
    }

    /// What `status --json` says of the mount.
    pub fn status(&self) -> Result<Value, String> {
        let text = run(self.keepfs(&["status"]).arg(&self.point).arg("--json"))?;
        serde_json::from_str(&text).map_err(|e| format!("keepfs status --json: {e}\n{text}"))
    }

    /// Another command of `keepfs` on the mount: its words, the mount point, more words. Returns what it said.
    pub fn ask(&self, words: &[&str], more: &[&str]) -> Result<String, String> {
        run(self.keepfs(words).arg(&self.point).args(more))
    }

    /// Kills the server with SIGKILL and returns when it is gone; without a keeper the mount is left dead, as a crash
    /// leaves it.
    pub fn kill_server(&self) -> Result<(), String> {
        let status = self.status()?;
        let pid = status["server_pid"]
            .as_i64()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| format!("status has no server_pid: {status}"))?;
        let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|e| format!("server {pid}: {e}"))?;
        kill_process(pid, Signal::KILL).map_err(|e| format!("server {pid}: {e}"))?;
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None).map_err(|e| format!("server {pid}: {e}"))?;
        Ok(())
    }

    /// Takes away the dead mount of a killed server and mounts again, which recovers.
    pub fn remount(&mut self, options: &[&str]) -> Result<(), String> {
        run(Command::new("umount").arg("-l").arg(&self.point).stdin(Stdio::null()))?;
        self.mounted = false;
        self.mount(options)
    }

    fn keepfs(&self, args: &[&str]) -> Command {
        let mut keepfs = command(&self.binary, &paths::root());
        keepfs.args(args);
        if let Some(planted) = &self.planted {
            keepfs.env("KEEPFS_PLANTED", planted);
        }
        keepfs
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.mounted && self.unmount().is_err() {
            drop(Command::new("umount").arg("-l").arg(&self.point).output());
        }
    }
}
