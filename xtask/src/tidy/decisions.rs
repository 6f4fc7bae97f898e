//! Decisions are few, short and listed, and whoever cites one finds it.
//!
//! A page is a file of docs/decisions whose name begins with its number. It is cited by that number behind the word
//! (`decision 0001`, `decisions 0001, 0003`, also over the end of a line) or behind the folder.

use std::collections::BTreeSet;
use std::fmt;

use super::tree::Tree;
use super::{Finding, finding::Place};

/// Where the pages are.
const DIR: &str = "docs/decisions/";
/// The list of them.
const INDEX: &str = "docs/decisions/README.md";
/// Texts that cite nothing: results of runs, and what is made up here and in the tests.
const UNASKED: &[&str] = &["docs/results/", "xtask/src/tidy/decisions"];
/// Most pages.
const PAGES_MAX: usize = 50;
/// Most lines of a page.
const LINES_MAX: usize = 60;

/// What is wrong with a page, the list, or a citation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Breach {
    /// There is no page of this number.
    Unknown(String),
    /// The page of this number does not hold any more.
    Replaced(String),
    /// The first line is not `# NNNN Title` with the number of the file, or another page has that number.
    Title,
    /// The third line is neither `Status: accepted` nor `Status: replaced by NNNN` with a page that is there.
    Status,
    /// The page has too many lines.
    Long(usize),
    /// The list lacks this line.
    Unlisted(String),
    /// A line of the list is no page's.
    Listed,
    /// There are too many pages.
    Many(usize),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(page) => write!(
                f,
                "there is no decision {page}; docs/decisions/README.md lists those there are"
            ),
            Self::Replaced(page) => write!(f, "decision {page} was replaced; its page says by which, cite that one"),
            Self::Title => write!(f, "the first line is not `# NNNN Title` with the number of the file"),
            Self::Status => write!(
                f,
                "the third line is neither `Status: accepted` nor `Status: replaced by NNNN`"
            ),
            Self::Long(lines) => write!(f, "{lines} lines, at most {LINES_MAX}: say what holds and why, no more"),
            Self::Unlisted(row) => write!(f, "the list lacks the line `{row}`"),
            Self::Listed => write!(f, "no page has this number, file and title"),
            Self::Many(pages) => write!(
                f,
                "{pages} pages, at most {PAGES_MAX}: put what belongs together on one"
            ),
        }
    }
}

/// Findings for pages, the list and citations.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let pages: Vec<Page> = tree.files().filter_map(|(path, text)| Page::of(path, text)).collect();
    let mut breaches = Vec::new();
    for page in &pages {
        breaches.extend(in_page(page, &pages).map(|(line, breach)| (page.path, line, breach)));
    }
    let index = tree.text(INDEX).unwrap_or_default();
    breaches.extend(
        in_list(index, &pages)
            .into_iter()
            .map(|(line, breach)| (INDEX, line, breach)),
    );
    let asked = |path: &str| !UNASKED.iter().any(|unasked| path.starts_with(unasked));
    for (path, text) in tree.files().filter(|(path, _)| asked(path)) {
        breaches.extend(in_text(path, text, &pages).map(|(line, breach)| (path, line, breach)));
    }
    let finding = |(file, line, breach)| {
        let place = Place::new(file, line);
        Finding::Decision { place, breach }
    };
    breaches.into_iter().map(finding).collect()
}

/// A page as it stands.
struct Page<'t> {
    path: &'t str,
    name: &'t str,
    /// Empty if the file's name has none.
    number: &'t str,
    title: &'t str,
    status: &'t str,
    lines: usize,
}

impl<'t> Page<'t> {
    /// The file as a page, if it is one.
    fn of(path: &'t str, text: &'t str) -> Option<Self> {
        let name = path.strip_prefix(DIR).filter(|name| name.ends_with(".md"))?;
        (path != INDEX).then(|| Self {
            path,
            name,
            number: number(name).unwrap_or_default(),
            title: text.lines().next().unwrap_or_default(),
            status: text.lines().nth(2).unwrap_or_default(),
            lines: text.lines().count(),
        })
    }

    /// Its line in the list, if its title is in order.
    fn row(&self) -> Option<String> {
        let title = self
            .title
            .strip_prefix("# ")?
            .strip_prefix(self.number)?
            .strip_prefix(' ')?;
        (!self.number.is_empty()).then(|| format!("- [{}]({}) {title}", self.number, self.name))
    }
}

fn in_page(page: &Page<'_>, pages: &[Page<'_>]) -> impl Iterator<Item = (usize, Breach)> {
    let has = |number: &str| pages.iter().filter(|other| other.number == number).count();
    let titled = page.row().is_some() && has(page.number) == 1;
    let by = page.status.strip_prefix("Status: replaced by ");
    let replaced = by.is_some_and(|by| by != page.number && has(by) == 1);
    let stands = page.status == "Status: accepted" || replaced;
    let breaches = [
        (!titled).then_some((1, Breach::Title)),
        (!stands).then_some((3, Breach::Status)),
        (page.lines > LINES_MAX).then_some((LINES_MAX + 1, Breach::Long(page.lines))),
    ];
    breaches.into_iter().flatten()
}

fn in_list(index: &str, pages: &[Page<'_>]) -> Vec<(usize, Breach)> {
    let mut rows: BTreeSet<String> = pages.iter().filter_map(Page::row).collect();
    let mut breaches = Vec::new();
    for (line, at) in index.lines().zip(1..) {
        if line.starts_with("- [") && !rows.remove(line) {
            breaches.push((at, Breach::Listed));
        }
    }
    breaches.extend(rows.into_iter().map(|row| (1, Breach::Unlisted(row))));
    breaches.extend((pages.len() > PAGES_MAX).then_some((1, Breach::Many(pages.len()))));
    breaches
}

fn in_text(path: &str, text: &str, pages: &[Page<'_>]) -> impl Iterator<Item = (usize, Breach)> {
    // A page that was replaced says so itself.
    let is_page = path.starts_with(DIR);
    cited(text).into_iter().filter_map(move |(at, number)| {
        let breach = match pages.iter().find(|page| page.number == number) {
            None => Breach::Unknown(number.to_owned()),
            Some(page) if !is_page && page.status.starts_with("Status: replaced") => {
                Breach::Replaced(number.to_owned())
            }
            Some(_) => return None,
        };
        Some((text[..at].matches('\n').count() + 1, breach))
    })
}

/// The number with which `text` begins: four digits, of which the first is 0.
fn number(text: &str) -> Option<&str> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (digits == 4 && text.starts_with('0')).then(|| &text[..4])
}

/// The numbers of pages that `text` cites, and where.
fn cited(text: &str) -> Vec<(usize, &str)> {
    let mut cited = Vec::new();
    for (start, word) in text.match_indices("ecision") {
        let mut rest = &text[start + word.len()..];
        rest = rest.strip_prefix('s').unwrap_or(rest);
        // What stands between the word and a number: a space, a slash, the end of a line and the marks of a comment.
        let gap = |c: char| c.is_whitespace() || "/!*#>".contains(c);
        if !rest.starts_with(gap) {
            continue;
        }
        rest = rest.trim_start_matches(gap);
        while let Some(number) = number(rest) {
            cited.push((text.len() - rest.len(), number));
            rest = &rest[number.len()..];
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start_matches(gap);
            let joined = rest.strip_prefix("and ").or_else(|| rest.strip_prefix("to "));
            rest = joined.unwrap_or(rest);
        }
    }
    cited
}

#[cfg(test)]
mod tests;
