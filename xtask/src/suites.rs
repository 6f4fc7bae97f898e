//! Suites that run on a real mount, one stage each: `cargo xtask suite NAME [--transport NAME | --dir DIR]`.
//!
//! Without `--dir` a suite makes its own pool and mounts it. With `--dir` it runs in that directory instead, on
//! whatever file system lies there: that is how a suite itself is checked, and how a peer is looked at.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::sweep::Scratch;
use crate::{gates, install, run};

mod block_device;
pub mod build;
pub mod compare;
mod deb;
mod enospc;
mod fsx;
mod full;
mod keeper;
mod kill;
mod media_errors;
mod pjdfstest;
mod pkey;
pub mod pool;
pub mod process;
pub mod programs;
pub mod sample;
mod stalls;
mod strays;
mod systemd;
pub mod writer;

use pool::Pool;

/// What a suite is given.
pub struct Bench {
    /// For files beside the file system under test (an ordinary file system, readable by every user).
    pub scratch: Scratch,
    /// Run here instead of on a pool.
    pub dir: Option<PathBuf>,
    /// Mount pools with this transport; the suite fails if another comes into use.
    pub transport: Option<String>,
    /// Run at full size (`--long`).
    pub long: bool,
}

/// A suite; its answer is the line that says what it counted.
type Suite = fn(&Bench) -> Result<String, String>;

const SUITES: &[(&str, Suite)] = &[
    ("pjdfstest", pjdfstest::run),
    ("fsx", fsx::run),
    ("kill", kill::run),
    ("keeper", keeper::run),
    ("keeper_controls", keeper::controls::run),
    ("upgrade", keeper::upgrade),
    ("block_device", block_device::run_tests),
    ("deb", deb::run),
    ("enospc", enospc::run),
    ("full", full::run),
    ("full_long", full::long),
    ("pkey", pkey::run),
    ("media_errors", media_errors::run),
    ("stalls", stalls::run),
    ("strays", strays::run),
    ("strays_planted", strays::planted),
    ("strays_long", strays::long),
    ("systemd", systemd::run),
    ("git", programs::git::run),
    ("cargo", programs::cargo::run),
    ("sqlite", programs::sqlite::run),
    ("postgres", programs::postgres::run),
    ("rsync", programs::rsync::run),
    ("tar", programs::tar::run),
];

/// `cargo xtask suite NAME [--transport NAME | --dir DIR]`; the last line of the output says what was counted, or why it failed.
pub fn command(args: &[&str]) -> Result<ExitCode, String> {
    let (name, dir, transport) = match args {
        [name] => (*name, None, None),
        [name, "--dir", dir] => (*name, Some(absolute(dir)?), None),
        [name, "--transport", transport] => (*name, None, Some((*transport).to_owned())),
        _ => {
            return Err(format!(
                "usage: cargo xtask suite NAME [--transport dev|uring | --dir DIR]; suites: {}",
                names()
            ));
        }
    };
    let suite = SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| suite);
    let suite = suite.ok_or_else(|| format!("no suite {name}; suites: {}", names()))?;
    if !rustix::process::geteuid().is_root() {
        return gates::skip("needs root: it mounts, and works as several users");
    }
    if transport.as_deref() == Some("uring") && !offers_rings() {
        return gates::skip("this kernel offers no FUSE over io_uring (Linux 6.14, fuse.enable_uring)");
    }
    if matches!(name, "deb" | "systemd") && !install::present("apt-get") {
        return gates::skip("needs an archive of Debian, as apt-get knows it");
    }
    if name == "upgrade" && build::last_commit().is_err() {
        return gates::skip("needs the last commit in git, which a clone without history has not");
    }
    let long = std::env::var(run::LONG).is_ok_and(|value| value == "1");
    let bench = Bench {
        scratch: Scratch::new()?,
        dir,
        transport,
        long,
    };
    process::echo();
    match suite(&bench) {
        Ok(counted) => {
            println!("{counted}");
            Ok(ExitCode::SUCCESS)
        }
        Err(why) => {
            println!("{name} failed: {why}");
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Whether the kernel has FUSE over io_uring and it is on, or can be turned on. Asked apart from the product: a server
/// that falls back where it need not is a failure, not a skip.
fn offers_rings() -> bool {
    let switch = Path::new("/sys/module/fuse/parameters/enable_uring");
    let is_on = || std::fs::read_to_string(switch).is_ok_and(|text| text.trim() == "Y");
    is_on() || (std::fs::write(switch, "Y").is_ok() && is_on())
}

fn absolute(dir: &str) -> Result<PathBuf, String> {
    Path::new(dir).canonicalize().map_err(|e| format!("{dir}: {e}"))
}

fn names() -> String {
    SUITES.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// Where a suite does its work: a pool of its own, or the directory that was named.
pub enum Place {
    /// A mounted pool, unmounted and checked by [`Place::close`].
    Pool(Box<Pool>),
    /// A directory of another file system.
    Dir(Scratch),
}

impl Bench {
    /// A new place called `name`, mounted with `options` if it is a pool of `mib` MiB.
    pub fn place(&self, name: &str, mib: u64, options: &[&str]) -> Result<Place, String> {
        if let Some(dir) = &self.dir {
            return Ok(Place::Dir(Scratch::within(dir)?));
        }
        let mut pool = self.pool(name, mib)?;
        pool.mount(options)?;
        Ok(Place::Pool(Box::new(pool)))
    }

    /// A new pool called `name` of `mib` MiB, not mounted yet.
    pub fn pool(&self, name: &str, mib: u64) -> Result<Pool, String> {
        Ok(Pool::create(self.scratch.path(), name, mib)?.with_transport(self.transport.clone()))
    }

    /// A directory called `name` on the ordinary file system beside.
    pub fn beside(&self, name: &str) -> Result<PathBuf, String> {
        let dir = self.scratch.path().join(name);
        std::fs::create_dir_all(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(dir)
    }
}

impl Place {
    /// The directory to work in.
    pub fn dir(&self) -> &Path {
        match self {
            Self::Pool(pool) => pool.point(),
            Self::Dir(dir) => dir.path(),
        }
    }

    /// Unmounts and checks the pool; the directory goes away.
    pub fn close(self) -> Result<(), String> {
        match self {
            Self::Pool(mut pool) => {
                pool.unmount()?;
                pool.check()
            }
            Self::Dir(_) => Ok(()),
        }
    }
}
