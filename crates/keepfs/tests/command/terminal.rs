//! What users and images put into names and labels is seen on a terminal, and never obeyed (decision 0818).

use super::bed::{Bed, done, keepfs, run};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A title, a colour, a cleared screen, and a line as of `keepfs status`.
const LABEL: &str = "\u{1b}]0;pwned\u{7}\u{1b}[31mred\u{1b}[2J\nstate: FORGED";
/// The same of a file.
const NAME: &str = "evil\u{1b}[31mRED\nstate: FORGED\r";
/// As it is to be seen.
const SEEN: &str = "evil\\e[31mRED\\nstate: FORGED\\r";

/// What a command says on both ways out, which must have no control characters but ends of lines, and no line that is forged.
#[track_caller]
fn told(command: &mut Command) -> String {
    let Output { stdout, stderr, .. } = run(command);
    let said = String::from_utf8([stdout, stderr].concat()).unwrap();
    let raw = said.chars().find(|c| c.is_control() && *c != '\n');
    assert_eq!(raw, None, "{command:?}: {said:?}");
    let forged = said.lines().find(|line| line.trim_start().starts_with("state: FORGED"));
    assert_eq!(forged, None, "{command:?}: {said}");
    said
}

fn label_of(status: &mut Command) -> Value {
    let status: Value = serde_json::from_str(&done(status)).unwrap();
    status["label"].clone()
}

#[test]
fn a_label_is_seen_and_not_obeyed() {
    let bed = Bed::empty();
    let seen = "\\e]0;pwned\\a\\e[31mred\\e[2J\\nstate: FORGED";
    let pool = bed.path("pool\u{1b}[31m");
    told(keepfs(["create", "--size", "64M", "--label", LABEL]).arg(&pool));
    // Refused, with its path.
    assert!(told(keepfs(["create"]).arg(&pool)).contains("pool\\e[31m"));
    told(keepfs(["check"]).arg(&pool));
    fs::rename(&pool, bed.pool()).unwrap();
    let pool = bed.pool();
    for command in [&["status"][..], &["dump"], &["get", "all"]] {
        let mut command = keepfs(command);
        command.arg(&pool);
        if command.get_args().next().unwrap() == "dump" {
            command.arg("superblock");
        }
        assert!(told(&mut command).contains(seen), "{command:?}");
    }
    assert_eq!(label_of(keepfs(["status", "--json"]).arg(&pool)), LABEL);
    assert!(told(keepfs(["set"]).arg(format!("label={LABEL}")).arg(&pool)).contains(seen));
    if !super::bed::possible() {
        return;
    }
    bed.mount("");
    assert!(told(keepfs(["status"]).arg(bed.dir())).contains(seen));
    assert!(told(keepfs(["get", "label"]).arg(bed.dir())).contains(seen));
    assert!(told(&mut keepfs(["status"])).contains(seen));
    assert_eq!(label_of(keepfs(["status", "--json"]).arg(bed.dir())), LABEL);
    bed.unmount();
}

/// Of a file whose data is damaged, in all that tells of it, while the pool is mounted and when it is not.
#[test]
fn a_name_is_seen_and_not_obeyed() {
    if !super::bed::possible() {
        return;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M", "--test"]).arg(bed.pool()));
    bed.mount("");
    fs::write(bed.on(NAME), vec![1; 30_000]).unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    let inject = ["scribble", "--kind", "data", "--offset", "8", "--path"];
    told(
        keepfs(["inject"])
            .arg(bed.dir())
            .args(inject)
            .arg(Path::new("/").join(NAME)),
    );
    told(keepfs(["scrub", "start", "--rest", "--wait"]).arg(bed.dir()));
    assert!(told(keepfs(["status"]).arg(bed.on(NAME))).contains(SEEN));
    for of in [bed.dir(), bed.pool()] {
        assert!(told(keepfs(["damage", "list"]).arg(&of)).contains(SEEN));
        told(keepfs(["status"]).arg(&of));
        assert!(told(keepfs(["events"]).arg(&of)).contains(SEEN));
        let events: Value = serde_json::from_str(&done(keepfs(["events", "--json"]).arg(&of))).unwrap();
        assert_eq!(events["history"][0]["files"][0]["path"], format!("/{NAME}"));
        if of == bed.dir() {
            bed.unmount();
        }
    }
    assert!(told(keepfs(["dump"]).arg(bed.pool()).args(["dir", "/"])).contains(SEEN));
    let checked = told(keepfs(["check", "--data"]).arg(bed.pool()));
    assert_eq!(checked.matches(SEEN).count(), 2, "known and found: {checked}");
    let listed = run(keepfs(["damage", "list", "--json"]).arg(bed.pool()));
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["damage"][0]["path"], format!("/{NAME}"));
}
