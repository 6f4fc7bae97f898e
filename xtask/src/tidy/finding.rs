//! What tidy can find, as comparable values.

use super::clauses::document;
use std::fmt;

use super::decisions::Breach;

/// A line of a file, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Path relative to the root.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

impl Place {
    /// `line` is counted from 1.
    pub fn new(file: &str, line: usize) -> Self {
        Self {
            file: file.to_owned(),
            line,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// One breach of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// A package imports one that its floor may not see.
    Import { from: String, to: String, dev: bool },
    /// A package that the allow-list does not know.
    UnknownPackage(String),
    /// `unsafe` (or the lint switched off) outside the fenced files.
    Unsafe(Place),
    /// A fenced file has no `unsafe` any more, or is gone.
    FenceUnused(String),
    /// A clause that no test cites, and not listed as unproved.
    ClauseWithoutTest(String),
    /// A clause that no code cites, and not listed as unproved.
    ClauseWithoutCode(String),
    /// A clause listed as unproved which has its proof: take it off the list.
    ClauseProved(String),
    /// The list of unproved clauses names one that its document does not have.
    ClauseListedUnknown(String),
    /// Code or a test cites a clause that its document does not have.
    ClauseUnknown { id: String, place: Place },
    /// Two paragraphs of a document have one id.
    ClauseTwice(String),
    /// A clause has more characters than can be read at one go.
    ClauseLong { id: String, characters: usize, max: usize },
    /// A clause listed as long is short by now, or gone.
    ClauseNotLong(String),
    /// A source file does not begin with `//!`.
    Head(String),
    /// A source file outside the tests is too long.
    Length { file: String, lines: usize, max: usize },
    /// A file of the allowance table is short by now, or gone.
    AllowanceUnused(String),
    /// A word that the house does not use.
    Banned {
        place: Place,
        word: &'static str,
        instead: &'static str,
    },
    /// A module named after nothing.
    ModuleName { file: String, name: &'static str },
    /// CHANGELOG.md has no `## Unreleased`.
    NoUnreleased,
    /// A package does not inherit the workspace lints.
    LintsNotInherited(String),
    /// Releases do not check overflow in a package that reads what a hostile image says.
    OverflowUnchecked(&'static str),
    /// A module of a package needs itself by way of others and is not listed; or it is listed and does not.
    Circle {
        package: String,
        module: String,
        listed: bool,
    },
    /// A comment or a document names a file, a section or a bar that there is not.
    NothingThere { place: Place, name: String },
    /// A comment or a document names the number of an issue, which nobody can open.
    IssueNamed(Place),
    /// The table of attacks names a test, stage or file that there is not.
    AttackWithoutTest { place: Place, name: String },
    /// A page of docs/decisions, its list or a citation of one is not in order.
    Decision { place: Place, breach: Breach },
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Import { from, to, dev: false } => {
                write!(
                    f,
                    "floors: {from} may not depend on {to} (table in tidy/floors.rs; ARCHITECTURE.md)"
                )
            }
            Self::Import { from, to, dev: true } => {
                write!(
                    f,
                    "floors: the tests of {from} may not depend on {to} (table TESTS in tidy/floors.rs)"
                )
            }
            Self::UnknownPackage(name) => write!(f, "floors: package {name} has no floor (table in tidy/floors.rs)"),
            Self::Unsafe(place) => write!(f, "{place}: unsafe outside the fenced files (table in tidy/fences.rs)"),
            Self::FenceUnused(file) => write!(f, "{file}: needs no fence any more (table in tidy/fences.rs)"),
            Self::ClauseWithoutTest(id) => write!(f, "{}: clause {id} is cited by no test", document(id)),
            Self::ClauseWithoutCode(id) => write!(f, "{}: clause {id} is cited by no code", document(id)),
            Self::ClauseProved(id) => write!(f, "docs/unproved.txt: clause {id} has its proof, take it off the list"),
            Self::ClauseListedUnknown(id) => write!(f, "docs/unproved.txt: no clause {id} in {}", document(id)),
            Self::ClauseUnknown { id, place } => write!(f, "{place}: no clause {id} in {}", document(id)),
            Self::ClauseTwice(id) => write!(f, "{}: clause {id} stands there twice", document(id)),
            Self::ClauseLong { id, characters, max } => write!(
                f,
                "{}: clause {id} has {characters} characters, at most {max}: cut it, or split it (a new number at the end of its section)",
                document(id)
            ),
            Self::ClauseNotLong(id) => write!(
                f,
                "tidy/lengths.rs: clause {id} is not long any more, take it off the list"
            ),
            Self::Head(file) => write!(f, "{file}:1: begins without a `//!` line saying what the file is for"),
            Self::Length { file, lines, max } => write!(f, "{file}: {lines} lines, at most {max}: split it"),
            Self::AllowanceUnused(file) => write!(f, "{file}: needs no allowance any more (tidy/heads.rs)"),
            Self::Banned { place, word, instead } => write!(f, "{place}: `{word}` is banned; instead: {instead}"),
            Self::ModuleName { file, name } => write!(f, "{file}: a module `{name}` says nothing; name what it holds"),
            Self::NoUnreleased => write!(f, "CHANGELOG.md: no section `## Unreleased`"),
            Self::LintsNotInherited(file) => write!(f, "{file}: lacks `[lints]` with `workspace = true`"),
            Self::OverflowUnchecked(package) => {
                write!(
                    f,
                    "Cargo.toml: releases do not check overflow in {package} (decision 0770)"
                )
            }
            Self::Circle {
                package,
                module,
                listed: false,
            } => write!(
                f,
                "{package}: {module} and another module need each other; move what both need below them"
            ),
            Self::Circle {
                package,
                module,
                listed: true,
            } => write!(
                f,
                "{package}: {module} is in no circle any more, take it off the list (table in tidy/circles.rs)"
            ),
            Self::NothingThere { place, name } => {
                write!(f, "{place}: there is no {name}; name what there is, or say it here")
            }
            Self::IssueNamed(place) => write!(f, "{place}: nobody can open an issue; say what it stood for"),
            Self::AttackWithoutTest { place, name } => write!(f, "{place}: there is no `{name}`"),
            Self::Decision { place, breach } => write!(f, "{place}: {breach}"),
        }
    }
}
