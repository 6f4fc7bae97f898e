//! What was copied and what is missing, for people and for programs.

use super::super::args::Salvage;
use super::place::NotKept;
use crate::cli::tell::say;
use keepfs_check::{for_programs, from_programs};
use keepfs_format::PAGE;
use keepfs_server::Failure;
use keepfs_server::told_path;
use keepfs_server::visible::Shown;
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What of an object is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// Pages of a file.
    Data,
    /// Entries of a directory, or the directory itself.
    Entries,
    /// Extended attributes.
    Attributes,
    /// The inode that a name leads to.
    Inode,
    /// A name: taken already, or a second one of a directory.
    Name,
    /// A file that is larger than the file system it was to be copied to can have.
    Size,
    /// Where a symbolic link points.
    Target,
    /// A device, FIFO or socket that could not be made.
    Special,
    /// A part of it whose newest version is lost.
    Older,
    /// Perhaps all of it: it has no name, and its inode may be an older version.
    Removed,
}

impl What {
    fn sentence(self) -> &'static str {
        match self {
            What::Data => "pages that cannot be read are left as holes",
            What::Entries => "some of the directory cannot be read, names may be missing",
            What::Attributes => "its extended attributes cannot be read",
            What::Inode => "what the name leads to cannot be read, nothing was copied",
            What::Name => "the name is there twice, or leads to a directory that has another one; nothing was copied",
            What::Size => "the file is larger than any can be where it was to be copied to, nothing was copied",
            What::Target => "where the symbolic link points cannot be read, nothing was copied",
            What::Special => "the device, FIFO or socket could not be made",
            What::Older => "the newest version of its inode or of one of its nodes is lost, what was copied is older",
            What::Removed => "nothing names it and its inode may be an older version: it may have been removed",
        }
    }
}

/// A part of a file, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Range {
    offset: u64,
    length: u64,
}

/// Pages of a file that are not there, in runs.
#[derive(Debug, Default)]
pub struct Missing {
    runs: Vec<(u64, u64)>,
    size: u64,
}

impl Missing {
    /// `count` pages from `index` on, of a file of `size` bytes.
    pub fn add(&mut self, index: u64, count: u64, size: u64) {
        self.size = size;
        match self.runs.last_mut() {
            Some((first, n)) if first.saturating_add(*n) == index => *n = n.saturating_add(count),
            _ => self.runs.push((index, count)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    fn ranges(mut self) -> Vec<Range> {
        self.runs.sort_unstable();
        let page = PAGE as u64;
        let range = |(first, count): (u64, u64)| {
            let offset = first.saturating_mul(page);
            let end = first.saturating_add(count).saturating_mul(page).min(self.size);
            Range {
                offset,
                length: end.saturating_sub(offset),
            }
        };
        self.runs.into_iter().map(range).collect()
    }
}

/// One object that is not as it was.
#[derive(Debug, Serialize)]
pub struct Damaged {
    path: String,
    /// Its bytes, if they are no UTF-8 (S-18.10).
    #[serde(skip_serializing_if = "Option::is_none")]
    path_bytes: Option<String>,
    ino: u64,
    what: What,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Range>,
}

/// The outcome.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub others: u64,
    pub links: u64,
    pub bytes: u64,
    /// Of all these, those that no name leads to.
    pub nameless: u64,
    /// Where they are, below the directory: lost+found, or what it is called where that is another's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nameless_dir: Option<String>,
    /// Metablocks of 15 inodes each that cannot be read.
    pub unreadable_inode_blocks: u64,
    pub damaged: Vec<Damaged>,
    /// What was lost with a superblock or the log.
    pub losses: Vec<String>,
    /// One of the losses is that of a part of the map (S-21.24).
    #[serde(skip)]
    pub may_be_older: bool,
    /// One of them is that of small writes from before the last checkpoint (S-21.25).
    #[serde(skip)]
    pub is_carried_lost: bool,
    pub not_kept: NotKept,
    /// What was wrong with superblocks, map and log.
    pub findings: Vec<String>,
}

#[derive(Serialize)]
struct Answer<'a> {
    version: u32,
    #[serde(flatten, with = "told_path::pool")]
    pool: &'a Path,
    #[serde(flatten, with = "told_path::dir")]
    dir: &'a Path,
    whole: bool,
    #[serde(flatten)]
    report: &'a Report,
}

impl Report {
    pub fn damaged(&mut self, what: What, path: &Path, ino: u64) {
        self.push(path, ino, what, Vec::new());
    }

