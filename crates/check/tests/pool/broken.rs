//! Each kind of structure is broken once, with all checksums above it right, and exactly that finding is expected.

use crate::builder::{Builder, Built, PAGES, node};
use crate::sample::{self, INDEX, LEAF_DIR, LEAF_LOW, TREE_A, TREE_ROOT, XATTR_A, XATTR_B};
use keepfs_check::mend::plan;
use keepfs_check::read::View;
use keepfs_check::{Finding, Options, walk};
use keepfs_format::bitmap::{self, TOTALS};
use keepfs_format::blockmap::{LOST, PageEntry, UNWRITTEN, WRITTEN};
use keepfs_format::inode::{self, BODY_DIRECT};
use keepfs_format::map::{self, MapEntry};
use keepfs_format::superblock::{CLEAN, INCOMPAT_GROWN, Superblock};
use keepfs_format::{IntoBytes, Kind, MetaId, PAGE, Space};

const DATA: Options = Options {
    data: true,
    limit: 1000,
};

/// Changes the content of the sample; expects these findings.
fn content(name: &str, edit: impl FnOnce(&mut Builder), expected: &[Finding]) {
    let mut b = sample::pool();
    edit(&mut b);
    assert_eq!(walk(&b.build().bytes, &DATA).findings, expected, "{name}");
}

/// Changes bytes of the laid out sample.
fn raw(name: &str, edit: impl FnOnce(&mut Built), expected: &[Finding]) {
    let mut built = sample::pool().build();
    edit(&mut built);
    assert_eq!(walk(&built.bytes, &DATA).findings, expected, "{name}");
}

/// Changes map entries before the map pages above get their checksums.
fn entry(name: &str, edit: fn(MetaId, &mut MapEntry), expected: &[Finding]) {
    content(name, |b| b.on_entry = Some(edit), expected);
}

const INODES: MetaId = MetaId::new(Space::Inodes, 0);
const HOMES: MetaId = MetaId::new(Space::Homes, 0);

/// S-2.1, S-2.3: which slot holds, and what the others hold.
#[test]
fn superblocks() {
    raw("none", |b| b.bytes.fill(0), &[Finding::NoSuperblock {}]);
    raw(
        "copy",
        |b| b.page(768)[700] ^= 3,
        &[Finding::SuperblockCopy { slot: 3, page: 768 }],
    );
    raw(
        "deciding slot",
        |b| b.page(256)[700] ^= 3,
        &[Finding::SuperblockCopy { slot: 1, page: 256 }],
    );
    raw(
        "older pair",
        |b| b.page(512)[0] = 0,
        &[Finding::SuperblockOld { slot: 2, page: 512 }],
    );
    let closed = |b: &mut Built| {
        let mut sb = b.sb;
        sb.state = CLEAN.into();
        [1, 3].into_iter().for_each(|slot| b.write_slot(slot, &sb));
        b.page(512).fill(0);
    };
    raw(
        "older pair, closed",
        closed,
        &[Finding::SuperblockOlder { slot: 2, page: 512 }],
    );
    let split = |b: &mut Built| {
        let mut sb = b.sb;
        sb.seq = 99.into();
        b.write_slot(3, &sb);
    };
    raw("split", split, &[Finding::SuperblockSplit { generation: 3 }]);
    // S-2.5: whoever does not know them may read.
    let newer = |b: &mut Built| {
        let mut sb = b.sb;
        sb.ro_compat = 0x10.into();
        b.write_superblock(&sb);
    };
    raw("features", newer, &[Finding::SuperblockFeatures { features: 0x10 }]);
    let broken = |b: &mut Built| {
        let mut sb = b.sb;
        sb.state = 1.into();
        b.write_slot(3, &sb);
    };
    raw(
        "field",
        broken,
        &[Finding::SuperblockField {
            slot: 3,
            page: 768,
            field: "state",
        }],
    );
    let cut = |b: &mut Built| {
        let mut sb = b.sb;
        sb.pages = 100_000.into();
        b.write_slot(3, &sb);
    };
    let (slot, page, pages, device) = (3, 768, 100_000, PAGES);
    raw(
        "cut",
        cut,
        &[Finding::SuperblockCut {
            slot,
            page,
            pages,
            device,
        }],
    );
    let root = |b: &mut Built| {
        let mut sb = b.sb;
        sb.roots[Space::Shares as usize].height = 0;
        b.write_superblock(&sb);
    };
    let id = MetaId::map(Space::Shares, 0, 0).into();
    raw(
        "root without height",
        root,
        &[Finding::MapEntry {
            id,
            field: "root without height",
        }],
    );
}

