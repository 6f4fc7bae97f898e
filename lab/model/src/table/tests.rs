//! The table in docs is the model's; the smallest failures of recovery itself.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::row;
use crate::disk::{Disk, Group, Rec, Slot, Trust, recover, sum};
use crate::machine::{Budget, State};
use crate::rules::{ROWS, Rule, Rules};

fn doc(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(path).expect("a page of docs")
}

#[test]
fn the_document_has_each_rule_with_its_result() {
    let page = doc("MODEL.md");
    for r in ROWS {
        assert!(page.contains(&row(r)), "docs/MODEL.md lacks: {}", row(r));
    }
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
    let proof = ["S-11.5", "S-11.6", "S-11.7", "S-11.8", "S-11.9", "S-11.10"];
    let used = |r: &&crate::rules::Row| r.clauses.iter().any(|c| proof.contains(c));
    let used: BTreeSet<String> = ROWS.iter().filter(used).map(|r| number(r.id)).collect();
    let all: BTreeSet<String> = ROWS.iter().map(|r| number(r.id)).collect();
    assert_eq!(used, all);
}

fn disk(groups: &[(Slot, u8)]) -> Disk {
    let mut disk = State::first(Budget::default()).disk;
    groups
        .iter()
        .for_each(|(slot, at)| disk.ring[*at as usize] = slot.clone());
    disk
}

fn group(number: u8, chain: u32, durable: u8, val: u8) -> Arc<Group> {
    let recs = vec![Rec::Tail {
        f: 0,
        before: val - 1,
        val,
    }];
    Arc::new(Group {
        pos: number - 1,
        number,
        life: 1,
        chain,
        base: 1,
        durable,
        seq: number,
        opening: 0,
        recs,
    })
}

#[test]
fn a_torn_group_ends_the_log() {
    let disk = disk(&[(Slot::Head(group(1, 7, 0, 2)), 0)]);
    let found = recover(&disk, Rules::ALL, Trust::Judged).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((found.seq, found.seen), (0, 1), "S-9.1: seen, not taken");
    let found = recover(&disk, Rules::ALL.without(Rule::WholeGroups), Trust::Judged).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(found.seq, 1, "without the rule it is taken");
}

#[test]
fn a_group_that_continues_another_chain_is_not_read() {
    let first = group(1, 7, 0, 2);
    let right = disk(&[
        (Slot::Whole(first.clone()), 0),
        (Slot::Whole(group(2, sum(&*first), 0, 3)), 1),
    ]);
    let wrong = disk(&[(Slot::Whole(first), 0), (Slot::Whole(group(2, 8, 0, 3)), 1)]);
    let seq = |disk: &Disk| {
        recover(disk, Rules::ALL, Trust::Judged)
            .unwrap_or_else(|e| panic!("{e}"))
            .seq
    };
    assert_eq!((seq(&right), seq(&wrong)), (2, 1), "S-8.3");
}

#[test]
fn a_group_that_a_stamp_tells_is_not_judged() {
    let recs = vec![
        Rec::Unlink {
            f: 0,
            old: crate::disk::Old::Frees(0),
        },
        Rec::Map {
            f: 0,
            page: 1,
            val: 9,
            old: crate::disk::Old::None,
        },
    ];
    let first = Arc::new(Group {
        recs,
        ..(*group(1, 7, 0, 2)).clone()
    });
    let told = group(2, sum(&*first), 1, 10);
    let alone = disk(&[(Slot::Whole(first.clone()), 0)]);
    assert_eq!(
        recover(&alone, Rules::ALL, Trust::Judged).map(|f| f.seq),
        Ok(0),
        "S-9.3: its page is missing"
    );
    let both = disk(&[(Slot::Whole(first), 0), (Slot::Whole(told), 1)]);
    assert!(
        recover(&both, Rules::ALL, Trust::Judged).is_err(),
        "S-9.2: taken as it is"
    );
}
