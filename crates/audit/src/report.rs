//! What a walk gives: findings and counts.

use crate::finding::{Finding, Severity};
use core::fmt;
use serde::{Serialize, Serializer, ser::SerializeSeq};

/// What the walk met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Live inodes.
    pub inodes: u64,
    /// Of them directories.
    pub directories: u64,
    /// Of them regular files.
    pub files: u64,
    /// Inodes on the hidden list.
    pub orphans: u64,
    /// Live directory entries.
    pub entries: u64,
    /// Extended attributes.
    pub xattrs: u64,
    /// Live metablocks of spaces 1 to 9.
    pub metablocks: u64,
    /// Live map pages.
    pub map_pages: u64,
    /// Metablocks and map pages whose two copies lie closer to each other than an eighth of the pool (S-4.9).
    pub close_copies: u64,
    /// Distinct data pages in use.
    pub data_pages: u64,
    /// References of data pages beyond the first.
    pub shares: u64,
    /// Staged pages: file data that lives in the log only.
    pub staged_pages: u64,
}

/// The result of a walk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Generation of the superblock that was used; 0 if none was found.
    pub generation: u64,
    /// Whether the pool was unmounted properly.
    pub clean: bool,
    /// Groups of the log that were taken.
    pub log_groups: u64,
    /// Last committed transaction in the state that was checked.
    pub seq: u64,
    /// What was met.
    pub counts: Counts,
    /// What is wrong, in the order in which it was found.
    #[serde(serialize_with = "lines")]
    pub findings: Vec<Finding>,
    /// Findings beyond [`crate::Options::limit`], not kept.
    pub dropped: u64,
    /// Of them errors.
    pub dropped_errors: u64,
}

impl Report {
    /// Whether no finding is an [`Severity::Error`] (S-21.7). Notes and warnings do not count.
    pub fn is_sound(&self) -> bool {
        self.error_count() == 0
    }

    /// How many findings are errors, those that were not kept among them.
    pub fn error_count(&self) -> u64 {
        self.errors().count() as u64 + self.dropped_errors
    }

    /// What was not kept, in words; None if all was.
    pub fn rest(&self) -> Option<String> {
        let (errors, others) = (self.dropped_errors, self.dropped - self.dropped_errors);
        match (errors, others) {
            (0, 0) => None,
            (0, others) => Some(format!("and {others} warnings and notes more")),
            (errors, 0) => Some(format!("and {errors} errors more")),
            (errors, others) => Some(format!("and {errors} errors, {others} warnings and notes more")),
        }
    }

    /// The worst severity found.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(Finding::severity).max()
    }

    /// The findings that are errors.
    pub fn errors(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|f| f.severity() == Severity::Error)
    }
}

/// One line a finding, then one with the counts.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(f, "{}: {finding} [{}]", finding.severity(), finding.code())?;
        }
        if let Some(rest) = self.rest() {
            writeln!(f, "{rest}")?;
        }
        let Counts {
            inodes,
            directories,
            metablocks,
            data_pages,
            staged_pages,
            ..
        } = self.counts;
        writeln!(
            f,
            "generation {}, {} groups of the log: {inodes} inodes, {directories} of them directories, \
             {metablocks} metablocks, {data_pages} data pages, {staged_pages} staged pages",
            self.generation, self.log_groups
        )
    }
}

/// A finding as it stands in JSON.
#[derive(Serialize)]
struct Line<'a> {
    severity: Severity,
    text: String,
    #[serde(flatten)]
    finding: &'a Finding,
}

fn lines<S: Serializer>(findings: &[Finding], to: S) -> Result<S::Ok, S::Error> {
    let mut seq = to.serialize_seq(Some(findings.len()))?;
    for finding in findings {
        let (severity, text) = (finding.severity(), finding.to_string());
        seq.serialize_element(&Line {
            severity,
            text,
            finding,
        })?;
    }
    seq.end()
}

/// Where findings go while the walk is under way. So many are kept of each class: of a pool with many lost pages the errors are
/// told, and what is about metadata.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub findings: Vec<Finding>,
    pub dropped: u64,
    pub dropped_errors: u64,
    limit: usize,
    kept: [usize; 4],
    /// Nothing but errors is asked for.
    errors_only: bool,
}

impl Sink {
    pub fn new(limit: usize) -> Self {
        Sink {
            limit,
            ..Sink::default()
        }
    }

    /// All errors, and nothing else.
    pub fn of_errors() -> Self {
        Sink {
            errors_only: true,
            ..Sink::new(usize::MAX)
        }
    }

    pub fn push(&mut self, finding: Finding) {
        let is_error = finding.severity() == Severity::Error;
        if self.errors_only && !is_error {
            return;
        }
        let kept = &mut self.kept[usize::from(is_error) + 2 * usize::from(finding.is_of_data())];
        if *kept < self.limit {
            *kept += 1;
            self.findings.push(finding);
        } else {
            self.dropped += 1;
            self.dropped_errors += u64::from(is_error);
        }
    }
}
