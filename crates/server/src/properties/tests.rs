//! Every property has one name, one way to be set, and a sentence if there is none.

use super::*;

fn wanted(words: &[(&str, &str)]) -> Result<Wanted, String> {
    let mut wanted = Wanted::default();
    for (name, value) in words {
        wanted.take(name, value).map_err(|failure| failure.to_string())?;
    }
    Ok(wanted)
}

#[test]
fn what_can_be_set_is_taken() {
    let taken = wanted(&[("protect", "pq"), ("label", "a b"), ("scrub-limit", "10M")]).unwrap();
    assert_eq!(taken.words(), ["protect=pq", "label=a b", "scrub-limit=10485760"]);
    let settings = taken.settings().unwrap();
    assert_eq!(settings.protect.map(|code| code.name()), Some("pq"));
    assert_eq!(settings.label.as_deref(), Some("a b"));
    let none = wanted(&[("scrub-limit", "none")]).unwrap();
    assert_eq!(
        (none.scrub_limit, none.words()),
        (Some(0), vec!["scrub-limit=none".into()])
    );
}

#[test]
fn what_cannot_is_refused_with_what_to_do() {
    let long = "x".repeat(65);
    for (name, value, said) in [
        ("protect", "adler", "one of pcrc, pq"),
        ("label", &long, "at most 64 bytes"),
        ("scrub-limit", "fast", "is not a size"),
        ("scrub-limit", "0", "nothing would be read"),
        ("guard", "pkey", "mount it again with -o guard="),
        ("readonly", "on", "remount"),
        ("size", "1G", "cannot change"),
        (
            "colour",
            "red",
            "there is no property 'colour'; those that can be set are protect, label, mmp, scrub-limit",
        ),
    ] {
        let refused = wanted(&[(name, value)]).unwrap_err();
        assert!(refused.contains(said), "{name}: {refused}");
    }
}

/// A name that is shown and that nobody knows would be refused by `get` and told as unknown by `set`.
#[test]
fn every_property_shown_is_known() {
    let options = MountOptions::parse(&["guard=sealed,arena=32M,scrub=7d".into()], false).unwrap();
    let shown = of_mount(&options, "uring", false);
    assert_eq!(shown.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), OF_MOUNT);
    let temporary: Vec<_> = shown
        .iter()
        .filter(|p| p.source == "temporary")
        .map(|p| (p.name.as_str(), p.value.as_str()))
        .collect();
    let expected = [
        ("guard", "sealed"),
        ("arena", "33554432"),
        ("transport", "uring"),
        ("keeper", "off"),
        ("scrub", "7d"),
    ];
    assert_eq!(temporary, expected);
    assert!(is_known("protect") && is_known("log-size") && !is_known("colour"));
}
