//! Requests about the contents of a file, and symbolic links.

use super::convert::has_set_id;
use super::request::{Parts, Request};
use super::{Dispatcher, Handled};
use crate::config::CacheMode;
use crate::protocol::flags;
use crate::protocol::reply::{CopyFileRangeOut, LseekOut, OpenOut, WriteOut};
use crate::protocol::request::{CopyFileRangeIn, FallocateIn, FsyncIn, LseekIn, OpenIn, ReadIn, ReleaseIn, WriteIn};
use crate::reply::ReplyBuf;
use keepfs_vfs::{Attr, Errno, FallocMode, Ino, InodeFlags, OpenHow, SeekWhence, SetAttr, WriteHow};
use std::sync::atomic::Ordering;

/// Most bytes COPY_FILE_RANGE can report: its reply has 32 bits; a whole number of pages keeps sharing possible.
const COPY_MAX_32: u64 = 0xffff_f000;
/// Bit of a file handle: the file was opened with `O_DSYNC`, which `O_SYNC` has too.
const HANDLE_DSYNC: u64 = 1;
/// Bit of a file handle: with `O_SYNC`.
const HANDLE_SYNC: u64 = 2;
/// Bit of a handle of a directory: the kernel remembers what is listed by it (S-20.28).
pub(super) const HANDLE_LISTING: u64 = 4;
/// From this bit of a file handle on: how often changes had been lost when it was given (S-16.9).
const HANDLE_LOSSES: u32 = 8;

impl Dispatcher {
    pub(super) fn readlink(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        reply.push(&self.vfs.readlink(request.ino())?)
    }

    pub(super) fn open(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: OpenIn = request.args()?;
        let how = open_how(args.flags, args.open_flags);
        self.vfs.open(request.ino(), how)?;
        let keeps_bytes = how.write && how.append && is_append_only(&self.vfs.getattr(request.ino())?);
        let mut out = self.open_out(request.ino(), args.flags);
        if keeps_bytes {
            // No shared mapping that can be written, and each write with the flags that its descriptor has then (S-20.13).
            out.open_flags = flags::FOPEN_DIRECT_IO;
        }
        reply.push_struct(&out)
    }

    /// Who closes a file was told by the kernel what is owed.
    pub(super) fn release(&self, request: &Request<'_>) -> Handled {
        let args: ReleaseIn = request.args()?;
        self.owed.take(request.ino());
        if self.takes_stores(args.flags) {
            self.stores.closed(request.ino());
        }
        Ok(())
    }

    /// Whether the kernel may take data by a handle opened with these flags that it sends later: by a shared mapping, which only
    /// a file open for both reading and writing can have, and with the writeback cache by write(2). RELEASE has them, too.
    fn takes_stores(&self, open: u32) -> bool {
        match open as i32 & libc::O_ACCMODE {
            libc::O_RDONLY => false,
            libc::O_WRONLY => self.granted.has(flags::init::WRITEBACK_CACHE),
            _ => true,
        }
    }

    /// The reply to every successful open of a file with these flags: the handle that tells what its replies promise, and how
    /// the kernel shall cache.
    pub(crate) fn open_out(&self, file: Ino, open: u32) -> OpenOut {
        if self.takes_stores(open) {
            self.stores.opened(file);
        }
        let open_flags = match self.cache {
            CacheMode::Writeback | CacheMode::Writethrough if self.keeps_what_is_cached() => flags::FOPEN_KEEP_CACHE,
            CacheMode::Writeback | CacheMode::Writethrough => 0,
            CacheMode::Direct => flags::FOPEN_DIRECT_IO | flags::FOPEN_PARALLEL_DIRECT_WRITES,
        };
        OpenOut {
            fh: self.handle_of(open),
            open_flags,
            backing_id: 0,
        }
    }

