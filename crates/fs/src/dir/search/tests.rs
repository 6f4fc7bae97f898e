//! Searches of leaves put together by hand (S-6.1 to S-6.3).

use super::*;
use keepfs_format::{IntoBytes, Kind, MetaId, PAGE, Space};
use keepfs_store::{Birth, Stamp, Stop};

/// The key that is looked for.
const KEY: u64 = 0x1234_5678_9ABC_DEF0;

/// A leaf, alone.
struct Page([u8; PAGE]);

impl Source for Page {
    fn read(&mut self, _: Ref, offset: usize, buf: &mut [u8]) -> Result<(), Stop> {
        buf.copy_from_slice(&self.0[offset..offset + buf.len()]);
        Ok(())
    }

    fn whole(&mut self, _: Ref, copy: &mut [u8; PAGE]) -> Result<(), Stop> {
        *copy = self.0;
        Ok(())
    }

    fn node(&mut self, id: MetaId, owner: u64) -> Result<Ref, Stop> {
        Ok(Ref::node(id, Kind::DirLeaf, owner))
    }

    fn birth(&mut self, _: Ref) -> Result<Birth, Stop> {
        Ok(Birth::default())
    }

    fn stamp(&mut self, _: Ref) -> Result<Stamp, Stop> {
        unreachable!("a search asks for no stamp")
    }
}

impl Page {
    /// A leaf of these entries: key, state, name. The inode of each is its offset.
    fn of(entries: &[(u64, u8, &[u8])]) -> Page {
        let mut page = Page([0; PAGE]);
        let mut at = FIRST;
        for (key, state, name) in entries {
            let head = EntryHead {
                key: (*key).into(),
                ino: (at as u64).into(),
                kind: FileKind::File as u8,
                name_len: name.len() as u8,
                state: *state,
                ..EntryHead::default()
            };
            page.0[at..at + ENTRY_HEAD].copy_from_slice(head.as_bytes());
            page.0[at + ENTRY_HEAD..at + ENTRY_HEAD + name.len()].copy_from_slice(name);
            at += entry_size(name.len());
        }
        page.end(at)
    }

    /// The same with another tail.
    fn end(mut self, tail: usize) -> Page {
        self.0[HEAD..HEAD + 2].copy_from_slice(&(tail as u16).to_le_bytes());
        self
    }

    /// The same with another byte.
    fn with(mut self, at: usize, byte: u8) -> Page {
        self.0[at] = byte;
        self
    }

    fn search<'n>(&mut self, name: &'n [u8]) -> Step<Search<'n>> {
        search(
            self,
            Ref::node(MetaId::new(Space::Nodes, 7), Kind::DirLeaf, 3),
            KEY,
            name,
        )
    }

    /// Which entry has the name.
    fn found(&mut self, name: &[u8]) -> Option<usize> {
        let found = self.search(name).expect("a leaf in order").found?;
        assert_eq!(found.ino, found.at as u64);
        Some(found.at)
    }
}

/// S-6.3: a name is told from those whose keys are near its own, whichever half of the key differs, and from those of
/// other lengths; the keys that it cannot have are told.
#[test]
fn a_name_is_told_from_its_twins() {
    let mut page = Page::of(&[
        (KEY ^ 1 << 40, LIVE, b"name"),
        (KEY ^ 1 << 20, LIVE, b"name"),
        (KEY + 2, LIVE, b"names"),
        (KEY + 5, LIVE, b"nam"),
        (KEY, DEAD, b"name"),
        (KEY + 1, LIVE, b"name"),
    ]);
    let at = FIRST + entry_size(3) + entry_size(5) + 3 * entry_size(4);
    assert_eq!(page.found(b"name"), Some(at));
    assert_eq!(page.found(b"names"), Some(FIRST + 2 * entry_size(4)));
    assert_eq!(
        [page.found(b"nama"), page.found(b"na"), page.found(b"name-of-eight")],
        [None; 3]
    );
    assert_eq!(page.search(b"x").expect("a leaf in order").room.twins, 0b10_0110);
}

/// S-6.3: the first dead entry of just the size of the name is told.
#[test]
fn the_first_dead_entry_of_the_size_is_told() {
    let mut page = Page::of(&[
        (1 << 30, LIVE, b"abcd"),
        (1 << 31, DEAD, b"abcdefgh"),
        (1 << 32, DEAD, b"abc"),
        (1 << 33, DEAD, b"abcd"),
    ]);
    let mut dead = |name: &[u8]| page.search(name).expect("a leaf in order").room.dead;
    assert_eq!(dead(b"wxyz"), Some(FIRST + entry_size(4) + entry_size(8)));
    assert_eq!(dead(b"a name of a length that none has"), None);
}

/// S-6.1, S-6.2, C-8: what is no leaf is damage, wherever it is seen.
#[test]
fn what_does_not_fit_is_damage() {
    let page = || Page::of(&[(8, LIVE, b"abcd"), (16, DEAD, b"efgh"), (24, LIVE, b"ijkl")]);
    let (second, end) = (FIRST + entry_size(4), FIRST + 3 * entry_size(4));
    assert!(page().search(b"none").is_ok());
    let bad = [
        page().end(FIRST - 4),
        page().end(PAGE + 4),
        page().end(end - 4),
        page().end(end + 4),
        page().with(DEPTH, 9),
        page().with(second + FACTS + 1, 0),
        page().with(second + FACTS + 1, 255),
        page().with(second + FACTS + 2, 0),
        Page::of(&[(KEY, LIVE, b"none")]).with(FIRST + FACTS, 15),
        Page::of(&[(KEY, LIVE, b"none")]).with(FIRST + 8, 0),
    ];
    for (i, mut bad) in bad.into_iter().enumerate() {
        assert!(bad.search(b"none").is_err(), "case {i}");
    }
}
