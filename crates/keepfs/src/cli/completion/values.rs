//! Values that a shell offers.

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use keepfs_server::{options, properties, table};
use std::ffi::OsStr;

/// Options of `-o`: the last one of the list is completed.
pub fn mount_options(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let (before, last) = typed
        .rsplit_once(',')
        .map_or(("", &*typed), |(before, last)| (before, last));
    let before = if before.is_empty() {
        String::new()
    } else {
        format!("{before},")
    };
    let offered = one_of(last, &options::offered());
    offered
        .into_iter()
        .map(|word| CompletionCandidate::new(format!("{before}{word}")))
        .collect()
}

/// Words of `keepfs set`: a pool or a mount point, or NAME=VALUE.
pub fn set_words(typed: &OsStr) -> Vec<CompletionCandidate> {
    let offered = one_of(&typed.to_string_lossy(), &properties::offered());
    let mut all: Vec<CompletionCandidate> = offered.into_iter().map(CompletionCandidate::new).collect();
    all.extend(mounted(typed));
    all
}

/// Names of properties, separated by commas.
pub fn property_names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let names = properties::names().filter(|name| name.starts_with(&*typed));
    names.map(CompletionCandidate::new).collect()
}

/// Mount points of pools, and paths.
pub fn mounted(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mounts = table::mounts().into_iter().filter(table::Mount::is_keepfs);
    let here = mounts.filter(|mount| mount.dir.to_string_lossy().starts_with(&*typed.to_string_lossy()));
    let mut all: Vec<CompletionCandidate> = here.map(|mount| CompletionCandidate::new(mount.dir)).collect();
    all.extend(PathCompleter::any().complete(typed));
    all
}

/// Those of `offered` that begin so: names up to their `=` until that is typed, then their values.
fn one_of(typed: &str, offered: &[String]) -> Vec<String> {
    let begins = offered.iter().filter(|word| word.starts_with(typed));
    let cut = begins.map(|word| match word.split_once('=') {
        Some((name, _)) if !typed.contains('=') => format!("{name}="),
        _ => word.clone(),
    });
    let mut words: Vec<String> = cut.filter(|word| word != typed).collect();
    words.sort();
    words.dedup();
    words
}

#[cfg(test)]
mod tests;
