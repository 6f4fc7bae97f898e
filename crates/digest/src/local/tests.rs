//! One structure with one wrong field each: exactly its local rule tells it (S-17.7).

use super::*;
use crate::Equations;
use crate::tests::{Made, auditor};
use keepfs_format::blockmap::{UNWRITTEN, WRITTEN, entry_offset};
use keepfs_format::dir::{CHILDREN, ENTRY_HEAD, child_offset, entry_size};
use keepfs_format::inode::{BODY_NONE, FILE, XATTR_CHAIN, block_of, offset_of};
use keepfs_format::{FromZeros, IntoBytes};

const INO: u64 = 20;

/// What the local rules tell: which, and of which field.
fn told(made: &Made) -> Vec<(Equation, u64, &'static str)> {
    let found = made.judge(&auditor(Equations::ALL), Equations::LOCAL);
    found
        .into_iter()
        .flat_map(|(equation, items)| items.into_iter().map(move |item| (equation, item.object, item.field)))
        .collect()
}

/// A file of one page in a tree, as S-5.2 wants it.
fn sound() -> Inode {
    let mut inode = Inode::new_zeroed();
    inode.state.set(LIVE);
    inode.mode.set(0o100_644);
    inode.nlink.set(1);
    inode.body = BODY_TREE;
    inode.height = 1;
    inode.root.set(MetaId::new(Space::Nodes, 3).0);
    inode.size.set(100);
    inode.born.set(5);
    inode.cur.set(9);
    inode
}

/// A transaction that makes `after` of `before`.
fn changed(before: &Inode, after: &Inode) -> Made {
    let mut made = Made::default();
    let block = made.block(block_of(INO), Kind::Inodes, 0, Fate::Stays);
    made.put(block, offset_of(INO), before.as_bytes());
    made.forget_changes();
    made.put(block, offset_of(INO), after.as_bytes());
    made
}

/// S-5.1 to S-5.8: each field that is not allowed is told with its inode; what is allowed is not.
#[test]
fn a_wrong_field_of_an_inode_is_told() {
    let mut dead = sound();
    dead.state.set(DEAD);
    assert_eq!(told(&changed(&Inode::new_zeroed(), &sound())), []);
    assert_eq!(told(&changed(&sound(), &dead)), []);
    type Wrong = fn(&mut Inode);
    let wrong: [(&str, Wrong); 12] = [
        ("state", |i| i.state.set(7)),
        ("mode", |i| i.mode.set(0o644)),
        ("flags", |i| i.flags.set(1)),
        ("body", |i| i.body = 4),
        ("height", |i| i.height = 8),
        ("xattr", |i| i.xattr.set(41)),
        ("xattrs", |i| i.xattr.set(XATTR_CHAIN)),
        ("size", |i| i.size.set(1 << 63)),
        ("nanoseconds", |i| i.mtime_nsec.set(1_000_000_000)),
        ("parent", |i| i.parent.set(1)),
        ("range", |i| i.body_area[0] = 1),
        ("type, which changed", |i| i.mode.set(0o010_644)),
    ];
    for (field, change) in wrong {
        let mut after = sound();
        change(&mut after);
        if field == "type, which changed" {
            (after.body, after.height, after.body_area) = (BODY_NONE, 0, [0; 64]);
            after.root.set(0);
            after.size.set(0);
        }
        assert_eq!(told(&changed(&sound(), &after)), [(Equation::InodeFields, INO, field)]);
    }
}

/// S-17.7: what was wrong before is nobody's fault.
#[test]
fn what_was_wrong_before_is_not_told() {
    let mut before = sound();
    before.mtime_nsec.set(u32::MAX);
    let mut after = before;
    after.size.set(200);
    assert_eq!(told(&changed(&before, &after)), []);
    after.mode.set(0);
    assert_eq!(told(&changed(&before, &after)).len(), 1);
}

/// A leaf of directory [`INO`], and an entry with these bytes that comes into it.
fn entered(change: impl Fn(&mut EntryHead, &mut Vec<u8>)) -> Made {
    let mut made = changed(&sound(), &sound());
    let leaf = made.block(MetaId::new(Space::Nodes, 9), Kind::DirLeaf, INO, Fate::Stays);
    let mut entry = EntryHead {
        key: 16.into(),
        ino: 30.into(),
        version: 9.into(),
        kind: FILE,
        name_len: 5,
        state: keepfs_format::dir::LIVE,
        reserved: 0,
    };
    let mut name = b"hello".to_vec();
    name.resize(entry_size(5) - ENTRY_HEAD, 0);
    change(&mut entry, &mut name);
    let bytes = [entry.as_bytes(), &name].concat();
    let head = |tail: usize, live: u16| LeafHead {
        tail: (tail as u16).into(),
        live: live.into(),
        ..LeafHead::default()
    };
    made.put(leaf, HEADER, head(FIRST, 0).as_bytes());
    made.forget_changes();
    made.put(leaf, HEADER, head(FIRST + bytes.len(), 1).as_bytes());
    made.put(leaf, FIRST, &bytes);
    made
}

