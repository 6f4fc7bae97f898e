//! Random operations from a seed, over so few names that they meet all the time.

use std::collections::VecDeque;

use super::{Mode, Op, Profile, Rng, SLOTS, Verb, Who};
use keepfs_vfs::{FallocMode, FileKind, Owner, RenameFlags, SeekWhence, SetTime, Time, XattrHow};

/// An endless sequence of operations; the first make the profile's directories.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    profile: Profile,
    /// The directories that the sequence begins with.
    dirs_to_make: VecDeque<&'static str>,
    /// Paths that the last operations gave something to: the next ones are drawn to them.
    recent: VecDeque<String>,
    /// The last attribute that was set.
    last_xattr: Option<(String, String)>,
}

/// How many paths are remembered.
const RECENT_PATHS: usize = 5;

impl Iterator for Generator {
    type Item = Op;

    fn next(&mut self) -> Option<Op> {
        if let Some(dir) = self.dirs_to_make.pop_front() {
            let who = self.who();
            return Some(Op::Mkdir {
                path: dir.to_owned(),
                mode: Mode(0o755),
                who,
            });
        }
        let total = self.profile.weights.iter().map(|(_, w)| w).sum();
        let mut at = self.rng.below(total);
        for index in 0..self.profile.weights.len() {
            let (verb, weight) = self.profile.weights[index];
            if at < weight {
                let op = self.op(verb);
                self.remember(&op);
                return Some(op);
            }
            at -= weight;
        }
        None
    }
}

impl Generator {
    /// The sequence of this seed and profile.
    pub fn new(seed: u64, profile: Profile) -> Generator {
        let dirs_to_make = profile.dirs.iter().copied().filter(|dir| *dir != "/").collect();
        Generator {
            rng: Rng::new(seed),
            profile,
            dirs_to_make,
            recent: VecDeque::new(),
            last_xattr: None,
        }
    }

    /// An operation of this kind with random arguments.
    pub fn op(&mut self, verb: Verb) -> Op {
        match verb {
            Verb::Create => Op::Create {
                path: self.path(),
                mode: self.mode(),
                who: self.who(),
            },
            Verb::Mkdir => {
                let mode = Mode(self.mode().0 & 0o1777);
                Op::Mkdir {
                    path: self.dir_or_path(80),
                    mode,
                    who: self.who(),
                }
            }
            Verb::Mknod => self.mknod(),
            Verb::Symlink => {
                let target = self.rng.pick(&["t", "nowhere/else", "x\u{e9} %"]).to_owned();
                Op::Symlink {
                    path: self.path(),
                    target,
                    who: self.who(),
                }
            }
            Verb::Tmpfile => Op::Tmpfile {
                slot: self.slot(),
                dir: self.dir(),
                mode: self.mode(),
                who: self.who(),
            },
            Verb::Link => Op::Link {
                from: self.inode(),
                to: self.path(),
            },
            Verb::Unlink => Op::Unlink { path: self.name(10) },
            Verb::Rmdir => Op::Rmdir {
                path: self.dir_or_path(70),
            },
            Verb::Rename => Op::Rename {
                from: self.name(15),
                to: self.dir_or_path(15),
                flags: self.rename_flags(),
            },
            Verb::Hold => Op::Hold {
                slot: self.slot(),
                path: self.dir_or_path(15),
            },
            Verb::Release => Op::Release { slot: self.slot() },
            Verb::ReadDir => Op::ReadDir { path: self.dir() },
            Verb::ReadLink => Op::ReadLink { path: self.path() },
            Verb::Stat => Op::Stat { path: self.inode() },
            Verb::Fsync => Op::Fsync {
                path: self.inode(),
                data_only: self.rng.chance(30),
            },
            Verb::SyncFs => Op::SyncFs {},
            _ => self.op_on_inode(verb),
        }
    }

    fn remember(&mut self, op: &Op) {
        if let Op::Unlink { path } | Op::Rename { from: path, .. } = op {
            self.recent.retain(|recent| recent != path);
        }
        let path = match op {
            Op::Create { path, .. } | Op::Link { to: path, .. } | Op::Rename { to: path, .. } => path,
            Op::SetXattr { path, name, .. } => {
                self.last_xattr = Some((path.clone(), name.clone()));
                return;
            }
            _ => return,
        };
        self.recent.push_back(path.clone());
        if self.recent.len() > RECENT_PATHS {
            self.recent.pop_front();
        }
    }

