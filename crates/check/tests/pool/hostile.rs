//! Hostile images: any byte of any structure changed, with the checksums above it made right, must end in a report.

use crate::builder::{Built, LOG_PAGES, LOG_START, POOL};
use crate::sample;
use keepfs_check::read::View;
use keepfs_check::{Finding, Options, walk};
use keepfs_codes::crc64;
use keepfs_format::blockmap::{LOST, PageEntry, entry_offset};
use keepfs_format::{IntoBytes, MetaId, map};

const DATA: Options = Options { data: true, limit: 200 };

/// A small generator (xorshift64*), so that a failure is repeated by its seed.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// The eight mutations of a field of 1, 2, 4 or 8 bytes.
pub fn mutate(random: &mut Random, bytes: &mut [u8]) {
    let width = 1usize << random.below(4);
    // Half of the changes hit the first part of a page, where the structures are.
    let reach = if random.below(2) == 0 { 512 } else { bytes.len() as u64 };
    let at = (random.below(reach) as usize / width) * width;
    let field = &mut bytes[at..at + width];
    let mut value = field.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
    let bits = width as u32 * 8;
    value = match random.below(8) {
        0 => 0,
        1 => u64::MAX,
        2 => value ^ 1,
        3 => value ^ 1 << (bits / 2),
        4 => value ^ 1 << (bits - 1),
        5 => value.wrapping_add(1),
        6 => value.wrapping_sub(1),
        _ => random.next(),
    };
    field.copy_from_slice(&value.to_le_bytes()[..width]);
}

/// Makes the checksums from this metablock up to the superblock right.
fn reseal(built: &mut Built, id: MetaId) {
    let (mut id, mut place) = (id, built.places[&id.0]);
    loop {
        let bytes = built.page(place.first.get()).to_vec();
        built.page(place.second.get()).copy_from_slice(&bytes);
        place.crc = crc64::full(&bytes).into();
        built.places.insert(id.0, place);
        let (space, level, number) = match (id.as_map(), id.space()) {
            (Some((space, level, number)), _) => (space, level + 1, number),
            (None, space) => (space.unwrap(), 0, id.index()),
        };
        let parent = MetaId::map(space, level, number / map::FANOUT);
        let Some(above) = built.places.get(&parent.0).copied() else {
            let mut sb = built.sb;
            sb.roots[space as usize].entry = place;
            built.sb = sb;
            return built.write_superblock(&sb);
        };
        let at = map::entry_offset(number);
        built.page(above.first.get())[at..at + 32].copy_from_slice(place.as_bytes());
        (id, place) = (parent, above);
    }
}

/// Chains the log pages anew.
fn rechain(built: &mut Built, pages: u64) {
    let mut chain = built.sb.chain.get();
    for sequence in built.sb.log_seq.get()..built.sb.log_seq.get() + pages {
        let mut covered = POOL.to_vec();
        covered.extend_from_slice(&built.sb.incarnation.get().to_le_bytes());
        covered.extend_from_slice(&chain.to_le_bytes());
        let page = built.page(LOG_START + sequence % LOG_PAGES);
        covered.extend_from_slice(&page[..4088]);
        chain = crc64::full(&covered);
        page[4088..].copy_from_slice(&chain.to_le_bytes());
    }
}

fn look_everywhere(bytes: &[u8]) -> Vec<Finding> {
    let report = walk(&bytes, &DATA);
    if let Ok(mut view) = View::open(&bytes) {
        for ino in 0..20 {
            let _ = (view.inode_view(ino), view.list(ino), view.xattrs(ino));
            let _ = (view.page(ino, 0), view.page(ino, 254));
        }
        let _ = (
            view.resolve(b"/dir/sub/new"),
            view.superblock_view(),
            view.groups().len(),
        );
    }
    report.findings
}

#[test]
fn metablocks() {
    let clean = sample::pool_with_log().build();
    let ids: Vec<MetaId> = clean.places.keys().map(|id| MetaId(*id)).collect();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut found = 0;
    for _ in 0..4000 {
        let mut built = Built {
            bytes: clean.bytes.clone(),
            places: clean.places.clone(),
            sb: clean.sb,
        };
        for _ in 0..=random.below(3) {
            let id = ids[random.below(ids.len() as u64) as usize];
            let page = built.places[&id.0].first.get();
            mutate(&mut random, built.page(page));
            reseal(&mut built, id);
        }
        found += u64::from(!look_everywhere(&built.bytes).is_empty());
    }
    // Many bytes are free or unused; but a walk that sees little is no walk.
    assert!(found > 1500, "{found} of 4000 changed images had findings");
}

#[test]
fn superblock_and_log() {
    let clean = sample::pool_with_log().build();
    let mut random = Random(42);
    for round in 0..3000 {
        let mut built = Built {
            bytes: clean.bytes.clone(),
            places: clean.places.clone(),
            sb: clean.sb,
        };
        if round % 2 == 0 {
            let page = LOG_START + (50 + random.below(2)) % LOG_PAGES;
            for _ in 0..=random.below(3) {
                mutate(&mut random, &mut built.page(page)[..600]);
            }
            rechain(&mut built, 2);
        } else {
            mutate(&mut random, &mut built.page(256)[8..656]);
            let crc = crc64::full(&built.page(256)[..4088]);
            built.page(256)[4088..].copy_from_slice(&crc.to_le_bytes());
            let copy = built.page(256).to_vec();
            built.page(768).copy_from_slice(&copy);
        }
        look_everywhere(&built.bytes);
    }
}

#[test]
fn anything() {
    for pages in [0usize, 1, 511, 512, 600] {
        let mut random = Random(7 + pages as u64);
        let bytes: Vec<u8> = (0..pages * 4096).map(|_| random.next() as u8).collect();
        assert_eq!(look_everywhere(&bytes), [Finding::NoSuperblock {}]);
    }
    let clean = sample::pool_with_log().build();
    let mut random = Random(3);
    for _ in 0..300 {
        let mut bytes = clean.bytes.clone();
        let at = random.below(bytes.len() as u64) as usize / 4096 * 4096;
        bytes[at..at + 4096].fill_with(|| random.next() as u8);
        look_everywhere(&bytes);
        bytes.truncate(random.below(clean.bytes.len() as u64) as usize);
        look_everywhere(&bytes);
    }
}

/// Findings beyond the limit are counted, not kept.
#[test]
fn limit() {
    let mut b = sample::pool();
    for page in (800..900).step_by(2) {
        b.use_page(page);
    }
    let report = walk(&b.build().bytes, &Options { data: false, limit: 3 });
    assert_eq!((report.findings.len(), report.dropped), (3, 47));
    assert_eq!((report.error_count(), report.dropped_errors), (50, 47));
    assert!(!report.is_sound());
}

/// What is lost, and said to be, is no error however much it is, and hides none.
#[test]
fn limit_by_class() {
    let pool = || {
        let mut b = sample::pool();
        let lost = PageEntry::new(0, LOST, 0, 1);
        for slot in 10..110 {
            b.at(sample::TREE_A)[entry_offset(slot)..][..16].copy_from_slice(lost.as_bytes());
        }
        b.inode(5, |inode| inode.pages = 103.into());
        b
    };
    let options = Options { data: false, limit: 3 };
    let report = walk(&pool().build().bytes, &options);
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.findings.len(), report.dropped), (3, 97));
    let mut b = pool();
    b.use_page(800);
    let report = walk(&b.build().bytes, &options);
    assert_eq!((report.error_count(), report.dropped_errors), (1, 0), "{report}");
}