/// S-1.1, S-1.3, S-2.2: every invariant of the superblock's own; a slot that breaks one is not used.
#[test]
fn superblock_fields() {
    type Edit = fn(&mut keepfs_format::superblock::Superblock);
    let cases: [(&'static str, Edit); 28] = [
        ("version", |sb| sb.version = 2.into()),
        ("version", |sb| sb.magic[7] = 2),
        ("generation", |sb| sb.generation = (u64::MAX / 2 + 1).into()),
        ("log region", |sb| sb.log_pages = 31.into()),
        ("seq, incarnation or durable", |sb| sb.durable = u64::MAX.into()),
        ("zone_pages", |sb| sb.zone_pages = 15.into()),
        ("zone_pages", |sb| sb.zone_pages = 32_513.into()),
        ("pages", |sb| sb.pages = 511.into()),
        ("meta_copies", |sb| sb.meta_copies = 3.into()),
        ("log region", |sb| sb.log_pages = u64::MAX.into()),
        ("log region over a slot", |sb| sb.log_pages = 300.into()),
        ("log_seq", |sb| sb.log_seq = u64::MAX.into()),
        ("group", |sb| sb.group = u64::MAX.into()),
        ("zone_pages", |sb| sb.zone_pages = 0.into()),
        ("zone_current", |sb| sb.zone_current = 4.into()),
        ("zone_next", |sb| sb.zone_next = u64::MAX.into()),
        ("chunk_pages", |sb| sb.chunk_pages = 257.into()),
        ("time of creation", |sb| sb.created_nsec = 1_000_000_000.into()),
        ("features", |sb| sb.incompat = (1 << 40).into()),
        ("history", |sb| sb.incompat = 2.into()),
        ("history", |sb| sb.history_start = 9.into()),
        ("history", |sb| {
            (sb.incompat, sb.history_start, sb.history_pages) = (2.into(), 254.into(), 8.into())
        }),
        ("history", |sb| {
            (sb.incompat, sb.history_start, sb.history_pages) = (2.into(), 129.into(), 7.into())
        }),
        ("protection", |sb| sb.incompat = 1.into()),
        ("protection", |sb| sb.protect = 2),
        ("protection", |sb| {
            sb.protect = 6;
            sb.incompat = 1.into();
        }),
        ("height of a root", |sb| sb.roots[1].height = 9),
        ("reserved bytes", |sb| sb.reserved1[0] = 1),
    ];
    for (field, edit) in cases {
        let change = |b: &mut Built| {
            let mut sb = b.sb;
            edit(&mut sb);
            b.write_slot(3, &sb);
        };
        raw(
            field,
            change,
            &[Finding::SuperblockField {
                slot: 3,
                page: 768,
                field,
            }],
        );
    }
}

/// S-2.1: a superblock that was written over a slot of the other generation is none there: the pool goes on, and a repair of what it
/// wrote over can be done. A newer one than all that stand in their slots tells of what is lost, once however many there are (S-21.10).
#[test]
fn misplaced_superblocks() {
    let place = |slot: usize, generation: u64| {
        let mut built = sample::pool().build();
        let mut sb = built.sb;
        sb.generation = generation.into();
        built.write_slot(slot, &sb);
        built
    };
    let cases = [
        (2, 3, Finding::SuperblockOld { slot: 2, page: 512 }),
        (1, 2, Finding::SuperblockCopy { slot: 1, page: 256 }),
    ];
    for (slot, generation, expected) in cases {
        let mut built = place(slot, generation);
        assert_eq!(walk(&built.bytes, &DATA).findings, [expected], "{slot}");
        for write in plan(&built.bytes).expect("a plan").writes {
            built.page(write.page).copy_from_slice(&write.bytes[..]);
        }
        let left = walk(&built.bytes, &DATA);
        assert!(
            left.errors().next().is_none() && (slot == 2 || left.findings.is_empty()),
            "{left}"
        );
    }
    let newer: [&[(usize, u64, u64)]; 5] = [
        &[(2, 512, 5)],
        &[(2, 512, 7)],
        &[(1, 256, 4)],
        &[(0, 0, 9)],
        &[(0, 0, 7), (2, 512, 5)],
    ];
    for places in newer {
        let mut builder = sample::pool();
        builder.sb.state = CLEAN.into();
        let mut built = builder.build();
        for (slot, _, generation) in places {
            let mut sb = built.sb;
            sb.generation = (*generation).into();
            built.write_slot(*slot, &sb);
        }
        let newest = places[0].2;
        let report = walk(&built.bytes, &DATA);
        let is_told = |(slot, page, generation): &(usize, u64, u64)| {
            let (slot, page, generation) = (*slot, *page, *generation);
            report
                .findings
                .contains(&Finding::SuperblockPlace { slot, page, generation })
        };
        assert!(!report.is_sound() && places.iter().all(is_told), "{places:?}: {report}");
        assert!(!report.clean && report.lost_superblock() == Some(newest), "{places:?}");
        let view = View::salvage(&built.bytes).unwrap();
        let losses = view.losses();
        assert!(
            losses.len() == 1 && losses[0].contains("is lost"),
            "{places:?}: {losses:?}"
        );
        let plan = plan(&built.bytes).unwrap_or_else(|refusal| panic!("{places:?}: {refusal}"));
        assert!(
            plan.generation > newest && plan.generation.is_multiple_of(2),
            "{places:?}"
        );
        let lost = plan.actions.iter().filter(|action| action.contains("was lost"));
        assert_eq!(lost.count(), 1, "{places:?}: {:?}", plan.actions);
        for write in plan.writes {
            built.page(write.page).copy_from_slice(&write.bytes[..]);
        }
        let left = walk(&built.bytes, &DATA);
        assert!(left.findings.is_empty(), "{places:?}: {left}");
    }
}

/// S-3.1, S-4.3.
#[test]
fn map_entries() {
    let expect = |field| {
        [Finding::MapEntry {
            id: INODES.into(),
            field,
        }]
    };
    entry(
        "state",
        |id, e| {
            if id == INODES {
                e.state = 1
            }
        },
        &expect("state"),
    );
    entry(
        "reserved",
        |id, e| {
            if id == INODES {
                e.reserved = 1.into()
            }
        },
        &expect("reserved field"),
    );
    entry(
        "dead with pages",
        |id, e| {
            if id == INODES {
                e.state = 0xA5
            }
        },
        &expect("page of a metablock that does not exist"),
    );
    entry(
        "kind",
        |id, e| {
            if id == INODES {
                e.kind = 6
            }
        },
        &expect("kind"),
    );
    entry(
        "first",
        |id, e| {
            if id == INODES {
                e.first = 5000.into()
            }
        },
        &expect("first page"),
    );
    entry(
        "second",
        |id, e| {
            if id == INODES {
                e.second = 0.into()
            }
        },
        &expect("second page"),
    );
    let far = |b: &mut Builder| {
        b.block(MetaId::new(Space::Totals, 1));
    };
    let id = MetaId::new(Space::Totals, 1).into();
    // Its pages are named by an entry that counts for nothing.
    let pages = sample::pool().tap(far).build().places[&MetaId::new(Space::Totals, 1).0];
    let left = [pages.first.get(), pages.second.get()].map(|page| Finding::HomeSet { page });
    let mut expected = vec![Finding::MapEntry { id, field: "index" }];
    expected.extend(left);
    content("index", far, &expected);
    let shared = |id: MetaId, e: &mut MapEntry| {
        if id == INODES {
            e.second = 64.into();
        }
    };
    let mut b = sample::pool();
    b.on_entry = Some(shared);
    let findings = walk(&b.build().bytes, &DATA).findings;
    assert!(
        findings
            .iter()
            .any(|f| matches!(f, Finding::MetaPageTwice { page: 64, .. })),
        "{findings:?}"
    );
}

trait Tap: Sized {
    fn tap(mut self, edit: impl FnOnce(&mut Self)) -> Self {
        edit(&mut self);
        self
    }
}
impl Tap for Builder {}

/// S-1.2, S-4.1, S-4.2: the copies of a metablock, and of the map page above.
#[test]
fn metablocks_and_copies() {
    let place = sample::pool().build().places[&INODES.0];
    let (first, second) = (place.first.get(), place.second.get());
    let id = INODES.into();
    raw(
        "second copy",
        |b| b.page(second)[99] ^= 1,
        &[Finding::MetaCopy { id, page: second }],
    );
    raw(
        "first copy",
        |b| b.page(first)[99] ^= 1,
        &[Finding::MetaCopy { id, page: first }],
    );
    let both = |b: &mut Built| {
        b.page(first)[99] ^= 1;
        b.page(second)[98] ^= 1;
    };
    // Everything that would follow from the lost inodes is not told.
    raw("both", both, &[Finding::Metablock { id, page: first }]);
    // S-4.8: nor of those that nobody has, which is no error of the image.
    let lost = |id: MetaId, e: &mut MapEntry| {
        if id == INODES {
            e.crc = map::LOST.into();
        }
    };
    content("lost", |b| b.on_entry = Some(lost), &[Finding::MetaLost { id }]);
    for space in Space::ALL {
        let id = MetaId::map(space, 0, 0);
        let built = sample::pool().build();
        let entry = built
            .places
            .get(&MetaId::map(space, 1, 0).0)
            .map_or(id, |_| MetaId::map(space, 1, 0));
        let place = built.places[&entry.0];
        let (first, second) = (place.first.get(), place.second.get());
        let both = |b: &mut Built| {
            b.page(first)[99] ^= 1;
            b.page(second)[98] ^= 1;
        };
        raw(
            "map page",
            both,
            &[Finding::Metablock {
                id: entry.into(),
                page: first,
            }],
        );
    }
}

/// S-3.2.
#[test]
fn headers() {
    let page = sample::pool().build().places[&node(TREE_A).0].first.get();
    let cases: [(&str, usize, &[Finding]); 5] = [
        ("magic", 0, &[]),
        ("id", 9, &[]),
        ("pool id", 28, &[]),
        ("reserved field", 6, &[]),
        (
            "owner",
            16,
            &[Finding::Node {
                id: node(TREE_A).into(),
                owner: 5,
                field: "owner",
            }],
        ),
    ];
    for (field, at, other) in cases {
        let own = [Finding::Header {
            id: node(TREE_A).into(),
            page,
            field: leak(field),
        }];
        let edit = |b: &mut Builder| b.at(TREE_A)[at] ^= 9;
        content(field, edit, if other.is_empty() { &own } else { other });
    }
    entry(
        "generation",
        |id, e| {
            if id == node(TREE_A) {
                e.generation = 2.into()
            }
        },
        &[Finding::Header {
            id: node(TREE_A).into(),
            page,
            field: "generation",
        }],
    );
    let home = sample::pool().build().places[&TOTALS.0].first.get();
    let expected = [Finding::Header {
        id: TOTALS.into(),
        page: home,
        field: "level",
    }];
    content("level", |b| b.block(TOTALS)[5] = 1, &expected);
}

fn leak(field: &str) -> &'static str {
    Box::leak(field.to_owned().into_boxed_str())
}

