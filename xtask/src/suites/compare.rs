//! Whether two trees are the same: names, types, modes, owners, link counts, sizes, bytes, targets, xattrs and ACLs.
//!
//! Times are left out (two runs differ in them), and the sizes and link counts of directories (file systems differ).

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::Hasher;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// What a tree is made of, by path below its root.
pub type Manifest = BTreeMap<String, Entry>;

/// One file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    kind: Kind,
    mode: u32,
    owner: (u32, u32),
    /// 0 for a directory.
    links: u64,
    /// Names and values, POSIX ACLs among them.
    xattrs: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    File { bytes: u64, digest: u64 },
    Directory,
    Link(String),
    Device(u64),
    Fifo,
    Socket,
}

/// Reads the whole tree under `root`, the root itself as `""`.
pub fn manifest(root: &Path) -> Result<Manifest, String> {
    let mut manifest = Manifest::new();
    visit(root, "", &mut manifest)?;
    Ok(manifest)
}

/// The first difference in words; `None` if there is none.
pub fn difference(a: &Manifest, b: &Manifest) -> Option<String> {
    let names = a.keys().chain(b.keys());
    let differing = names.filter(|name| a.get(*name) != b.get(*name)).min()?;
    let count = a.keys().filter(|name| a.get(*name) != b.get(*name)).count();
    Some(format!(
        "{differing}: {:?} here, {:?} there ({count} entries differ)",
        a.get(differing),
        b.get(differing)
    ))
}

/// An error unless the trees under `a` and `b` are the same; returns how many entries were compared.
pub fn same(a: &Path, b: &Path) -> Result<usize, String> {
    let (here, there) = (manifest(a)?, manifest(b)?);
    match difference(&here, &there) {
        None => Ok(here.len()),
        Some(words) => Err(format!("{} and {} differ: {words}", a.display(), b.display())),
    }
}

fn visit(path: &Path, name: &str, manifest: &mut Manifest) -> Result<(), String> {
    let entry = entry(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let directory = entry.kind == Kind::Directory;
    manifest.insert(name.to_owned(), entry);
    if directory {
        for child in std::fs::read_dir(path).map_err(|e| format!("{}: {e}", path.display()))? {
            let child = child.map_err(|e| format!("{}: {e}", path.display()))?;
            let below = format!("{name}/{}", child.file_name().to_string_lossy());
            visit(&child.path(), &below, manifest)?;
        }
    }
    Ok(())
}

fn entry(path: &Path) -> std::io::Result<Entry> {
    let meta = path.symlink_metadata()?;
    let kind = match meta.file_type() {
        t if t.is_dir() => Kind::Directory,
        t if t.is_symlink() => Kind::Link(std::fs::read_link(path)?.to_string_lossy().into_owned()),
        t if t.is_fifo() => Kind::Fifo,
        t if t.is_socket() => Kind::Socket,
        t if t.is_block_device() || t.is_char_device() => Kind::Device(meta.rdev()),
        _ => digest(path)?,
    };
    let links = if kind == Kind::Directory { 0 } else { meta.nlink() };
    Ok(Entry {
        kind,
        mode: meta.mode(),
        owner: (meta.uid(), meta.gid()),
        links,
        xattrs: xattrs(path)?,
    })
}

fn digest(path: &Path) -> std::io::Result<Kind> {
    let mut file = File::open(path)?;
    let (mut hasher, mut bytes, mut buffer) = (DefaultHasher::new(), 0, vec![0; 1 << 18]);
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(Kind::File {
                bytes,
                digest: hasher.finish(),
            });
        }
        hasher.write(&buffer[..count]);
        bytes += count as u64;
    }
}

fn xattrs(path: &Path) -> std::io::Result<BTreeMap<String, Vec<u8>>> {
    let mut names = vec![0; 65536];
    let count = match rustix::fs::llistxattr(path, &mut names[..]) {
        Ok(count) => count,
        Err(rustix::io::Errno::OPNOTSUPP) => 0,
        Err(e) => return Err(e.into()),
    };
    let mut xattrs = BTreeMap::new();
    for name in names[..count].split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0; 65536];
        let size = rustix::fs::lgetxattr(path, name, &mut value[..])?;
        value.truncate(size);
        xattrs.insert(String::from_utf8_lossy(name).into_owned(), value);
    }
    Ok(xattrs)
}

#[cfg(test)]
mod tests;
