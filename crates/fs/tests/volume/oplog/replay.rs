//! A replayer of the operation log, written from SPEC section 12 and nothing else: it shares only formats with the
//! engine. One inode at a time, one operation at a time.

use keepfs_format::FromZeros;
use keepfs_format::IntoBytes;
use keepfs_format::blockmap::PageEntry;
use keepfs_format::inode::{DEAD, Inode, LIVE};
use keepfs_format::oplog::{Action, Attrs, Moment, attr};

/// The inode after `action` (S-12.5). Errors: what the operation demands and the inode is not.
pub fn replay(inode: &mut Inode, action: &Action<'_>) -> Result<(), String> {
    let live = inode.state.get() == LIVE;
    let creates = matches!(action, Action::Create { .. });
    if live == creates {
        return Err(format!("{action:?} on an inode of state {:#x}", inode.state.get()));
    }
    match *action {
        Action::Create { .. }
        | Action::Link { .. }
        | Action::Unlink { .. }
        | Action::Move { .. }
        | Action::Orphan { .. }
        | Action::Free {} => life(inode, action),
        Action::Enter { .. } | Action::Leave { .. } | Action::Point { .. } | Action::Exchange { .. } => {
            directory(inode, action)
        }
        Action::SetAttr { attrs } => {
            set_attr(inode, &attrs);
            Ok(())
        }
        Action::SetFlags { flags, time } => {
            inode.flags.set(flags);
            ctime(inode, time);
            Ok(())
        }
        Action::SetXattr { .. } | Action::RemoveXattr { .. } => xattr(inode, action),
        Action::Roots { root, xattrs } => {
            inode.root.set(root);
            inode.xattrs.set(xattrs);
            Ok(())
        }
        _ => contents(inode, action),
    }
}

fn demand(condition: bool, what: &str) -> Result<(), String> {
    if condition { Ok(()) } else { Err(what.to_string()) }
}

fn is_dir(inode: &Inode) -> bool {
    inode.mode.get() & 0o170_000 == 0o040_000
}

fn ctime(inode: &mut Inode, time: Moment) {
    inode.ctime.set(time.sec);
    inode.ctime_nsec.set(time.nsec);
}

fn mtime(inode: &mut Inode, time: Moment) {
    inode.mtime.set(time.sec);
    inode.mtime_nsec.set(time.nsec);
}

fn touch(inode: &mut Inode, time: Moment) {
    mtime(inode, time);
    ctime(inode, time);
}

fn version(inode: &mut Inode) {
    inode.cur += 1;
}

fn kill(inode: &mut Inode) {
    let mut mode = inode.mode.get() & !0o4000;
    if mode & 0o010 != 0 {
        mode &= !0o2000;
    }
    inode.mode.set(mode);
}

fn unwrap(inode: &mut Inode) {
    if inode.body == 1 {
        inode.body = 0;
        inode.body_area = [0; 64];
    }
}

/// Codes 1 to 6.
fn life(inode: &mut Inode, action: &Action<'_>) -> Result<(), String> {
    match *action {
        Action::Create {
            mode,
            uid,
            gid,
            rdev,
            parent,
            time,
        } => {
            let born = match inode.state.get() {
                0 => 1,
                DEAD => inode.cur.get() + 1,
                _ => return Err("a new life in a slot of unknown state".into()),
            };
            *inode = Inode::new_zeroed();
            inode.state.set(LIVE);
            inode.born.set(born);
            inode.cur.set(born);
            inode.mode.set(mode);
            inode.uid.set(uid);
            inode.gid.set(gid);
            inode.rdev.set(rdev);
            inode.parent.set(parent);
            touch(inode, time);
            inode.atime.set(time.sec);
            inode.atime_nsec.set(time.nsec);
            inode.btime.set(time.sec);
            inode.btime_nsec.set(time.nsec);
            inode.nlink.set(if is_dir(inode) { 2 } else { 0 });
            inode.body = u8::from(mode & 0o170_000 == 0o100_000);
        }
        Action::Link { dir, time } => {
            ctime(inode, time);
            if is_dir(inode) {
                inode.parent.set(dir);
            } else {
                inode.nlink += 1;
            }
        }
        Action::Unlink { time, .. } => {
            ctime(inode, time);
            if is_dir(inode) {
                inode.nlink.set(0);
            } else {
                demand(inode.nlink.get() > 0, "an inode without names loses one")?;
                inode.nlink -= 1;
            }
        }
        Action::Move { to, time, .. } => {
            ctime(inode, time);
            if is_dir(inode) {
                inode.parent.set(to);
            }
        }
        Action::Orphan { on } => demand(on <= 1, "orphan is 0 or 1")?,
        _ => {
            demand(inode.nlink.get() == 0, "an inode with names is freed")?;
            inode.state.set(DEAD);
            if inode.xattr.get() == 0xFFFF {
                inode.xattr.set(0);
                inode.xattrs.set(0);
                inode.xattr_area = [0; 40];
            }
        }
    }
    Ok(())
}

