//! S-18.10

use super::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::ffi::OsStr;

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Told {
    before: u64,
    #[serde(flatten, with = "pool")]
    pool: PathBuf,
    #[serde(flatten, with = "dir::maybe")]
    dir: Option<PathBuf>,
    after: Vec<u64>,
}

fn path(bytes: &[u8]) -> PathBuf {
    OsStr::from_bytes(bytes).into()
}

fn told(pool: &[u8], dir: Option<&[u8]>) -> Told {
    Told {
        before: u64::MAX,
        pool: path(pool),
        dir: dir.map(path),
        after: vec![1],
    }
}

#[test]
fn what_is_told_is_understood_whatever_its_bytes() {
    let pools: [&[u8]; 6] = [b"/a", b"/a\xff", b"$'/a\\xff'", b"\xff", b"/\xc3\xa4\n\xc3", b""];
    for pool in pools {
        for dir in [None, Some(&b"/m"[..]), Some(b"/m\xfe")] {
            let one = told(pool, dir);
            let text = serde_json::to_string(&one).unwrap();
            assert_eq!(serde_json::from_str::<Told>(&text).unwrap(), one, "{text}");
            let value = serde_json::to_value(&one).unwrap();
            assert_eq!(
                value["pool_bytes"].is_string(),
                str::from_utf8(pool).is_err(),
                "{value}"
            );
            assert_eq!(with(json!({}), "pool", &one.pool)["pool"], value["pool"]);
            assert_eq!(
                with(json!({}), "pool", &one.pool).get("pool_bytes"),
                value.get("pool_bytes")
            );
        }
    }
}

#[test]
fn a_text_is_told_as_before_and_no_two_paths_alike() {
    let text = serde_json::to_string(&told(b"/a", None)).unwrap();
    assert_eq!(
        text,
        format!(r#"{{"before":{},"pool":"/a","dir":null,"after":[1]}}"#, u64::MAX)
    );
    let text = serde_json::to_string(&told(b"/a\xff", Some(b"/m\xfe"))).unwrap();
    assert!(
        text.contains(r#""pool":"$'/a\\xff'","pool_bytes":"2f61ff","dir":"$'/m\\xfe'","dir_bytes":"2f6dfe""#),
        "{text}"
    );
    // A file that is called so.
    let named = serde_json::to_value(told(b"$'/a\\xff'", None)).unwrap();
    assert_eq!((&named["pool"], named.get("pool_bytes")), (&json!("$'/a\\xff'"), None));
}

#[test]
fn what_makes_no_sense_is_refused() {
    for wrong in ["f", "2g", "\u{e4}", "+1"] {
        let text = json!({"before": 1, "pool": "/a", "pool_bytes": wrong, "after": []});
        assert!(serde_json::from_value::<Told>(text).is_err(), "{wrong}");
    }
    let without = serde_json::from_value::<Told>(json!({"before": 1, "after": []})).unwrap_err();
    assert!(without.to_string().contains("missing field `pool`"), "{without}");
}
