//! The page in docs is the model's; the smallest failures of recovery itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{PROOF, page};
use crate::disk::{Disk, LogPage, sum};
use crate::dropped::NEWER;
use crate::instances::{Kind, shape};
use crate::recover::{Found, Trust, recover};
use crate::rules::{ROWS, Rule, Rules};
use crate::state::{Budget, State};
use crate::tree::{Old, Rec};

fn doc(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).expect("a page of docs")
}

#[test]
fn the_document_is_what_the_model_prints() {
    let (told, made) = (doc("MODEL.md"), page());
    let other = told.lines().zip(made.lines()).find(|(told, made)| told != made);
    assert_eq!(other, None, "docs/MODEL.md, and what `table` prints");
    assert_eq!(told.len(), made.len());
}

fn number(id: &str) -> String {
    id.chars().filter(char::is_ascii_digit).collect()
}

#[test]
fn rules_and_clauses_name_each_other() {
    let told = ROWS
        .iter()
        .flat_map(|r| r.clauses.iter().map(|c| ((*c).to_owned(), number(r.id))));
    let mut named = BTreeSet::new();
    for line in doc("SPEC.md").lines() {
        let clause = line.strip_prefix("**").and_then(|l| l.split_once("**")).map(|l| l.0);
        let rules = line.rsplit_once("(model: ").and_then(|l| l.1.split_once(')'));
        if let (Some(clause), Some((rules, _))) = (clause, rules) {
            named.extend(rules.split(", ").map(|r| (clause.to_owned(), r.replace("rule ", ""))));
        }
    }
    assert_eq!(
        told.collect::<BTreeSet<_>>(),
        named,
        "rules of the model, and what SPEC.md says"
    );
}

/// S-11.5, S-11.6, S-11.7, S-11.8, S-11.9, S-11.10: the proof that one flush is enough uses each rule; one that it does not use would
/// be no rule, or the proof has a hole.
#[test]
fn the_proof_uses_each_rule() {
    let used = |r: &&crate::rules::Row| r.clauses.iter().any(|c| PROOF.contains(c));
    let used: BTreeSet<String> = ROWS.iter().filter(used).map(|r| number(r.id)).collect();
    let all: BTreeSet<String> = ROWS.iter().map(|r| number(r.id)).collect();
    assert_eq!(used, all);
}

/// The first pool with these pages in its log.
fn disk(pages: &[LogPage]) -> Disk {
    let mut disk = State::first(Budget::default(), shape(Kind::Pages)).disk;
    for page in pages {
        disk.ring[page.pos as usize] = Some(Arc::new(page.clone()));
    }
    disk
}

/// A group of so many pages behind the page `before`; the first one has the records.
fn group(before: Option<&LogPage>, pages: u8, durable: u8, recs: &[Rec]) -> Vec<LogPage> {
    let first = before.map_or(0, |before| before.pos + 1);
    let number = before.map_or(1, |before| before.number + 1);
    let mut chain = before.map_or(7, sum);
    let page = |i: u8| {
        let page = LogPage {
            pos: first + i,
            number,
            life: 1,
            chain,
            base: 1,
            durable,
            seq: number,
            last: i + 1 == pages,
            recs: if i == 0 { recs.to_vec() } else { Vec::new() },
        };
        chain = sum(&page);
        page
    };
    (0..pages).map(page).collect()
}

fn tail(val: u8) -> [Rec; 1] {
    let before = val - 1;
    [Rec::Tail { f: 0, before, val }]
}

fn found(disk: &Disk, rules: Rules) -> Found {
    recover(disk, rules, Trust::Judged).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_group_without_its_last_page_ends_the_log() {
    let pages = group(None, 3, 0, &tail(2));
    let torn = disk(&pages[..2]);
    let all = found(&torn, Rules::ALL);
    assert_eq!((all.seq, all.seen), (0, 2), "S-9.1: seen, not taken");
    let without = found(&torn, Rules::ALL.without(Rule::WholeGroups));
    assert_eq!(without.seq, 1, "without the rule it is taken");
    let hole = found(&disk(&[pages[0].clone(), pages[2].clone()]), Rules::ALL);
    assert_eq!((hole.seq, hole.seen), (0, 1), "S-9.1: nothing behind a hole");
    assert_eq!(found(&disk(&pages), Rules::ALL).seq, 1, "the whole group");
}

#[test]
fn a_group_that_continues_another_chain_is_not_read() {
    let first = group(None, 2, 0, &tail(2));
    let second = group(first.last(), 2, 0, &tail(3));
    let right = [&first[..], &second[..]].concat();
    let other = LogPage {
        chain: 8,
        ..first[1].clone()
    };
    let wrong = [&first[..], &group(Some(&other), 2, 0, &tail(3))[..]].concat();
    assert_eq!(found(&disk(&right), Rules::ALL).seq, 2, "both");
    assert_eq!(found(&disk(&wrong), Rules::ALL).seq, 1, "S-8.3");
    assert_eq!(
        found(&disk(&wrong), Rules::ALL.without(Rule::Chain)).seq,
        2,
        "without it"
    );
}

#[test]
fn a_page_of_another_group_does_not_complete_one() {
    let mut mixed = group(None, 3, 0, &tail(2));
    mixed[1] = group(None, 3, 0, &tail(9))[1].clone();
    assert_eq!(found(&disk(&mixed), Rules::ALL).seq, 0, "S-8.3");
    let within = Rules::ALL.without(Rule::ChainWithin);
    assert_eq!(found(&disk(&mixed), within).seq, 1, "without it");
}

#[test]
fn a_group_that_a_stamp_tells_is_not_judged() {
    let recs = [
        Rec::Unlink {
            f: 0,
            old: Old::Frees(0),
        },
        Rec::Map {
            f: 0,
            page: 1,
            val: 9,
            old: Old::None,
        },
    ];
    let first = group(None, 2, 0, &recs);
    assert_eq!(found(&disk(&first), Rules::ALL).seq, 0, "S-9.3: its page is missing");
    let both = [&first[..], &group(first.last(), 2, 1, &tail(10))[..]].concat();
    let both = found(&disk(&both), Rules::ALL);
    assert_eq!((both.seq, both.is_whole), (2, false), "S-9.2: taken as it is");
}

/// S-9.20, S-9.28, S-9.29: behind a resume that owed too much only a later group tells (S-9.14).
#[test]
fn a_later_group_or_a_whole_page_tells_of_a_dropped_superblock() {
    let tells = |number: u8, life: u8, pos: u8, base: u8| {
        let page = LogPage {
            pos,
            number,
            life,
            base,
            ..group(None, 1, 0, &tail(2))[0].clone()
        };
        let mut disk = disk(&[]);
        disk.ring[pos as usize % 12] = Some(Arc::new(page));
        recover(&disk, Rules::ALL, Trust::Judged).err() == Some(NEWER)
    };
    assert!(tells(1, 2, 12, 2), "a whole page of the same group");
    assert!(!tells(1, 3, 12, 2), "the same of a life too far ahead");
    assert!(tells(2, 3, 12, 2), "its group is a later one");
    assert!(!tells(2, 3, 14, 2), "it stands where no new log begins");
    assert!(!tells(2, 3, 12, 1), "it tells of no newer superblock");
}
