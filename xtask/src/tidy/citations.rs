//! What a comment or a document refers to is there, so that whoever reads it can open it.
//!
//! Looked at are comments of sources and documents. A name that ends in `.md` is a file; a document's name before a number
//! (`SPEC section 9`, `SPEC 8 to 11`) has such a heading; `BARS R-3` is a row. A number of an issue opens nothing.

use super::Finding;
use super::finding::Place;
use super::tree::Tree;

/// What tells what was: documents may have gone since.
const PAST: &[&str] = &["CHANGELOG.md", "docs/results/"];
/// Where a document is looked for that is named without its folder.
const SHELVES: &[&str] = &["docs/", "", "docs/man/", "docs/decisions/"];
/// Papers of others, whose sections are cited by the name of what they are about.
const PAPERS: &[&str] = &["WAFL", "FEARLESS"];
/// The document whose rows have ids.
const BARS: &str = "BARS";

/// Findings for documents, sections and rows that are not there, and for numbers of issues.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        let (is_source, is_document) = (path.ends_with(".rs"), path.ends_with(".md"));
        if !is_source && !is_document || PAST.iter().any(|past| path.starts_with(past)) {
            continue;
        }
        for (line, number) in text.lines().zip(1..) {
            let said = if is_source { comment(line) } else { line };
            let place = || Place::new(path, number);
            findings.extend(missing(tree, path, said).map(|name| Finding::NothingThere { place: place(), name }));
            findings.extend(names_issue(said).then(|| Finding::IssueNamed(place())));
        }
    }
    findings
}

/// The comment in a line of Rust, or nothing.
fn comment(line: &str) -> &str {
    let begins = line.trim_start().starts_with("//").then(|| line.find("//")).flatten();
    // Behind code, and not in a literal.
    let behind = || {
        line.find(" // ")
            .filter(|at| line[..*at].matches('"').count().is_multiple_of(2))
    };
    begins.or_else(behind).map_or("", |at| &line[at..])
}

/// Everything that `said` names and that is not there.
fn missing<'t>(tree: &'t Tree, path: &'t str, said: &'t str) -> impl Iterator<Item = String> + 't {
    let files = files(said).filter(move |name| !is_file(tree, path, name));
    let sections = sections(tree, said)
        .into_iter()
        .filter(move |(name, number)| !has_section(tree, name, number));
    let bars = bars(said).filter(move |id| !has_row(tree, id));
    let sections = sections.map(|(name, number)| format!("{name} section {number}"));
    let bars = bars.map(|id| format!("{BARS} {id}"));
    files.map(str::to_owned).chain(sections).chain(bars)
}

/// Names of files that end in `.md`, but for addresses and patterns.
fn files(said: &str) -> impl Iterator<Item = &str> {
    let words = said.split(|c: char| !(c.is_ascii_alphanumeric() || "_./-*:{}".contains(c)));
    words
        .map(|word| word.trim_end_matches(['.', ':', '-']))
        .filter(|word| word.ends_with(".md") && word.len() > 3 && !word.contains(['*', '{']) && !word.contains("://"))
}

/// Whether a file of that name is there: from the root, beside who names it, or on a shelf.
fn is_file(tree: &Tree, from: &str, name: &str) -> bool {
    let beside = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut parts: Vec<&str> = beside.split('/').filter(|part| !part.is_empty()).collect();
    for part in name.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." => {}
            part => parts.push(part),
        }
    }
    tree.text(&parts.join("/")).is_some() || document(tree, name).is_some()
}

/// The text of a document by its name, with or without its folder.
fn document<'t>(tree: &'t Tree, name: &str) -> Option<&'t str> {
    SHELVES.iter().find_map(|shelf| tree.text(&format!("{shelf}{name}")))
}

/// Documents named before numbers of sections, each with one number.
fn sections<'s>(tree: &Tree, said: &'s str) -> Vec<(&'s str, &'s str)> {
    let words: Vec<&str> = said.split_whitespace().collect();
    let mut named = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let name = named_by(word);
        let is_name = name.len() >= 3 && name.bytes().all(|c| c.is_ascii_uppercase());
        let says_section = words.get(at + 1).is_some_and(|next| next.starts_with("section"));
        let is_known = document(tree, &format!("{name}.md")).is_some();
        if !is_name || PAPERS.contains(&name) || name == BARS || !says_section && !is_known {
            continue;
        }
        let rest = &words[at + 1 + usize::from(says_section)..];
        named.extend(numbers(rest).into_iter().map(|number| (name, number)));
    }
    named
}

/// The name of a document in a word such as `(docs/SPEC.md`.
fn named_by(word: &str) -> &str {
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let word = word.rsplit(['/', '(', '[']).next().unwrap_or_default();
    word.strip_suffix(".md").unwrap_or(word)
}

/// The numbers with which `words` begin, in a list or a range; `9.3` counts as 9.
fn numbers<'s>(words: &[&'s str]) -> Vec<&'s str> {
    let mut numbers = Vec::new();
    let mut goes_on = true;
    for word in words {
        if matches!(*word, "to" | "and") {
            goes_on = true;
            continue;
        }
        let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
        let (number, behind) = word.split_at(digits);
        let is_number = digits > 0 && behind.chars().next().is_none_or(|c| ",.;:)`".contains(c));
        if !goes_on || !is_number {
            break;
        }
        numbers.push(number);
        goes_on = behind == ",";
    }
    numbers
}

/// Whether the document has a heading of that number.
fn has_section(tree: &Tree, name: &str, number: &str) -> bool {
    let text = document(tree, &format!("{name}.md")).unwrap_or_default();
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        title.len() < line.len() && title.trim_start().starts_with(&format!("{number}."))
    };
    text.lines().any(heading)
}

/// Ids behind the word of the document that has them as rows.
fn bars(said: &str) -> impl Iterator<Item = &str> {
    let lists = said.split(BARS).skip(1);
    lists.flat_map(|list| {
        let words = list.split_whitespace().filter(|word| !matches!(*word, "to" | "and"));
        words.map_while(|word| {
            let id = word.trim_end_matches(|c: char| !c.is_ascii_digit());
            let (letter, number) = id.split_once('-')?;
            let is_id = letter.bytes().all(|c| c.is_ascii_uppercase()) && number.bytes().all(|c| c.is_ascii_digit());
            is_id.then_some(id)
        })
    })
}

fn has_row(tree: &Tree, id: &str) -> bool {
    let text = document(tree, &format!("{BARS}.md")).unwrap_or_default();
    text.lines().any(|line| line.starts_with(&format!("| {id} |")))
}

/// Whether the number of an issue is named.
fn names_issue(said: &str) -> bool {
    let words: Vec<&str> = said
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let is_issue = |word: &str| word.eq_ignore_ascii_case("issue") || word.eq_ignore_ascii_case("issues");
    words
        .windows(2)
        .any(|pair| is_issue(pair[0]) && pair[1].bytes().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
