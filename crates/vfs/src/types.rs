//! Plain values that cross the seam.

/// An inode number. The root is [`Ino::ROOT`]; 0 is never a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory (FUSE fixes this number).
    pub const ROOT: Ino = Ino(1);
}

/// Longest name of a directory entry, bytes.
pub const NAME_MAX: usize = 255;
/// Longest target of a symbolic link, bytes.
pub const SYMLINK_MAX: usize = 4095;
/// Most names one inode can have.
pub const LINK_MAX: u32 = 65_000;

/// The type bits of a mode.
pub const S_IFMT: u32 = 0o170000;
/// Mode bits: set-user-id.
pub const S_ISUID: u32 = 0o4000;
/// Mode bits: set-group-id.
pub const S_ISGID: u32 = 0o2000;
/// Mode bits: sticky.
pub const S_ISVTX: u32 = 0o1000;

/// What an inode is. The number is the type field of a mode shifted right by 12, as in `d_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[repr(u8)]
pub enum FileKind {
    /// FIFO.
    Fifo = 1,
    /// Character device.
    Char = 2,
    /// Directory.
    Dir = 4,
    /// Block device.
    Block = 6,
    /// Regular file.
    File = 8,
    /// Symbolic link.
    Symlink = 10,
    /// Socket.
    Socket = 12,
}

impl FileKind {
    /// The kind in the type bits of `mode`, if they are valid.
    pub fn of_mode(mode: u32) -> Option<FileKind> {
        Some(match (mode & S_IFMT) >> 12 {
            1 => FileKind::Fifo,
            2 => FileKind::Char,
            4 => FileKind::Dir,
            6 => FileKind::Block,
            8 => FileKind::File,
            10 => FileKind::Symlink,
            12 => FileKind::Socket,
            _ => return None,
        })
    }

    /// The type bits for a mode.
    pub const fn type_bits(self) -> u32 {
        (self as u32) << 12
    }
}

/// A point in time: seconds since 1970 (may be negative) and nanoseconds 0..1e9.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Time {
    /// Seconds since 1970-01-01.
    pub sec: i64,
    /// Nanoseconds, 0..1_000_000_000.
    pub nsec: u32,
}

/// Attributes of an inode, as stat(2) and statx(2) show them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Distinguishes lives of one inode number (NFS export).
    pub generation: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names (directories: 2 + subdirectories).
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of device nodes, as Linux encodes it in 32 bits.
    pub rdev: u32,
    /// Bytes.
    pub size: u64,
    /// 512-byte units allocated.
    pub blocks: u64,
    /// Last access.
    pub atime: Time,
    /// Last change of contents.
    pub mtime: Time,
    /// Last change of the inode.
    pub ctime: Time,
    /// Birth.
    pub btime: Time,
    /// chattr(1) flags.
    pub flags: InodeFlags,
}

impl Attr {
    /// What the inode is.
    pub fn kind(&self) -> FileKind {
        FileKind::of_mode(self.mode).unwrap_or(FileKind::File)
    }
}

/// An inode as the answer to a lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its attributes, number and generation included.
    pub attr: Attr,
}

/// Which attributes to change; `None` leaves one as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetAttr {
    /// Permission bits (type bits are ignored).
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Truncate or extend to this size.
    pub size: Option<u64>,
    /// Access time.
    pub atime: Option<SetTime>,
    /// Modification time.
    pub mtime: Option<SetTime>,
    /// Change time (only the kernel's writeback cache sets it); otherwise it becomes now.
    pub ctime: Option<Time>,
    /// Also clear set-user-id and set-group-id as a write by an ordinary user does.
    pub kill_suidgid: bool,
}

/// A time to set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SetTime {
    /// The current time.
    Now,
    /// This time.
    At(Time),
}

/// What a new inode shall be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NewInode {
    /// Type and permission bits as the caller asked, before umask and default ACL.
    pub mode: u32,
    /// The caller's umask, applied unless the parent has a default ACL.
    pub umask: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the parent is set-group-id.
    pub gid: u32,
    /// Device number, for device nodes.
    pub rdev: u32,
}

impl NewInode {
    /// One that root makes, without umask; no device node.
    pub const fn by_root(mode: u32) -> NewInode {
        NewInode::of(Owner::ROOT, mode)
    }

    /// One of `owner`, without umask; a device node is 0:0.
    pub const fn of(owner: Owner, mode: u32) -> NewInode {
        NewInode {
            mode,
            umask: 0,
            uid: owner.uid,
            gid: owner.gid,
            rdev: 0,
        }
    }
}

