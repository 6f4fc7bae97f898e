//! What shells are offered.

use super::*;
use keepfs_server::options::MountOptions;
use keepfs_server::properties::Wanted;

fn texts(candidates: Vec<CompletionCandidate>) -> Vec<String> {
    let text = |candidate: CompletionCandidate| candidate.get_value().to_string_lossy().into_owned();
    candidates.into_iter().map(text).collect()
}

#[test]
fn mount_options_are_completed_behind_the_last_comma() {
    let offered = |typed: &str| texts(mount_options(typed.as_ref()));
    assert_eq!(offered("gua"), ["guard="]);
    assert_eq!(offered("ro,guard=s"), ["ro,guard=sealed"]);
    assert_eq!(
        offered("ro,cache="),
        ["ro,cache=direct", "ro,cache=writeback", "ro,cache=writethrough"]
    );
    assert!(offered("").contains(&"noatime".to_owned()));
    assert!(offered("x").is_empty());
}

/// What is offered is taken.
#[test]
fn each_mount_option_that_is_offered_is_one() {
    for word in options::offered() {
        let value = match word.as_str() {
            "arena=" => "64M",
            "scrub=" => "30d",
            "log=" => "/tmp/log",
            "audit=without:" => "links",
            _ if word.ends_with('=') => "7",
            _ => "",
        };
        let option = format!("{word}{value}");
        assert!(
            MountOptions::parse(std::slice::from_ref(&option), false).is_ok(),
            "{option}"
        );
    }
    let offered = options::offered();
    for (name, _) in options::HELP
        .lines()
        .filter_map(|line| line.trim_start().split_once('='))
    {
        let is_option = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c == '-');
        let known = offered.iter().any(|word| word.starts_with(&format!("{name}=")));
        assert!(known || !is_option, "{name} of the help is not offered");
    }
}

#[test]
fn properties_are_completed() {
    let offered = |typed: &str| texts(set_words(typed.as_ref()));
    assert!(offered("prot").contains(&"protect=".to_owned()));
    assert!(offered("protect=p").iter().eq(["protect=pcrc", "protect=pq"]));
    for word in properties::offered() {
        let (name, value) = word.split_once('=').unwrap();
        let value = if value.is_empty() && name == "scrub-limit" {
            "5M"
        } else {
            value
        };
        assert!(Wanted::default().take(name, value).is_ok(), "{word}");
    }
    assert!(texts(property_names("gu".as_ref())).iter().eq(["guard"]));
}
