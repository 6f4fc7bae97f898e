//! `keepfs install-links`: the names under which mount(8), mkfs(8) and fsck(8) look for this program, and what the system knows
//! it by: manual pages, completion scripts.

mod kit;
mod root;

use super::args::InstallLinks;
use super::replace::{is_masked, is_null, replace};
use super::tell::say;
use keepfs_server::visible::Shown;
use keepfs_server::{Failure, Outcome};
use root::{Folder, Root};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The names. The last one is what mount(8) looks for when it remounts.
const NAMES: [&str; 5] = [
    "mkfs.keepfs",
    "fsck.keepfs",
    "mount.keepfs",
    "mount.fuse.keepfs",
    "mount.fuseblk.keepfs",
];

/// Changed files that are kept of one name.
const KEPT_MAX: usize = 100;

/// Makes the links and the files, or takes them away. All of them are looked at before one changes: a refusal leaves nothing half
/// done but folders.
pub fn run(args: &InstallLinks) -> Outcome {
    let me = match &args.program {
        Some(program) => program.clone(),
        None => std::env::current_exe().map_err(Failure::io("find", Path::new("/proc/self/exe")))?,
    };
    if let (Some(root), false) = (&args.root, args.remove) {
        fs::create_dir_all(root).map_err(Failure::io("make the directory", root))?;
    }
    let root = Root::open(args.root.as_deref())?;
    let folder = links_folder(args);
    let links = NAMES.map(|name| (folder.join(name), Part::Link(&me)));
    let files = match args.folder {
        Some(_) => Vec::new(),
        None => kit::files(&args.prefix, &me),
    };
    let files = files.iter().map(|file| (file.path.clone(), Part::File(file)));
    let mut places = Vec::new();
    for (path, part) in links.into_iter().chain(files) {
        places.extend(Place::find(&root, &path, part, !args.remove)?);
    }
    for place in &places {
        match args.remove {
            true => place.remove()?,
            false => place.make()?,
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

/// What an installation consists of.
#[derive(Clone, Copy)]
enum Part<'a> {
    /// A link to the program.
    Link(&'a Path),
    File(&'a kit::File),
}

/// Where a part goes.
struct Place<'a> {
    folder: Folder,
    name: String,
    part: Part<'a>,
}

impl Place<'_> {
    /// `None`: its folder is not there, and is not to be made. Errors: what is there is somebody else's, or nothing can be made there.
    fn find<'a>(root: &Root, path: &Path, part: Part<'a>, make: bool) -> Result<Option<Place<'a>>, Failure> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok(None);
        };
        let Some(folder) = root.folder(parent, make)? else {
            return Ok(None);
        };
        let name = name.to_string_lossy().into_owned();
        let is_ours = |target: &Path| match part {
            Part::Link(me) => target == me || target.file_name() == Some("keepfs".as_ref()),
            Part::File(_) => is_null(target),
        };
        let foreign = match (part, folder.foreign(&name, is_ours)?) {
            // A file where a link should be is not ours, whatever stands in it.
            (Part::Link(_), _) if folder.at(&name).symlink_metadata().is_ok_and(|found| found.is_file()) => {
                Some("no link".into())
            }
            (_, foreign) => foreign,
        };
        if let Some(what) = foreign {
            return Err(Failure::Other(format!(
                "{} is {what} and not of Keepfs; move it away first",
                folder.shown(&name).shown()
            )));
        }
        // Where nothing is there, nothing is removed.
        if make || folder.at(&name).symlink_metadata().is_ok() {
            folder.is_writable()?;
        }
        Ok(Some(Place { folder, name, part }))
    }

    fn make(&self) -> Result<(), Failure> {
        let (at, shown) = (self.folder.at(&self.name), self.folder.shown(&self.name));
        match self.part {
            Part::Link(me) => {
                self.remove()?;
                symlink(me, &at).map_err(Failure::io("make the link", &shown))?;
                say!("{} -> {}", shown.shown(), me.shown());
            }
            Part::File(_) if is_masked(&at) => say!("{} is a link to /dev/null and stays one", shown.shown()),
            Part::File(file) => {
                // Whatever the umask of who installs: a hook that others may write is not run.
                let mode = if file.is_program { 0o755 } else { 0o644 };
                self.keep_changed(file)?;
                replace(&at, &file.text, mode).map_err(Failure::io("write", &shown))?;
                say!("{}", shown.shown());
            }
        }
        Ok(())
    }

    /// A file that has another text than the one that is installed, by an earlier version or by hand, is kept beside it.
    fn keep_changed(&self, file: &kit::File) -> Result<(), Failure> {
        let (at, shown) = (self.folder.at(&self.name), self.folder.shown(&self.name));
        let is_changed = || fs::read(&at).is_ok_and(|text| text != file.text.as_bytes());
        if !file.is_changed_by_hand || is_masked(&at) || !is_changed() {
            return Ok(());
        }
        let names = std::iter::once(format!("{}.old", self.name)).chain((2..).map(|n| format!("{}.old{n}", self.name)));
        let is_free = |name: &String| self.folder.at(name).symlink_metadata().is_err();
        let Some(kept) = names.take(KEPT_MAX).find(is_free) else {
            return Err(Failure::Other(format!(
                "{} was changed, and so were all that were kept beside it; remove those",
                shown.shown()
            )));
        };
        let moved = fs::rename(&at, self.folder.at(&kept));
        // Nobody runs it from here on.
        moved
            .and_then(|()| fs::set_permissions(self.folder.at(&kept), fs::Permissions::from_mode(0o644)))
            .map_err(Failure::io("keep", &shown))?;
        say!("{} had another text, which is kept as {kept}", shown.shown());
        Ok(())
    }

    fn remove(&self) -> Result<(), Failure> {
        if let Part::File(file) = self.part {
            self.keep_changed(file)?;
        }
        match fs::remove_file(self.folder.at(&self.name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Failure::io("remove", &self.folder.shown(&self.name))(error))
            }
            _ => Ok(()),
        }
    }
}