/// Flags of rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RenameFlags {
    /// Fail with `EEXIST` if the new name exists.
    pub no_replace: bool,
    /// Exchange both names.
    pub exchange: bool,
    /// Leave a whiteout (character device 0:0) of this owner at the old name.
    pub whiteout: Option<Owner>,
}

/// Whose something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The user.
    pub uid: u32,
    /// The group, unless the directory is set-group-id.
    pub gid: u32,
}

impl Owner {
    /// root.
    pub const ROOT: Owner = Owner { uid: 0, gid: 0 };
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenHow {
    /// For writing.
    pub write: bool,
    /// With `O_APPEND`.
    pub append: bool,
    /// With `O_TRUNC`.
    pub truncate: bool,
    /// Clear set-id bits if truncating.
    pub kill_suidgid: bool,
}

/// How a write is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WriteHow {
    /// At the end of the file, whatever the offset.
    pub append: bool,
    /// Clear set-id bits (the writer is an ordinary user).
    pub kill_suidgid: bool,
    /// It comes from the kernel's page cache: who wrote it was answered before, and whether he might is settled.
    pub writeback: bool,
    /// Leave mtime and ctime as they are: the kernel keeps them and will set them.
    pub keep_times: bool,
    /// What stands in an append-only file stays: `EPERM` for a write that begins before its end.
    pub keep_old: bool,
}

/// What fallocate(2) shall do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FallocMode {
    /// Allocate and extend the size.
    Allocate,
    /// Allocate without changing the size.
    KeepSize,
    /// Punch a hole (never changes the size).
    PunchHole,
    /// Make a range read as zeros; extends the size unless `keep_size`.
    ZeroRange {
        /// Leave the size as it is.
        keep_size: bool,
    },
}

/// What lseek(2) looks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SeekWhence {
    /// The next byte that is data.
    Data,
    /// The next byte that is a hole (the end of the file counts as one).
    Hole,
}

/// One entry of a directory listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirEntry<'a> {
    /// Inode number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Its name.
    pub name: &'a [u8],
    /// Pass this to [`crate::Vfs::readdir`] to go on behind this entry; stable while the entry exists.
    pub cookie: u64,
}

/// Figures for statfs(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StatFs {
    /// Block size, bytes.
    pub block_size: u32,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks.
    pub blocks_free: u64,
    /// Free blocks that data may use.
    pub blocks_available: u64,
    /// Inodes that exist or could still be created.
    pub files: u64,
    /// Inodes that could still be created.
    pub files_free: u64,
}

/// How an extended attribute is set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct XattrHow {
    /// Fail with `EEXIST` if it exists.
    pub create: bool,
    /// Fail with `ENODATA` if it does not exist.
    pub replace: bool,
    /// For ACLs: clear set-group-id, because the caller is not in the file's group.
    pub kill_sgid: bool,
}

/// chattr(1) flags, with the numbers of `FS_IOC_GETFLAGS`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, PartialOrd, Ord)]
pub struct InodeFlags(pub u32);

impl InodeFlags {
    /// Nothing may change it.
    pub const IMMUTABLE: InodeFlags = InodeFlags(0x10);
    /// Only appending is allowed.
    pub const APPEND: InodeFlags = InodeFlags(0x20);
    /// dump(8) leaves it out.
    pub const NODUMP: InodeFlags = InodeFlags(0x40);
    /// Access times are not kept.
    pub const NOATIME: InodeFlags = InodeFlags(0x80);
    /// All flags that may be set.
    pub const SETTABLE: InodeFlags = InodeFlags(0xf0);
    /// Those that a file or directory made in a directory has from it.
    pub const INHERITED: InodeFlags = InodeFlags(0xc0);

    /// What a new file or directory has of its directory's.
    pub const fn inherited(self) -> InodeFlags {
        InodeFlags(self.0 & InodeFlags::INHERITED.0)
    }

    /// Whether `new` may be set: of what is fixed and stays so nothing changes.
    pub fn may_become(self, new: InodeFlags) -> bool {
        !(self.has(InodeFlags::IMMUTABLE) && new.has(InodeFlags::IMMUTABLE)) || self == new
    }

    /// Whether all bits of `other` are set.
    pub fn has(self, other: InodeFlags) -> bool {
        self.0 & other.0 == other.0
    }
}
