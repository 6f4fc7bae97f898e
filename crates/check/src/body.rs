//! Block maps: page entries, trees of nodes, and the data pages that they name (SPEC section 7).

use crate::finding::Finding;
use crate::node::follow;
use crate::walk::Walk;
use crate::{Page, inode, is_zero};
use keepfs_codes::crc32c;
use keepfs_format::blockmap::{
    Child, FANOUT, FILE_SIZE_MAX, LOST, PageEntry, UNWRITTEN, WRITTEN, coverage, entry_offset,
};
use keepfs_format::inode::{BODY_TREE, FILE, Inode, SYMLINK};
use keepfs_format::rules::{in_life, wrong_page_entry};
use keepfs_format::{FromBytes, Kind, PAGE};

/// Pages that the greatest file has.
pub(crate) const INDEX_END: u64 = FILE_SIZE_MAX.div_ceil(PAGE as u64);

/// A file under way.
struct File {
    ino: u64,
    size: u64,
    born: u64,
    cur: u64,
    /// On the hidden list: entries beyond its size are being freed (S-5.6).
    orphan: bool,
    /// A hole whatever the entries say (S-5.8): first page, and first behind.
    hole: (u64, u64),
    /// Page entries found that are not holes.
    found: u64,
    /// Every node could be read.
    complete: bool,
}

/// Checks the body of a regular file or symlink.
pub(crate) fn check(walk: &mut Walk<'_>, ino: u64, inode: &Inode) {
    let mut file = File {
        ino,
        size: inode.size.get(),
        born: inode.born.get(),
        cur: inode.cur.get(),
        orphan: walk.orphans.has(ino) || walk.blind.orphans,
        hole: inode::pending(inode),
        found: 0,
        complete: true,
    };
    for (index, entry) in inode::direct(inode).into_iter().flatten().enumerate() {
        page_entry(walk, &mut file, index as u64, &entry);
    }
    if inode.body == BODY_TREE && inode.root.get() != 0 {
        node(walk, &mut file, inode.root.get(), inode.height, None, 0);
    }
    let (stored, found) = (inode.pages.get(), file.found);
    if file.complete && stored != found {
        walk.finding(Finding::InodePages { ino, stored, found });
    }
}

/// S-7.1: checks a node of `level`, whose first page is `base`. Levels fall with each step, so the depth is bounded.
fn node(walk: &mut Walk<'_>, file: &mut File, id: u64, level: u8, generation: Option<u32>, base: u64) {
    let Some((head, bytes)) = follow(walk, id, file.ino, &[Kind::BlockMap]) else {
        file.complete = false;
        return;
    };
    let rules = [
        (head.level == level && level > 0, "level"),
        (generation.is_none_or(|g| g == head.generation.get()), "generation"),
    ];
    if let Some((_, field)) = rules.iter().find(|(holds, _)| !holds) {
        let id = keepfs_format::MetaId(id).into();
        walk.finding(Finding::Node {
            id,
            owner: file.ino,
            field,
        });
        (file.complete, walk.blind.users) = (false, true);
        return;
    }
    for slot in 0..FANOUT {
        let at = entry_offset(slot);
        if is_zero(&bytes[at..at + size_of::<PageEntry>()]) {
            continue;
        }
        if level == 1 {
            let entry = PageEntry::read_from_prefix(&bytes[at..]).map_or(PageEntry::HOLE, |(e, _)| e);
            page_entry(walk, file, base.saturating_add(slot), &entry);
        } else if let Ok((child, _)) = Child::read_from_prefix(&bytes[at..]) {
            let base = base.saturating_add(slot.saturating_mul(coverage(level)));
            descend(walk, file, &child, level - 1, base);
        }
    }
}

fn descend(walk: &mut Walk<'_>, file: &mut File, child: &Child, level: u8, base: u64) {
    if child.reserved.get() != 0 || child.id.get() == 0 {
        walk.finding(Finding::PageEntry {
            ino: file.ino,
            index: base,
            field: "child",
        });
        (file.complete, walk.blind.users) = (false, true);
        return;
    }
    node(walk, file, child.id.get(), level, Some(child.generation.get()), base);
}