/// Codes 7 to 10.
fn directory(inode: &mut Inode, action: &Action<'_>) -> Result<(), String> {
    demand(is_dir(inode), "an entry of what is no directory")?;
    version(inode);
    match *action {
        Action::Enter { kind, time, .. } => {
            inode.entries += 1;
            inode.nlink += u32::from(kind == 4);
            touch(inode, time);
        }
        Action::Leave { kind, time, .. } => {
            demand(inode.entries.get() > 0, "an empty directory loses an entry")?;
            inode.entries -= 1;
            inode.nlink -= u32::from(kind == 4);
            touch(inode, time);
        }
        Action::Point {
            kind, was_kind, time, ..
        } => {
            inode.nlink += u32::from(kind == 4);
            inode.nlink -= u32::from(was_kind == 4);
            touch(inode, time);
        }
        Action::Exchange { time, .. } => touch(inode, time),
        _ => return Err("not an operation on directories".into()),
    }
    Ok(())
}

/// Code 11.
fn set_attr(inode: &mut Inode, attrs: &Attrs) {
    let has = |bit: u8| attrs.set & bit != 0;
    if has(attr::UID | attr::GID | attr::KILL) && !is_dir(inode) {
        kill(inode);
    }
    if has(attr::MODE) {
        inode.mode.set(inode.mode.get() & !0o7777 | attrs.mode & 0o7777);
    }
    if has(attr::UID) {
        inode.uid.set(attrs.uid);
    }
    if has(attr::GID) {
        inode.gid.set(attrs.gid);
    }
    if has(attr::ATIME) {
        inode.atime.set(attrs.atime.sec);
        inode.atime_nsec.set(attrs.atime.nsec);
    }
    if has(attr::MTIME) {
        mtime(inode, attrs.mtime);
    }
    if has(attr::CTIME) {
        ctime(inode, attrs.ctime);
    }
}

/// Codes 13 and 14 (S-12.7).
fn xattr(inode: &mut Inode, action: &Action<'_>) -> Result<(), String> {
    let (namespace, total, name, value, list) = match *action {
        Action::SetXattr {
            namespace,
            total,
            name,
            value,
            list,
        } => (namespace, total, name, Some(value), list),
        Action::RemoveXattr {
            namespace,
            total,
            name,
            list,
        } => (namespace, total, name, None, list),
        _ => return Err("not an operation on attributes".into()),
    };
    let new = if inode.xattr.get() == 0xFFFF {
        if total > 40 {
            return Ok(());
        }
        list.to_vec()
    } else {
        let old = &inode.xattr_area[..usize::from(inode.xattr.get())];
        changed_list(old, namespace, name, value)
    };
    demand(new.len() == total as usize, "the new list has another length than told")?;
    inode.xattr_area = [0; 40];
    if new.len() <= 40 {
        inode.xattr_area[..new.len()].copy_from_slice(&new);
        inode.xattr.set(new.len() as u16);
        inode.xattrs.set(0);
    } else {
        inode.xattr.set(0xFFFF);
    }
    Ok(())
}

/// The list of S-7.4 with an attribute set, or removed.
fn changed_list(old: &[u8], namespace: u8, name: &[u8], value: Option<&[u8]>) -> Vec<u8> {
    let entry = value.map(|value| {
        let mut bytes = vec![name.len() as u8, namespace];
        bytes.extend((value.len() as u16).to_le_bytes());
        bytes.extend(name);
        bytes.extend(value);
        bytes
    });
    let (mut new, mut at, mut found) = (Vec::new(), 0, false);
    while at + 4 <= old.len() {
        let name_end = at + 4 + usize::from(old[at]);
        let end = name_end + usize::from(u16::from_le_bytes([old[at + 2], old[at + 3]]));
        if old[at + 1] == namespace && &old[at + 4..name_end] == name {
            found = true;
            new.extend(entry.iter().flatten());
        } else {
            new.extend(&old[at..end]);
        }
        at = end;
    }
    if !found {
        new.extend(entry.iter().flatten());
    }
    new
}

