//! What a status says of the list of damages (S-18.6, S-18.12).

use super::counted;
use crate::figures::{DamageFigures, Status};
use crate::history;
use keepfs_format::history::Lasting;
use keepfs_format::{MetaId, Space, inode};

/// The root directory.
const ROOT: u64 = 1;

/// Objects that are damaged and not mended, with what to do.
pub fn damaged(list: &[Lasting], status: &mut Status) {
    let count = |lost| list.iter().filter(|entry| history::is_lost(entry) == lost).count() as u64;
    status.damage = Some(DamageFigures {
        lost: count(true),
        mended: count(false),
    });
    let lost = || {
        list.iter()
            .filter(|entry| history::is_lost(entry) && !history::is_lost_change(entry) && !history::is_given_up(entry))
    };
    given_up(list, status);
    let is_shared = lost().any(|entry| {
        let space = MetaId(entry.id).space();
        entry.id != 0 && !matches!(space, Some(Space::Nodes | Space::Inodes))
    });
    // Whoever comes to a file by its name needs these.
    let is_root = lost().any(|entry| {
        let of_root = (inode::block_of(ROOT), inode::offset_of(ROOT) as u64);
        let is_inode =
            entry.id == of_root.0.0 && (entry.from..entry.from.saturating_add(entry.length)).contains(&of_root.1);
        is_inode || entry.inode == ROOT
    });
    let is_of_pages = lost().all(|entry| entry.id == 0);
    let lost = lost().count() as u64;
    if is_shared {
        status.degraded(
            format!(
                "{} damaged, of which some are what all files share: changes that need it fail",
                counted(lost, "object")
            ),
            "metadata that all files share is damaged: what changes it fails",
            "unmount it and run `keepfs check --repair`, first with --dry-run; or mount it read-only (-o ro) and copy what you need to a new pool",
        );
    } else if is_root {
        status.degraded(
            format!(
                "{} damaged and not repaired, the root directory among them",
                counted(lost, "object")
            ),
            "the root directory is damaged: files cannot be reached by their names",
            "unmount it and run `keepfs check --repair`, first with --dry-run, which only says what it would do",
        );
    } else if lost > 0 {
        status.degraded(
            format!("{} damaged and not repaired: using it gives EIO", counted(lost, "object")),
            match is_of_pages {
                true => "pages of files are damaged: reading these gives EIO; the other pages of the same files can be read, and all else works",
                false => {
                    "metadata of files or directories is damaged: what needs it, and what lies below such directories, cannot be used; \
                     all else works"
                }
            },
            match is_of_pages {
                true => "`keepfs damage list` names them: write them anew or restore them; run `keepfs check --data` when it is unmounted",
                false => {
                    "`keepfs damage list` names them: unmount it and run `keepfs check --repair`, first with --dry-run, then restore what it could not repair"
                }
            },
        );
    }
}

/// What a repair gave up (S-21.11): it is read as what it is now, so nothing but this tells of it.
fn given_up(list: &[Lasting], status: &mut Status) {
    let given = list.iter().filter(|entry| history::is_given_up(entry));
    // One entry counts what the list had no room for.
    let count = given.fold(0, |sum: u64, entry| {
        let more = (entry.inode, entry.id) == (0, 0);
        sum.saturating_add(if more { entry.length } else { 1 })
    });
    if count > 0 {
        status.degraded(
            format!("a repair gave up {}", counted(count, "object")),
            "files, or parts of them, could not be repaired and are lost",
            "`keepfs damage list` names them: restore them from a backup; `keepfs damage clear` takes note of it and ends this message",
        );
    }
}
