//! A directory for temporary files that is left clean: no mount, no loop device, no file stays behind, even when the
//! stage that made them was killed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Removed with everything mounted or attached in it when dropped.
pub struct Scratch(tempfile::TempDir);

impl Scratch {
    /// A new directory that every user may enter (suites run as other users too). Its name is short, because the path
    /// of a socket must fit into 107 bytes. Errors in words.
    pub fn new() -> Result<Self, String> {
        Self::within(&std::env::temp_dir())
    }

    /// The same below `parent`.
    pub fn within(parent: &Path) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("kfs-").tempdir_in(parent);
        let dir = dir.map_err(|e| format!("temporary directory in {}: {e}", parent.display()))?;
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(dir.path(), open).map_err(|e| format!("{}: {e}", dir.path().display()))?;
        Ok(Self(dir))
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Scratch {
    /// Kills every process that was started with this directory as its `TMPDIR`: servers that a stage left behind.
    pub fn kill_stragglers(&self) {
        let mark = format!("TMPDIR={}", self.path().display());
        let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for number in numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            let environment = std::fs::read(format!("/proc/{number}/environ")).unwrap_or_default();
            if environment
                .split(|byte| *byte == 0)
                .any(|variable| variable == mark.as_bytes())
                && let Some(pid) = rustix::process::Pid::from_raw(number)
            {
                let _gone_already = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
        for mount in mounts_under(&mounts, self.path()).into_iter().rev() {
            if mount.fuse {
                // A dead or hung server would keep its callers waiting for ever.
                drop(std::fs::write(
                    format!("/sys/fs/fuse/connections/{}/abort", mount.device),
                    "1",
                ));
            }
            quiet("umount", &["-l".as_ref(), mount.point.as_os_str()]);
        }
        for device in loops_under(self.path()) {
            quiet("losetup", &["-d".as_ref(), device.as_ref()]);
        }
    }
}

/// A line of mountinfo.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// The kernel's number of the device, which names the connection of a FUSE mount.
    device: u64,
    point: PathBuf,
    fuse: bool,
}

/// The mounts at or below `dir`, in the order of mounting (proc(5), mountinfo): paths are bytes.
fn mounts_under(mountinfo: &[u8], dir: &Path) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut fields = line.split(|byte| *byte == b' ');
        let (major, minor) = str::from_utf8(fields.nth(2)?).ok()?.split_once(':')?;
        let device = major.parse::<u64>().ok()? << 20 | minor.parse::<u64>().ok()?;
        let point = PathBuf::from(OsString::from_vec(unescape(fields.nth(1)?)));
        let kind = fields.skip_while(|field| *field != b"-").nth(1)?;
        let kind = kind.split(|byte| *byte == b'.').next()?;
        let fuse = kind == b"fuse" || kind == b"fuseblk";
        point.starts_with(dir).then_some(Mount { device, point, fuse })
    };
    mountinfo.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// A field of mountinfo without its octal escapes.
pub fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let digits = tail.get(..3).filter(|_| *first == b'\\');
        let byte = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok());
        plain.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[3..] } else { tail };
    }
    plain
}

/// Loop devices whose backing file lies under `dir`.
fn loops_under(dir: &Path) -> Vec<String> {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backed = devices.filter(|device| {
        let mut file = std::fs::read(device.path().join("loop/backing_file")).unwrap_or_default();
        file.truncate(file.trim_ascii_end().len());
        Path::new(&OsString::from_vec(file)).starts_with(dir)
    });
    backed
        .map(|device| format!("/dev/{}", device.file_name().to_string_lossy()))
        .collect()
}

/// Cleaning is best effort: what fails here was reported by the stage itself.
fn quiet(program: &str, args: &[&OsStr]) {
    drop(Command::new(program).args(args).output());
}

#[cfg(test)]
mod tests;
