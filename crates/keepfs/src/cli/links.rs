//! `keepfs install-links`: the names under which mount(8), mkfs(8) and fsck(8) look for this program, and what the system knows
//! it by: manual pages, completion scripts.

mod kit;

use super::Outcome;
use super::args::InstallLinks;
use super::failure::Failure;
use super::replace::{is_masked, replace};
use super::visible::say;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The names. The last one is what mount(8) looks for when it remounts.
const NAMES: [&str; 5] = [
    "mkfs.keepfs",
    "fsck.keepfs",
    "mount.keepfs",
    "mount.fuse.keepfs",
    "mount.fuseblk.keepfs",
];

/// Makes the links and the files, or takes them away.
pub fn run(args: &InstallLinks) -> Outcome {
    let me = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Failure::io("find", Path::new("/proc/self/exe")))?,
    };
    let below = |path: &Path| match &args.root {
        Some(root) => root.join(path.strip_prefix("/").unwrap_or(path)),
        None => path.to_owned(),
    };
    let links = below(&links_folder(args));
    // All of them are looked at before one changes: a refusal leaves nothing half done.
    for name in NAMES {
        is_ours(&links.join(name), &me)?;
    }
    let files = match args.folder {
        Some(_) => Vec::new(),
        None => kit::files(&args.prefix, &me),
    };
    if args.remove {
        NAMES.iter().try_for_each(|name| remove(&links.join(name)))?;
        return files.iter().try_for_each(|file| remove(&below(&file.path))).map(|()| 0);
    }
    fs::create_dir_all(&links).map_err(Failure::io("make the directory", &links))?;
    for name in NAMES {
        let link = links.join(name);
        remove(&link)?;
        symlink(&me, &link).map_err(Failure::io("make the link", &link))?;
        say!("{} -> {}", link.display(), me.display());
    }
    for file in files {
        let path = below(&file.path);
        match is_masked(&path) {
            true => say!("{} is a link to /dev/null and stays one", path.display()),
            false => {
                write(&path, &file)?;
                say!("{}", path.display());
            }
        }
    }
    Ok(0)
}

/// mount(8) looks in /sbin, wherever the rest is.
fn links_folder(args: &InstallLinks) -> PathBuf {
    match &args.folder {
        Some(folder) => folder.clone(),
        None if args.prefix == Path::new("/usr") => "/usr/sbin".into(),
        None => "/sbin".into(),
    }
}

fn write(path: &Path, file: &kit::File) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(Failure::io("make the directory", folder))?;
    }
    // Whatever the umask of who installs: a hook that others may write is not run.
    let mode = if file.is_program { 0o755 } else { 0o644 };
    replace(path, &file.text, mode).map_err(Failure::io("write", path))
}

/// A link to another place where `keepfs` is or was is replaced. Errors: what is there is somebody else's.
fn is_ours(link: &Path, me: &Path) -> Result<(), Failure> {
    let foreign = |what: &str| {
        let link = link.display();
        Err(Failure::Other(format!(
            "{link} is {what} and not of Keepfs; move it away first"
        )))
    };
    match fs::read_link(link) {
        Ok(target) if target == me || target.file_name() == Some("keepfs".as_ref()) => Ok(()),
        Ok(target) => foreign(&format!("a link to {}", target.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => foreign("no link"),
        Err(error) => Err(Failure::io("look at", link)(error)),
    }
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::io("remove", path)(error)),
        _ => Ok(()),
    }
}
