//! `keepfs install-links`: the names under which mount(8), mkfs(8) and fsck(8) look for this program.

use super::Outcome;
use super::args::InstallLinks;
use super::failure::Failure;
use super::visible::say;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The names. The last one is what mount(8) looks for when it remounts.
const NAMES: [&str; 5] = [
    "mkfs.keepfs",
    "fsck.keepfs",
    "mount.keepfs",
    "mount.fuse.keepfs",
    "mount.fuseblk.keepfs",
];

/// Makes the links, or takes them away.
pub fn run(args: &InstallLinks) -> Outcome {
    let me = std::env::current_exe().map_err(Failure::io("find", Path::new("/proc/self/exe")))?;
    for name in NAMES {
        let link = args.folder.join(name);
        if args.remove {
            remove(&link)?;
            continue;
        }
        make(&link, &me)?;
        say!("{} -> {}", link.display(), me.display());
    }
    Ok(0)
}

/// A link of another target is replaced; what is no link is somebody else's.
fn make(link: &Path, target: &Path) -> Result<(), Failure> {
    remove(link)?;
    symlink(target, link).map_err(Failure::io("make the link", link))
}

fn remove(link: &Path) -> Result<(), Failure> {
    match fs::symlink_metadata(link) {
        Ok(found) if found.is_symlink() => fs::remove_file(link).map_err(Failure::io("remove", link)),
        Ok(_) => Err(Failure::Other(format!(
            "{} is no link and not of Keepfs; move it away first",
            link.display()
        ))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(Failure::io("look at", link)(error)),
    }
}