/// S-6.2, S-6.6: a new entry by itself.
#[test]
fn a_wrong_entry_is_told() {
    assert_eq!(told(&entered(|_, _| ())), []);
    type Wrong = fn(&mut EntryHead, &mut Vec<u8>);
    let wrong: [(&str, Wrong); 5] = [
        ("state", |e, _| e.state = 0),
        ("reserved field", |e, _| e.reserved = 1),
        ("padding", |_, name| name[6] = b'x'),
        ("name", |_, name| name[2] = b'/'),
        ("version of the entry", |e, _| e.version.set(10)),
    ];
    for (field, change) in wrong {
        assert_eq!(told(&entered(change)), [(Equation::EntryFields, INO, field)]);
    }
}

/// The split of a leaf with one entry, `moved`, into two, of which one gets it and `new`.
fn split(moved: &[u8], new: &[u8]) -> Made {
    let mut made = changed(&sound(), &sound());
    let head = |tail: usize, live: u16| LeafHead {
        tail: (tail as u16).into(),
        live: live.into(),
        ..LeafHead::default()
    };
    let mut leaf = |number, fate| made.block(MetaId::new(Space::Nodes, number), Kind::DirLeaf, INO, fate);
    let (old, lower, upper) = (leaf(9, Fate::Dies), leaf(10, Fate::Born), leaf(11, Fate::Born));
    made.put(old, HEADER, head(FIRST + moved.len(), 1).as_bytes());
    made.put(old, FIRST, moved);
    made.forget_changes();
    // What the transaction changed of it before it split it is no excuse.
    made.put(old, FIRST, &[new, &moved[new.len().min(moved.len())..]].concat());
    made.put(lower, HEADER, head(FIRST, 0).as_bytes());
    made.put(upper, HEADER, head(FIRST + moved.len() + new.len(), 2).as_bytes());
    made.put(upper, FIRST, &[moved, new].concat());
    made
}

/// S-17.7: of a leaf that a split makes, what was moved is as it was, and what is new is asked like any other.
#[test]
fn of_a_split_leaf_the_new_entry_is_asked_and_no_other() {
    let entry = |padding: u8, version: u32| {
        let head = EntryHead {
            key: 16.into(),
            ino: u64::from(version).into(),
            version: version.into(),
            kind: FILE,
            name_len: 5,
            state: keepfs_format::dir::LIVE,
            reserved: 0,
        };
        let mut name = b"hello".to_vec();
        name.resize(entry_size(5) - ENTRY_HEAD, padding);
        [head.as_bytes(), &name].concat()
    };
    assert_eq!(told(&split(&entry(0, 8), &entry(0, 9))), []);
    // Damage from before moves along.
    assert_eq!(told(&split(&entry(1, 8), &entry(0, 9))), []);
    assert_eq!(told(&split(&entry(0, 10), &entry(0, 9))), []);
    let wrong = |field| [(Equation::EntryFields, INO, field)];
    assert_eq!(told(&split(&entry(0, 8), &entry(1, 9))), wrong("padding"));
    assert_eq!(told(&split(&entry(1, 8), &entry(1, 9))), wrong("padding"));
    assert_eq!(told(&split(&entry(0, 8), &entry(0, 10))), wrong("version of the entry"));
}

/// A node of [`INO`] with one new entry.
fn mapped(entry: &[u8], level: u8) -> Made {
    let mut made = changed(&sound(), &sound());
    let node = made.block(MetaId::new(Space::Nodes, 3), Kind::BlockMap, INO, Fate::Stays);
    made.put(node, core::mem::offset_of!(Header, level), &[level]);
    made.forget_changes();
    made.put(node, entry_offset(7), entry);
    made
}

/// S-7.1, S-7.2: a new page entry or child by itself.
#[test]
fn a_wrong_map_entry_is_told() {
    let page = |page, flags, crc, version| mapped(PageEntry::new(page, flags, crc, version).as_bytes(), 1);
    assert_eq!(told(&page(77, WRITTEN, 9, 9)), []);
    assert_eq!(told(&mapped(PageEntry::HOLE.as_bytes(), 1)), []);
    for (field, made) in [
        ("flag", page(77, WRITTEN | UNWRITTEN, 9, 9)),
        ("page", page(0, WRITTEN, 9, 9)),
        ("CRC of an unwritten page", page(77, UNWRITTEN, 9, 9)),
        ("version", page(77, WRITTEN, 9, 4)),
        ("version", page(77, WRITTEN, 9, 10)),
    ] {
        assert_eq!(told(&made), [(Equation::MapFields, INO, field)]);
    }
    let child = |space, reserved: u32| {
        let id = MetaId::new(space, 4).0.into();
        let (generation, reserved) = (1.into(), reserved.into());
        mapped(
            Child {
                id,
                generation,
                reserved,
            }
            .as_bytes(),
            2,
        )
    };
    assert_eq!(told(&child(Space::Nodes, 0)), []);
    for made in [child(Space::Inodes, 0), child(Space::Nodes, 1)] {
        assert_eq!(told(&made), [(Equation::MapFields, INO, "child entry")]);
    }
}

