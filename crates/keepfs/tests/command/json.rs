//! Every answer with --json is what docs/schema/keepfs-1.schema.json says.

use super::bed::{Bed, done, keepfs, possible, run};
use super::schema::errors;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/keepfs-1.schema.json");

fn schema() -> Value {
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
    assert_eq!(status["protect"], "crc");
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
    hold("set", &done(keepfs(["set", "--json", "protect=crc"]).arg(bed.dir())));
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
