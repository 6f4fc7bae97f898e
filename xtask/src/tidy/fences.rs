//! Unsafe code is fenced by file: it stands in the files named here and nowhere else.

use super::source::{code_only, lines_with_word};
use super::tree::Tree;
use super::{Finding, finding::Place};

/// The files that may contain `unsafe`.
pub const UNSAFE: &[&str] = &[
    "crates/codes/src/simd.rs",
    "crates/media/src/sys.rs",
    "crates/memory/src/sys.rs",
    "crates/store/tests/store/guard/sys.rs",
    "crates/fuse/src/sys.rs",
    "crates/fuse/src/uring/ring.rs",
    "crates/fuse/tests/mount/sys.rs",
];

/// Whether `path` may contain `unsafe`: a named file, or a file `sys.rs` of the lab.
pub fn is_fenced(path: &str) -> bool {
    UNSAFE.contains(&path) || (path.starts_with("lab/") && path.ends_with("/sys.rs"))
}

/// Names of raw memory that only fenced files use, tests included: a slice into a live frame must not exist
///
const RAW: &[&str] = &["unsafe", "unsafe_code", "from_raw_parts", "from_raw_parts_mut"];

/// Findings for every line of code that is unsafe outside the fences.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let outside = tree.sources().filter(|(path, _)| !is_fenced(path));
    outside.flat_map(|(path, text)| unfenced_lines(path, text)).collect()
}

/// Findings for fenced files that need no fence: the table tells where to look for unsafe code, so it tells no more.
pub fn check_unused(tree: &Tree) -> Vec<Finding> {
    let needed = |path: &&&str| {
        tree.text(path)
            .is_some_and(|text| !unfenced_lines(path, text).is_empty())
    };
    let unused = UNSAFE.iter().filter(|path| !needed(path));
    unused.map(|path| Finding::FenceUnused(path.to_string())).collect()
}

fn unfenced_lines(path: &str, text: &str) -> Vec<Finding> {
    let code = code_only(text);
    let mut lines: Vec<usize> = RAW.iter().flat_map(|word| lines_with_word(&code, word)).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
        .into_iter()
        .map(|line| Finding::Unsafe(Place::new(path, line)))
        .collect()
}

#[cfg(test)]
mod tests;