    /// Whether the kernel may go by what it has cached of what is opened now.
    pub(super) fn keeps_what_is_cached(&self) -> bool {
        // A read that the kernel answers by itself moves no access time.
        !self.vfs.stamps_each_read() && self.sweeps.load(Ordering::Acquire) == 0
    }

    /// The handle of a file or directory that is opened with these flags of open(2). It names nothing, so that a server knows
    /// those which another one gave (S-20.2).
    pub(super) fn handle_of(&self, open: u32) -> u64 {
        let synced = match Synced::by_open(open) {
            None => 0,
            Some(Synced::Data) => HANDLE_DSYNC,
            Some(Synced::All) => HANDLE_DSYNC | HANDLE_SYNC,
        };
        synced | u64::from(self.vfs.losses()) << HANDLE_LOSSES
    }

    /// Errors: `EIO` if changes were lost since the handle was given: what its owner wrote may be among them (S-16.9).
    pub(super) fn has_lost_nothing(&self, handle: u64) -> Handled {
        match handle >> HANDLE_LOSSES == u64::from(self.vfs.losses()) {
            true => Ok(()),
            false => Err(Errno::EIO),
        }
    }

    /// Errors: `EUCLEAN` if answered changes are lost and nobody has taken note of it: who asks may have made them (S-16.14).
    pub(super) fn unless_lost(&self) -> Handled {
        match self.vfs.must_note_loss() {
            false => Ok(()),
            true => Err(Errno::EUCLEAN),
        }
    }

    pub(super) fn read(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: ReadIn = request.args()?;
        reply.fill(args.size as usize, |buf| self.vfs.read(request.ino(), args.offset, buf))
    }

