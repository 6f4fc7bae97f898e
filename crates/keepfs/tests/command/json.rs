//! Every answer with --json is what docs/schema/keepfs-1.schema.json says.

use super::bed::{Bed, done, keepfs, possible, run};
use super::schema::errors;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/keepfs-1.schema.json");

pub fn schema() -> Value {
    serde_json::from_str(&fs::read_to_string(SCHEMA).unwrap()).unwrap()
}

/// Holds an answer against one definition of the schema.
fn hold(name: &str, answer: &str) -> Value {
    let schema = schema();
    let answer: Value = serde_json::from_str(answer).unwrap();
    let wrong = errors(&schema, &schema["$defs"][name], &answer);
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    answer
}

/// The same of an answer that was parsed already.
pub fn is_as_promised(name: &str, answer: &Value) {
    hold(name, &answer.to_string());
}

/// Whoever reads answers finds one where a command failed before it had any, and the code tells that.
#[test]
fn a_failure_is_an_answer() {
    let bed = Bed::empty();
    fs::write(bed.pool(), "no pool").unwrap();
    for (words, code) in [
        (&["status"][..], 1),
        (&["events"], 1),
        (&["damage", "list"], 1),
        (&["get", "all"], 1),
        (&["scrub", "status"], 1),
        (&["check"], 8),
        (&["dump", "--json"], 1),
    ] {
        let mut command = keepfs(words);
        command.arg(bed.pool());
        match words[0] {
            "dump" => command.arg("superblock"),
            _ => command.arg("--json"),
        };
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(code), "{words:?}");
        let answer = hold("error", str::from_utf8(&output.stdout).unwrap());
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(answer["error"].as_str().unwrap()), "{words:?}: {said}");
    }
}

/// A schema that lets everything pass would prove nothing.
#[test]
fn the_schema_refuses_what_is_not_promised() {
    let schema = schema();
    let wrong = |value: &Value| errors(&schema, &schema["$defs"]["events"], value);
    let event = json!({"time_s": 1, "level": "warn", "part": "x", "text": "y"});
    let good = json!({"version": 1, "pool": "p", "server": "none", "last_words": null, "events": [event]});
    assert_eq!(wrong(&good), [""; 0]);
    assert_eq!(errors(&schema, &schema, &good), [""; 0]);
    for (pointer, value) in [
        ("/version", json!(2)),
        ("/server", json!("gone")),
        ("/last_words", json!(7)),
        ("/events", json!({})),
        ("/events/0/time_s", json!(-1)),
        ("/events/0/level", json!(null)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        assert_eq!(wrong(&bad).len(), 1, "{pointer}: {bad}");
    }
    for name in ["version", "events", "pool"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(name);
        assert_eq!(wrong(&bad).len(), 1, "{name}");
    }
    let mut bad = good;
    bad["events"][0]["more"] = json!(1);
    assert_eq!(wrong(&bad).len(), 1);
}

#[test]
fn answers_about_a_pool_that_is_not_mounted() {
    let bed = Bed::empty();
    let create = done(keepfs(["create", "--size", "64M", "--label", "x", "--json"]).arg(bed.pool()));
    let made = hold("create", &create);
    let status = hold("status", &done(keepfs(["status", "--json"]).arg(bed.pool())));
    assert_eq!(status["id"], made["id"]);
    hold("check", &done(keepfs(["check", "--data", "--json"]).arg(bed.pool())));
    hold("events", &done(keepfs(["events", "--json"]).arg(bed.pool())));
    assert_eq!(status["protect"], "pcrc");
    hold("set", &done(keepfs(["set", "--json", "protect=pq"]).arg(bed.pool())));
    let status = hold("status", &done(keepfs(["status", "--json"]).arg(bed.pool())));
    assert_eq!((&status["protect"], &status["label"]), (&"pq".into(), &"x".into()));
    hold("get", &done(keepfs(["get", "--json", "all"]).arg(bed.pool())));
    for what in ["superblock", "map", "plog"] {
        hold("dump", &done(keepfs(["dump", "--json"]).arg(bed.pool()).arg(what)));
    }
    fs::write(bed.path("other"), vec![0; 1 << 20]).unwrap();
    let damaged = run(keepfs(["check", "--json"]).arg(bed.path("other")));
    let damaged = hold("check", &String::from_utf8(damaged.stdout).unwrap());
    assert_eq!(damaged["sound"], false);
    assert_ne!(damaged["findings"], json!([]));
}

#[test]
fn answers_about_a_mounted_pool_and_a_dead_one() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("keeper=off");
    fs::write(bed.on("file"), "text").unwrap();
    let status = hold("status", &done(keepfs(["status", "--json"]).arg(bed.dir())));
    assert_eq!(status["state"], "ONLINE");
    hold("status_all", &done(&mut keepfs(["status", "--json"])));
    hold("set", &done(keepfs(["set", "--json", "protect=pcrc"]).arg(bed.dir())));
    hold("get", &done(keepfs(["get", "--json", "all"]).arg(bed.dir())));
    let events = hold("events", &done(keepfs(["events", "--json"]).arg(bed.dir())));
    assert_eq!(events["server"], "serving");
    hold("check", &done(keepfs(["check", "--live", "--json"]).arg(bed.pool())));
    hold("scrub", &done(keepfs(["scrub", "status", "--json"]).arg(bed.dir())));
    let scrub = hold(
        "scrub",
        &done(keepfs(["scrub", "start", "--wait", "--json"]).arg(bed.dir())),
    );
    assert_eq!(scrub["state"], "finished");
    bed.end_server(Signal::KILL);
    let status = hold("status", &done(keepfs(["status", "--json"]).arg(bed.dir())));
    assert_eq!(status["state"], "UNAVAIL");
    hold("status_all", &done(&mut keepfs(["status", "--json"])));
    let events = hold("events", &done(keepfs(["events", "--json"]).arg(bed.dir())));
    assert_eq!(events["server"], "dead");
}

