//! `keepfs salvage`: what comes out of pools that are whole, and of such as no mount would take (S-21.1, S-21.2, S-21.13).

use super::bed::{Bed, done, fails, keepfs, run};
use super::damage::{PAGE, forgotten, grown, lost, map_of, other, pages_of, planted, ruin, staged, tree};
use super::json::is_as_promised;
use serde_json::Value;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Output;

fn salvage(bed: &Bed) -> Output {
    let before = fs::read(bed.pool()).unwrap();
    let output = run(keepfs(["salvage", "--json"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(fs::read(bed.pool()).unwrap() == before, "the pool was written to");
    output
}

fn answer(output: &Output) -> Value {
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    is_as_promised("salvage", &answer);
    answer
}

#[test]
fn all_of_a_pool_that_is_whole_is_copied() {
    let Some((bed, was)) = planted() else { return };
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let answer = answer(&output);
    assert_eq!(answer["whole"], true);
    let found = tree(&bed.path("out"));
    for (path, seen) in &was {
        assert!(found.get(path) == Some(seen), "{path:?} is another");
    }
    assert_eq!(found.len(), was.len());
    let large = fs::metadata(bed.path("out/deep/er/large")).unwrap();
    assert!(large.blocks() * 512 < 1 << 20, "its holes are kept: {}", large.blocks());
    let first = fs::metadata(bed.path("out/inline")).unwrap().ino();
    assert_eq!(fs::metadata(bed.path("out/deep/second name")).unwrap().ino(), first);
}

#[test]
fn what_the_log_alone_has_is_copied() {
    let Some((cut, content)) = staged(5000) else { return };
    assert_eq!(salvage(&cut).status.code(), Some(0));
    assert!(fs::read(cut.path("out/file")).unwrap() == content);
}

#[test]
fn a_bad_page_of_data_is_a_hole_and_named() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["dir", "/many"]));
    let entries: Value = serde_json::from_str(&text).unwrap();
    let entries = entries["entries"].as_array().unwrap();
    let ino = &entries.iter().find(|entry| entry["name"] == "file9").unwrap()["ino"];
    let text = done(
        keepfs(["dump", "--json"])
            .arg(bed.pool())
            .args(["inode", &ino.to_string()]),
    );
    let inode: Value = serde_json::from_str(&text).unwrap();
    ruin(&bed, &[inode["direct"][1]["page"].as_u64().unwrap()]);
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let damaged = &answer(&output)["damaged"];
    assert_eq!(damaged.as_array().unwrap().len(), 1, "{damaged}");
    assert_eq!(damaged[0]["path"], "/many/file9");
    assert_eq!(
        damaged[0]["missing"],
        serde_json::json!([{"offset": PAGE, "length": PAGE}])
    );
    let mut expected = was[Path::new("./many/file9")].content.clone();
    expected[PAGE as usize..2 * PAGE as usize].fill(0);
    assert!(fs::read(bed.path("out/many/file9")).unwrap() == expected);
}

#[test]
fn bitmaps_totals_and_homes_are_not_needed() {
    let Some((bed, was)) = planted() else { return };
    for space in ["Pages", "Totals", "Homes", "InodeNumbers", "NodeNumbers"] {
        ruin(&bed, &pages_of(&bed, space));
    }
    assert_eq!(salvage(&bed).status.code(), Some(0));
    assert!(tree(&bed.path("out")) == was);
}

#[test]
fn without_its_root_directory_a_tree_has_all_its_names() {
    let Some((bed, was)) = planted() else { return };
    // The first metablock of inodes has the root and the 13 that were made first, whichever these are.
    ruin(&bed, &pages_of(&bed, "Inodes:0"));
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found = tree(&bed.path("out"));
    let missing = lost(&was, &found);
    assert!(missing.len() <= 13, "{missing:?}");
}

#[test]
fn without_any_directory_files_are_found_by_number() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).args(["map", "Nodes"]));
    let map: Value = serde_json::from_str(&text).unwrap();
    let nodes = map["map"].as_array().unwrap().iter();
    // Kinds 2 and 3 are nodes of directories.
    let of_directories = nodes.filter(|row| row["live"] == true && [2, 3].contains(&row["kind"].as_u64().unwrap()));
    let pages = of_directories.flat_map(|row| [row["first"].as_u64().unwrap(), row["second"].as_u64().unwrap()]);
    ruin(&bed, &pages.collect::<Vec<_>>());
    let output = salvage(&bed);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let found = tree(&bed.path("out"));
    assert!(lost(&was, &found).is_empty(), "{:?}", lost(&was, &found));
    assert!(
        found.keys().all(|path| path.components().count() <= 3),
        "{:?}",
        found.keys()
    );
}