/// S-7.2, S-7.3, S-7.6: one page of a file.
fn page_entry(walk: &mut Walk<'_>, file: &mut File, index: u64, entry: &PageEntry) {
    if entry.page_and_flags.get() == 0 && entry.crc.get() == 0 && entry.version.get() == 0 {
        return;
    }
    let (ino, page, flags) = (file.ino, entry.page(), entry.flags());
    file.found += u64::from(!entry.is_hole());
    let held = matches!(flags, WRITTEN | UNWRITTEN);
    let wrong = wrong_page_entry(entry, (file.born, file.cur)).or_else(|| {
        let rules = [
            (!held || page < walk.pool.pages(), "page"),
            (index < INDEX_END, "index"),
        ];
        rules.iter().find(|(holds, _)| !holds).map(|(_, field)| *field)
    });
    if let Some(field) = wrong {
        walk.finding(Finding::PageEntry { ino, index, field });
        // A page that is named all the same is in use; of anything else nothing is known.
        if !(held && (1..walk.pool.pages()).contains(&page)) {
            walk.blind.users = true;
            return;
        }
    }
    // Unwritten pages may be allocated beyond the size (fallocate with KEEP_SIZE).
    if matches!(flags, WRITTEN | LOST) && index >= file.size.div_ceil(PAGE as u64) && !file.orphan {
        walk.finding(Finding::PageBeyond { ino, index });
    }
    if flags == LOST {
        walk.finding(Finding::DataLost { ino, index });
    }
    let staged = walk
        .stage
        .pages
        .get_mut(&(ino, index))
        .map(|staged| staged.mapped = page)
        .is_some();
    if !held {
        return;
    }
    if walk.system.has(page) {
        walk.finding(Finding::PageSystem { ino, index, page });
    } else if walk.data.add(page) {
        walk.counts.data_pages += 1;
    } else {
        *walk.shared.entry(page).or_default() += 1;
        walk.counts.shares += 1;
    }
    // Nobody reads the pages of a pending hole: a crash may have come before their data.
    if (file.hole.0..file.hole.1).contains(&index) {
        return;
    }
    let told = walk.brought.get(&page) == Some(&entry.crc.get());
    if flags == WRITTEN && walk.fresh.has(page) && !told {
        walk.finding(Finding::LogUnbrought { ino, index, page });
    }
    // Nor those under a staged page, but as its base.
    if walk.options.data && flags == WRITTEN && !staged {
        data(walk, file, index, entry);
    }
}

/// The bytes of a written page: their CRC, and zeros beyond the size (S-5.7).
fn data(walk: &mut Walk<'_>, file: &File, index: u64, entry: &PageEntry) {
    let mut bytes = [0; PAGE];
    let (ino, page) = (file.ino, entry.page());
    if walk.pool.image.read(page, &mut bytes).is_err() || crc32c::of(&bytes) != entry.crc.get() {
        walk.finding(Finding::DataBad { ino, index, page });
    } else if !is_clear_beyond(&bytes, index, file.size) {
        walk.finding(Finding::DataTail { ino, index });
    }
}

fn is_clear_beyond(bytes: &Page, index: u64, size: u64) -> bool {
    let within = (size % PAGE as u64) as usize;
    index != size / PAGE as u64 || within == 0 || is_zero(&bytes[within..])
}

/// S-8.8: staged pages belong to a live file, below its size, over the page that its block map names.
pub(crate) fn check_staged(walk: &mut Walk<'_>) {
    let stage = core::mem::take(&mut walk.stage);
    for ((ino, index), staged) in &stage.pages {
        let (ino, index) = (*ino, *index);
        let Some(facts) = walk.inodes.get(&ino).copied() else {
            if !walk.is_hidden(ino) {
                walk.finding(Finding::Staged {
                    ino,
                    index,
                    field: "inode",
                });
            }
            continue;
        };
        let rules = [
            (matches!(facts.kind, FILE | SYMLINK), "inode"),
            (staged.lost || in_life(staged.version, facts.born, facts.cur), "version"),
            (
                index < facts.size.div_ceil(PAGE as u64),
                "index (it is beyond the file's size)",
            ),
            (
                !(facts.hole.0..facts.hole.1).contains(&index),
                "index (it is in a pending hole)",
            ),
            (
                staged.base == 0 || staged.base == staged.mapped || walk.blind.users,
                "base (the block map names another page)",
            ),
        ];
        if let Some((_, field)) = rules.iter().find(|(holds, _)| !holds) {
            walk.finding(Finding::Staged { ino, index, field });
            continue;
        }
        if staged.lost {
            walk.finding(Finding::DataLost { ino, index });
            continue;
        }
        let pages = walk.pool.pages();
        let image = walk.pool.image;
        match staged.content(|page, bytes| page < pages && image.read(page, bytes).is_ok()) {
            None => walk.finding(Finding::DataBad {
                ino,
                index,
                page: staged.base,
            }),
            Some(bytes) if !is_clear_beyond(&bytes, index, facts.size) => {
                walk.finding(Finding::DataTail { ino, index });
            }
            Some(_) => {}
        }
    }
    walk.stage = stage;
}
