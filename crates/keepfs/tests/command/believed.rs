//! Map pages that no sum leads to: written in part they must cost no file, as they cost none where they are gone (S-21.14).

use super::bed::{Bed, done, keepfs, run};
use super::damage::PAGE;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

const FILES: usize = 2500;
/// Kind of a map page, and the space of the map of inodes (S-3.1, S-3.2).
const MAP: u8 = 10;
const OF_INODES: u8 = 0x82;

/// How many of the files are there, with their content.
fn whole(top: &Path) -> usize {
    let is_there = |n: &usize| fs::read(top.join(format!("f{n}"))).is_ok_and(|bytes| bytes == content(*n));
    (0..FILES).filter(is_there).count()
}

fn content(n: usize) -> Vec<u8> {
    format!("content {n} ").repeat(30).into_bytes()
}

/// The map page above, and every page that calls itself one of the lowest level, of any age, ascending.
fn map_pages(bed: &Bed) -> (Vec<u64>, Vec<u64>) {
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let mut roots = sb["roots"].as_array().unwrap().iter();
    let root = roots.find(|root| root["space"] == "Inodes").unwrap();
    assert_eq!(root["height"], 2);
    let above = ["first", "second"].map(|copy| root["entry"][copy].as_u64().unwrap_or(0));
    let image = fs::read(bed.pool()).unwrap();
    let is_lowest = |page: &[u8]| page[..6] == [0x31, 0x42, 0x4d, 0x4b, MAP, 0] && page[15] == OF_INODES;
    let pages = image.chunks(PAGE as usize).zip(0..).filter(|(page, _)| is_lowest(page));
    let lowest = pages.map(|(_, page)| page).collect();
    (above.into_iter().filter(|page| *page != 0).collect(), lowest)
}

/// Pages and how many bytes of each are left, from the beginning.
fn damaged(bed: &Bed, pages: &[u64], left: u64) {
    let pool = File::options().write(true).open(bed.pool()).unwrap();
    for page in pages {
        let zeros = vec![0; (PAGE - left) as usize];
        pool.write_all_at(&zeros, page * PAGE + left).unwrap();
    }
}

fn nothing_is_lost(copies: &str) {
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M", "--meta-copies", copies]).arg(bed.pool()));
    bed.mount("");
    for n in 0..FILES {
        fs::write(bed.on(&format!("f{n}")), content(n)).unwrap();
    }
    bed.unmount();
    let image = fs::read(bed.pool()).unwrap();
    let (above, lowest) = map_pages(&bed);
    let half = image.len() as u64 / PAGE / 2;
    let (first, second): (Vec<u64>, Vec<u64>) = lowest.iter().partition(|page| **page < half);
    let (all, none): (&[u64], &[u64]) = (&lowest, &[]);
    for (what, pages, left) in [
        ("none", none, PAGE),
        ("all", all, 0),
        ("half", all, PAGE / 2),
        ("first", &first, PAGE / 2),
        ("second", &second, PAGE / 2),
    ] {
        fs::write(bed.pool(), &image).unwrap();
        damaged(&bed, &above, 0);
        damaged(&bed, pages, left);
        let salvaged = run(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
        assert_eq!(whole(&bed.path("out")), FILES, "{what}: {salvaged:?}");
        fs::remove_dir_all(bed.path("out")).unwrap();
        let mut repair = keepfs(["check", "--repair", "--undo-file"]);
        let repaired = run(repair.arg(bed.path("undo")).arg(bed.pool()));
        // All came back, but nothing vouches for it (S-21.24).
        assert_eq!(repaired.status.code(), Some(5), "{what}: {repaired:?}");
        fs::remove_file(bed.path("undo")).unwrap();
        bed.check();
        bed.mount("");
        assert_eq!(whole(&bed.dir()), FILES, "{what}: {repaired:?}");
        bed.unmount();
    }
}

#[test]
fn half_a_map_page_is_no_worse_than_none_with_one_copy() {
    if super::bed::possible() {
        nothing_is_lost("1");
    }
}

#[test]
fn half_a_map_page_is_no_worse_than_none_with_two_copies() {
    if super::bed::possible() {
        nothing_is_lost("2");
    }
}