    /// An attribute that was just set, or any.
    fn xattr(&mut self, path: String) -> (String, String) {
        match self.last_xattr.clone() {
            Some(last) if self.rng.chance(50) => last,
            _ => (path, self.xattr_name()),
        }
    }

    fn op_on_inode(&mut self, verb: Verb) -> Op {
        let path = self.inode();
        match verb {
            Verb::Write => {
                let (offset, len) = (self.offset(), self.len() as usize);
                Op::Write {
                    path,
                    offset,
                    len,
                    seed: self.seed(),
                    kill: self.rng.chance(30),
                }
            }
            Verb::Append => Op::Append {
                path,
                len: self.len() as usize,
                seed: self.seed(),
                kill: self.rng.chance(30),
            },
            Verb::Truncate => Op::Truncate {
                path,
                size: self.offset(),
                kill: self.rng.chance(30),
            },
            Verb::OpenTruncate => Op::OpenTruncate { path },
            Verb::Fallocate => Op::Fallocate {
                path,
                mode: self.falloc_mode(),
                offset: self.offset(),
                len: self.len() * 2,
            },
            Verb::CopyRange => {
                let (from_offset, to_offset) = (self.offset(), self.offset());
                Op::CopyRange {
                    from: path,
                    from_offset,
                    to: self.inode(),
                    to_offset,
                    len: self.len() * 2,
                }
            }
            Verb::Read => Op::Read {
                path,
                offset: self.offset(),
                len: self.len() as usize,
            },
            Verb::Seek => {
                let whence = self.rng.pick(&[SeekWhence::Data, SeekWhence::Hole]);
                Op::Seek {
                    path,
                    offset: self.offset(),
                    whence,
                }
            }
            Verb::SeekMap => Op::SeekMap { path },
            Verb::SetMode => Op::SetMode {
                path,
                mode: self.mode(),
            },
            Verb::Chown => self.chown(path),
            Verb::Utimes => {
                let times = [
                    None,
                    Some(SetTime::Now),
                    Some(SetTime::At(Time {
                        sec: 1_000_000_007,
                        nsec: 123,
                    })),
                ];
                Op::Utimes {
                    path,
                    atime: self.rng.pick(&times),
                    mtime: self.rng.pick(&times[1..]),
                }
            }
            Verb::SetXattr => {
                let hows = [
                    XattrHow::default(),
                    XattrHow {
                        create: true,
                        ..XattrHow::default()
                    },
                ];
                let how = if self.rng.chance(20) {
                    XattrHow {
                        replace: true,
                        ..XattrHow::default()
                    }
                } else {
                    self.rng.pick(&hows)
                };
                let len = self.rng.below(self.profile.xattr_len_max + 1) as usize;
                Op::SetXattr {
                    path,
                    name: self.xattr_name(),
                    len,
                    seed: self.seed(),
                    how,
                }
            }
            Verb::GetXattr => {
                let (path, name) = self.xattr(path);
                Op::GetXattr { path, name }
            }
            Verb::ListXattr => Op::ListXattr { path },
            Verb::RemoveXattr => {
                let (path, name) = self.xattr(path);
                Op::RemoveXattr { path, name }
            }
            Verb::SetAcl => self.set_acl(path),
            Verb::SetFlags => Op::SetFlags {
                path,
                flags: self.rng.pick(&self.profile.flags),
            },
            _ => Op::Stat { path },
        }
    }

    fn mknod(&mut self) -> Op {
        let kind = self
            .rng
            .pick(&[FileKind::Fifo, FileKind::Socket, FileKind::Char, FileKind::Block]);
        let rdev = if matches!(kind, FileKind::Char | FileKind::Block) {
            self.rng.pick(&[259, 0x801])
        } else {
            0
        };
        let mode = Mode(kind.type_bits() | self.mode().0 & 0o777);
        Op::Mknod {
            path: self.path(),
            mode,
            rdev,
            who: self.who(),
        }
    }

    fn chown(&mut self, path: String) -> Op {
        let ids = [0, 50, 1000];
        let (uid, gid) = (self.rng.pick(&ids), self.rng.pick(&ids));
        match self.rng.below(3) {
            0 => Op::Chown {
                path,
                uid: Some(uid),
                gid: None,
            },
            1 => Op::Chown {
                path,
                uid: None,
                gid: Some(gid),
            },
            _ => Op::Chown {
                path,
                uid: Some(uid),
                gid: Some(gid),
            },
        }
    }

