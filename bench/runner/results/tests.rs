//! Results survive the file.

use super::*;

#[test]
fn what_is_stored_is_loaded_in_the_order_of_the_figures() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let results = |figure: &'static Figure| Results {
        figure,
        how: "somehow".into(),
        samples: vec![Sample::new("create", "ext4", 2.5, "op/s")],
        missing: vec![Missing {
            peer: "xfs".into(),
            why: "not there".into(),
        }],
    };
    for figure in [&FIGURES[2], &FIGURES[0]] {
        store(dir.path(), &results(figure)).expect("stored");
    }
    let all = load(dir.path()).expect("loaded");
    let names: Vec<&str> = all.iter().map(|results| results.figure.name).collect();
    assert_eq!(names, [FIGURES[0].name, FIGURES[2].name]);
    assert_eq!(all[0].samples, results(&FIGURES[0]).samples);
    assert_eq!(all[0].missing, results(&FIGURES[0]).missing);
    std::fs::write(dir.path().join("varmail.json"), "{}").expect("written");
    assert!(load(dir.path()).is_err());
}