/// Numbers above 2^53 without their digits beside them.
fn rounded(value: &Value, at: &str) -> Vec<String> {
    let is_large = |value: &Value| value.as_u64().is_some_and(|number| number > 1 << 53);
    match value {
        Value::Object(fields) => {
            let wrong = fields.iter().flat_map(|(name, field)| {
                let digits = match field {
                    Value::Array(items) if items.iter().any(is_large) => {
                        Some(items.iter().map(Value::to_string).collect::<Value>())
                    }
                    Value::Number(number) if is_large(field) => Some(number.to_string().into()),
                    _ => return rounded(field, &format!("{at}/{name}")),
                };
                let is_told = fields.get(&format!("{name}_text")) == digits.as_ref();
                (!is_told).then(|| format!("{at}/{name}")).into_iter().collect()
            });
            wrong.collect()
        }
        Value::Array(items) => items.iter().flat_map(|item| rounded(item, at)).collect(),
        _ => Vec::new(),
    }
}

/// What jq(1) makes of an answer is as good as the answer.
#[test]
fn no_number_is_rounded_without_its_digits() {
    let Some(bed) = Bed::with_a_file() else { return };
    let ask = |words: &[&str], of: &std::path::Path| {
        let answer = run(keepfs(words.iter().copied()).arg(of).arg("--json"));
        let answer: Value = serde_json::from_slice(&answer.stdout).unwrap();
        assert_eq!(rounded(&answer, ""), [""; 0], "{words:?}");
        answer
    };
    let inject = [
        "scribble",
        "--path",
        "/dir/file",
        "--kind",
        "inode",
        "--length",
        "12",
        "--pattern",
        "c3",
    ];
    done(keepfs(["inject"]).arg(bed.dir()).args(inject));
    done(keepfs(["scrub", "start", "--arena", "--wait"]).arg(bed.dir()));
    for words in [
        &["status"][..],
        &["get", "all"],
        &["scrub", "status"],
        &["damage", "list"],
    ] {
        ask(words, &bed.dir());
    }
    let events = ask(&["events"], &bed.dir());
    let event = &events["history"][0];
    assert!(event["id"].as_u64().unwrap() > 1 << 53, "{event}");
    assert_eq!(event["id_text"], event["id"].to_string());
    bed.unmount();
    ask(&["check"], &bed.pool());
    for what in [&["superblock"][..], &["map"], &["plog"], &["inode", "1"], &["dir", "/"]] {
        let mut dump = keepfs(["dump", "--json"]);
        let answer: Value = serde_json::from_str(&done(dump.arg(bed.pool()).args(what))).unwrap();
        assert_eq!(rounded(&answer, ""), [""; 0], "{what:?}");
    }
    let superblock = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    assert!(superblock.contains("_text"), "{superblock}");
}

/// What was damaged, with all that is promised of it: in memory with window and bytes, of file data without.
#[test]
fn answers_about_damage() {
    let Some(bed) = Bed::with_a_file() else { return };
    let inject = |kind: &str| {
        let mut inject = keepfs(["inject"]);
        inject
            .arg(bed.dir())
            .args(["scribble", "--path", "/dir/file", "--kind", kind]);
        done(inject.args(["--offset", "8", "--length", "12", "--pattern", "c3"]));
    };
    // Fifteen inodes lie in a metablock (S-5.1).
    let metablock = (2 << 56) + fs::metadata(bed.on("dir/file")).unwrap().ino() / 15;
    inject("inode");
    let scrub = |part: &str| run(keepfs(["scrub", "start", part, "--wait"]).arg(bed.dir()));
    assert_eq!(scrub("--arena").status.code(), Some(0));
    inject("data");
    assert_eq!(scrub("--rest").status.code(), Some(3));
    let events = hold("events", &done(keepfs(["events", "--json"]).arg(bed.dir())));
    let stray = &events["history"][0];
    assert_eq!(
        (&stray["verdict"], &stray["length"]),
        (&"stray write".into(), &12.into())
    );
    assert_eq!(
        (&stray["new"], &stray["id"]),
        (&"c3".repeat(12).into(), &metablock.into())
    );
    let window = stray["window_ms"].as_u64().unwrap();
    assert!(
        stray["text"]
            .as_str()
            .unwrap()
            .contains(&format!(", right {window} ms before;")),
        "{stray}"
    );
    let list = run(keepfs(["damage", "list", "--json"]).arg(bed.dir()));
    assert_eq!(list.status.code(), Some(1), "data is lost");
    let list = hold("damage", &String::from_utf8(list.stdout).unwrap());
    let whose = |n: usize| {
        let entry = &list["damage"][n];
        (
            entry["path"].clone(),
            entry["place"].clone(),
            entry["lost"].clone(),
            entry["length"].clone(),
        )
    };
    assert_eq!(
        whose(0),
        ("/dir/file".into(), "memory".into(), false.into(), 256.into())
    );
    assert_eq!(whose(1), ("/dir/file".into(), "data".into(), true.into(), 4096.into()));
    let cleared = hold("damage", &done(keepfs(["damage", "clear", "--json"]).arg(bed.dir())));
    assert_eq!(cleared["cleared"], 2);
}