    pub fn missing(&mut self, path: &Path, ino: u64, missing: Missing) {
        self.push(path, ino, What::Data, missing.ranges());
    }

    fn push(&mut self, path: &Path, ino: u64, what: What, missing: Vec<Range>) {
        let path = PathBuf::from("/").join(path);
        let path = path.as_os_str().as_bytes();
        let (path, path_bytes) = for_programs(path.strip_suffix(b"/.").unwrap_or(path));
        self.damaged.push(Damaged {
            path,
            path_bytes,
            ino,
            what,
            missing,
        });
    }

    /// Nothing was damaged, nothing is missing, everything could be kept.
    pub fn is_whole(&self) -> bool {
        self.reasons().is_empty()
    }

    /// Why not everything was copied, a few words each.
    fn reasons(&self) -> Vec<String> {
        let counts = [
            (self.damaged.len() as u64, "objects are damaged"),
            (self.nameless, "have no name"),
            (self.unreadable_inode_blocks, "blocks of inodes cannot be read"),
        ];
        let counted = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut reasons: Vec<String> = counted.map(|(count, what)| format!("{count} {what}")).collect();
        if self.losses.len() > usize::from(self.may_be_older) {
            reasons.push("what was written last is lost".into());
        }
        if self.is_carried_lost {
            reasons
                .push("small writes from before are lost, and what is not named may have older bytes, or zeros".into());
        }
        if self.may_be_older {
            reasons.push("some may be missing, or older than it was".into());
        }
        if !self.not_kept.is_empty() {
            reasons.push("not all owners, permissions, times and attributes could be set".into());
        }
        reasons
    }

    pub fn tell(&self, args: &Salvage) -> Result<(), Failure> {
        if args.json {
            let answer = Answer {
                version: 1,
                pool: &args.pool,
                dir: &args.dir,
                whole: self.is_whole(),
                report: self,
            };
            let text = crate::cli::json::text(&answer)?;
            println!("{text}");
            return Ok(());
        }
        self.findings.iter().for_each(|finding| say!("note: {finding}"));
        for damaged in &self.damaged {
            let path = from_programs(&damaged.path, damaged.path_bytes.as_deref());
            say!("{path}: {} (inode {})", damaged.what.sentence(), damaged.ino);
            for Range { offset, length } in &damaged.missing {
                say!("    {length} bytes at {offset}");
            }
        }
        self.losses.iter().for_each(|loss| say!("{loss}"));
        if self.unreadable_inode_blocks > 0 {
            let most = self.unreadable_inode_blocks.saturating_mul(15);
            say!("up to {most} inodes cannot be read, and what they were is not known");
        }
        self.tell_not_kept();
        let nameless = self.nameless_dir.as_ref().map_or_else(String::new, |dir| {
            format!("; {} of them without a name, in {dir}", self.nameless)
        });
        say!(
            "{}: copied {} files ({} bytes), {} directories, {} symbolic links, {} others, {} further hard links{}",
            args.dir.shown(),
            self.files,
            self.bytes,
            self.directories,
            self.symlinks,
            self.others,
            self.links,
            nameless
        );
        match self.reasons() {
            none if none.is_empty() => say!("everything was copied"),
            reasons => say!("not everything could be copied: {}", reasons.join(", ")),
        }
        Ok(())
    }

    fn tell_not_kept(&self) {
        let kinds = [
            (self.not_kept.owners, "owners"),
            (self.not_kept.modes, "permissions"),
            (self.not_kept.times, "times"),
            (self.not_kept.attributes, "extended attributes"),
        ];
        for (count, what) in kinds.into_iter().filter(|(count, _)| *count > 0) {
            say!("{count} {what} could not be set: run it as root, on a file system that has them");
        }
    }
}
