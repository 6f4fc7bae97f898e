//! How much of a pool with random bad pages comes back: of the files of which every page is whole in one copy, at least
//! 99 of 100, by salvage and by repair (S-21.1, S-21.3).

use super::bed::{Bed, done, keepfs, run};
use super::damage::PAGE;
use keepfs_check::read::View;
use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A pool of 64 MiB with 900 files, each of another content, in 30 directories three deep; some with attributes.
fn filled() -> Option<Bed> {
    let bed = Bed::mounted("")?;
    let mut random = Random(7);
    for n in 0..900u64 {
        let dir = bed.on(&format!("a{}/b{}/c{}", n % 3, n % 15, n % 30));
        fs::create_dir_all(&dir).unwrap();
        let path = dir.join(format!("a file with a name of some length {n}"));
        let size = match n % 30 {
            0 => 40,
            1 => 900_000,
            _ => 1 + random.next() % 40_000,
        };
        let seed = random.next().to_le_bytes();
        let content: Vec<u8> = n
            .to_le_bytes()
            .into_iter()
            .chain(seed.into_iter().cycle())
            .collect_n(size);
        fs::write(&path, content).unwrap();
        if n % 9 == 0 {
            rustix::fs::setxattr(&path, "user.long", &[7; 200], rustix::fs::XattrFlags::empty()).unwrap();
        }
        // Some checkpoints in between, so that old metadata stands about.
        if n % 300 == 299 {
            bed.unmount();
            bed.mount("");
        }
    }
    bed.unmount();
    Some(bed)
}

trait CollectN {
    fn collect_n(self, n: u64) -> Vec<u8>;
}

impl<I: Iterator<Item = u8>> CollectN for I {
    fn collect_n(self, n: u64) -> Vec<u8> {
        self.take(n as usize).collect()
    }
}

/// A file: its content, the pages of its data, and the pairs of pages of its metadata.
struct Planted {
    content: Vec<u8>,
    pages: Vec<u64>,
    pairs: Vec<[u64; 2]>,
}

fn planted(image: &Vec<u8>) -> Vec<Planted> {
    let mut view = View::open(image).unwrap();
    let mut files = Vec::new();
    for ino in view.inodes().0 {
        let inode = view.readable(ino).unwrap();
        if inode.mode.get() >> 12 != 0o10 {
            continue;
        }
        let mut content = vec![0; inode.size.get() as usize];
        view.each_page(ino, &mut |index, part| match part {
            keepfs_check::read::Part::Data(page) => {
                let at = index as usize * PAGE as usize;
                let end = content.len().min(at + PAGE as usize);
                content[at..end].copy_from_slice(&page[..end - at]);
            }
            keepfs_check::read::Part::Bad(_) => panic!("the pool is whole"),
        });
        let needs = view.needs(ino);
        let place = |id: &keepfs_format::MetaId| view.lookup(*id).map(|entry| [entry.first, entry.second]);
        files.push(Planted {
            content,
            pages: needs.pages.clone(),
            pairs: needs.metablocks.iter().filter_map(place).collect(),
        });
    }
    files
}

impl Planted {
    fn is_whole(&self, bad: &BTreeSet<u64>) -> bool {
        let is_good = |page: &u64| !bad.contains(page);
        self.pages.iter().all(is_good) && self.pairs.iter().all(|pair| pair.iter().any(is_good))
    }
}

/// The contents of all files below a directory, as far as they can be read.
fn contents(top: &Path) -> HashSet<Vec<u8>> {
    let (mut found, mut left) = (HashSet::new(), vec![top.to_owned()]);
    while let Some(dir) = left.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => left.push(entry.path()),
                Ok(kind) if kind.is_file() => found.extend(fs::read(entry.path())),
                _ => {}
            }
        }
    }
    found
}

/// Files that are whole, of them those that salvage and repair give back.
#[derive(Debug, Default, Clone, Copy)]
struct Score {
    whole: usize,
    salvaged: usize,
    repaired: usize,
}

fn judge(bed: &Bed, image: &[u8], files: &[Planted], number: u64, seed: u64) -> Score {
    fs::write(bed.pool(), image).unwrap();
    let mut random = Random(seed << 32 | number);
    let mut bad = BTreeSet::new();
    while (bad.len() as u64) < number {
        bad.insert(random.next() % (image.len() as u64 / PAGE));
    }
    let pool = File::options().write(true).open(bed.pool()).unwrap();
    for page in &bad {
        let bytes: Vec<u8> = (0..PAGE / 8).flat_map(|_| random.next().to_le_bytes()).collect();
        pool.write_all_at(&bytes, page * PAGE).unwrap();
    }
    let whole: Vec<&Planted> = files.iter().filter(|file| file.is_whole(&bad)).collect();
    let count = |found: &HashSet<Vec<u8>>| whole.iter().filter(|file| found.contains(&file.content)).count();

    let salvaged = run(keepfs(["salvage", "--json"]).arg(bed.pool()).arg(bed.path("out")));
    assert!([Some(0), Some(3)].contains(&salvaged.status.code()), "{salvaged:?}");
    let by_salvage = count(&contents(&bed.path("out")));
    fs::remove_dir_all(bed.path("out")).unwrap();

    let mut repair = keepfs(["check", "--repair", "--undo-file"]);
    let repaired = run(repair.arg(bed.path("undo")).arg(bed.pool()));
    drop(fs::remove_file(bed.path("undo")));
    // A repair that is refused gives nothing back.
    let by_repair = if [Some(0), Some(1)].contains(&repaired.status.code()) {
        done(keepfs(["check"]).arg(bed.pool()));
        bed.mount("");
        let found = count(&contents(&bed.dir()));
        bed.unmount();
        found
    } else {
        eprintln!(
            "{number} pages, seed {seed}: {}",
            String::from_utf8_lossy(&repaired.stdout)
        );
        0
    };
    Score {
        whole: whole.len(),
        salvaged: by_salvage,
        repaired: by_repair,
    }
}

fn judged(numbers: &[u64], seeds: u64) {
    let Some(bed) = filled() else { return };
    let image = fs::read(bed.pool()).unwrap();
    let files = planted(&image);
    assert_eq!(files.len(), 900);
    for number in numbers {
        let mut sum = Score::default();
        for seed in 0..seeds {
            let score = judge(&bed, &image, &files, *number, seed);
            sum.whole += score.whole;
            sum.salvaged += score.salvaged;
            sum.repaired += score.repaired;
        }
        eprintln!("{number} bad pages, {seeds} times: {sum:?}");
        let is_enough = |found: usize| found * 100 >= sum.whole * 99;
        assert!(
            sum.whole > 0 && is_enough(sum.salvaged) && is_enough(sum.repaired),
            "{number}: {sum:?}"
        );
    }
}

/// With KEEPFS_JUDGE=1 in the environment, as many as docs/RESULTS.md tells of.
#[test]
fn of_random_damage_what_is_whole_comes_back() {
    match std::env::var_os("KEEPFS_JUDGE") {
        Some(_) => judged(&[1000, 300, 100, 30, 10, 3, 1], 10),
        None => judged(&[1, 100, 1000], 2),
    }
}