    pub(super) fn write(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<WriteIn>()?;
        let data = rest.get(..args.size as usize).ok_or(Errno::EINVAL)?;
        if args
            .offset
            .checked_add(data.len() as u64)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Errno::EFBIG);
        }
        let how = self.write_how(&args, request);
        if !how.writeback {
            self.has_lost_nothing(args.fh)?;
        }
        let is_answered = how.keep_times;
        let wrote = self.vfs.write(request.ino(), args.offset, data, how);
        if is_answered && wrote == Err(Errno::ENOSPC) {
            self.owed.note(request.ino());
        }
        let wrote = wrote?;
        self.made_durable(request.ino(), self.syncs_write(&args))?;
        reply.push_struct(&WriteOut {
            size: wrote.min(data.len()) as u32,
            padding: 0,
        })
    }

    /// What a write must have made durable before its reply, because the kernel sends no FSYNC behind it (S-20.1): where it
    /// was told to cache nothing it never does, and not behind asynchronous writes with `O_DIRECT`. Where it does, it sends
    /// one for the whole write, and this would be one for each of its pieces.
    pub(crate) fn syncs_write(&self, args: &WriteIn) -> Option<Synced> {
        let leaves = self.cache == CacheMode::Direct || args.flags & libc::O_DIRECT as u32 != 0;
        let is_callers = args.write_flags & flags::WRITE_CACHE == 0;
        Synced::by_open(args.flags).filter(|_| leaves && is_callers)
    }

    /// How a write is done.
    ///
    /// `O_APPEND` counts unless the flags are guessed (from the page cache) or pieces of one write may overtake each
    /// other (`O_DIRECT`): the offset, which the kernel took from the size under its inode lock, is right then. Nor if the
    /// write was sent to a server that died: if that had appended already, the end is another by now.
    ///
    /// What comes from the page cache of a kernel that was not granted the writeback cache was stored through a mapping, by
    /// somebody who is not named: set-id bits go (S-20.6), and the times are those of now (S-20.7).
    ///
    /// The kernel does not know which files are append-only, so what stands in one is kept here (S-20.13), but for what was
    /// answered already: what comes from the page cache, or had been sent to a server that died.
    fn write_how(&self, args: &WriteIn, request: &Request<'_>) -> WriteHow {
        let open = args.flags as i32;
        let writeback = args.write_flags & flags::WRITE_CACHE != 0;
        let is_kernels = self.granted.has(flags::init::WRITEBACK_CACHE);
        WriteHow {
            append: open & libc::O_APPEND != 0 && open & libc::O_DIRECT == 0 && !writeback && !request.is_resent(),
            kill_suidgid: args.write_flags & flags::WRITE_KILL_SUIDGID != 0 || writeback && !is_kernels,
            writeback,
            keep_times: writeback && is_kernels,
            keep_old: !request.is_resent() && (!writeback || self.cache == CacheMode::Direct),
        }
    }

    /// Before the contents of a file change by a call for which the kernel does not say whether set-id bits go: they go
    /// unless root is the caller (S-20.6).
    fn drop_set_id(&self, request: &Request<'_>, file: &Attr) -> Handled {
        if request.header.uid == 0 || !has_set_id(file) {
            return Ok(());
        }
        let change = SetAttr {
            kill_suidgid: true,
            ..SetAttr::default()
        };
        self.vfs.setattr(file.ino, &change).map(drop)
    }

    /// What the file was opened to have durable before the reply is durable.
    fn made_durable(&self, ino: Ino, wanted: Option<Synced>) -> Handled {
        wanted.map_or(Ok(()), |wanted| self.vfs.fsync(ino, wanted == Synced::Data))
    }

    pub(super) fn fsync(&self, request: &Request<'_>) -> Handled {
        let (ino, data_only) = self.fsync_args(request)?;
        self.vfs.fsync(ino, data_only)
    }

    /// What an FSYNC or FSYNCDIR request asks [`keepfs_vfs::Vfs::fsync`] for. Errors: `EINVAL` if it is malformed; `EIO` as of
    /// [`Dispatcher::has_lost_nothing`].
    pub(super) fn fsync_of(&self, request: Parts<'_>) -> Result<(Ino, bool), Errno> {
        self.fsync_args(&Request::parse(request, None).map_err(|_| Errno::EINVAL)?)
    }

    fn fsync_args(&self, request: &Request<'_>) -> Result<(Ino, bool), Errno> {
        let args: FsyncIn = request.args()?;
        self.has_lost_nothing(args.fh)?;
        Ok((request.ino(), args.fsync_flags & flags::FSYNC_FDATASYNC != 0))
    }

    pub(super) fn fallocate(&self, request: &Request<'_>) -> Handled {
        let args: FallocateIn = request.args()?;
        self.has_lost_nothing(args.fh)?;
        let mode = falloc_mode(args.mode)?;
        if args
            .offset
            .checked_add(args.length)
            .is_none_or(|end| end > i64::MAX as u64)
        {
            return Err(Errno::EFBIG);
        }
        self.drop_set_id(request, &self.vfs.getattr(request.ino())?)?;
        self.vfs.fallocate(request.ino(), mode, args.offset, args.length)?;
        self.made_durable(request.ino(), Synced::by_handle(args.fh))
    }

    pub(super) fn lseek(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: LseekIn = request.args()?;
        let whence = match args.whence as i32 {
            libc::SEEK_DATA => SeekWhence::Data,
            libc::SEEK_HOLE => SeekWhence::Hole,
            _ => return Err(Errno::EINVAL),
        };
        let offset = match self.stores.may_come(request.ino()) {
            true => self.seek_all_data(request.ino(), args.offset, whence)?,
            false => self.vfs.seek(request.ino(), args.offset, whence)?,
        };
        reply.push_struct(&LseekOut { offset })
    }

    /// Where the kernel may have data in what is a hole here, all that is not behind the end is data (S-20.29). Errors: `ENXIO`
    /// behind the end; `ENOSYS` where the kernel may know another end: then it answers so itself, and asks no more.
    fn seek_all_data(&self, ino: Ino, offset: u64, whence: SeekWhence) -> Result<u64, Errno> {
        if self.granted.has(flags::init::WRITEBACK_CACHE) {
            return Err(Errno::ENOSYS);
        }
        let size = self.vfs.getattr(ino)?.size;
        match whence {
            _ if offset >= size => Err(Errno::ENXIO),
            SeekWhence::Data => Ok(offset),
            SeekWhence::Hole => Ok(size),
        }
    }

    pub(super) fn copy_file_range(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let copied = self.copy(request, COPY_MAX_32)?;
        reply.push_struct(&WriteOut {
            size: copied as u32,
            padding: 0,
        })
    }

    pub(super) fn copy_file_range_64(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let bytes_copied = self.copy(request, i64::MAX as u64)?;
        reply.push_struct(&CopyFileRangeOut { bytes_copied })
    }

    fn copy(&self, request: &Request<'_>, most: u64) -> Result<u64, Errno> {
        let args: CopyFileRangeIn = request.args()?;
        if args.flags != 0 {
            return Err(Errno::EINVAL);
        }
        self.has_lost_nothing(args.fh_out)?;
        let len = args.len.min(most);
        let to = Ino(args.nodeid_out);
        let target = self.vfs.getattr(to)?;
        if is_append_only(&target) && args.off_out < target.size && !request.is_resent() {
            return Err(Errno::EPERM);
        }
        self.drop_set_id(request, &target)?;
        let copied = self
            .vfs
            .copy_file_range(request.ino(), args.off_in, to, args.off_out, len)?;
        self.made_durable(to, Synced::by_handle(args.fh_out))?;
        Ok(copied.min(len))
    }
}