    fn set_acl(&mut self, path: String) -> Op {
        let digits: [u64; 5] = std::array::from_fn(|_| self.rng.below(8));
        let [u, n, g, m, o] = digits;
        let acl = match self.rng.below(6) {
            0 => format!("u::{u},g::{g},o::{o}"),
            1 => format!("u::{u},u:1000:{n},g::{g},o::{o}"),
            2 => format!("u::{u},g::{g},m::{m},o::{o}"),
            3 => format!("u::{u},g::{g},g:50:{n},m::{m},o::{o}"),
            4 => String::new(),
            _ => format!("u::{u},u:1000:{n},g::{g},m::{m},o::{o}"),
        };
        let default = self.rng.chance(50);
        let path = if default && self.rng.chance(80) {
            self.dir()
        } else {
            path
        };
        Op::SetAcl { path, default, acl }
    }

    fn dir(&mut self) -> String {
        self.rng.pick(&self.profile.dirs).to_owned()
    }

    fn path(&mut self) -> String {
        let name = self.rng.pick(&self.profile.names);
        match self.rng.pick(&self.profile.dirs) {
            "/" => name.to_owned(),
            dir => format!("{dir}/{name}"),
        }
    }

    /// The path of a directory (never the root) so many times of a hundred, else any.
    fn dir_or_path(&mut self, dir_percent: u64) -> String {
        let dir = self.dir();
        if dir != "/" && self.rng.chance(dir_percent) {
            dir
        } else {
            self.path()
        }
    }

    /// A path that probably exists; a directory so many times of a hundred.
    fn name(&mut self, dir_percent: u64) -> String {
        let recent = self.rng.below(self.recent.len() as u64) as usize;
        match self.recent.get(recent) {
            Some(path) if self.rng.chance(65) => path.clone(),
            _ => self.dir_or_path(dir_percent),
        }
    }

    /// What probably exists: a path, or what a slot holds.
    fn inode(&mut self) -> String {
        if self.rng.chance(7) {
            format!("@{}", self.slot())
        } else {
            self.name(20)
        }
    }

    fn slot(&mut self) -> usize {
        self.rng.below(SLOTS as u64) as usize
    }

    fn seed(&mut self) -> u64 {
        self.rng.below(1000)
    }

    fn who(&mut self) -> Who {
        self.rng.pick(&self.profile.who)
    }

    fn mode(&mut self) -> Mode {
        Mode(self.rng.pick(&[
            0o644, 0o755, 0o777, 0o666, 0o600, 0o2775, 0o6755, 0o4711, 0o2745, 0o1777, 0,
        ]))
    }

    /// Near one of the profile's offsets, or exactly there.
    fn offset(&mut self) -> u64 {
        let base = self.rng.pick(&self.profile.offsets);
        if self.rng.chance(50) {
            base
        } else {
            base + self.rng.below(200)
        }
    }

    fn len(&mut self) -> u64 {
        let max = self.profile.len_max;
        match self.rng.below(4) {
            0 => self.rng.pick(&[1, 4096, 8192, 60]).min(max),
            1 => 1 + self.rng.below(200.min(max)),
            _ => 1 + self.rng.below(max),
        }
    }

    fn falloc_mode(&mut self) -> FallocMode {
        let keep_size = self.rng.chance(50);
        let zero = FallocMode::ZeroRange { keep_size };
        self.rng
            .pick(&[FallocMode::Allocate, FallocMode::KeepSize, FallocMode::PunchHole, zero])
    }

    fn rename_flags(&mut self) -> RenameFlags {
        let plain = RenameFlags::default();
        match self.rng.below(12) {
            0 => RenameFlags {
                no_replace: true,
                ..plain
            },
            1 | 2 => RenameFlags {
                exchange: true,
                ..plain
            },
            3 => RenameFlags {
                whiteout: Some(Owner::ROOT),
                ..plain
            },
            4 => RenameFlags {
                no_replace: true,
                whiteout: Some(Owner::ROOT),
                ..plain
            },
            5 if self.rng.chance(20) => RenameFlags {
                exchange: true,
                whiteout: Some(Owner::ROOT),
                ..plain
            },
            _ => plain,
        }
    }

    fn xattr_name(&mut self) -> String {
        self.rng
            .pick(&[
                "user.a",
                "user.b",
                "trusted.t",
                "security.capability",
                "other.o",
                "user.",
            ])
            .to_owned()
    }
}
