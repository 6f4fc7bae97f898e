//! Papers become figures.

use super::*;

#[test]
fn a_paper_is_its_figures() {
    let all = of_papers(&["all"]).expect("papers");
    assert!(
        all.starts_with(&["--rounds", "2"]) && all.contains(&"greenan-metadata"),
        "{all:?}"
    );
    let one = of_papers(&["greenan", "--long", "--seconds", "1"]).expect("a paper");
    assert!(
        one.starts_with(&["--rounds", "9"]) && one.ends_with(&["--seconds", "1"]),
        "{one:?}"
    );
    assert!(one.iter().all(|word| !word.starts_with("wafl")));
    assert!(of_papers(&[]).is_err() && of_papers(&["nobody"]).is_err());
}
