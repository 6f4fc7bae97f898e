//! Adding an entry: a free place, compaction, or a split (S-6.3, S-6.5).

use super::leaf::{self, Leaf};
use super::search::search;
use super::{Room, Sight, Turn, Way, check_slots, descend, slots_at};
use crate::errors::{Step, damaged, refuse};
use crate::inode::Held;
use keepfs_format::dir::{
    CHILDREN, DEPTH_MAX, ENTRY_HEAD, EntryHead, FIRST, LEVEL_MAX, LIVE, LeafHead, TWINS, child_offset, entry_size,
    name_key, slot_of,
};
use keepfs_format::{IntoBytes, Kind, PAGE};
use keepfs_store::planted::{self, Logic};
use keepfs_store::scratch::with_page;
use keepfs_store::{Meaning, Ref, Source, Txn};
use keepfs_vfs::{Errno, FileKind, NAME_MAX};

/// Dead bytes from which packing a full leaf is worth more than splitting it.
const PACK_FROM: usize = PAGE / 4;
/// Bytes of the largest entry.
const ENTRY_MAX: usize = entry_size(NAME_MAX);

/// Adds `name`, which was looked for `before` or not. Errors: `EEXIST`; `ENOSPC` if eight live names share a key or no split
/// helps.
pub(crate) fn insert(
    txn: &mut Txn<'_>,
    seed: [u64; 2],
    dir: &mut Held,
    name: &[u8],
    (child, kind): (u64, FileKind),
    before: Option<&Sight>,
) -> Step<()> {
    if dir.now.root.get() == 0 {
        let root = txn.new_node(Kind::DirLeaf, 0, dir.ino)?;
        let head = LeafHead {
            tail: (FIRST as u16).into(),
            ..LeafHead::default()
        };
        txn.put(root, leaf::HEAD, head.as_bytes(), Meaning::DirNode)?;
        dir.now.root.set(root.id.0);
    }
    let key = name_key(seed, name);
    let size = entry_size(name.len());
    let new = New {
        key,
        size,
        name,
        child,
        kind,
        round: 0,
    };
    if let Some(sight) = before
        && enter_where_seen(txn, dir, sight, &new)?
    {
        return Ok(());
    }
    // Each round packs or splits; a key has fewer bits than this bound.
    for round in 0..64 {
        let way = descend(txn, dir.ino, dir.now.root.get(), key)?;
        let new = New { round, ..new };
        if enter(txn, dir, way, &new)? {
            return Ok(());
        }
    }
    refuse(Errno::ENOSPC)
}

/// An entry to be.
struct New<'n> {
    key: u64,
    size: usize,
    name: &'n [u8],
    child: u64,
    kind: FileKind,
    /// How often room was made for it.
    round: u32,
}

/// Puts the entry into the leaf that was searched for its name before, if that is still as it was and has room.
fn enter_where_seen(txn: &mut Txn<'_>, dir: &mut Held, sight: &Sight, new: &New<'_>) -> Step<bool> {
    let (Some((leaf, stamp)), None) = (sight.leaf, sight.found) else {
        return Ok(false);
    };
    let way = descend(txn, dir.ino, dir.now.root.get(), new.key)?;
    match sight.key == new.key && way.leaf == leaf && stamp.is_still(txn.stamp(leaf)?) {
        true => enter_at_once(txn, dir, leaf, &sight.room, new),
        false => Ok(false),
    }
}

/// Puts the entry into its leaf; `false` if there was no room and some was made.
fn enter(txn: &mut Txn<'_>, dir: &mut Held, way: Way, new: &New<'_>) -> Step<bool> {
    let search = search(txn, way.leaf, new.key, new.name)?;
    if search.found.is_some() {
        return refuse(Errno::EEXIST);
    }
    let entered = enter_at_once(txn, dir, way.leaf, &search.room, new)?;
    if !entered {
        with_page(|bytes| {
            let leaf = Leaf::load(txn, way.leaf, bytes)?;
            make_room(txn, dir, way, &leaf, new.size)
        })?;
    }
    Ok(entered)
}

/// Puts the entry where the leaf has room for it; `false` if it has none.
fn enter_at_once(txn: &mut Txn<'_>, dir: &mut Held, leaf: Ref, room: &Room, new: &New<'_>) -> Step<bool> {
    if room.twins == u8::MAX {
        return refuse(Errno::ENOSPC);
    }
    let tail = usize::from(room.head.tail.get());
    // At once: over a dead one of its size, or at the tail.
    let dead = room.dead.filter(|_| usize::from(room.head.dead.get()) >= new.size);
    let Some(at) = dead.or((tail + new.size <= PAGE).then_some(tail)) else {
        return Ok(false);
    };
    let wrong = if planted::has(Logic::KeyWrong) { TWINS } else { 0 };
    let entry = EntryHead {
        key: ((new.key ^ wrong) + u64::from(room.twins.trailing_ones())).into(),
        ino: new.child.into(),
        version: dir.version().into(),
        kind: new.kind as u8,
        name_len: new.name.len() as u8,
        state: LIVE,
        reserved: 0,
    };
    write(txn, (leaf, &room.head), at, &entry, new)?;
    dir.now.entries.set(dir.now.entries.get().saturating_add(1));
    Ok(true)
}

