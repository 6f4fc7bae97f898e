//! One client of a mount whose servers die: it does what programs do and knows what each call must answer.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::suites::sample::Random;

/// Names a client works with, so that most of them exist about half of the time.
const NAMES: u64 = 12;
/// A file that has grown to this is emptied.
const BODY_MAX: usize = 64 << 10;
/// Bytes of a block write.
const BLOCK: usize = 4096;

/// What a name is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Node {
    /// An empty directory.
    Dir,
    /// A file: the number of its body, which hard links share.
    File(usize),
}

/// A call that took long: when it began and ended, and what it was.
pub type Slow = (Instant, Instant, &'static str);

/// A client with a directory of its own.
pub struct Client {
    dir: PathBuf,
    random: Random,
    names: BTreeMap<u64, Node>,
    bodies: Vec<Vec<u8>>,
    /// A file that stays open, whatever becomes of its name, and its body.
    open: Option<(File, usize)>,
    /// Calls made.
    pub calls: u64,
    /// Calls that took longer than a few milliseconds.
    pub slow: Vec<Slow>,
}

/// Calls that took this long are noted, milliseconds.
const SLOW_MS: u128 = 2;

impl Client {
    /// In the new directory `dir`. Errors: it cannot be made.
    pub fn new(dir: PathBuf, seed: u64) -> Result<Self, String> {
        fs::create_dir(&dir).map_err(|e| format!("{}: {e}", dir.display()))?;
        Ok(Self {
            dir,
            random: Random(seed),
            names: BTreeMap::new(),
            bodies: Vec::new(),
            open: None,
            calls: 0,
            slow: Vec::new(),
        })
    }

    /// One operation; an error says what it answered and what it should have.
    pub fn step(&mut self) -> Result<(), String> {
        let (a, b) = (self.random.below(NAMES), self.random.below(NAMES));
        match self.random.below(12) {
            0 => self.mkdir(a),
            1 | 2 => self.create(a),
            3 => self.rename(a, b),
            4 => self.link(a, b),
            5 => self.unlink(a),
            6 => self.rmdir(a),
            7 => self.append(a),
            8 => self.write_block(a),
            9 => self.sync(a),
            10 => self.read(a),
            _ => self.use_open(a),
        }
    }

    /// Compares all that is there with what must be.
    pub fn verify(&mut self) -> Result<(), String> {
        let entries = fs::read_dir(&self.dir).map_err(|e| format!("{}: {e}", self.dir.display()))?;
        let mut found: Vec<String> = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| format!("{}: {e}", self.dir.display()))?;
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
        found.sort();
        let mut wanted: Vec<String> = self.names.keys().map(|name| format!("n{name}")).collect();
        wanted.sort();
        if found != wanted {
            return Err(format!("{}: {found:?} instead of {wanted:?}", self.dir.display()));
        }
        let names: Vec<u64> = self.names.keys().copied().collect();
        names.into_iter().try_for_each(|name| self.read(name))
    }

    fn path(&self, name: u64) -> PathBuf {
        self.dir.join(format!("n{name}"))
    }

    /// Makes a call, notes how long it took, and compares its answer: `wanted` is the errno it must give.
    fn call<T>(
        &mut self,
        what: &'static str,
        path: &Path,
        wanted: Option<i32>,
        call: impl FnOnce() -> io::Result<T>,
    ) -> Result<Option<T>, String> {
        let begun = Instant::now();
        let result = call();
        let ended = Instant::now();
        self.calls += 1;
        if (ended - begun).as_millis() >= SLOW_MS {
            self.slow.push((begun, ended, what));
        }
        let got = result.as_ref().err().map(|error| error.raw_os_error().unwrap_or(-1));
        if got == wanted {
            return Ok(result.ok());
        }
        let name =
            |errno: Option<i32>| errno.map_or("success".to_owned(), |e| io::Error::from_raw_os_error(e).to_string());
        Err(format!(
            "{what} {}: {}, not {}",
            path.display(),
            name(got),
            name(wanted)
        ))
    }

    fn bytes(&mut self) -> Vec<u8> {
        let len = 1 + self.random.below(6000) as usize;
        let word = self.random.below(u64::MAX).to_le_bytes();
        word.iter().copied().cycle().take(len).collect()
    }

    fn mkdir(&mut self, name: u64) -> Result<(), String> {
        let wanted = self.names.contains_key(&name).then_some(errno::EEXIST);
        let path = self.path(name);
        if self.call("mkdir", &path, wanted, || fs::create_dir(&path))?.is_some() {
            self.names.insert(name, Node::Dir);
        }
        Ok(())
    }

    fn create(&mut self, name: u64) -> Result<(), String> {
        let wanted = self.names.contains_key(&name).then_some(errno::EEXIST);
        let path = self.path(name);
        let Some(mut file) = self.call("create", &path, wanted, || File::create_new(&path))? else {
            return Ok(());
        };
        self.bodies.push(Vec::new());
        let body = self.bodies.len() - 1;
        self.names.insert(name, Node::File(body));
        let bytes = self.bytes();
        self.call("write", &path, None, || file.write_all(&bytes))?;
        self.bodies[body] = bytes;
        Ok(())
    }

    fn rename(&mut self, from: u64, to: u64) -> Result<(), String> {
        let nodes = (self.names.get(&from).copied(), self.names.get(&to).copied());
        let wanted = match nodes {
            (None, _) => Some(errno::ENOENT),
            _ if from == to => None,
            (Some(Node::Dir), Some(Node::File(_))) => Some(errno::ENOTDIR),
            (Some(Node::File(_)), Some(Node::Dir)) => Some(errno::EISDIR),
            _ => None,
        };
        let (old, new) = (self.path(from), self.path(to));
        self.call("rename", &old, wanted, || fs::rename(&old, &new))?;
        // Two names of one file stay as they are (rename(2)).
        if let (None, (Some(node), replaced)) = (wanted, nodes)
            && from != to
            && (node == Node::Dir || Some(node) != replaced)
        {
            self.names.remove(&from);
            self.names.insert(to, node);
        }
        Ok(())
    }

    fn link(&mut self, from: u64, to: u64) -> Result<(), String> {
        let nodes = (self.names.get(&from).copied(), self.names.contains_key(&to));
        let wanted = match nodes {
            (None, _) => Some(errno::ENOENT),
            (_, true) => Some(errno::EEXIST),
            (Some(Node::Dir), _) => Some(errno::EPERM),
            _ => None,
        };
        let (old, new) = (self.path(from), self.path(to));
        self.call("link", &old, wanted, || fs::hard_link(&old, &new))?;
        if let (None, Some(node)) = (wanted, nodes.0) {
            self.names.insert(to, node);
        }
        Ok(())
    }

    fn unlink(&mut self, name: u64) -> Result<(), String> {
        let wanted = match self.names.get(&name) {
            None => Some(errno::ENOENT),
            Some(Node::Dir) => Some(errno::EISDIR),
            Some(Node::File(_)) => None,
        };
        let path = self.path(name);
        if self.call("unlink", &path, wanted, || fs::remove_file(&path))?.is_some() {
            self.names.remove(&name);
        }
        Ok(())
    }

    fn rmdir(&mut self, name: u64) -> Result<(), String> {
        let wanted = match self.names.get(&name) {
            None => Some(errno::ENOENT),
            Some(Node::File(_)) => Some(errno::ENOTDIR),
            Some(Node::Dir) => None,
        };
        let path = self.path(name);
        if self.call("rmdir", &path, wanted, || fs::remove_dir(&path))?.is_some() {
            self.names.remove(&name);
        }
        Ok(())
    }

    /// The file of a name, if it has one.
    fn body(&self, name: u64) -> Option<usize> {
        match self.names.get(&name) {
            Some(Node::File(body)) => Some(*body),
            _ => None,
        }
    }

    fn append(&mut self, name: u64) -> Result<(), String> {
        let Some(body) = self.body(name) else { return Ok(()) };
        let path = self.path(name);
        if self.bodies[body].len() > BODY_MAX {
            let file = OpenOptions::new().write(true).open(&path);
            let file = file.map_err(|e| format!("open {}: {e}", path.display()))?;
            self.call("truncate", &path, None, || file.set_len(0))?;
            self.bodies[body].clear();
        }
        let open = || OpenOptions::new().append(true).open(&path);
        let Some(mut file) = self.call("open", &path, None, open)? else {
            return Ok(());
        };
        let bytes = self.bytes();
        self.call("append", &path, None, || file.write_all(&bytes))?;
        self.bodies[body].extend_from_slice(&bytes);
        Ok(())
    }

    fn write_block(&mut self, name: u64) -> Result<(), String> {
        let Some(body) = self.body(name) else { return Ok(()) };
        let (path, at) = (self.path(name), self.random.below(8) as usize * BLOCK);
        let fill = self.random.below(256) as u8;
        let open = || OpenOptions::new().write(true).open(&path);
        let Some(file) = self.call("open", &path, None, open)? else {
            return Ok(());
        };
        self.call("pwrite", &path, None, || file.write_all_at(&[fill; BLOCK], at as u64))?;
        let bytes = &mut self.bodies[body];
        bytes.resize(bytes.len().max(at + BLOCK), 0);
        bytes[at..at + BLOCK].fill(fill);
        Ok(())
    }

    fn sync(&mut self, name: u64) -> Result<(), String> {
        let path = if self.names.contains_key(&name) {
            self.path(name)
        } else {
            self.dir.clone()
        };
        let Some(file) = self.call("open", &path, None, || File::open(&path))? else {
            return Ok(());
        };
        self.call("fsync", &path, None, || file.sync_all()).map(drop)
    }

    fn read(&mut self, name: u64) -> Result<(), String> {
        let path = self.path(name);
        let Some(body) = self.body(name) else {
            let there = self.names.contains_key(&name);
            let wanted = (!there).then_some(errno::ENOENT);
            return self
                .call("stat", &path, wanted, || fs::symlink_metadata(&path))
                .map(drop);
        };
        let bytes = self.call("read", &path, None, || fs::read(&path))?.unwrap_or_default();
        same(&path, &bytes, &self.bodies[body])
    }

    /// Goes on with the open file, or opens another.
    fn use_open(&mut self, name: u64) -> Result<(), String> {
        let Some((file, body)) = self.open.take() else {
            if let Some(body) = self.body(name) {
                let path = self.path(name);
                let open = || OpenOptions::new().read(true).append(true).open(&path);
                self.open = self.call("open", &path, None, open)?.map(|file| (file, body));
            }
            return Ok(());
        };
        let path = self.dir.join("the open file");
        let bytes = self.bytes();
        self.call("append", &path, None, || (&file).write_all(&bytes))?;
        self.bodies[body].extend_from_slice(&bytes);
        let mut all = vec![0; self.bodies[body].len() + 1];
        let len = self
            .call("read", &path, None, || read_all_at(&file, &mut all))?
            .unwrap_or_default();
        same(&path, &all[..len], &self.bodies[body])?;
        // Half of the time it is closed, which ends a file without a name.
        self.open = (self.random.below(2) == 0).then_some((file, body));
        Ok(())
    }
}

fn read_all_at(file: &File, into: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < into.len() {
        match file.read_at(&mut into[len..], len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

fn same(path: &Path, found: &[u8], wanted: &[u8]) -> Result<(), String> {
    if found == wanted {
        return Ok(());
    }
    let at = found.iter().zip(wanted).position(|(a, b)| a != b);
    let at = at.unwrap_or(found.len().min(wanted.len()));
    Err(format!(
        "{}: {} bytes instead of {}, the first difference at {at}",
        path.display(),
        found.len(),
        wanted.len()
    ))
}

/// The errors that a client expects, by the numbers that Linux gives them.
mod errno {
    use rustix::io::Errno;

    pub const EPERM: i32 = Errno::PERM.raw_os_error();
    pub const ENOENT: i32 = Errno::NOENT.raw_os_error();
    pub const EEXIST: i32 = Errno::EXIST.raw_os_error();
    pub const ENOTDIR: i32 = Errno::NOTDIR.raw_os_error();
    pub const EISDIR: i32 = Errno::ISDIR.raw_os_error();
}
