//! Findings name the files that they are about (S-21.12).

use crate::builder::{Builder, Built, node};
use crate::sample::{self, LEAF_DIR};
use keepfs_check::mend::plan;
use keepfs_check::{Options, Report, walk};
use keepfs_format::{MetaId, Space};

fn report(built: &Built) -> Report {
    let options = Options {
        data: true,
        ..Options::default()
    };
    walk(&built.bytes, &options)
}

fn built(edit: impl FnOnce(&mut Builder)) -> Built {
    let mut b = sample::pool();
    edit(&mut b);
    b.build()
}

/// The sample with both copies of a metablock damaged.
fn without(id: MetaId) -> Built {
    let mut built = sample::pool().build();
    let place = built.places[&id.0];
    for page in [place.first.get(), place.second.get()] {
        built.page(page)[99] ^= 1;
    }
    built
}

/// The one finding of a report as people are told it.
#[track_caller]
fn line(built: &Built) -> String {
    let report = report(built);
    let [finding] = &report.findings[..] else {
        panic!("{report}")
    };
    assert!(report.to_string().starts_with(&report.line(finding)), "{report}");
    report.line(finding)
}

#[test]
fn a_finding_names_its_file() {
    let bad = |built: &mut Built| built.page(601)[0] ^= 1;
    let mut data = sample::pool().build();
    bad(&mut data);
    for (built, told) in [
        (data, "error: /direct (inode 4): page "),
        (
            built(|b| b.inode(10, |i| i.nlink = 7.into())),
            "error: /dir/file (inode 10): inode 10 says 7 links",
        ),
        (
            built(|b| b.inode(2, |i| i.entries = 4.into())),
            "error: /dir (inode 2): directory 2 says 4 entries",
        ),
        (
            built(|b| b.inode(1, |i| i.parent = 2.into())),
            "error: / (inode 1): directory 1 says",
        ),
        // What nothing leads to has a number only.
        (
            built(|b| b.new_inode(40, sample::FILE, |i| i.nlink = 0.into())),
            "error: inode 40 (no path known): inode 40 has no name",
        ),
        // Whose it is tells the directory.
        (without(node(LEAF_DIR)), "error: /dir (inode 2): no copy of metablock"),
        // Names tell what was in a metablock of inodes.
        (
            without(MetaId::new(Space::Inodes, 1)),
            "error: /dir/late (inode 16): no copy of metablock",
        ),
    ] {
        let line = line(&built);
        assert!(line.starts_with(told), "{told}: {line}");
    }
    // It is about no file.
    let totals = built(|b| b.total(40, 5));
    assert!(line(&totals).starts_with("error: TOTALS says"), "{}", line(&totals));
}

#[test]
fn a_repair_names_what_it_changes() {
    for (built, told) in [
        (
            without(MetaId::new(Space::Inodes, 1)),
            "/dir/late (inode 16): name \"late\" of directory 2",
        ),
        (
            built(|b| b.inode(10, |i| i.nlink = 7.into())),
            "/dir/file (inode 10): inode 10 has 1 links, not 7",
        ),
    ] {
        let plan = plan(&built.bytes).unwrap();
        let is_told = plan.actions.iter().any(|action| action.starts_with(told));
        assert!(is_told, "{told}: {:#?}", plan.actions);
    }
}
