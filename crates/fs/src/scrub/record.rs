//! What is known of a scrub: enough to tell it, and to go on with it in another life of the server (S-19.6).
//!
//! It is kept as lines of text, `name value`; a line that is not known is passed over, one that is missing is its default.

use super::data::DataPlace;
use super::work::{Frames, Wish};
use keepfs_store::{Looked, RestPlace};
use std::fmt::Write;

/// How a scrub is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum State {
    /// There was none.
    #[default]
    None,
    /// It is under way.
    Running,
    /// It waits to be resumed.
    Paused,
    /// It looked at everything.
    Finished,
    /// Somebody ended it.
    Canceled,
}

const STATES: [(State, &str); 5] = [
    (State::None, "none"),
    (State::Running, "running"),
    (State::Paused, "paused"),
    (State::Finished, "finished"),
    (State::Canceled, "canceled"),
];

/// What it looks at now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Frames in memory.
    #[default]
    Arena,
    /// Superblocks, map and metablocks on the device.
    Metadata,
    /// File data on the device.
    Data,
}

const PHASES: [(Phase, &str); 3] = [
    (Phase::Arena, "arena"),
    (Phase::Metadata, "metadata"),
    (Phase::Data, "data"),
];

impl State {
    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(self, &STATES)
    }
}

impl Phase {
    /// Its name.
    pub fn name(self) -> &'static str {
        name_of(self, &PHASES)
    }
}

