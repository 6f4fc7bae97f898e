//! Tests of the order in which sizes and degrees of fullness come.

use super::*;
use std::collections::HashSet;

#[test]
fn as_many_runs_as_there_are_pools_bring_each_code_every_pool() {
    for code in 0..CODES.len() as u64 {
        let runs = (0..pools()).map(|run| fullness(run * CODES.len() as u64 + code));
        assert_eq!(runs.collect::<HashSet<_>>().len() as u64, pools());
    }
}

#[test]
fn a_run_has_every_size_and_every_fullness() {
    for first in 0..pools() {
        let run: Vec<Fullness> = (first..).take(CODES.len()).map(fullness).collect();
        assert!(PAGES.iter().all(|pages| run.iter().any(|pool| pool.pages == *pages)));
        assert!(TAKEN.iter().all(|taken| run.iter().any(|pool| pool.taken == *taken)));
    }
}