/// Codes 15 to 26, and 28.
fn contents(inode: &mut Inode, action: &Action<'_>) -> Result<(), String> {
    let size = inode.size.get();
    match *action {
        Action::Target { len, bytes } => {
            inode.size.set(len);
            inode.body = u8::from(len <= 64);
            if len <= 64 {
                inode.body_area[..bytes.len()].copy_from_slice(bytes);
            }
        }
        Action::Write { offset, len, bytes } => {
            version(inode);
            if bytes.is_empty() {
                unwrap(inode);
            } else {
                demand(inode.body == 1, "inline bytes for a body that is not inline")?;
                inode.body_area[offset as usize..][..bytes.len()].copy_from_slice(bytes);
            }
            inode.size.set(size.max(offset + len));
        }
        Action::Contents { kill: kills, time } => {
            touch(inode, time);
            if kills == 1 {
                kill(inode);
            }
        }
        Action::Copy { end, .. } | Action::Fallocate { end } => {
            version(inode);
            inode.size.set(size.max(end));
        }
        Action::Revise {} => version(inode),
        Action::Truncate { size } => truncate(inode, size),
        Action::Clear {
            from,
            to,
            freed,
            emptied,
        } => clear(inode, from, to, freed, emptied == 1)?,
        Action::Inline {} => {
            demand(size == 0 && inode.body == 0, "a file that is not empty becomes inline")?;
            inode.body = 1;
        }
        Action::Unpack {} => unwrap(inode),
        Action::Hole { from, to } => {
            demand(from < to || (from, to) == (0, 0), "a pending hole of no pages")?;
            demand(inode.body == 3 || to == 0, "a pending hole without a tree")?;
            if inode.body == 3 {
                inode.body_area[..8].copy_from_slice(&from.to_le_bytes());
                inode.body_area[8..16].copy_from_slice(&to.to_le_bytes());
            }
        }
        Action::Map { first, was, entries } => map(inode, first, was, entries)?,
        Action::Stage { offset, len, zero, .. } => {
            demand(offset + len <= 4096 && zero <= 1, "a staged range beyond its page")?;
        }
        _ => return Err(format!("{action:?} is none of contents")),
    }
    Ok(())
}

fn truncate(inode: &mut Inode, size: u64) {
    let old = inode.size.get();
    version(inode);
    if inode.body == 1 {
        if size > 64 {
            unwrap(inode);
        } else if old == 0 && size > 0 {
            inode.body = 0;
        } else if size < old {
            inode.body_area[size as usize..].fill(0);
        }
    }
    inode.size.set(size);
}

fn clear(inode: &mut Inode, from: u64, to: u64, freed: u64, emptied: bool) -> Result<(), String> {
    demand(inode.pages.get() >= freed, "more pages freed than there are")?;
    inode.pages -= freed;
    match inode.body {
        2 => {
            for index in from.min(4)..to.min(4) {
                inode.body_area[index as usize * 16..][..16].fill(0);
            }
            if inode.body_area == [0; 64] {
                inode.body = 0;
            }
        }
        3 if emptied => {
            inode.body = 0;
            inode.height = 0;
            inode.root.set(0);
            inode.body_area = [0; 64];
        }
        3 => {}
        _ => return Err("pages cleared of a body without pages".into()),
    }
    Ok(())
}

/// Pages that a tree of this height covers.
fn reach(height: u8) -> u64 {
    254u64.saturating_pow(u32::from(height))
}

fn map(inode: &mut Inode, first: u64, was: u64, entries: &[PageEntry]) -> Result<(), String> {
    let n = entries.len() as u64;
    demand(n > 0, "no entries are set")?;
    let last = first + n - 1;
    match inode.body {
        0 if last < 4 => {
            inode.body = 2;
            inode.body_area = [0; 64];
        }
        0 | 2 if last >= 4 => {
            inode.body = 3;
            inode.body_area = [0; 64];
            while last >= reach(inode.height) {
                inode.height += 1;
            }
            inode.height = inode.height.max(1);
        }
        3 => {
            while last >= reach(inode.height) {
                inode.height += 1;
            }
        }
        2 => {}
        _ => return Err("pages of a body that is inline".into()),
    }
    if inode.body == 2 {
        inode.body_area[first as usize * 16..][..n as usize * 16].copy_from_slice(entries.as_bytes());
    }
    let allocated = entries.iter().filter(|e| e.page_and_flags.get() != 0).count() as u64;
    demand(
        inode.pages.get() + allocated >= was,
        "more entries replaced than there are",
    )?;
    inode.pages.set(inode.pages.get() + allocated - was);
    Ok(())
}