fn name_of<T: PartialEq>(value: T, table: &[(T, &'static str)]) -> &'static str {
    table
        .iter()
        .find(|(known, _)| *known == value)
        .map_or("?", |(_, name)| name)
}

fn named<T: Copy>(name: &str, table: &[(T, &'static str)]) -> Option<T> {
    table.iter().find(|(_, known)| *known == name).map(|(value, _)| *value)
}

/// What is known of the scrub under way, or of the last one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// How it is.
    pub state: State,
    /// What it was asked to look at.
    pub wish: Wish,
    /// What it looks at now.
    pub phase: Phase,
    /// When it began, seconds since 1970.
    pub started_s: i64,
    /// When it ended.
    pub ended_s: i64,
    /// For how long it was under way, milliseconds; pauses do not count.
    pub active_ms: u64,
    /// Pages and frames to look at, as was known when it began.
    pub total_pages: u64,
    /// What it found in memory.
    pub arena: Looked,
    /// What it found in metadata at rest.
    pub metadata: Looked,
    /// What it found in file data at rest.
    pub data: Looked,
    /// How many frames of the list are done.
    pub frames_done: u64,
    /// Where metadata goes on.
    pub rest: RestPlace,
    /// Where file data goes on.
    pub place: DataPlace,
    /// Most bytes a second; 0: no limit.
    pub limit: u64,
    /// When everything at rest was looked at last.
    pub rest_done_s: i64,
}

impl Default for Record {
    fn default() -> Record {
        Record {
            state: State::default(),
            wish: Wish::default(),
            phase: Phase::default(),
            started_s: 0,
            ended_s: 0,
            active_ms: 0,
            total_pages: 0,
            arena: Looked::default(),
            metadata: Looked::default(),
            data: Looked::default(),
            frames_done: 0,
            rest: RestPlace::START,
            place: DataPlace::default(),
            limit: 0,
            rest_done_s: 0,
        }
    }
}

impl Record {
    /// Pages and frames looked at.
    pub fn pages(&self) -> u64 {
        self.parts().iter().map(|looked| looked.pages).sum()
    }

    /// Those of them that were bad.
    pub fn bad(&self) -> u64 {
        self.parts().iter().map(|looked| looked.bad).sum()
    }

    /// Those of the bad that could not be mended.
    pub fn lost(&self) -> u64 {
        self.parts().iter().map(Looked::lost).sum()
    }

    /// Seconds that it needs yet if it goes on as it went.
    pub fn left_s(&self) -> Option<u64> {
        let done = self.pages();
        let left = self.total_pages.saturating_sub(done);
        (done > 0 && self.state == State::Running).then(|| left.saturating_mul(self.active_ms) / done / 1000)
    }

    fn parts(&self) -> [Looked; 3] {
        [self.arena, self.metadata, self.data]
    }

    /// As bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut text = format!("state {}\nphase {}\n", self.state.name(), self.phase.name());
        for (name, value) in self.numbers() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{name} {value}");
        }
        text.into_bytes()
    }

    fn numbers(&self) -> Vec<(&'static str, i64)> {
        let signed = |n: u64| n as i64;
        let mut all = vec![
            ("started", self.started_s),
            ("ended", self.ended_s),
            ("active_ms", signed(self.active_ms)),
            ("total", signed(self.total_pages)),
            ("frames_done", signed(self.frames_done)),
            ("rest_space", i64::from(self.rest.space)),
            ("rest_index", signed(self.rest.index)),
            ("data_ino", signed(self.place.ino)),
            ("data_index", signed(self.place.index)),
            ("limit", signed(self.limit)),
            ("rest_done", self.rest_done_s),
            ("arena", i64::from(self.wish.arena)),
            ("rest", i64::from(self.wish.rest)),
            ("damaged", i64::from(self.wish.damaged)),
        ];
        let looked = [
            (["arena_pages", "arena_bad", "arena_mended"], self.arena),
            (["meta_pages", "meta_bad", "meta_mended"], self.metadata),
            (["data_pages", "data_bad", "data_mended"], self.data),
        ];
        for (names, looked) in looked {
            all.extend(
                names
                    .into_iter()
                    .zip([looked.pages, looked.bad, looked.mended].map(signed)),
            );
        }
        all.extend(self.wish.since_s.map(|since| ("since", since)));
        all.extend(self.wish.top.map(|top| ("top", signed(top))));
        all.extend(match self.wish.frames {
            Frames::All => None,
            Frames::Oldest => Some(("oldest", 1)),
            Frames::Random => Some(("random", 1)),
            Frames::At(start, _) => Some(("from", signed(start))),
        });
        all.extend(match self.wish.frames {
            Frames::At(_, end) => Some(("to", signed(end))),
            _ => None,
        });
        all
    }

    /// From bytes. `None`: they are none of a record.
    pub fn decode(bytes: &[u8]) -> Option<Record> {
        let text = core::str::from_utf8(bytes).ok()?;
        let mut record = Record {
            state: State::Canceled,
            ..Record::default()
        };
        for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
            match name {
                "state" => record.state = named(value, &STATES)?,
                "phase" => record.phase = named(value, &PHASES)?,
                _ => record.take(name, value.parse().ok()?),
            }
        }
        Some(record)
    }

    fn take(&mut self, name: &str, value: i64) {
        let number = value as u64;
        match name {
            "started" => self.started_s = value,
            "ended" => self.ended_s = value,
            "active_ms" => self.active_ms = number,
            "total" => self.total_pages = number,
            "frames_done" => self.frames_done = number,
            "rest_space" => self.rest.space = number as u8,
            "rest_index" => self.rest.index = number,
            "data_ino" => self.place.ino = number,
            "data_index" => self.place.index = number,
            "limit" => self.limit = number,
            "rest_done" => self.rest_done_s = value,
            "arena" => self.wish.arena = value != 0,
            "rest" => self.wish.rest = value != 0,
            "damaged" => self.wish.damaged = value != 0,
            "since" => self.wish.since_s = Some(value),
            "top" => self.wish.top = Some(number),
            "oldest" => self.wish.frames = Frames::Oldest,
            "random" => self.wish.frames = Frames::Random,
            "from" => self.wish.frames = Frames::At(number, number),
            "to" => {
                if let Frames::At(start, _) = self.wish.frames {
                    self.wish.frames = Frames::At(start, number);
                }
            }
            _ => self.take_looked(name, number),
        }
    }

    fn take_looked(&mut self, name: &str, number: u64) {
        let Some((part, what)) = name.split_once('_') else {
            return;
        };
        let looked = match part {
            "arena" => &mut self.arena,
            "meta" => &mut self.metadata,
            "data" => &mut self.data,
            _ => return,
        };
        match what {
            "pages" => looked.pages = number,
            "bad" => looked.bad = number,
            "mended" => looked.mended = number,
            _ => {}
        }
    }
}
