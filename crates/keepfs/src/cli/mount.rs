//! `keepfs mount`: starts a server in the background and returns when the mount is usable, or with the reason why not.

use super::args::{Keep, Mount};
use super::failure::Failure;
use super::options::MountOptions;
use super::remount::{self, Given};
use super::table::{self, Mount as Mounted};
use super::unserved::Unserved;
use super::visible::warn_of;
use super::{Outcome, control, environment, exposed, heap, identify, keep, registry, serve};
use keepfs_fuse::How;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Mounts.
pub fn run(args: &Mount) -> Outcome {
    if MountOptions::parse(&args.options, false)?.remount {
        return remount::run(&args.dir, &args.options, Given::Changes, false);
    }
    mount(&args.pool, &args.dir, &args.options, false, args.foreground)
}

/// Mounts `pool` at `dir`; see [`MountOptions::parse`] for `options` and `sloppy`.
pub fn mount(pool: &Path, dir: &Path, options: &[String], sloppy: bool, foreground: bool) -> Outcome {
    let parsed = MountOptions::parse(options, sloppy)?;
    control::forget_unfinished();
    let dir = place(dir)?;
    let pool = &identify::resolve(pool)?;
    let pool = pool.canonicalize().map_err(Failure::io("find the pool", pool))?;
    if !rustix::process::geteuid().is_root() {
        return Err(Failure::Other(
            "only root can mount a pool; for a user, root mounts it and gives the user its files (chown, ACLs)".into(),
        ));
    }
    let kept = parsed.is_kept()?;
    if foreground && kept {
        let (options, adopt) = (options.to_vec(), None);
        return keep::run(&Keep {
            pool,
            dir,
            options,
            sloppy,
            foreground,
            adopt,
        });
    }
    if foreground {
        return serve::in_foreground(&pool, &dir, &parsed, options);
    }
    if let Some(why) = exposed::of(&pool) {
        warn_of!("keepfs: warning: {why}");
    }
    keepfs_fuse::keep_descriptors_private().map_err(Failure::io("mark descriptors of", Path::new("/proc/self/fd")))?;
    let mut server = Command::new("/proc/self/exe");
    server.arg(if kept { "keep" } else { "serve" }).arg(&pool).arg(&dir);
    for list in options {
        server.arg("-o").arg(list);
    }
    if sloppy {
        server.arg("--sloppy");
    }
    environment::bare(&mut server);
    heap::one(&mut server);
    server.stdin(Stdio::null()).stdout(Stdio::piped());
    let before = table::at(&dir);
    let mut child = server
        .spawn()
        .map_err(Failure::io("start", Path::new("/proc/self/exe")))?;
    let said = first_line(&mut child);
    if said.as_deref() == Some(serve::READY) {
        warn_without_root(&pool, &dir);
        return Ok(0);
    }
    let ended = child.wait();
    take_back(&dir, before.as_ref());
    Err(Failure::Other(match (said, ended) {
        (Some(reason), _) => reason,
        (None, Ok(status)) => {
            format!("the server ended before the mount was usable ({status}); try again with -o log=FILE")
        }
        (None, Err(error)) => format!("the server ended before the mount was usable: {error}"),
    }))
}

/// Who mounted may have been killed before anybody knew of it: what is mounted at `dir` now, was not `before`, and has no
/// server is taken away.
fn take_back(dir: &Path, before: Option<&Mounted>) {
    let left = table::at(dir).filter(Mounted::is_keepfs);
    let is_new = left.is_some_and(|left| before.is_none_or(|before| before.device != left.device));
    if is_new
        && Unserved::at(dir) == Unserved::Ended
        && let Err(error) = keepfs_fuse::unmount(dir, How::Lazy)
    {
        warn_of!(
            "keepfs: a mount without a server is left at {}: {error}; umount -l takes it away",
            dir.display()
        );
    }
}

/// A pool without its root directory can be mounted, and nothing in it can be reached.
fn warn_without_root(pool: &Path, dir: &Path) {
    let is_lost = std::fs::read_dir(dir).is_err_and(|error| error.raw_os_error() == Some(libc::EIO));
    if is_lost {
        warn_of!(
            "keepfs: warning: the root directory of {0} is damaged and nothing below {1} can be reached; unmount it and run \
             `keepfs check --repair {0}`, first with --dry-run, which only says what it would do",
            pool.display(),
            dir.display()
        );
    }
}

/// The mount point as an absolute path without links.
fn place(dir: &Path) -> Result<PathBuf, Failure> {
    let failed = |error: io::Error| match error.raw_os_error() {
        Some(libc::ENOTCONN) => Unserved::Ended.failure(&registry::settled(dir)),
        _ => Failure::io("find the mount point", dir)(error),
    };
    let found = dir.canonicalize().map_err(failed)?;
    match found.metadata().map_err(failed)?.is_dir() {
        true => Ok(found),
        false => Err(Failure::Other(format!(
            "mount point {} is not a directory",
            found.display()
        ))),
    }
}

/// What the server says: that it is ready, or why not. `None` if it ends without a word. What it waits for or warns of before is told.
fn first_line(child: &mut Child) -> Option<String> {
    for line in BufReader::new(child.stdout.take()?).lines() {
        let line = line.ok()?;
        match line.starts_with(serve::WAITS) || line.starts_with(serve::WARNS) {
            true => warn_of!("keepfs: {line}"),
            false => return Some(line.trim_end().to_owned()).filter(|line| !line.is_empty()),
        }
    }
    None
}
