//! Mounting: starts the processes of a mount, and returns when it can be used, or with the reason why not.

use crate::failure::Failure;
use crate::options::MountOptions;
use crate::program::OWN;
use crate::size::Size;
use crate::starter::{READY, hear};
use crate::table::{self, Mount as Mounted};
use crate::unmount::unmount;
use crate::unserved::{self, Unserved};
use crate::visible::Shown;
use crate::words::Keep;
use crate::{Outcome, control, environment, exposed, heap, keep, log_file, registry, role, room, serve};
use keepfs_fuse::How;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A pool that shall be mounted.
pub struct Mounting {
    pool: PathBuf,
    dir: PathBuf,
    options: MountOptions,
    given: Vec<String>,
    sloppy: bool,
    /// Whether a dead mount of the pool was taken away.
    cleared: bool,
    /// Whether the arena is less than the default.
    is_less: bool,
}

impl Mounting {
    /// `pool` at `dir`; see [`MountOptions::parse`] for `options` and `sloppy`. Errors: one of them is not there or makes no sense, or
    /// who asks is not root.
    pub fn of(pool: &Path, dir: &Path, options: &[String], sloppy: bool) -> Result<Mounting, Failure> {
        let mut given = MountOptions::from_the_root(options);
        let mut options = MountOptions::parse(&given, sloppy)?;
        control::forget_unfinished();
        let (dir, cleared) = place(pool, dir)?;
        let pool = pool.canonicalize().map_err(Failure::io("find the pool", pool))?;
        hides(&dir, &pool, "the pool")?;
        if let Some(log) = &options.log {
            hides(&dir, &registry::settled(log), "the log")?;
            log_file::check(log, &pool)?;
        }
        let asked = MountOptions::asks_for_arena(&given).then_some(options.arena);
        let readers = options.mount(&pool, &dir).readers() as u64;
        let arena = arena_that_fits(asked, room::arena_most(readers))?;
        let is_less = arena < options.arena;
        if is_less {
            options.arena = arena;
            given.push(format!("arena={arena}"));
        }
        match unserved::is_root() {
            true => Ok(Mounting {
                pool,
                dir,
                options,
                given,
                sloppy,
                cleared,
                is_less,
            }),
            false => Err(Failure::Other(
                "only root can mount a pool; for a user, root mounts it and gives the user its files (chown, ACLs)"
                    .into(),
            )),
        }
    }

    /// Mounts it and serves it by this process and those that it starts, until it is unmounted; the exit code.
    pub fn in_foreground(self) -> Outcome {
        match self.options.is_kept()? {
            true => keep::run(&Keep {
                pool: self.pool,
                dir: self.dir,
                options: self.given,
                sloppy: self.sloppy,
                foreground: true,
                first: true,
                adopt: None,
            }),
            false => serve::in_foreground(&self.pool, &self.dir, &self.options, &self.given),
        }
    }

    /// Starts its processes and waits until it can be used. What is waited for, and what is not as it should be, is told to `tell`, a
    /// line each. Open files of this process are not theirs: all get the flag `FD_CLOEXEC`. Errors: nothing is mounted.
    pub fn in_background(self, tell: &mut dyn FnMut(&str)) -> Result<Mount, Failure> {
        role::can_serve()?;
        if self.cleared {
            tell(&format!(
                "the mount at {} that had lost its server was taken away; what programs have open on it gives errors",
                self.dir.shown()
            ));
        }
        if self.is_less {
            tell(&format!(
                "warning: the arena has {}, as there is no memory for the {} that it has by default",
                Size(self.options.arena),
                Size(MountOptions::default().arena)
            ));
        }
        let is_kept = self.options.is_kept()?;
        if let Some(why) = exposed::of(&self.pool) {
            tell(&format!("warning: {why}"));
        }
        keepfs_fuse::keep_descriptors_private()
            .map_err(Failure::io("mark descriptors of", Path::new("/proc/self/fd")))?;
        let mut server = Command::new(OWN);
        server.args(if is_kept {
            ["keep", "--first"]
        } else {
            ["serve", "--alone"]
        });
        server.arg(&self.pool).arg(&self.dir);
        for list in &self.given {
            server.arg("-o").arg(list);
        }
        server.args(self.sloppy.then_some("--sloppy"));
        environment::bare(&mut server);
        heap::one(&mut server);
        server.stdin(Stdio::null()).stdout(Stdio::piped());
        let before = table::at(&self.dir);
        let mut child = server.spawn().map_err(Failure::io("start", Path::new(OWN)))?;
        let said = child.stdout.take().and_then(|server| hear(server, tell));
        if said.as_deref() == Some(READY) {
            self.warn_without_root(tell);
            return Ok(Mount { dir: self.dir });
        }
        let ended = child.wait();
        take_back(&self.dir, before.as_ref(), tell);
        Err(Failure::Other(match (said, ended) {
            (Some(reason), _) => reason,
            (None, Ok(status)) => {
                format!("the server ended before the mount was usable ({status}); try again with -o log=FILE")
            }
            (None, Err(error)) => format!("the server ended before the mount was usable: {error}"),
        }))
    }

