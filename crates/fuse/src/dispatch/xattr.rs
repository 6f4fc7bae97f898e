//! Requests about extended attributes (ACLs come as `system.posix_acl_*`).

use super::request::{Request, xattr_name};
use super::{Dispatcher, Handled};
use crate::protocol::flags;
use crate::protocol::reply::GetxattrOut;
use crate::protocol::request::{GetxattrIn, SetxattrIn, SetxattrInCompat};
use crate::reply::ReplyBuf;
use keepfs_vfs::{Errno, OnceOp, XattrHow};

/// What begins names that are root's alone.
const TRUSTED: &[u8] = b"trusted.";

impl Dispatcher {
    pub(super) fn getxattr(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let (args, rest) = request.args_and_rest::<GetxattrIn>()?;
        let (name, _) = xattr_name(rest)?;
        let value = self.vfs.getxattr(request.ino(), name)?;
        push_sized(reply, args.size, &value)
    }

    pub(super) fn listxattr(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: GetxattrIn = request.args()?;
        let mut list = Vec::new();
        // S-20.10
        let is_root = request.header.uid == 0;
        let names = self.vfs.listxattr(request.ino())?.into_iter();
        for name in names.filter(|name| is_root || !name.starts_with(TRUSTED)) {
            list.extend_from_slice(&name);
            list.push(0);
        }
        push_sized(reply, args.size, &list)
    }

    pub(super) fn setxattr(&self, request: &Request<'_>) -> Handled {
        let (args, rest) = self.setxattr_args(request)?;
        let (name, rest) = xattr_name(rest)?;
        let value = rest.get(..args.size as usize).ok_or(Errno::EINVAL)?;
        let how = XattrHow {
            create: args.flags as i32 & libc::XATTR_CREATE != 0,
            replace: args.flags as i32 & libc::XATTR_REPLACE != 0,
            kill_sgid: args.setxattr_flags & flags::SETXATTR_ACL_KILL_SGID != 0,
        };
        let ino = request.ino();
        let set = OnceOp::Setxattr { ino, name, value, how };
        self.vfs.once(request.once(), set).map(drop)
    }

    /// The fixed part, which is shorter unless `SETXATTR_EXT` was granted.
    fn setxattr_args<'a>(&self, request: &Request<'a>) -> Result<(SetxattrIn, &'a [u8]), Errno> {
        if self.granted.has(flags::init::SETXATTR_EXT) {
            return request.args_and_rest();
        }
        let (old, rest) = request.args_and_rest::<SetxattrInCompat>()?;
        Ok((
            SetxattrIn {
                size: old.size,
                flags: old.flags,
                ..SetxattrIn::default()
            },
            rest,
        ))
    }

    pub(super) fn removexattr(&self, request: &Request<'_>) -> Handled {
        let (name, _) = xattr_name(request.body())?;
        let ino = request.ino();
        self.vfs
            .once(request.once(), OnceOp::Removexattr { ino, name })
            .map(drop)
    }
}

/// The bytes, or only their number if `size` is 0. Errors: `ERANGE` if they do not fit into `size`.
fn push_sized(reply: &mut ReplyBuf, size: u32, bytes: &[u8]) -> Handled {
    match size as usize {
        0 => reply.push_struct(&GetxattrOut {
            size: bytes.len() as u32,
            padding: 0,
        }),
        size if size < bytes.len() => Err(Errno::ERANGE),
        _ => reply.push(bytes),
    }
}