/// S-6.1, S-6.4, S-7.4, S-3.2: heads, slots and levels.
#[test]
fn a_wrong_node_is_told() {
    let id = MetaId::new(Space::Nodes, 11);
    let node = |kind, fate, offset, bytes: &[u8]| {
        let mut made = Made::default();
        let block = made.block(id, kind, INO, fate);
        made.put(block, offset, bytes);
        made
    };
    let tail = |tail: u16| {
        let mut made = node(Kind::DirLeaf, Fate::Stays, HEADER, &(FIRST as u16).to_le_bytes());
        made.forget_changes();
        made.put(0, HEADER, &tail.to_le_bytes());
        made
    };
    let used = |used: u16| node(Kind::Xattr, Fate::Stays, HEADER + 8, &used.to_le_bytes());
    let level = |level| {
        let mut made = Made::default();
        let block = made.block(id, Kind::DirLeaf, INO, Fate::Born);
        made.put(block, core::mem::offset_of!(Header, level), &[level]);
        made.forget_changes();
        made.put(block, HEADER, &(FIRST as u16).to_le_bytes());
        made
    };
    let index = |empty: Option<usize>| {
        let mut slots = [id.0.to_le_bytes(); CHILDREN];
        empty.into_iter().for_each(|slot| slots[slot] = [0; 8]);
        node(Kind::DirIndex, Fate::Born, child_offset(0), slots.as_flattened())
    };
    let slot = |is: u64| {
        let mut made = node(Kind::DirIndex, Fate::Stays, child_offset(200), &id.0.to_le_bytes());
        made.forget_changes();
        made.put(0, child_offset(200), &is.to_le_bytes());
        made
    };
    for made in [
        tail(FIRST as u16),
        used(4048),
        level(8),
        index(None),
        slot(0),
        slot(id.0),
    ] {
        assert_eq!(told(&made), []);
    }
    for (field, made) in [
        ("tail", tail(39)),
        ("tail", tail(4097)),
        ("used", used(4049)),
        ("level", level(9)),
        ("slot", index(Some(255))),
        ("slot", slot(INO)),
    ] {
        // Zeros up to a wrong tail are no entries either.
        let of_nodes: Vec<_> = told(&made)
            .into_iter()
            .filter(|t| t.0 == Equation::NodeFields)
            .collect();
        assert_eq!(of_nodes, [(Equation::NodeFields, id.0, field)]);
    }
}

/// S-2.4: the transaction that makes a pool, which leaves no redo, sets the bits of what it takes for ever; nobody else does,
/// and nobody clears them.
#[test]
fn a_new_pool_takes_its_own_pages() {
    let auditor = auditor(Equations::NONE.with(Equation::Numbers));
    for (set, among, count) in [
        (true, Equations::OF_CHECKPOINTS, 0),
        (false, Equations::OF_CHECKPOINTS, 1),
        (true, Equations::ALL, 1),
        (false, Equations::ALL, 1),
    ] {
        let mut made = Made::default();
        made.flip(Space::Pages, 110, set);
        assert_eq!(made.judge(&auditor, among).len(), count, "{set} {among}");
    }
}

/// S-2.4, S-5.1, S-7.5: bits of numbers that nobody may take or free.
#[test]
fn a_number_that_nobody_may_have_is_told() {
    let bit = |space, number, set| {
        let mut made = Made::default();
        made.flip(space, number, set);
        made
    };
    for made in [
        bit(Space::Pages, 999, true),
        bit(Space::Pages, 132, false),
        bit(Space::InodeNumbers, 1, true),
        bit(Space::Orphans, 2, true),
    ] {
        assert_eq!(told(&made), []);
    }
    for (number, field, made) in [
        (1000, "page beyond the end", bit(Space::Pages, 1000, true)),
        (131, "page of slots, log or history", bit(Space::Pages, 131, false)),
        (0, "inode number 0", bit(Space::InodeNumbers, 0, true)),
    ] {
        assert_eq!(told(&made), [(Equation::Numbers, number, field)]);
    }
}

/// S-17.7: a breach is told in words, with clauses and object.
#[test]
fn a_breach_is_told_in_words() {
    let mut after = sound();
    after.flags.set(1);
    let made = changed(&sound(), &after);
    let found = made.imbalances(&auditor(Equations::ALL), Equations::LOCAL);
    let words: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert_eq!(words, ["E-38 inode-fields (S-5.1 to S-5.8); flags of 20 at 0"]);
}
