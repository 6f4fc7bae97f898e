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
}

impl Report {
    /// Whether no finding is an [`Severity::Error`]. Notes and bad copies do not count.
    pub fn is_sound(&self) -> bool {
        self.worst() < Some(Severity::Error) && self.dropped == 0
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
        if self.dropped > 0 {
            writeln!(f, "and {} findings more", self.dropped)?;
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

/// Where findings go while the walk is under way.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pub findings: Vec<Finding>,
    pub dropped: u64,
    pub limit: usize,
}

impl Sink {
    pub fn new(limit: usize) -> Self {
        Sink {
            limit,
            ..Sink::default()
        }
    }

    pub fn push(&mut self, finding: Finding) {
        if self.findings.len() < self.limit {
            self.findings.push(finding);
        } else {
            self.dropped += 1;
        }
    }
}