#[test]
fn one_superblock_is_enough() {
    let Some((bed, was)) = planted() else { return };
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let (pages, generation) = (sb["pages"].as_u64().unwrap(), sb["generation"].as_u64().unwrap());
    // The copy of the newest one is in slot 2 or 3 (S-2.1).
    let kept = (2 + generation % 2) * pages / 4;
    let slots: Vec<u64> = (0..4)
        .map(|slot| slot * pages / 4)
        .filter(|page| *page != kept)
        .collect();
    ruin(&bed, &slots);
    let told = salvage(&bed);
    assert_eq!(told.status.code(), Some(3), "nothing tells that it is the newest");
    assert!(
        String::from_utf8_lossy(&told.stdout).contains("if that was the newer one"),
        "{told:?}"
    );
    assert!(tree(&bed.path("out")) == was);
}

#[test]
fn without_its_map_a_pool_is_found_by_headers() {
    let Some((bed, was)) = grown() else { return };
    ruin(&bed, &map_of(&bed));
    let output = salvage(&bed);
    // All is there, but who has no HOMES cannot know that of what has an older version, too (S-21.24).
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let answer = answer(&output);
    assert!(answer["findings"].to_string().contains("found by their headers"));
    assert!(answer["losses"].to_string().contains("several versions"));
    let other = other(&was, &tree(&bed.path("out")));
    assert!(other.is_empty(), "{other:?}");
}

#[test]
fn metadata_that_a_device_did_not_keep_are_not_everything() {
    let Some(bed) = forgotten() else { return };
    let output = salvage(&bed);
    let found = tree(&bed.path("out"));
    assert!(!found.contains_key(Path::new("./synced39")), "nothing is lost");
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let answer = answer(&output);
    assert_eq!(answer["whole"], false, "{answer}");
    assert!(answer["losses"].to_string().contains("may be older"), "{answer}");
    fs::remove_dir_all(bed.path("out")).unwrap();
    let told = run(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    let said = String::from_utf8_lossy(&told.stdout);
    let last = said.lines().last().unwrap();
    assert!(last.contains("some may be missing, or older than it was"), "{said}");
}

#[test]
fn without_any_superblock_a_pool_is_found_by_headers() {
    let Some((bed, was)) = grown() else { return };
    let pages = fs::metadata(bed.pool()).unwrap().len() / PAGE;
    ruin(&bed, &[0, pages / 4, pages / 2, 3 * pages / 4]);
    let output = salvage(&bed);
    // All is there, but who has no log cannot know that (S-21.24).
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("no superblock is left") && !said.contains("everything was copied"),
        "{said}"
    );
    let other = other(&was, &tree(&bed.path("out")));
    assert!(other.is_empty(), "{other:?}: {said}");
}

#[test]
fn what_a_log_without_its_superblock_had_is_named() {
    for newest in [false, true] {
        let Some((cut, _)) = staged(9000) else { return };
        let text = done(keepfs(["dump", "--json"]).arg(cut.pool()).arg("superblock"));
        let sb: Value = serde_json::from_str(&text).unwrap();
        let (pages, parity) = (
            fs::metadata(cut.pool()).unwrap().len() / PAGE,
            sb["generation"].as_u64().unwrap() % 2,
        );
        let slots = (0..4).filter(|slot| !newest || slot % 2 == parity);
        ruin(&cut, &slots.map(|slot| slot * pages / 4).collect::<Vec<_>>());
        let output = run(keepfs(["salvage", "--json"]).arg(cut.pool()).arg(cut.path("out")));
        assert_eq!(output.status.code(), Some(3), "{output:?}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        is_as_promised("salvage", &answer);
        assert_eq!(
            (answer["whole"].as_bool(), answer["losses"].as_array().unwrap().len()),
            (Some(false), 1),
            "{answer}"
        );
        let [damaged] = &answer["damaged"].as_array().unwrap()[..] else {
            panic!("{answer}")
        };
        assert_eq!(damaged["path"], "/file");
        assert_eq!(
            (&damaged["missing"][0]["offset"], &damaged["missing"][0]["length"]),
            (&4096.into(), &4096.into())
        );
    }
}

#[test]
fn a_place_with_something_in_it_and_a_pool_in_use_are_refused() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "x").unwrap();
    let (code, said) = fails(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(code == 1 && said.contains("in use"), "{said}");
    bed.unmount();
    fs::create_dir_all(bed.path("out/there")).unwrap();
    let (code, said) = fails(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert!(code == 2 && said.contains("is not empty"), "{said}");
    fs::remove_dir(bed.path("out/there")).unwrap();
    done(keepfs(["salvage"]).arg(bed.pool()).arg(bed.path("out")));
    assert_eq!(fs::read(bed.path("out/file")).unwrap(), b"x");
}
