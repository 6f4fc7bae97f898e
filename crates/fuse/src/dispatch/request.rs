//! Taking a request apart; every length is checked here.

use super::Outcome;
use crate::protocol::UNIQUE_RESEND;
use crate::protocol::request::InHeader;
use crate::reply::ReplyBuf;
use keepfs_vfs::{Errno, Ino, NAME_MAX};
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// Longest name or attribute name taken from a request before its own limit is checked.
const STRING_MAX: usize = 4096;

/// The bytes of a request. Over io_uring they lie apart: the head with the fixed part, and the rest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    /// The head and the fixed part; also the rest, if that does not lie apart.
    pub(crate) head: &'a [u8],
    /// The rest, where it lies apart.
    pub(crate) rest: &'a [u8],
}

impl Parts<'_> {
    /// All bytes.
    pub(crate) fn len(&self) -> usize {
        self.head.len() + self.rest.len()
    }
}

impl<'a> From<&'a [u8]> for Parts<'a> {
    fn from(head: &'a [u8]) -> Parts<'a> {
        Parts { head, rest: &[] }
    }
}

/// One request: its head, its body, and who does it.
pub(crate) struct Request<'a> {
    pub(crate) header: InHeader,
    /// The fixed part if it lies apart from the rest; else empty, and `body` begins with it.
    fixed: &'a [u8],
    body: &'a [u8],
    seat: Option<u32>,
}

/// Why bytes are no request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Malformed {
    /// Not even a head: there is nobody to answer.
    Headless,
    /// A head, but its lengths are wrong.
    Lengths {
        /// The request to answer.
        unique: u64,
    },
}

impl Malformed {
    /// Answers what can be answered.
    pub(crate) fn answer(self, reply: &mut ReplyBuf) -> Outcome {
        match self {
            Malformed::Headless => Outcome::NoReply,
            Malformed::Lengths { unique } => {
                reply.fail(unique, Errno::EINVAL);
                Outcome::Reply
            }
        }
    }
}

impl<'a> Request<'a> {
    /// Checks the head and separates the body from extensions, of which none is agreed. `seat`: of whom does it, if he has one.
    pub(crate) fn parse(parts: Parts<'a>, seat: Option<u32>) -> Result<Request<'a>, Malformed> {
        let (header, rest) = InHeader::read_from_prefix(parts.head).map_err(|_| Malformed::Headless)?;
        let wrong = Malformed::Lengths { unique: header.unique };
        if header.len as usize != parts.len() {
            return Err(wrong);
        }
        let (fixed, rest) = match parts.rest.is_empty() {
            true => (&[][..], rest),
            false => (rest, parts.rest),
        };
        let extensions = usize::from(header.total_extlen) * 8;
        let body = rest.len().checked_sub(extensions).ok_or(wrong)?;
        Ok(Request {
            header,
            fixed,
            body: &rest[..body],
            seat,
        })
    }

    /// The inode the request is about.
    pub(crate) fn ino(&self) -> Ino {
        Ino(self.header.nodeid)
    }

    /// Whether a server that ended had read it.
    pub(crate) fn is_resent(&self) -> bool {
        self.header.unique & UNIQUE_RESEND != 0
    }

    /// What is told with a change that must not happen twice; `None`: it ends with this server.
    pub(crate) fn once(&self) -> Option<keepfs_vfs::Request> {
        Some(keepfs_vfs::Request {
            unique: self.header.unique & !UNIQUE_RESEND,
            resent: self.is_resent(),
            seat: self.seat?,
        })
    }

    /// The fixed part `T`. Errors: `EINVAL` if the body is too short.
    pub(crate) fn args<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<T, Errno> {
        Ok(self.args_and_rest()?.0)
    }

    /// The fixed part `T` and what follows it.
    pub(crate) fn args_and_rest<T: FromBytes + KnownLayout + Immutable>(&self) -> Result<(T, &'a [u8]), Errno> {
        if self.fixed.is_empty() {
            return T::read_from_prefix(self.body).map_err(|_| Errno::EINVAL);
        }
        let (args, _) = T::read_from_prefix(self.fixed).map_err(|_| Errno::EINVAL)?;
        Ok((args, self.body))
    }

    /// All of the body, of a request without a fixed part.
    pub(crate) fn body(&self) -> &'a [u8] {
        self.body
    }
}

/// Splits a NUL-terminated string off `bytes`. Errors: `EINVAL` if there is no NUL.
pub(super) fn string(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let end = bytes.iter().position(|&b| b == 0).ok_or(Errno::EINVAL)?;
    Ok((&bytes[..end], &bytes[end + 1..]))
}

/// Splits a name of a directory entry off `bytes`. Errors: `EINVAL` if it is empty, unterminated or contains a
/// slash, `ENAMETOOLONG`.
pub(super) fn name(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let (name, rest) = string(bytes)?;
    if name.is_empty() || name.contains(&b'/') {
        return Err(Errno::EINVAL);
    }
    if name.len() > NAME_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok((name, rest))
}

/// Splits the name of an extended attribute off `bytes`. Errors: `EINVAL` if it is empty or unterminated, `ERANGE`.
pub(super) fn xattr_name(bytes: &[u8]) -> Result<(&[u8], &[u8]), Errno> {
    let (name, rest) = string(bytes)?;
    match name.len() {
        0 => Err(Errno::EINVAL),
        1..=255 => Ok((name, rest)),
        _ => Err(Errno::ERANGE),
    }
}

/// Splits the target of a symbolic link off `bytes`. Errors: `EINVAL`, `ENAMETOOLONG`.
pub(super) fn target(bytes: &[u8]) -> Result<&[u8], Errno> {
    let (target, _) = string(bytes)?;
    match target.len() {
        0 => Err(Errno::EINVAL),
        1..STRING_MAX => Ok(target),
        _ => Err(Errno::ENAMETOOLONG),
    }
}

#[cfg(test)]
mod tests;
