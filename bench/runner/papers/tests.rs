//! Every bar of a paper's figure says what the paper found.

use super::super::figure::{self, FIGURES};
use super::super::sample::Sample;
use super::*;

#[test]
fn rows_have_both_figures() {
    let speed = |peer: &str, value| Sample::new("metadata, 100 files", peer, value, "op/s");
    let results = Results {
        figure: figure::named("greenan-metadata").expect("a figure"),
        how: String::new(),
        samples: vec![speed("none", 100.0), speed("keepfs", 90.0)],
        missing: Vec::new(),
    };
    let text = table(&[results]);
    let row = text.lines().last().unwrap_or_default();
    assert!(
        row.starts_with("| M-3 | Greenan & Miller, figure 7 | 3 to 4 times slower"),
        "{text}"
    );
    assert!(
        row.ends_with("| metadata, 100 files | keepfs ≥ 0.952x none | 0.90x | **no** |"),
        "{text}"
    );
    assert_eq!(table(&[]), "");
}

#[test]
fn every_paper_has_figures_and_every_bar_of_them_its_row() {
    for paper in PAPERS {
        assert!(FIGURES.iter().any(|figure| of(figure.name) == Some(paper)), "{paper}");
    }
    for (figure, id) in bars::ids() {
        let known = THEIRS.iter().any(|theirs| theirs.id == id);
        assert!(known || of(figure).is_none(), "{id} of {figure}");
    }
    assert_eq!(of("greenan"), None, "it is a paper, not a figure");
}
