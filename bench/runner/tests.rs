//! The command line.

use super::*;

#[test]
fn options_and_names_are_told_apart() {
    let wishes = Wishes::parse(&["varmail", "--seconds", "0.5", "--only", "ext4", "sync", "--rounds", "2"]);
    let wishes = wishes.expect("sound");
    assert_eq!(wishes.names, ["varmail", "sync"]);
    assert_eq!(
        (wishes.seconds, wishes.rounds, wishes.only.as_slice()),
        (0.5, 2, &["ext4"][..])
    );
    assert!(!wishes.is_stored(), "one peer beside nothing is no table");
    let figures = wishes.figures().expect("both");
    assert_eq!(
        figures.iter().map(|figure| figure.name).collect::<Vec<_>>(),
        ["varmail", "sync"]
    );
    assert!(Wishes::parse(&["all"]).expect("sound").is_stored());
    assert_eq!(
        Wishes::parse(&["all"]).expect("sound").figures().expect("all").len(),
        FIGURES.len() - 2 - figures_of_paper("all").len(),
        "huge, everyday and papers are asked for by their names"
    );
    let modelled = Wishes::parse(&["sync", "--profile", "ssd"]).expect("sound");
    assert_eq!(modelled.profile, Some(Profile::Ssd));
    assert!(!modelled.is_stored(), "it is not the figure");
    assert!(!Wishes::parse(&["all", "--quick"]).expect("sound").is_stored());
}

#[test]
fn what_is_unknown_is_refused() {
    for wrong in [
        &["--slow"][..],
        &["--seconds", "0"],
        &["--rounds"],
        &["--only", "ntfs"],
        &["--profile", "tape"],
    ] {
        assert!(Wishes::parse(wrong).is_err(), "{wrong:?}");
    }
    assert!(Wishes::parse(&["ntfs"]).expect("a name").figures().is_err());
}

#[test]
fn the_list_names_every_figure() {
    let text = list();
    assert!(FIGURES.iter().all(|figure| text.contains(figure.name)), "{text}");
}
