//! What a walk gives: findings and counts.

use crate::finding::{Finding, Severity, inodes_of};
use crate::sentence::{about, whose};
use core::fmt;
use keepfs_format::shown::{for_programs, shown};
use keepfs_format::{MetaId, Space};
use serde::{Serialize, Serializer, ser::SerializeStruct};
use std::collections::BTreeMap;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Generation of the superblock that was used; 0 if none was found.
    pub generation: u64,
    /// Whether the pool was unmounted properly, as far as its superblocks tell: not where the newest one is lost.
    pub clean: bool,
    /// Groups of the log that were taken.
    pub log_groups: u64,
    /// Last committed transaction in the state that was checked.
    pub seq: u64,
    /// What was met.
    pub counts: Counts,
    /// What is wrong, in the order in which it was found.
    pub findings: Vec<Finding>,
    /// Findings beyond [`crate::Options::limit`], not kept.
    pub dropped: u64,
    /// Of them errors.
    pub dropped_errors: u64,
    /// Paths of the inodes that findings are about, as far as names lead there.
    pub(crate) paths: BTreeMap<u64, Vec<u8>>,
    /// Inodes that refer to nodes which cannot be read, by these.
    pub(crate) owners: BTreeMap<u64, u64>,
}

/// A file that a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct File<'r> {
    /// Its number.
    pub inode: u64,
    /// Its path; empty if none is known.
    pub path: &'r [u8],
}

impl File<'_> {
    /// It in words.
    pub fn in_words(&self) -> String {
        whose(self.inode, &shown(self.path))
    }
}

impl Serialize for File<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (path, bytes) = for_programs(self.path);
        let mut fields = to.serialize_struct("File", 3)?;
        fields.serialize_field("inode", &self.inode)?;
        if !path.is_empty() {
            fields.serialize_field("path", &path)?;
        }
        if bytes.is_some() {
            fields.serialize_field("path_bytes", &bytes)?;
        }
        fields.end()
    }
}

impl Report {
    /// The files that a finding of this report is about; of a metablock of inodes those that have a path.
    pub fn files(&self, finding: &Finding) -> Vec<File<'_>> {
        let inodes = finding.inodes(&self.owners);
        let is_one = inodes.len() == 1;
        let files = inodes.into_iter().map(|inode| File {
            inode,
            path: self.paths.get(&inode).map_or(&[], Vec::as_slice),
        });
        files.filter(|file| is_one || !file.path.is_empty()).collect()
    }

    /// Whose a metablock is that cannot be read: the inode that refers to it; of one of inodes those that have a path.
    pub fn owners_of(&self, id: MetaId) -> Vec<u64> {
        let mut inodes = inodes_of(id, &self.owners);
        inodes.retain(|ino| id.space() != Some(Space::Inodes) || self.paths.contains_key(ino));
        inodes
    }

    /// A finding of this report in a sentence that names the files, and its code.
    pub fn line(&self, finding: &Finding) -> String {
        let files = self.files(finding).iter().map(File::in_words).collect();
        let sentence = about(files, &finding.to_string());
        format!("{}: {sentence} [{}]", finding.severity(), finding.code())
    }

    /// The greatest generation of a superblock that is lost, newer than the one taken, as far as one is told of (S-21.10).
    pub fn lost_superblock(&self) -> Option<u64> {
        self.findings.iter().filter_map(Finding::lost_superblock).max()
    }

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
            writeln!(f, "{}", self.line(finding))?;
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
    files: Vec<File<'a>>,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let line = |finding| Line {
            severity: Finding::severity(finding),
            text: finding.to_string(),
            finding,
            files: self.files(finding),
        };
        let mut fields = to.serialize_struct("Report", 8)?;
        fields.serialize_field("generation", &self.generation)?;
        fields.serialize_field("clean", &self.clean)?;
        fields.serialize_field("log_groups", &self.log_groups)?;
        fields.serialize_field("seq", &self.seq)?;
        fields.serialize_field("counts", &self.counts)?;
        fields.serialize_field("findings", &self.findings.iter().map(line).collect::<Vec<_>>())?;
        fields.serialize_field("dropped", &self.dropped)?;
        fields.serialize_field("dropped_errors", &self.dropped_errors)?;
        fields.end()
    }
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
