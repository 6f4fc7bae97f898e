//! Files with 20-byte names, 1 KiB of data and an attribute each: made, then looked up, appended to, renamed, unlinked.

use super::memory::Sampler;
use super::order::Shuffled;
use super::{Pool, Start, new_inode, tell};
use keepfs_fs::Volume;
use keepfs_testkit::ops::Rng;
use keepfs_vfs::{Direct, Errno, FileKind, Ino, RenameFlags, Vfs, WriteHow, XattrHow};

/// What is done to a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Change {
    Look,
    Append,
    Rename,
    Unlink,
}

const CHANGES: [(Change, &str); 4] = [
    (Change::Look, "lookup + getxattr"),
    (Change::Append, "append 300"),
    (Change::Rename, "rename"),
    (Change::Unlink, "unlink"),
];

/// The name of file `i`: 20 bytes.
fn name(i: u64) -> [u8; 20] {
    let mut name = [0; 20];
    let digits = format!("{:020}", i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    name.copy_from_slice(&digits.as_bytes()[..20]);
    name
}

/// Files in 16 directories.
struct Files<'v> {
    volume: &'v Volume,
    dirs: Vec<Ino>,
}

impl Files<'_> {
    fn dir(&self, i: u64) -> Ino {
        self.dirs[(i % self.dirs.len() as u64) as usize]
    }

    fn create(&self, i: u64) -> Result<(), Errno> {
        let entry = self.volume.mknod(self.dir(i), &name(i), &new_inode(FileKind::File))?;
        let ino = entry.attr.ino;
        self.volume.write(ino, 0, &[i as u8; 1024], WriteHow::default())?;
        let value = i.to_le_bytes();
        self.volume.setxattr(ino, b"user.number", &value, XattrHow::default())?;
        self.volume.forget(ino, 1);
        Ok(())
    }

    fn change(&self, i: u64, what: Change) -> Result<(), Errno> {
        let entry = match self.volume.lookup(self.dir(i), &name(i)) {
            Err(Errno::ENOENT) => return Ok(()),
            other => other?,
        };
        let ino = entry.attr.ino;
        match what {
            Change::Look => {
                let value = self.volume.getxattr(ino, b"user.number")?;
                assert_eq!(value, i.to_le_bytes(), "the attribute of file {i}");
            }
            Change::Append => {
                let append = WriteHow {
                    append: true,
                    ..WriteHow::default()
                };
                self.volume.write(ino, 0, &[7; 300], append)?;
            }
            Change::Rename => {
                let mut to = name(i);
                to[19] = b'x';
                let (from_dir, to_dir) = (self.dir(i), self.dir(i + 1));
                self.volume
                    .rename(from_dir, &name(i), to_dir, &to, RenameFlags::default())?;
            }
            Change::Unlink => self.volume.unlink(self.dir(i), &name(i))?,
        }
        self.volume.forget(ino, 1);
        Ok(())
    }

    /// `changes` of each kind on files chosen at random of the first `made` in the order of creation.
    fn probe(&self, files: u64, made: u64, changes: u64, sampler: &Sampler) -> Result<(), Errno> {
        let some: Vec<u64> = Shuffled::new(files)
            .take(made as usize)
            .step_by(made.div_ceil(4096) as usize)
            .collect();
        let mut rng = Rng::new(made);
        for (what, label) in CHANGES {
            let started = Start::now();
            for _ in 0..changes {
                let i = match made == files {
                    true => rng.below(files),
                    false => some[rng.below(some.len() as u64) as usize],
                };
                self.change(i, what)?;
            }
            tell(&format!("{label} at {made}"), started, changes, sampler);
        }
        Ok(())
    }
}

/// Makes `files` files and changes them; at powers of ten a few, at the end `changes` of each kind.
pub fn run(pool: &Pool, files: u64, changes: u64, sampler: &Sampler) -> Result<(), Errno> {
    let dirs: Result<Vec<Ino>, Errno> = (0..16)
        .map(|d| {
            let name = format!("dir{d}");
            let entry = pool
                .volume
                .mknod(Ino::ROOT, name.as_bytes(), &new_inode(FileKind::Dir))?;
            Ok(entry.attr.ino)
        })
        .collect();
    let all = Files {
        volume: &pool.volume,
        dirs: dirs?,
    };
    let (mut started, mut from) = (Start::now(), 0);
    let mut stop = 10_000;
    for (made, i) in (1..).zip(Shuffled::new(files)) {
        all.create(i)?;
        if made == stop || made == files {
            let label = format!("create + 1 KiB + xattr to {made}");
            tell(&label, started, made - from, sampler);
            // The probe would take files away: only the sizes that matter for growth, and few.
            if made == 10_000 && files > made {
                all.probe(files, made, 500, sampler)?;
            }
            (started, from) = (Start::now(), made);
            stop = if made < 100_000 { 100_000 } else { made + 100_000 };
        }
    }
    all.probe(files, files, changes, sampler)
}

/// Removes every file that is left, and tells how many there were.
pub fn remove_all(pool: &Pool, sampler: &Sampler) -> Result<u64, Errno> {
    let volume = &pool.volume;
    let started = Start::now();
    let mut removed = 0;
    for d in 0..16 {
        let dir = volume.lookup(Ino::ROOT, format!("dir{d}").as_bytes())?.attr.ino;
        let mut cookie = 2;
        loop {
            let mut names: Vec<Vec<u8>> = Vec::new();
            volume.readdir(dir, cookie, &mut |entry| {
                cookie = entry.cookie;
                names.push(entry.name.to_vec());
                names.len() < 1000
            })?;
            for name in &names {
                volume.unlink(dir, name)?;
            }
            removed += names.len() as u64;
            if names.len() < 1000 {
                break;
            }
        }
        volume.forget(dir, 1);
        volume.rmdir(Ino::ROOT, format!("dir{d}").as_bytes())?;
    }
    tell("unlink of all", started, removed, sampler);
    Ok(removed)
}
