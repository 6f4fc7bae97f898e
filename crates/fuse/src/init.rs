//! INIT: what the kernel offers and what we take (X-8.1: it is agreed once, for all servers of a mount).

use crate::config::{CacheMode, MountConfig, TransportKind};
use crate::error::FuseError;
use crate::protocol::flags::init::*;
use crate::protocol::reply::InitOut;
use crate::protocol::request::InitIn;
use crate::protocol::{MAJOR, MINOR, MINOR_MIN};

/// Flags taken whenever the kernel offers them. Left out on purpose: both lock flags (the kernel then does all
/// locking itself), `AUTO_INVAL_DATA` (we are the only owner of the data and say when it changes), `ATOMIC_O_TRUNC`
/// (the truncation would come with the open, before the kernel finds that the file is being executed: `ETXTBSY`, and
/// the program dead; without it SETATTR follows that check), `NO_OPEN_SUPPORT` (opens check the immutable and
/// append-only flags), `ASYNC_DIO` (an asynchronous direct write leaves pages of before in the page cache, S-20.8),
/// `HANDLE_KILLPRIV` (its second version is taken), `NO_OPENDIR_SUPPORT` (what a handle of a directory tells would be gone,
/// S-16.9), `CREATE_SUPP_GROUP` (S-20.27), splicing, passthrough, submounts, security contexts.
const ALWAYS: u64 = ASYNC_READ
    | EXPORT_SUPPORT
    | BIG_WRITES
    | DONT_MASK
    | HAS_IOCTL_DIR
    | DO_READDIRPLUS
    | READDIRPLUS_AUTO
    | PARALLEL_DIROPS
    | POSIX_ACL
    | ABORT_ERROR
    | MAX_PAGES
    | CACHE_SYMLINKS
    | EXPLICIT_INVAL_DATA
    | HANDLE_KILLPRIV_V2
    | SETXATTR_EXT
    | INIT_EXT
    | HAS_EXPIRE_ONLY
    | HAS_RESEND;

/// Without these the promises about permissions do not hold, so a kernel that lacks one is refused.
const NEEDED: u64 = INIT_EXT | POSIX_ACL | DONT_MASK | BIG_WRITES | MAX_PAGES;

/// Bytes of a page as MAX_PAGES counts them.
const PAGE: u32 = 4096;

/// What was agreed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// Minor version that is spoken.
    pub minor: u32,
    /// Flags that both sides use.
    pub flags: u64,
    /// Most bytes in one read or write.
    pub max_write: u32,
}

impl Granted {
    /// Whether all bits of `flag` were granted.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag == flag
    }
}

/// Answers the kernel's INIT. Errors: [`FuseError::OldKernel`], [`FuseError::Handshake`].
pub fn negotiate(offer: &InitIn, config: &MountConfig) -> Result<(InitOut, Granted), FuseError> {
    if offer.major != MAJOR || offer.minor < MINOR_MIN {
        return Err(FuseError::OldKernel {
            major: offer.major,
            minor: offer.minor,
        });
    }
    let offered = u64::from(offer.flags) | u64::from(offer.flags2) << 32;
    if offered & NEEDED != NEEDED {
        return Err(FuseError::Handshake {
            what: "the kernel lacks a feature that permissions depend on",
        });
    }
    let flags = wanted(config) & offered;
    let most = match flags & OVER_IO_URING {
        0 => 16 << 20,
        _ => crate::uring::PAYLOAD as u32,
    };
    let max_write = config.max_write.clamp(PAGE, most).next_multiple_of(PAGE);
    let granted = Granted {
        minor: offer.minor.min(MINOR),
        flags,
        max_write,
    };
    Ok((reply(offer, config, &granted), granted))
}

fn wanted(config: &MountConfig) -> u64 {
    let mut flags = ALWAYS;
    match config.cache {
        CacheMode::Writeback => flags |= WRITEBACK_CACHE,
        CacheMode::Writethrough => {}
        CacheMode::Direct => flags |= DIRECT_IO_ALLOW_MMAP,
    }
    if config.transport == TransportKind::Uring {
        flags |= OVER_IO_URING;
    }
    if config.request_timeout.is_some() {
        flags |= REQUEST_TIMEOUT;
    }
    flags
}

fn reply(offer: &InitIn, config: &MountConfig, granted: &Granted) -> InitOut {
    let timeout = config
        .request_timeout
        .map_or(0, |t| t.as_secs().max(1).min(u64::from(u16::MAX)));
    InitOut {
        major: MAJOR,
        minor: granted.minor,
        max_readahead: offer.max_readahead,
        flags: granted.flags as u32,
        max_background: config.max_background,
        congestion_threshold: config.max_background / 4 * 3,
        max_write: granted.max_write,
        time_gran: 1,
        max_pages: (granted.max_write / PAGE) as u16,
        flags2: (granted.flags >> 32) as u32,
        request_timeout: timeout as u16,
        ..InitOut::default()
    }
}

#[cfg(test)]
mod tests;
