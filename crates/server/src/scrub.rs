//! What is told of scrubs.

use serde::{Deserialize, Serialize};

/// What is known of a scrub: what programs get, and what the server answers.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// Version of the answer.
    pub version: u32,
    /// Identity of the pool.
    pub id: String,
    /// `none`, `running`, `paused`, `finished`, `canceled`.
    pub state: String,
    /// What it looks at now: `arena`, `metadata`, `data`.
    pub phase: String,
    /// When it began and ended, seconds since 1970; 0: it did not.
    pub started_s: i64,
    /// As above.
    pub ended_s: i64,
    /// For how long it was under way.
    pub active_ms: u64,
    /// Seconds that it needs yet if it goes on as it went.
    pub left_s: Option<u64>,
    /// Bytes to look at, as known when it began, and looked at.
    pub total_bytes: u64,
    /// As above.
    pub done_bytes: u64,
    /// Most bytes a second; 0: no limit.
    pub limit_bytes_per_s: u64,
    /// What it found, by where.
    pub arena: Found,
    /// As above.
    pub metadata: Found,
    /// As above.
    pub data: Found,
    /// What the rounds of the arena found that never end.
    pub rounds: Found,
    /// When everything at rest was looked at last, seconds since 1970; 0: never.
    pub rest_done_s: i64,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Frames or pages looked at.
    pub pages: u64,
    /// Those that were bad.
    pub bad: u64,
    /// Those of the bad that were mended.
    pub corrected: u64,
    /// Those that cannot be.
    pub uncorrectable: u64,
}

impl Report {
    /// Those that cannot be mended, wherever they are.
    pub fn uncorrectable(&self) -> u64 {
        self.arena.uncorrectable + self.metadata.uncorrectable + self.data.uncorrectable
    }
}

/// Hours, minutes, seconds.
pub fn duration(seconds: u64) -> String {
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