/// S-4.5.
#[test]
fn homes() {
    fn clear(id: MetaId, page: &mut crate::builder::Page) {
        if id == HOMES {
            page[40] ^= 1;
        }
    }
    let first = MetaId(
        *sample::pool()
            .build()
            .places
            .iter()
            .find(|(_, e)| e.first.get() == 64)
            .unwrap()
            .0,
    );
    content(
        "clear",
        |b| b.on_block = Some(clear),
        &[Finding::HomeClear {
            id: first.into(),
            page: 64,
        }],
    );
    content(
        "set",
        |b| {
            b.on_block = Some(|id, page| {
                if id == HOMES {
                    page[80 + 1] ^= 1
                }
            })
        },
        &[Finding::HomeSet { page: 308 }],
    );
    let chunk = |slot, start, field| {
        [Finding::Chunk {
            id: HOMES.into(),
            slot,
            start,
            field,
        }]
    };
    content(
        "bit beyond",
        |b| {
            b.on_block = Some(|id, page| {
                if id == HOMES {
                    page[80 + 4] ^= 1
                }
            })
        },
        &chunk(1, 300, "bit beyond its pages"),
    );
    content(
        "overlap",
        |b| {
            b.on_block = Some(|id, page| {
                if id == HOMES {
                    page[112..114].copy_from_slice(&300u16.to_le_bytes());
                    page[118] = 0
                }
            })
        },
        &chunk(2, 300, "page that another chunk, a superblock or the log has"),
    );
    content(
        "outside",
        |b| {
            b.on_block = Some(|id, page| {
                if id == HOMES {
                    page[112..114].copy_from_slice(&2000u16.to_le_bytes())
                }
            })
        },
        &chunk(2, 2000, "place outside the pool"),
    );
    content(
        "reserved",
        |b| {
            b.on_block = Some(|id, page| {
                if id == HOMES {
                    page[4090] = 1
                }
            })
        },
        &[Finding::Reserved {
            id: HOMES.into(),
            offset: 4090,
        }],
    );
}