    /// A pool without its root directory can be mounted, and nothing in it can be reached.
    fn warn_without_root(&self, tell: &mut dyn FnMut(&str)) {
        let is_lost = std::fs::read_dir(&self.dir).is_err_and(|error| error.raw_os_error() == Some(libc::EIO));
        if is_lost {
            tell(&format!(
                "warning: the root directory of {0} is damaged and nothing below {1} can be reached; unmount it and run \
                 `keepfs check --repair {0}`, first with --dry-run, which only says what it would do",
                self.pool.shown(),
                self.dir.shown()
            ));
        }
    }
}

/// A mounted pool. It stays mounted when this is dropped, and when the program ends.
pub struct Mount {
    dir: PathBuf,
}

impl Mount {
    /// Where, an absolute path.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Unmounts; returns when everything is durable and the pool is free for others. Errors: it is in use and stays mounted, or not
    /// everything is durable.
    pub fn unmount(self) -> Result<(), Failure> {
        unmount(&self.dir, How::Gentle, &mut |said| tracing::warn!("{}", said.text()))
    }
}

/// Who mounted may have been killed before anybody knew of it: what is mounted at `dir` now, was not `before`, and has no
/// server is taken away.
fn take_back(dir: &Path, before: Option<&Mounted>, tell: &mut dyn FnMut(&str)) {
    let left = table::at(dir).filter(Mounted::is_keepfs);
    let is_new = left.is_some_and(|left| before.is_none_or(|before| before.device != left.device));
    if is_new
        && Unserved::at(dir) == Unserved::Ended
        && let Err(error) = keepfs_fuse::unmount(dir, How::Lazy)
    {
        tell(&format!(
            "a mount without a server is left at {}: {error}; umount -l takes it away",
            dir.shown()
        ));
    }
}

/// Takes a mount of Keepfs away whose connection is gone, so that whoever mounts behind a crash need not. Errors: it is known to be
/// another pool's, or it has a server still, which may be closing the pool.
fn clear(pool: &Path, dir: &Path) -> Result<(), Failure> {
    let is_anothers = |found: &Mounted| match registry::at_dir(dir) {
        Ok((_, Some(record))) => !registry::of_pool(pool).contains(&record),
        // A server that could say its last word has left no record. An anchor is no pool.
        _ => {
            !found.source.as_os_str().as_encoded_bytes().starts_with(b"/dev/loop")
                && found.source != registry::settled(pool)
        }
    };
    let found = table::at(dir).filter(Mounted::is_keepfs);
    if found.is_none_or(|found| is_anothers(&found)) || Unserved::at(dir) != Unserved::Ended {
        return Err(Unserved::Ended.failure(dir));
    }
    Ok(keepfs_fuse::unmount(dir, How::Lazy)?)
}

/// Errors: a mount at `dir` would hide `path`, which its servers open: they would wait for themselves.
fn hides(dir: &Path, path: &Path, what: &str) -> Result<(), Failure> {
    match path != dir && path.starts_with(dir) {
        true => Err(Failure::Other(format!(
            "{what} {} lies below the mount point {}, and the mount would hide it: mount at another directory, or move it",
            path.shown(),
            dir.shown()
        ))),
        false => Ok(()),
    }
}

/// The arena of a mount, bytes, where none has more than `most`. Errors: so much was asked for, or the least there is, is more (S-16.32).
fn arena_that_fits(asked: Option<u64>, most: Option<u64>) -> Result<u64, Failure> {
    const MIB: u64 = 1 << 20;
    let wanted = asked.unwrap_or(MountOptions::default().arena);
    let given = match most {
        Some(most) if most < wanted => most / MIB * MIB,
        _ => return Ok(wanted),
    };
    let least = keepfs_store::ARENA_MIN as u64;
    let limits = "the machine, its control group, and ulimit -v";
    match asked {
        None if given >= least => Ok(given),
        Some(asked) if given >= least => Err(Failure::Usage(format!(
            "arena={} is more than the {} that {limits} leave for an arena: give no more",
            Size(asked),
            Size(given)
        ))),
        _ => Err(Failure::Other(format!(
            "there is too little memory for a mount: an arena has at least {}, and {limits} leave {} for one",
            Size(least),
            Size(given)
        ))),
    }
}

/// Most dead mounts that are taken away, one above the other.
const DEAD_MAX: usize = 16;

/// The mount point as an absolute path without links, and whether dead mounts of the pool were taken away there.
fn place(pool: &Path, dir: &Path) -> Result<(PathBuf, bool), Failure> {
    let is_dead = |error: &io::Error| error.raw_os_error() == Some(libc::ENOTCONN);
    let look = || {
        let found = dir.canonicalize()?;
        let is_dir = found.metadata()?.is_dir();
        Ok((found, is_dir))
    };
    let (mut looked, mut cleared) = (look(), 0);
    while looked.as_ref().is_err_and(is_dead) && cleared < DEAD_MAX {
        clear(pool, &registry::settled(dir))?;
        cleared += 1;
        looked = look();
    }
    match looked.map_err(Failure::io("find the mount point", dir))? {
        (found, true) => Ok((found, cleared > 0)),
        (found, false) => Err(Failure::Other(format!(
            "mount point {} is not a directory",
            found.shown()
        ))),
    }
}

#[cfg(test)]
mod tests;
