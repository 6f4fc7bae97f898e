//! Which hooks there are. They are run by root, so what others than root could have put there is not run.

use crate::cli::replace::is_masked;
use keepfs_server::Failure;
use keepfs_server::visible::Shown;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Where the administrator's are, in `hooks.d`, with `hooks.conf` beside.
const CONFIG: &str = "/etc/keepfs";
/// Where those are that Keepfs brings; one of the same name of the administrator's takes the place of it.
const SHIPPED: [&str; 2] = ["/usr/local/lib/keepfs/hooks.d", "/usr/lib/keepfs/hooks.d"];

/// Where hooks are looked for.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The first one of a name counts.
    folders: Vec<PathBuf>,
    conf: PathBuf,
}

/// Variables for the environment of hooks.
pub type Settings = Vec<(String, OsString)>;
/// A hook, and why it is not run.
pub type Found = (PathBuf, Option<String>);

impl Programs {
    /// Those of `config`, and of nowhere else; without it those of this machine.
    pub fn new(config: Option<&Path>) -> Programs {
        let shipped = SHIPPED.iter().filter(|_| config.is_none()).map(PathBuf::from);
        let config = config.unwrap_or(Path::new(CONFIG));
        Programs {
            folders: std::iter::once(config.join("hooks.d")).chain(shipped).collect(),
            conf: config.join("hooks.conf"),
        }
    }

    /// Where, for people.
    pub fn folders(&self) -> String {
        let folders = self.folders.iter().map(|folder| folder.shown());
        folders.collect::<Vec<_>>().join(", ")
    }

    /// All hooks in the order of their names, and what lies among them and is not run. A link to /dev/null takes a shipped one away.
    pub fn all(&self) -> Vec<Found> {
        let mut found: BTreeMap<OsString, PathBuf> = BTreeMap::new();
        for folder in &self.folders {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if is_name(&entry.file_name().to_string_lossy()) {
                    found.entry(entry.file_name()).or_insert_with(|| entry.path());
                }
            }
        }
        let all = found.into_values().filter(|path| !is_masked(path));
        all.map(|path| (path.clone(), refusal(&path, true))).collect()
    }

    /// What lies among the hooks under a name that no hook has, in order.
    pub fn misnamed(&self) -> Vec<PathBuf> {
        let folders = self.folders.iter().flat_map(fs::read_dir);
        let entries = folders.flatten().flatten();
        let misnamed = entries.filter(|entry| !is_name(&entry.file_name().to_string_lossy()));
        let mut all: Vec<PathBuf> = misnamed.map(|entry| entry.path()).collect();
        all.sort();
        all
    }

    /// What `hooks.conf` says: lines NAME=VALUE, for the environment of hooks; none, if there is none; and where it is or would be. Errors: it
    /// is not root's alone, cannot be read, or a line makes no sense.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let place = ("KEEPFS_CONF".to_owned(), self.conf.as_os_str().to_owned());
        if !self.conf.try_exists().map_err(Failure::io("look for", &self.conf))? {
            return Ok(vec![place]);
        }
        let conf = self.conf.shown();
        if let Some(why) = refusal(&self.conf, false) {
            return Err(Failure::Other(format!("{conf} is not used: {why}")));
        }
        let text = fs::read_to_string(&self.conf).map_err(Failure::io("read", &self.conf))?;
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let lines = lines.map(|(at, line)| {
            let (name, value) = setting(line)
                .ok_or_else(|| Failure::Other(format!("{conf}, line {}: not NAME=VALUE: {line}", at + 1)))?;
            Ok((name, value.into()))
        });
        std::iter::once(Ok(place)).chain(lines).collect()
    }
}

/// As run-parts(8) has it: no backups, no leftovers of packages.
fn is_name(name: &str) -> bool {
    name.bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}

/// `NAME=VALUE`, or `NAME="VALUE"`.
fn setting(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    // What the loader of programs obeys is not set here.
    if name.is_empty() || !name.bytes().all(is_plain) || name.starts_with("LD_") || value.contains('\0') {
        return None;
    }
    let bare = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    let value = bare('"').or_else(|| bare('\'')).unwrap_or(value);
    Some((name.to_owned(), value.to_owned()))
}

/// Why root does not run `path` (or read it for settings), if that is so: others could change it, or it is no program.
pub fn refusal(path: &Path, is_program: bool) -> Option<String> {
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) => return Some(error.to_string()),
    };
    for part in real.ancestors() {
        let found = match fs::metadata(part) {
            Ok(found) => found,
            Err(error) => return Some(format!("{}: {error}", part.shown())),
        };
        if let Some(why) = others_may_change(&found, part == real) {
            return Some(format!("{} {why}", part.shown()));
        }
        if part == real && !found.is_file() {
            return Some("it is no regular file".into());
        }
        if part == real && is_program && found.mode() & 0o111 == 0 {
            return Some("it is not executable".into());
        }
    }
    None
}

fn others_may_change(found: &Metadata, is_file: bool) -> Option<&'static str> {
    // In a sticky directory nobody moves what is another's (unlink(2)).
    let is_sticky = !is_file && found.mode() & 0o1000 != 0;
    if found.uid() != 0 {
        return Some("is not root's");
    }
    (found.mode() & 0o022 != 0 && !is_sticky).then_some("may be written by others than root")
}

#[cfg(test)]
mod tests;
