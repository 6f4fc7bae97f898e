//! Groups of the log as text, one line a record (SPEC S-8.5).

use crate::plog::Group;
use crate::records::decode;
use core::fmt;
use keepfs_format::plog::{Record, Run};
use serde::Serialize;

/// A whole group of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogGroup {
    /// Its number.
    pub number: u64,
    /// Sequence number of its first page.
    pub sequence: u64,
    /// Pages that it takes.
    pub pages: u64,
    /// All its data was flushed before it.
    pub data_flushed: bool,
    /// Last committed transaction in it.
    pub seq: u64,
    /// Recovery takes it (S-9.3).
    pub taken: bool,
    /// Its records, or why it cannot be decoded.
    pub records: Vec<String>,
}

impl LogGroup {
    pub(crate) fn new(group: &Group, taken: bool) -> Self {
        let records = match decode(&group.payload) {
            Ok(records) => records.iter().map(text).collect(),
            Err(e) => vec![format!("not decodable at byte {}: {}", e.at, e.what)],
        };
        LogGroup {
            number: group.number,
            sequence: group.sequence,
            pages: group.pages,
            data_flushed: group.data_flushed,
            seq: group.seq,
            taken,
            records,
        }
    }
}

impl fmt::Display for LogGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let taken = if self.taken { "taken" } else { "not taken" };
        let (number, first, last) = (self.number, self.sequence, self.sequence + self.pages - 1);
        writeln!(
            f,
            "group {number}: log pages {first}..={last}, transactions up to {}, {taken}",
            self.seq
        )?;
        self.records.iter().try_for_each(|record| writeln!(f, "  {record}"))
    }
}

fn run(run: &Run) -> String {
    format!("{}+{}", run.start, run.count)
}

fn text(record: &Record) -> String {
    match record {
        Record::Update { id, generation, ranges } => {
            let ranges: Vec<_> = ranges
                .iter()
                .map(|(at, bytes)| format!("{at}+{}", bytes.len()))
                .collect();
            format!("update {id} generation {generation} ranges {}", ranges.join(" "))
        }
        Record::Birth {
            id,
            generation,
            kind,
            level,
            owner,
        } => {
            format!("birth {id} generation {generation} kind {kind} level {level} owner {owner}")
        }
        Record::Death { id, generation } => format!("death {id} generation {generation}"),
        Record::Alloc { space, run: r } => format!("alloc {space:?} {}", run(r)),
        Record::Free { space, run: r } => format!("free {space:?} {}", run(r)),
        Record::Ref { run: r, delta } => format!("ref pages {} {delta:+}", run(r)),
        Record::Create { ino, born } => format!("create inode {ino} born {born}"),
        Record::Lost { ino, index } => format!("lost inode {ino} page {index}"),
        Record::Parity { bytes, .. } => format!("parity of the {bytes} bytes behind it"),
        Record::Link { ino, dir } => format!("link inode {ino} in {dir}"),
        Record::Unlink { ino, dir, nlink, born } => {
            format!("unlink inode {ino} in {dir} links left {nlink} born {born}")
        }
        Record::Truncate { ino, size } => format!("truncate inode {ino} size {size}"),
        Record::MapEntry {
            ino,
            index,
            page,
            count,
            version,
            last_len,
            crcs,
        } => {
            let what = if *page == 0 {
                "holes"
            } else if crcs.is_empty() {
                "unwritten"
            } else {
                "written"
            };
            format!("map-entry inode {ino} pages {index}+{count} at {page} {what} version {version} last {last_len}")
        }
        Record::Tail {
            ino,
            index,
            version,
            base,
            offset,
            bytes,
            ..
        } => {
            format!(
                "tail inode {ino} page {index} version {version} base {base} bytes {offset}+{}",
                bytes.len()
            )
        }
        Record::Zero {
            ino,
            index,
            version,
            base,
            offset,
            len,
            ..
        } => {
            format!("zero inode {ino} page {index} version {version} base {base} bytes {offset}+{len}")
        }
    }
}