fn write(txn: &mut Txn<'_>, (leaf, was): (Ref, &LeafHead), at: usize, entry: &EntryHead, new: &New<'_>) -> Step<()> {
    let garbage = planted::has(Logic::PaddingKept) || (new.round > 0 && planted::has(Logic::SplitPaddingKept));
    let mut bytes = [u8::from(garbage); ENTRY_MAX];
    let size = new.size;
    bytes[..ENTRY_HEAD].copy_from_slice(entry.as_bytes());
    bytes[ENTRY_HEAD..ENTRY_HEAD + new.name.len()].copy_from_slice(new.name);
    txn.put(leaf, at, &bytes[..size], Meaning::Dirent)?;
    let mut head = *was;
    head.live.set(head.live.get().saturating_add(1));
    if at == usize::from(head.tail.get()) {
        head.tail.set((at + size) as u16);
    } else {
        head.dead.set(head.dead.get().saturating_sub(size as u16));
    }
    txn.put_diff(leaf, leaf::HEAD, was.as_bytes(), head.as_bytes(), Meaning::DirNode)?;
    Ok(())
}

/// Packs the leaf if that frees enough, else splits it.
fn make_room(txn: &mut Txn<'_>, dir: &mut Held, way: Way, leaf: &Leaf<'_>, size: usize) -> Step<()> {
    let dead = usize::from(leaf.head.dead.get());
    let (tail, depth) = (usize::from(leaf.head.tail.get()), leaf.depth());
    let fits = tail.saturating_sub(dead) + size <= PAGE;
    let deepest = depth == DEPTH_MAX && way.last.is_some_and(|turn| turn.level == LEVEL_MAX);
    if fits && (dead >= PACK_FROM || deepest) {
        let packed = leaf.packed(|_| true)?;
        txn.put_diff(
            leaf.r,
            leaf::HEAD,
            &leaf.bytes[leaf::HEAD..],
            &packed[leaf::HEAD..],
            Meaning::DirNode,
        )?;
        return Ok(());
    }
    if deepest {
        return refuse(Errno::ENOSPC);
    }
    split(txn, dir, way, leaf)
}

/// Splits a leaf in two by one more bit, below a new index if it has no bit left (S-6.5). Both halves are new nodes:
/// the local depth stands in the header, which is written at birth only.
fn split(txn: &mut Txn<'_>, dir: &mut Held, way: Way, leaf: &Leaf<'_>) -> Step<()> {
    if let Some(turn) = way.last {
        check_slots(txn, turn, leaf.r, leaf.depth())?;
    }
    let (turn, depth) = match way.last {
        Some(turn) if leaf.depth() < DEPTH_MAX => (turn, leaf.depth()),
        above => (index_under(txn, dir, above)?, 0),
    };
    // Under a new index the leaf stands in every slot; else in those around the turn's.
    let own = slots_at(turn.slot, depth);
    let (start, width) = (own.start, own.len());
    let middle = start + width / 2;
    let upper = |key: u64| slot_of(key, turn.level) >= middle;
    txn.free_node(leaf.r)?;
    for (first, image) in [(start, leaf.packed(|key| !upper(key))?), (middle, leaf.packed(upper)?)] {
        let half = txn.new_node(Kind::DirLeaf, depth + 1, dir.ino)?;
        txn.put(half, leaf::HEAD, &image[leaf::HEAD..tail_of(&image)], Meaning::DirNode)?;
        point(txn, turn.index, first, width / 2, half)?;
    }
    Ok(())
}

/// The tail that a packed image tells.
fn tail_of(image: &[u8; PAGE]) -> usize {
    usize::from(u16::from_le_bytes([image[leaf::HEAD], image[leaf::HEAD + 1]])).clamp(FIRST, PAGE)
}

/// Puts an empty index in the place of a leaf; the caller fills it.
fn index_under(txn: &mut Txn<'_>, dir: &mut Held, above: Option<Turn>) -> Step<Turn> {
    let level = above.map_or(0, |turn| turn.level + 1);
    if level > LEVEL_MAX {
        return Err(damaged(dir.ino, "directory deeper than its key (S-6.4)"));
    }
    let index = txn.new_node(Kind::DirIndex, level, dir.ino)?;
    match above {
        Some(turn) => point(txn, turn.index, turn.slot, 1, index)?,
        None => dir.now.root.set(index.id.0),
    }
    Ok(Turn { index, level, slot: 0 })
}

/// Makes `count` slots of an index lead to `child`.
fn point(txn: &mut Txn<'_>, index: Ref, first: usize, count: usize, child: Ref) -> Step<()> {
    let mut bytes = [0; CHILDREN * 8];
    let (slots, _) = bytes.as_chunks_mut::<8>();
    let left = usize::from(planted::has(Logic::SlotLeft) && first + count == CHILDREN && count > 1);
    slots[..count - left].fill(child.id.0.to_le_bytes());
    txn.put(index, child_offset(first), &bytes[..count * 8], Meaning::DirNode)?;
    Ok(())
}