fn is_append_only(attr: &Attr) -> bool {
    attr.flags.has(InodeFlags::APPEND)
}

/// What a file opened with `O_DSYNC` or `O_SYNC` has durable before the reply to a change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Synced {
    /// What fdatasync(2) makes durable.
    Data,
    /// What fsync(2) does.
    All,
}

impl Synced {
    /// From the flags of open(2); those of a WRITE request have what its caller asked for besides (`RWF_DSYNC`).
    fn by_open(open: u32) -> Option<Synced> {
        let has = |flag: i32| open & flag as u32 == flag as u32;
        match (has(libc::O_DSYNC), has(libc::O_SYNC)) {
            (false, _) => None,
            (true, false) => Some(Synced::Data),
            (true, true) => Some(Synced::All),
        }
    }

    /// From a file handle, for requests that have no flags (S-20.2).
    fn by_handle(handle: u64) -> Option<Synced> {
        match (handle & HANDLE_DSYNC != 0, handle & HANDLE_SYNC != 0) {
            (false, _) => None,
            (true, false) => Some(Synced::Data),
            (true, true) => Some(Synced::All),
        }
    }
}

/// How a file is opened, from the flags of open(2) and those of the request.
pub(super) fn open_how(open: u32, request: u32) -> OpenHow {
    let open = open as i32;
    OpenHow {
        write: open & libc::O_ACCMODE != libc::O_RDONLY,
        append: open & libc::O_APPEND != 0,
        truncate: open & libc::O_TRUNC != 0,
        kill_suidgid: request & flags::OPEN_KILL_SUIDGID != 0,
    }
}

/// The modes of fallocate(2). Errors: `EOPNOTSUPP`.
fn falloc_mode(mode: u32) -> Result<FallocMode, Errno> {
    const KEEP: i32 = libc::FALLOC_FL_KEEP_SIZE;
    const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | KEEP;
    const ZERO: i32 = libc::FALLOC_FL_ZERO_RANGE;
    const ZERO_KEEP: i32 = ZERO | KEEP;
    match mode as i32 {
        0 => Ok(FallocMode::Allocate),
        KEEP => Ok(FallocMode::KeepSize),
        PUNCH => Ok(FallocMode::PunchHole),
        ZERO => Ok(FallocMode::ZeroRange { keep_size: false }),
        ZERO_KEEP => Ok(FallocMode::ZeroRange { keep_size: true }),
        _ => Err(Errno::EOPNOTSUPP),
    }
}
