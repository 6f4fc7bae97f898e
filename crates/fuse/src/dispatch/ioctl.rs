//! ioctl(2): chattr flags, the inode's version, fstrim(8), and the shutdown that tests use as a power cut.

use super::convert::told_generation;
use super::request::Request;
use super::{Dispatcher, Handled};
use crate::protocol::reply::IoctlOut;
use crate::protocol::request::IoctlIn;
use crate::reply::ReplyBuf;
use keepfs_vfs::{Errno, InodeFlags};
use rustix::process::Pid;
use rustix::thread::CapabilitySet;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `FS_IOC_GETFLAGS`, for 64-bit and 32-bit callers. The argument is 32 bits wide in both.
const GETFLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
/// `FS_IOC_SETFLAGS`.
const SETFLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
/// `FS_IOC_GETVERSION`.
const GETVERSION: [u32; 2] = [0x8008_7601, 0x8004_7601];
/// `FS_IOC_FSGETXATTR`.
const FSGETXATTR: u32 = 0x801c_581f;
/// `FS_IOC_FSSETXATTR`.
const FSSETXATTR: u32 = 0x401c_5820;
/// `FITRIM`.
const FITRIM: u32 = 0xc018_5879;
/// `FS_IOC_SHUTDOWN`, alias `XFS_IOC_GOINGDOWN`. It is declared as reading, so the kernel does not hand us its
/// argument: it is always the hard form, a power cut.
const SHUTDOWN: u32 = 0x8004_587d;
/// The same number declared as writing: the argument arrives.
const SHUTDOWN_WITH_HOW: u32 = 0x4004_587d;

/// Arguments of [`SHUTDOWN_WITH_HOW`], as `XFS_FSOP_GOING_FLAGS_*`: with flush, with log flush, without.
const GOING_DEFAULT: u32 = 0;
const GOING_LOGFLUSH: u32 = 1;
const GOING_NOLOGFLUSH: u32 = 2;

/// `struct fsxattr` of the kernel.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct FsXattr {
    xflags: u32,
    extsize: u32,
    nextents: u32,
    projid: u32,
    cowextsize: u32,
    pad: [u8; 8],
}
const _: () = assert!(size_of::<FsXattr>() == 28);

/// `struct fstrim_range` of the kernel, bytes.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TrimRange {
    start: u64,
    len: u64,
    min_len: u64,
}

/// The flags that both interfaces know: chattr bit, `FS_XFLAG_*` bit.
const XFLAGS: [(InodeFlags, u32); 4] = [
    (InodeFlags::IMMUTABLE, 0x8),
    (InodeFlags::APPEND, 0x10),
    (InodeFlags::NOATIME, 0x40),
    (InodeFlags::NODUMP, 0x80),
];

impl Dispatcher {
    pub(super) fn ioctl(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<IoctlIn>()?;
        let input = rest.get(..args.in_size as usize).ok_or(Errno::EINVAL)?;
        let ino = request.ino();
        match args.cmd {
            cmd if GETFLAGS.contains(&cmd) => {
                let flags = self.vfs.getattr(ino)?.flags;
                answer(reply, &args, flags.0.as_bytes())
            }
            cmd if SETFLAGS.contains(&cmd) => {
                self.vfs.set_flags(ino, InodeFlags(number(input)?))?;
                answer(reply, &args, &[])
            }
            cmd if GETVERSION.contains(&cmd) => {
                let generation = told_generation(self.vfs.getattr(ino)?.generation);
                answer(reply, &args, generation.as_bytes())
            }
            FSGETXATTR => {
                let xflags = to_xflags(self.vfs.getattr(ino)?.flags);
                answer(
                    reply,
                    &args,
                    FsXattr {
                        xflags,
                        ..FsXattr::default()
                    }
                    .as_bytes(),
                )
            }
            FSSETXATTR => {
                let (asked, _) = FsXattr::read_from_prefix(input).map_err(|_| Errno::EINVAL)?;
                self.vfs.set_flags(ino, from_xflags(&asked)?)?;
                answer(reply, &args, &[])
            }
            SHUTDOWN | SHUTDOWN_WITH_HOW => {
                self.shutdown(request, args.cmd, input)?;
                answer(reply, &args, &[])
            }
            FITRIM => {
                let range = self.trim(request, input)?;
                answer(reply, &args, range.as_bytes())
            }
            _ => Err(Errno::ENOTTY),
        }
    }

    /// Answers how many bytes were given back, in `len`.
    fn trim(&self, request: &Request<'_>, input: &[u8]) -> Result<TrimRange, Errno> {
        may_administer(request)?;
        let (asked, _) = TrimRange::read_from_prefix(input).map_err(|_| Errno::EINVAL)?;
        let len = self.vfs.trim(asked.start, asked.len, asked.min_len)?;
        Ok(TrimRange { len, ..asked })
    }

    fn shutdown(&self, request: &Request<'_>, cmd: u32, input: &[u8]) -> Handled {
        may_administer(request)?;
        let how = if cmd == SHUTDOWN {
            GOING_NOLOGFLUSH
        } else {
            number(input)?
        };
        match how {
            GOING_DEFAULT | GOING_LOGFLUSH => self.vfs.shutdown(true),
            GOING_NOLOGFLUSH => self.vfs.shutdown(false),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// The kernel checks nothing for ioctls of file systems, so we do, as its own file systems do: the caller is root and has
/// `CAP_SYS_ADMIN`, which root of a container has not (S-20.9). Errors: `EPERM`, also for who cannot be seen from here.
fn may_administer(request: &Request<'_>) -> Handled {
    let caller = i32::try_from(request.header.pid).ok().and_then(Pid::from_raw);
    let sets = caller.and_then(|pid| rustix::thread::capabilities(Some(pid)).ok());
    let may = sets.is_some_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if request.header.uid == 0 && may {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// The reply: result 0 and `output`, exactly as long as the caller's buffer (zeros behind, as for a flag word in
/// a 64-bit `long`), or nothing if there is no output. Errors: `EINVAL` if the caller's buffer is too small.
fn answer(reply: &mut ReplyBuf, args: &IoctlIn, output: &[u8]) -> Handled {
    reply.push_struct(&IoctlOut::default())?;
    if output.is_empty() {
        return Ok(());
    }
    let size = args.out_size as usize;
    if size < output.len() || size > 64 {
        return Err(Errno::EINVAL);
    }
    let mut padded = [0; 64];
    padded[..output.len()].copy_from_slice(output);
    reply.push(&padded[..size])
}

fn number(input: &[u8]) -> Result<u32, Errno> {
    u32::read_from_prefix(input).map(|(n, _)| n).map_err(|_| Errno::EINVAL)
}

fn to_xflags(flags: InodeFlags) -> u32 {
    XFLAGS
        .iter()
        .filter(|(flag, _)| flags.has(*flag))
        .map(|(_, xflag)| xflag)
        .sum()
}

/// Errors: `EOPNOTSUPP` for what we do not keep (project ids, extent size hints, other flags).
fn from_xflags(asked: &FsXattr) -> Result<InodeFlags, Errno> {
    let known: u32 = XFLAGS.iter().map(|(_, xflag)| xflag).sum();
    if asked.xflags & !known != 0 || asked.projid != 0 || asked.extsize != 0 || asked.cowextsize != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(InodeFlags(
        XFLAGS
            .iter()
            .filter(|(_, xflag)| asked.xflags & xflag != 0)
            .map(|(flag, _)| flag.0)
            .sum(),
    ))
}
