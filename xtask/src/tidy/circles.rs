//! Within a package no two modules need each other, but for those that stand in [`CIRCLES`], which only shrinks (WALLS): whoever
//! reads a module can read what it stands on first.
//!
//! Modules are the files and directories directly under a package's `src`; one needs another if its code names `crate::other`.
//! What `lib.rs` and `main.rs` say does not count: they are the package.

use super::Finding;
use super::source::code_only;
use super::tree::{Tree, is_test};
use std::collections::{BTreeMap, BTreeSet};

/// Modules that need each other still, by package.
const CIRCLES: &[(&str, &[&str])] = &[
    (
        "check",
        &[
            "body", "carried", "dir", "index", "inode", "links", "node", "paths", "plog", "space", "walk", "xattr",
        ],
    ),
    ("codes", &["aes", "crc64", "gf256", "rows", "simd"]),
    (
        "fuse",
        &[
            "connection",
            "dispatch",
            "init",
            "notify",
            "reply",
            "session",
            "transport",
            "uring",
        ],
    ),
    ("media", &["loops", "mounts"]),
    ("testkit", &["crash", "sim"]),
];

/// What needs what.
type Needs<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

/// Findings for modules that need each other and are not listed, and for those that are listed and need each other no more.
pub fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, CIRCLES)
}

fn check_with(tree: &Tree, listed: &[(&str, &[&str])]) -> Vec<Finding> {
    let mut code: BTreeMap<&str, BTreeMap<&str, String>> = BTreeMap::new();
    for (path, text) in tree.sources().filter(|(path, _)| !is_test(path)) {
        let is_listed = path.starts_with("crates/") || path.starts_with("testkit/");
        let parts = path.strip_prefix("crates/").unwrap_or(path).split_once("/src/");
        if let Some((package, file)) = parts.filter(|_| is_listed) {
            let module = file
                .split_once('/')
                .map_or(file, |(first, _)| first)
                .trim_end_matches(".rs");
            let modules = code.entry(package).or_default();
            modules.entry(module).or_default().push_str(&code_only(text));
        }
    }
    let mut findings = Vec::new();
    for (package, modules) in &code {
        let known = listed.iter().find(|(name, _)| name == package);
        let known: BTreeSet<&str> = known
            .map(|(_, modules)| *modules)
            .unwrap_or_default()
            .iter()
            .copied()
            .collect();
        let found = in_circles(&needs(modules));
        let finding = |module: &&str, listed| Finding::Circle {
            package: (*package).to_owned(),
            module: (*module).to_owned(),
            listed,
        };
        findings.extend(found.difference(&known).map(|module| finding(module, false)));
        findings.extend(known.difference(&found).map(|module| finding(module, true)));
    }
    findings
}

/// What each module of a package names of the others.
fn needs<'t>(modules: &'t BTreeMap<&'t str, String>) -> Needs<'t> {
    let rooms = modules.iter().filter(|(module, _)| !["lib", "main"].contains(module));
    let named = rooms.map(|(module, code)| {
        let others = code.split("crate::").skip(1).flat_map(first_names);
        let others = others.filter_map(|name| modules.get_key_value(name));
        (
            *module,
            others
                .map(|(other, _)| *other)
                .filter(|other| other != module)
                .collect(),
        )
    });
    named.collect()
}

/// The first names of a path, or of each path of a list in braces.
fn first_names(path: &str) -> Vec<&str> {
    let list = path.strip_prefix('{').map(outermost);
    let first = |path| str::split(path, |c: char| !(c.is_alphanumeric() || c == '_')).next();
    match list {
        Some(paths) => paths.into_iter().filter_map(|path| first(path.trim_start())).collect(),
        None => first(path).into_iter().collect(),
    }
}

/// What stands between the commas of a list in braces, whose opening one is gone.
fn outermost(list: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0, 0, Vec::new());
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    parts
}

/// The modules that need themselves by way of others.
fn in_circles<'t>(needs: &Needs<'t>) -> BTreeSet<&'t str> {
    let comes_back = |from: &&&str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![**from]);
        while let Some(module) = open.pop() {
            for next in needs.get(module).into_iter().flatten() {
                if next == *from {
                    return true;
                }
                if seen.insert(*next) {
                    open.push(next);
                }
            }
        }
        false
    };
    needs.keys().filter(comes_back).copied().collect()
}

#[cfg(test)]
mod tests;
