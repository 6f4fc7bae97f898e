//! Requests that list a directory.

use super::file::HANDLE_LISTING;
use super::request::Request;
use super::{Dispatcher, Handled};
use crate::config::CacheMode;
use crate::protocol::reply::{Dirent, EntryOut, OpenOut};
use crate::protocol::request::{OpenIn, ReadIn, ReleaseIn};
use crate::protocol::{align8, flags};
use crate::reply::ReplyBuf;
use keepfs_vfs::{DirEntry, Errno, FileKind};

/// An entry that has been listed but not looked up; its name lies in a buffer of its own.
struct Listed {
    dirent: Dirent,
    name_end: usize,
}

impl Dispatcher {
    pub(super) fn opendir(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: OpenIn = request.args()?;
        if self.vfs.getattr(request.ino())?.kind() != FileKind::Dir {
            return Err(Errno::ENOTDIR);
        }
        let keeps = self.cache != CacheMode::Direct && self.keeps_what_is_cached();
        // A listing that was read to its end may be remembered (S-20.28). Who opens without O_DIRECTORY, as the kernel's NFS
        // server does, may open anew for each piece, and so begin where the kernel compares nothing.
        let is_the_one = keeps && args.flags & libc::O_DIRECTORY as u32 != 0 && self.listings.take(request.ino());
        let (handle, listing) = match is_the_one {
            true => (HANDLE_LISTING, flags::FOPEN_CACHE_DIR),
            false => (0, 0),
        };
        // What is remembered stays where it is not to be used: another handle may be filling it, and what has a hole is never
        // filled again.
        let kept = if keeps { flags::FOPEN_KEEP_CACHE } else { 0 };
        let given = reply.push_struct(&OpenOut {
            fh: self.handle_of(0) | handle,
            open_flags: kept | listing,
            backing_id: 0,
        });
        if is_the_one && given.is_err() {
            self.listings.give_back(request.ino());
        }
        given
    }

    /// Comes when nobody can list by the handle any more.
    pub(super) fn releasedir(&self, request: &Request<'_>) -> Handled {
        let args: ReleaseIn = request.args()?;
        if args.fh & HANDLE_LISTING != 0 {
            self.listings.give_back(request.ino());
        }
        Ok(())
    }

    pub(super) fn readdir(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: ReadIn = request.args()?;
        let limit = (args.size as usize).min(reply.room());
        let mut accepted = 0;
        let mut full = false;
        self.vfs.readdir_part(request.ino(), args.offset, &mut |entry| {
            full = push_dirent(reply, limit, &dirent(&entry), entry.name).is_err();
            accepted += usize::from(!full);
            !full
        })?;
        fits_at_least_one(accepted, full)
    }

    /// Lists first and looks up after: the file system may hold its directory locked while it lists. Each entry
    /// that is in the reply has its lookup count raised, no other.
    pub(super) fn readdirplus(&self, request: &Request<'_>, reply: &mut ReplyBuf) -> Handled {
        let args: ReadIn = request.args()?;
        let mut room = (args.size as usize).min(reply.room());
        let mut listed = Vec::new();
        let mut names = Vec::new();
        let mut full = false;
        self.vfs.readdir_part(request.ino(), args.offset, &mut |entry| {
            let size = align8(size_of::<EntryOut>() + size_of::<Dirent>() + entry.name.len());
            full = size > room;
            if !full {
                room -= size;
                names.extend_from_slice(entry.name);
                listed.push(Listed {
                    dirent: dirent(&entry),
                    name_end: names.len(),
                });
            }
            !full
        })?;
        fits_at_least_one(listed.len(), full)?;
        let mut start = 0;
        for one in &listed {
            self.push_plus(reply, &one.dirent, &names[start..one.name_end])?;
            start = one.name_end;
        }
        Ok(())
    }

    /// One entry with its attributes; without them (node 0) for `.` and `..` and for what has just gone.
    fn push_plus(&self, reply: &mut ReplyBuf, dirent: &Dirent, name: &[u8]) -> Handled {
        let entry = match name {
            b"." | b".." => EntryOut::default(),
            _ => match self.vfs.lookup_ino(keepfs_vfs::Ino(dirent.ino)) {
                Ok(entry) => self.entry_out(&entry),
                Err(_) => EntryOut::default(),
            },
        };
        reply.push_struct(&entry)?;
        reply.push_struct(dirent)?;
        reply.push(name)?;
        reply.pad8()
    }
}

/// A caller whose buffer cannot take one entry must not see an empty directory instead.
fn fits_at_least_one(accepted: usize, full: bool) -> Handled {
    if accepted == 0 && full {
        Err(Errno::EINVAL)
    } else {
        Ok(())
    }
}

fn dirent(entry: &DirEntry<'_>) -> Dirent {
    Dirent {
        ino: entry.ino.0,
        off: entry.cookie,
        namelen: entry.name.len() as u32,
        r#type: entry.kind as u32,
    }
}

/// Appends an entry if it fits into `limit` bytes of payload.
fn push_dirent(reply: &mut ReplyBuf, limit: usize, dirent: &Dirent, name: &[u8]) -> Handled {
    if reply.payload().len() + align8(size_of::<Dirent>() + name.len()) > limit {
        return Err(Errno::ERANGE);
    }
    reply.push_struct(dirent)?;
    reply.push(name)?;
    reply.pad8()
}