#[test]
fn home_outside() {
    let mut built = sample::pool().build();
    let page = built.places[&TOTALS.0].first.get();
    assert!(walk(&built.bytes, &DATA).is_sound());
    built.page(page)[4000] = 0;
    // The chunk entry goes, all else stays: its pages are in use, but nobody knows for what.
    let mut b = sample::pool();
    b.on_block = Some(|id, page| {
        if id == HOMES {
            page[32..72].fill(0)
        }
    });
    let findings = walk(&b.build().bytes, &DATA).findings;
    assert!(
        findings.iter().any(|f| *f
            == Finding::HomeOutside {
                id: TOTALS.into(),
                page
            }),
        "{findings:?}"
    );
}

/// S-1.3, S-5.1 to S-5.4: S-5.2 by field, S-5.3 for inline bodies.
#[test]
fn inode_fields() {
    type Edit = fn(&mut inode::Inode);
    let cases: [(&'static str, u64, Edit); 21] = [
        ("mode", 7, |i| i.mode = 0o170_000.into()),
        ("flags", 3, |i| i.flags = 1.into()),
        ("body", 7, |i| i.body = 1),
        ("height", 4, |i| i.height = 1),
        ("xattr", 4, |i| i.xattr = 41.into()),
        ("xattrs", 4, |i| i.xattrs = 1.into()),
        ("size", 7, |i| i.size = 1.into()),
        ("size", 16, |i| i.size = u64::MAX.into()),
        ("size of an inline file", 3, |i| i.size = 65.into()),
        ("byte beyond an inline file", 3, |i| i.body_area[9] = 1),
        ("born", 4, |i| i.born = 3.into()),
        ("nanoseconds", 4, |i| i.mtime_nsec = 1_000_000_000.into()),
        ("parent", 4, |i| i.parent = 1.into()),
        ("entries", 4, |i| i.entries = 1.into()),
        ("root", 4, |i| i.root = 1.into()),
        ("reserved field", 4, |i| i.reserved = 1.into()),
        ("size", 9, |i| i.size = 1.into()),
        ("body", 9, |i| i.body = 2),
        ("size of a symlink", 6, |i| {
            (i.size, i.body, i.body_area) = (0.into(), 0, [0; 64])
        }),
        ("height", 7, |i| i.height = 1),
        ("flags", 1, |i| i.flags = 0x100.into()),
    ];
    for (field, ino, edit) in cases {
        let mut expected = vec![Finding::Inode { ino, field }];
        // The entries' versions hang on it.
        match (field, ino) {
            ("born", _) => expected.extend((0..2).map(|index| Finding::PageEntry {
                ino,
                index,
                field: "version",
            })),
            ("mode", _) => {
                let findings = walk(&sample::pool().tap(|b| b.inode(ino, edit)).build().bytes, &DATA).findings;
                assert_eq!(findings[0], expected[0]);
                assert!(matches!(
                    findings[1],
                    Finding::Entry {
                        field: "kind (its inode is of another)",
                        ..
                    }
                ));
                continue;
            }
            _ => {}
        }
        content(field, |b| b.inode(ino, edit), &expected);
    }
    // A state that is none: whether the inode lives is not known, so nothing else is told.
    content(
        "state",
        |b| b.inode(4, |i| i.state = 1.into()),
        &[Finding::Inode { ino: 4, field: "state" }],
    );
    let unused = |b: &mut Builder| b.block(INODES)[inode::offset_of(14) + 70] = 1;
    content(
        "never used",
        unused,
        &[Finding::Inode {
            ino: 14,
            field: "byte set although it was never used",
        }],
    );
    let past = |b: &mut Builder| b.block(INODES)[4000] = 1;
    content(
        "reserved",
        past,
        &[Finding::Reserved {
            id: INODES.into(),
            offset: 4000,
        }],
    );
}

/// S-2.4, S-5.6, S-7.3, S-7.5.
#[test]
fn counts_and_bitmaps() {
    let pages = |b: &mut Builder| b.inode(4, |i| i.pages = 9.into());
    content(
        "pages",
        pages,
        &[Finding::InodePages {
            ino: 4,
            stored: 9,
            found: 2,
        }],
    );
    let links = |b: &mut Builder| b.inode(3, |i| i.nlink = 3.into());
    content(
        "links",
        links,
        &[Finding::LinkCount {
            ino: 3,
            stored: 3,
            found: 2,
        }],
    );
    let links = |b: &mut Builder| b.inode(2, |i| i.nlink = 2.into());
    content(
        "links of a directory",
        links,
        &[Finding::LinkCount {
            ino: 2,
            stored: 2,
            found: 3,
        }],
    );
    // The bitmap and TOTALS change together where a bit does, so that only the bit is wrong.
    let flip = |space, number, at, by| {
        move |b: &mut Builder| {
            b.flip(space, number);
            b.total(at, by);
        }
    };
    let (p, i, n) = (bitmap::TOTAL_PAGES, bitmap::TOTAL_INODES, bitmap::TOTAL_NODES);
    content(
        "page set",
        flip(Space::Pages, 700, p, 1),
        &[Finding::PageSet { first: 700, count: 1 }],
    );
    content(
        "page clear",
        flip(Space::Pages, 604, p, -1),
        &[Finding::PageClear { first: 604, count: 1 }],
    );
    content(
        "log page clear",
        flip(Space::Pages, 9, p, -1),
        &[Finding::PageClear { first: 9, count: 1 }],
    );
    content(
        "beyond N",
        flip(Space::Pages, 1024, p, 1),
        &[Finding::PageSet { first: 1024, count: 1 }],
    );
    content(
        "inode set",
        flip(Space::InodeNumbers, 0, i, 1),
        &[Finding::InodeNumberSet { ino: 0 }],
    );
    content(
        "inode clear",
        flip(Space::InodeNumbers, 4, i, -1),
        &[Finding::InodeNumberClear { ino: 4 }],
    );
    content(
        "node set",
        flip(Space::NodeNumbers, 99, n, 1),
        &[Finding::NodeNumberSet { index: 99 }],
    );
    content(
        "node clear",
        flip(Space::NodeNumbers, 3, n, -1),
        &[Finding::NodeNumberClear { index: 3 }],
    );
    content(
        "orphan set",
        |b| b.flip(Space::Orphans, 14),
        &[Finding::OrphanSet { ino: 14 }],
    );
    content(
        "orphan without pages",
        |b| b.flip(Space::Orphans, 3),
        &[Finding::OrphanSet { ino: 3 }],
    );
    content(
        "orphan directory",
        |b| b.flip(Space::Orphans, 2),
        &[Finding::OrphanSet { ino: 2 }],
    );
    content(
        "orphan clear",
        |b| b.flip(Space::Orphans, 11),
        &[Finding::OrphanClear { ino: 11 }],
    );
    content(
        "shares",
        |b| b.share(602, 2),
        &[Finding::Share {
            page: 602,
            stored: 2,
            found: 0,
        }],
    );
    let lost = |b: &mut Builder| {
        b.share(600, 0);
        b.total(bitmap::TOTAL_SHARES, -1);
    };
    content(
        "share missing",
        lost,
        &[Finding::Share {
            page: 600,
            stored: 0,
            found: 1,
        }],
    );
    for (at, field) in [
        (32, "pages in use"),
        (40, "inodes in use"),
        (48, "nodes in use"),
        (56, "extra references"),
    ] {
        let found = u64::from_le_bytes(sample::pool().block(TOTALS)[at..at + 8].try_into().unwrap());
        content(
            field,
            |b| b.total(at, 5),
            &[Finding::Total {
                field,
                stored: found + 5,
                found,
            }],
        );
    }
    content(
        "totals",
        |b| b.block(TOTALS)[64] = 1,
        &[Finding::Reserved {
            id: TOTALS.into(),
            offset: 64,
        }],
    );
    content(
        "unreached",
        |b| b.node(50, Kind::Xattr, 0, 3)[4000] = 1,
        &[Finding::NodeUnreached { id: node(50).into() }],
    );
}

/// S-7.2, and S-5.6 for what lies beyond the size.
#[test]
fn page_entries() {
    let put = |entry: PageEntry| {
        move |b: &mut Builder| {
            let crc = if entry.flags() == WRITTEN {
                keepfs_codes::crc32c::of(&b.data[&604][..])
            } else {
                0
            };
            let entry = PageEntry::new(entry.page(), entry.flags(), crc, entry.version.get());
            b.at(sample::TREE_B)[32..48].copy_from_slice(entry.as_bytes());
        }
    };
    let expect = |field| {
        [Finding::PageEntry {
            ino: 5,
            index: 254,
            field,
        }]
    };
    content("flag", put(PageEntry::new(604, 3, 0, 1)), &expect("flag"));
    // S-7.6: a lost page is told, and owns nothing.
    let lost = |b: &mut Builder| {
        put(PageEntry::new(0, LOST, 0, 1))(b);
        b.flip(Space::Pages, 604);
        b.total(bitmap::TOTAL_PAGES, -1);
    };
    content("lost", lost, &[Finding::DataLost { ino: 5, index: 254 }]);
    content(
        "lost page",
        put(PageEntry::new(604, LOST, 0, 1)),
        &expect("page of a lost one"),
    );
    content("page", put(PageEntry::new(4000, WRITTEN, 0, 1)), &expect("page"));
    content("version", put(PageEntry::new(604, WRITTEN, 0, 9)), &expect("version"));
    let crc = |b: &mut Builder| {
        let entry = PageEntry::new(604, UNWRITTEN, 7, 1);
        b.at(sample::TREE_B)[32..48].copy_from_slice(entry.as_bytes());
    };
    content("CRC", crc, &expect("CRC of an unwritten page"));
    let system = |b: &mut Builder| {
        put(PageEntry::new(20, UNWRITTEN, 0, 1))(b);
        b.flip(Space::Pages, 604);
        b.total(bitmap::TOTAL_PAGES, -1);
    };
    content(
        "system",
        system,
        &[Finding::PageSystem {
            ino: 5,
            index: 254,
            page: 20,
        }],
    );
    let beyond = |b: &mut Builder| b.inode(5, |i| i.size = 4096.into());
    content("beyond", beyond, &[Finding::PageBeyond { ino: 5, index: 254 }]);
    let child = |b: &mut Builder| b.at(TREE_ROOT)[44] = 1;
    content(
        "child",
        child,
        &[Finding::PageEntry {
            ino: 5,
            index: 0,
            field: "child",
        }],
    );
    let kept = |b: &mut Builder| {
        b.inode(16, |i| {
            (i.body, i.pages) = (BODY_DIRECT, 1.into());
            sample::entries(
                &mut i.body_area,
                &[PageEntry::HOLE, PageEntry::new(620, UNWRITTEN, 0, 1)],
            );
        });
        b.use_page(620);
    };
    content("allocated beyond the size", kept, &[]);
}

/// S-5.7, S-7.2.
#[test]
fn data() {
    raw(
        "CRC",
        |b| b.page(601)[0] ^= 1,
        &[Finding::DataBad {
            ino: 4,
            index: 1,
            page: 601,
        }],
    );
    let tail = |b: &mut Builder| {
        let entry = b.data_unaccounted(601, 2, 905);
        b.inode(4, |i| i.body_area[16..32].copy_from_slice(entry.as_bytes()));
    };
    content("tail", tail, &[Finding::DataTail { ino: 4, index: 1 }]);
    // Without the option nobody reads data.
    let mut built = sample::pool().build();
    built.page(601)[0] ^= 1;
    assert_eq!(walk(&built.bytes, &Options::default()).findings, []);
}

/// S-5.4, S-7.1, S-7.4: what refers to a node and the node agree.
#[test]
fn nodes() {
    let wrong = |id: u64, owner, field| {
        [Finding::Node {
            id: node(id).into(),
            owner,
            field,
        }]
    };
    content("level", |b| b.at(TREE_A)[5] = 3, &wrong(TREE_A, 5, "level"));
    content(
        "generation",
        |b| b.at(TREE_ROOT)[40] = 2,
        &wrong(TREE_A, 5, "generation"),
    );
    content(
        "height",
        |b| b.inode(5, |i| i.height = 3),
        &wrong(TREE_ROOT, 5, "level"),
    );
    content(
        "kind",
        |b| b.inode(2, |i| i.root = node(XATTR_A).0.into()),
        &[Finding::NodeTwice {
            id: node(XATTR_A).into(),
            owner: 2,
        }],
    );
    content(
        "missing",
        |b| b.inode(5, |i| i.root = node(77).0.into()),
        &[Finding::NodeMissing {
            id: node(77).into(),
            owner: 5,
        }],
    );
    content(
        "not a node",
        |b| b.inode(5, |i| i.root = INODES.0.into()),
        &[Finding::NodeMissing {
            id: INODES.into(),
            owner: 5,
        }],
    );
    let twice = |b: &mut Builder| {
        let (a, b_at) = (b.at(TREE_ROOT)[32..48].to_vec(), 48..64);
        b.at(TREE_ROOT)[b_at].copy_from_slice(&a);
    };
    content(
        "twice",
        twice,
        &[Finding::NodeTwice {
            id: node(TREE_A).into(),
            owner: 5,
        }],
    );
    content("xattr level", |b| b.at(XATTR_B)[5] = 7, &wrong(XATTR_B, 10, "level"));
    content("xattr used", |b| b.at(XATTR_B)[41] = 0xff, &wrong(XATTR_B, 10, "used"));
    content(
        "xattr reserved",
        |b| b.at(XATTR_B)[42] = 1,
        &wrong(XATTR_B, 10, "reserved field"),
    );
    content(
        "xattr ring",
        |b| b.at(XATTR_B)[32..40].copy_from_slice(&node(XATTR_A).0.to_le_bytes()),
        &[Finding::NodeTwice {
            id: node(XATTR_A).into(),
            owner: 10,
        }],
    );
}

/// S-7.4.
#[test]
fn xattrs() {
    let expect = |field| [Finding::Xattr { ino: 3, field }];
    content(
        "namespace",
        |b| b.inode(3, |i| i.xattr_area[1] = 5),
        &expect("namespace"),
    );
    content("length", |b| b.inode(3, |i| i.xattr_area[2] = 9), &expect("length"));
    content("name", |b| b.inode(3, |i| i.xattr_area[1] = 3), &expect("name"));
    let twice = |i: &mut inode::Inode| {
        let attr = i.xattr_area;
        i.xattr_area[6..12].copy_from_slice(&attr[..6]);
        i.xattr = 12.into();
    };
    content("twice", |b| b.inode(3, twice), &expect("name (it is there twice)"));
}

/// S-5.2, S-5.6.
#[test]
fn links() {
    let no_root = |b: &mut Builder| b.inode(1, |i| i.mode = sample::FILE.into());
    let findings = walk(&sample::pool().tap(no_root).build().bytes, &DATA).findings;
    assert!(findings.contains(&Finding::RootMissing {}), "{findings:?}");
    let parent = |b: &mut Builder| b.inode(9, |i| i.parent = 1.into());
    content(
        "parent",
        parent,
        &[Finding::Parent {
            ino: 9,
            stored: 1,
            found: 2,
        }],
    );
    content(
        "root's parent",
        |b| b.inode(1, |i| i.parent = 2.into()),
        &[Finding::Parent {
            ino: 1,
            stored: 2,
            found: 1,
        }],
    );
    let entries = |b: &mut Builder| b.inode(2, |i| i.entries = 4.into());
    content(
        "entries",
        entries,
        &[Finding::Entries {
            ino: 2,
            stored: 4,
            found: 3,
        }],
    );
    content(
        "ring",
        ring,
        &[Finding::Unreached { ino: 30 }, Finding::Unreached { ino: 31 }],
    );
}

/// Two directories that are each other's parent.
fn ring(b: &mut Builder) {
    use crate::builder::fill_leaf;
    for (ino, other, leaf) in [(30, 31, 40), (31, 30, 41)] {
        b.new_inode(ino, sample::DIR, |i| {
            (i.nlink, i.parent, i.entries) = (3.into(), other.into(), 1.into());
            i.root = node(leaf).0.into();
        });
        fill_leaf(b.node(leaf, Kind::DirLeaf, 0, ino), &[("other", other, 4, true)]);
    }
}

/// S-6.1, S-6.4.
#[test]
fn directories() {
    let leaf = |id: u64, dir, field| {
        [Finding::Leaf {
            dir,
            id: node(id).into(),
            field,
        }]
    };
    content(
        "live",
        |b| b.at(LEAF_DIR)[34] = 9,
        &leaf(LEAF_DIR, 2, "count of live entries"),
    );
    content(
        "dead",
        |b| b.at(LEAF_DIR)[36] = 9,
        &leaf(LEAF_DIR, 2, "count of dead bytes"),
    );
    content("tail", |b| b.at(LEAF_DIR)[33] = 0xff, &leaf(LEAF_DIR, 2, "tail"));
    content(
        "reserved",
        |b| b.at(LEAF_DIR)[38] = 1,
        &leaf(LEAF_DIR, 2, "reserved field"),
    );
    content(
        "cut",
        |b| b.at(LEAF_DIR)[32] -= 4,
        &leaf(LEAF_DIR, 2, "entry (it reaches beyond the tail)"),
    );
    let depth = "local depth for the slots that it has";
    content("depth", |b| b.at(LEAF_LOW)[5] = 2, &leaf(LEAF_LOW, 1, depth));
    content("root depth", |b| b.at(LEAF_DIR)[5] = 1, &leaf(LEAF_DIR, 2, depth));
    let level = |b: &mut Builder| b.at(INDEX)[5] = 1;
    content(
        "index level",
        level,
        &[Finding::Node {
            id: node(INDEX).into(),
            owner: 1,
            field: "level or place",
        }],
    );
    let slot = |slot, field| {
        [Finding::Slot {
            dir: 1,
            id: node(INDEX).into(),
            slot,
            field,
        }]
    };
    let empty = |b: &mut Builder| b.at(INDEX)[32 + 8 * 128..32 + 8 * 256].fill(0);
    content("empty slots", empty, &slot(128, "it holds no node"));
    content(
        "index rest",
        |b| b.at(INDEX)[4000] = 1,
        &[Finding::Reserved {
            id: node(INDEX).into(),
            offset: 4000,
        }],
    );
    let apart = |b: &mut Builder| {
        let low = node(LEAF_LOW).0.to_le_bytes();
        b.at(INDEX)[32 + 8 * 255..32 + 8 * 256].copy_from_slice(&low);
    };
    let findings = walk(&sample::pool().tap(apart).build().bytes, &DATA).findings;
    let field = "its child stands in slots before, apart from it";
    assert!(findings.contains(&slot(255, field)[0]), "{findings:?}");
}

/// S-6.2, S-6.3, S-6.6.
#[test]
fn directory_entries() {
    // The leaf of directory 2 begins with the entry `sub`, then comes the dead one, then `file`.
    let wrong = |offset, field| {
        [Finding::Entry {
            dir: 2,
            id: node(LEAF_DIR).into(),
            offset,
            field,
        }]
    };
    let put = |at: usize, byte: u8| move |b: &mut Builder| b.at(LEAF_DIR)[at] = byte;
    content("state", put(40 + 22, 1), &wrong(40, "state"));
    content("reserved", put(40 + 23, 1), &wrong(40, "reserved field"));
    content("padding", put(40 + 27, 1), &wrong(40, "padding"));
    content("version", put(40 + 16, 9), &wrong(40, "version"));
    content("key", put(40 + 4, 0), &wrong(40, "key (it is not its name's)"));
    content("kind", put(40 + 20, 8), &wrong(40, "kind (its inode is of another)"));
    let slash = |b: &mut Builder| b.at(LEAF_DIR)[40 + 24] = b'/';
    content(
        "name",
        slash,
        &[&wrong(40, "name")[..], &wrong(40, "key (it is not its name's)")].concat(),
    );
    let dangling = |b: &mut Builder| b.at(LEAF_DIR)[96 + 8] = 14;
    let offset = 96;
    let expected = [
        Finding::EntryInode {
            dir: 2,
            id: node(LEAF_DIR).into(),
            offset,
            ino: 14,
        },
        Finding::LinkCount {
            ino: 10,
            stored: 1,
            found: 0,
        },
    ];
    content("dangling", dangling, &expected);
    let same = |b: &mut Builder| refill(b, &[("sub", 9, 4, true), ("same", 10, 8, true), ("same", 16, 8, true)]);
    content(
        "same name",
        same,
        &wrong(96, "name (there is another entry of this name)"),
    );
    let second = |b: &mut Builder| {
        refill(
            b,
            &[
                ("sub", 9, 4, true),
                ("sub2", 9, 4, true),
                ("file", 10, 8, true),
                ("late", 16, 8, true),
            ],
        );
        b.inode(2, |i| (i.nlink, i.entries) = (4.into(), 4.into()));
    };
    content("second name", second, &[Finding::DirectoryTwice { ino: 9, dir: 2 }]);
    let strayed = |b: &mut Builder| {
        // Both leaves of the root change places.
        for slot in 0..256 {
            let leaf = if slot < 128 { sample::LEAF_HIGH } else { LEAF_LOW };
            b.at(INDEX)[32 + 8 * slot..40 + 8 * slot].copy_from_slice(&node(leaf).0.to_le_bytes());
        }
    };
    let findings = walk(&sample::pool().tap(strayed).build().bytes, &DATA).findings;
    let strays = |f: &&Finding| {
        matches!(
            f,
            Finding::Entry {
                field: "leaf (its key leads to another)",
                ..
            }
        )
    };
    assert_eq!((findings.len(), findings.iter().filter(strays).count()), (9, 9));
}

/// Writes the leaf of directory 2 anew.
fn refill(b: &mut Builder, entries: &[crate::builder::Entry<'_>]) {
    b.at(LEAF_DIR)[32..].fill(0);
    crate::builder::fill_leaf(b.at(LEAF_DIR), entries);
}

/// S-2.26, S-2.27: a bit of page 0 that is wrong, in either number of pages too, is told and costs nothing, whether the
/// pool has its whole device or less.
#[test]
fn a_wrong_bit_of_page_0() {
    let built = sample::pool_with_log().build();
    let whole = walk(&built.bytes, &DATA).findings;
    let fields = [
        core::mem::offset_of!(Superblock, pages),
        core::mem::offset_of!(Superblock, made_pages),
    ];
    for more in [0, 77, 3 * PAGES as usize] {
        let mut bytes = built.bytes.clone();
        bytes.resize((PAGES as usize + more) * PAGE, 0);
        for byte in fields
            .into_iter()
            .flat_map(|field| field..field + 4)
            .chain([0, 5, 40, PAGE - 1])
        {
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[byte] ^= 1 << bit;
                let mut found = walk(&bytes, &DATA).findings;
                found.retain(|finding| !matches!(finding, Finding::SuperblockFlipped { page: 0, .. }));
                assert_eq!(found, whole, "bit {bit} of byte {byte}, {more} pages more");
            }
        }
    }
}

/// S-2.27: a wrong bit in each slot of the superblock in force, or in all, is told and nothing else is, and a repair leaves four whole ones.
#[test]
fn a_wrong_bit_of_each_slot() {
    let built = sample::pool_with_log().build();
    let bits = (0..8 * 700).step_by(211).chain([8 * 3000, 8 * PAGE - 64, 8 * PAGE - 1]);
    for (bit, slots) in bits.flat_map(|bit| [&[1, 3][..], &[3], &[0, 2], &[0], &[0, 1, 2, 3]].map(|slots| (bit, slots)))
    {
        let mut bytes = built.bytes.clone();
        let mut expected = Vec::new();
        for slot in slots {
            let (page, bit) = (slot * 256, (bit + 1000 * slot) % (8 * PAGE));
            bytes[page * PAGE + bit / 8] ^= 1 << (bit % 8);
            expected.push(format!(
                "superblock slot {slot} (page {page}) has a wrong bit, in byte {}",
                bit / 8
            ));
        }
        let report = walk(&bytes, &DATA);
        let found: Vec<String> = report.findings.iter().map(|finding| finding.to_string()).collect();
        assert!(
            found.len() == slots.len() && found.iter().zip(&expected).all(|(found, says)| found.starts_with(says)),
            "{found:?} {expected:?}"
        );
        assert!(
            report
                .findings
                .iter()
                .all(|finding| finding.code() == "superblock-flipped")
        );
        assert_eq!(report.generation, built.sb.generation.get());
        let plan = plan(&bytes.as_slice()).unwrap();
        for write in &plan.writes {
            bytes[write.page as usize * PAGE..][..PAGE].copy_from_slice(&write.bytes[..]);
        }
        assert_eq!(
            walk(&bytes, &DATA).findings,
            [],
            "bit {bit} of {slots:?}: {:#?}",
            plan.actions
        );
        assert_eq!(keepfs_check::mend::plan(&bytes.as_slice()).unwrap().writes.len(), 0);
    }
}

/// S-2.28: of sectors of two superblocks nothing is made; nor where more bits are wrong, nor of two that would differ.
#[test]
fn what_is_no_superblock_is_not_made_one() {
    let built = sample::pool_with_log().build();
    let mut older = built.sb;
    older.generation = 1.into();
    older.seq = 3.into();
    older.chain = 0x7711.into();
    older.roots[1..]
        .iter_mut()
        .for_each(|root| root.entry.first = 99.into());
    let torn = |sectors: u32, flips: &[usize]| {
        let mut torn = Built {
            bytes: built.bytes.clone(),
            places: built.places.clone(),
            sb: built.sb,
        };
        [1, 3].into_iter().for_each(|slot| torn.write_slot(slot, &older));
        let slot = torn.page(256);
        for at in (0..8).filter(|at| sectors >> at & 1 == 1) {
            slot[at * 512..][..512].copy_from_slice(&built.bytes[256 * PAGE + at * 512..][..512]);
        }
        flips.iter().for_each(|bit| slot[bit / 8] ^= 1 << (bit % 8));
        walk(&torn.bytes, &DATA).generation
    };
    for sectors in 0..256 {
        // Sectors 2 to 6 of both are zeros.
        let is_new = sectors & 0x83 == 0x83;
        assert_eq!(torn(sectors, &[]), if is_new { 3 } else { 2 }, "{sectors:#b}");
        assert_eq!(torn(sectors, &[3000, 30_000]), 2, "{sectors:#b}");
        assert_eq!(torn(sectors, &[4000]), if is_new { 3 } else { 2 }, "{sectors:#b}");
    }
    let mut other = built.sb;
    other.seq = 99.into();
    let differ = |is_flipped: bool| {
        let mut two = Built {
            bytes: built.bytes.clone(),
            places: built.places.clone(),
            sb: built.sb,
        };
        two.write_slot(3, &other);
        two.page(256)[700] ^= 8;
        two.page(768)[700] ^= u8::from(is_flipped);
        walk(&two.bytes, &DATA)
    };
    assert_eq!(differ(true).generation, 2);
    let one = differ(false);
    assert_eq!(one.findings[0], Finding::SuperblockCopy { slot: 1, page: 256 });
}

/// S-2.25: a pool that has less than its device is found without page 0, and repair writes that anew; of two the newer one.
#[test]
fn page_0_of_a_pool_that_is_shorter_than_its_device() {
    let mut built = sample::pool_with_log().build();
    built.bytes.resize((PAGES as usize + 100) * PAGE, 0);
    let mut bytes = built.bytes.clone();
    bytes[..PAGE].fill(0);
    let found = walk(&bytes, &DATA).findings;
    assert!(found.contains(&Finding::SuperblockFirst {}), "{found:?}");
    let plan = plan(&bytes.as_slice()).unwrap();
    assert!(plan.writes.iter().any(|write| write.page == 0));
    assert_eq!(plan.after.errors().count(), 0);
}

/// S-2.25: the others of a grown pool are found where its first size put them, and repair writes page 0 anew.
#[test]
fn page_0_of_a_pool_that_has_grown() {
    let mut built = sample::pool_with_log().build();
    let mut sb = built.sb;
    sb.made_pages = (PAGES as u32).into();
    sb.pages = (PAGES + 100).into();
    sb.incompat = (sb.incompat.get() | INCOMPAT_GROWN).into();
    built.bytes.resize((PAGES as usize + 100) * PAGE, 0);
    for generation in [sb.generation.get(), sb.generation.get() + 1] {
        sb.generation = generation.into();
        built.write_superblock(&sb);
        let mut bytes = built.bytes.clone();
        bytes[..PAGE].fill(0);
        let found = walk(&bytes, &DATA).findings;
        assert!(found.contains(&Finding::SuperblockFirst {}), "{found:?}");
        let plan = plan(&bytes.as_slice()).unwrap();
        assert!(plan.writes.iter().any(|write| write.page == 0), "{generation}");
        assert_eq!(plan.after.errors().count(), 0);
    }
}
