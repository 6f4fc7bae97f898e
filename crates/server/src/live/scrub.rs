//! The server's answers to `keepfs scrub`.

use crate::properties;
use crate::question::{Question, Told};
use crate::scrub::{Found, Report, duration};
use keepfs_format::PAGE;
use keepfs_fs::{Frames, ScrubError, ScrubState, Volume, Wish};
use keepfs_store::Looked;
use serde_json::Value;

/// Answers a question about scrubs. `None`: it is about something else, or makes no sense.
pub fn answer(volume: &Volume, question: &Question) -> Option<Value> {
    let done = match question {
        Question::ScrubStart(words) => volume.scrub_start(wish(volume, words)?),
        Question::ScrubPause => volume.scrub_pause(),
        Question::ScrubResume => volume.scrub_resume(),
        Question::ScrubCancel => volume.scrub_cancel(),
        Question::ScrubLimit(bytes_per_s) => {
            limit(volume, *bytes_per_s);
            Ok(())
        }
        Question::ScrubStatus => return serde_json::to_value(report(volume)).ok(),
        _ => return None,
    };
    let told = done.map_or_else(
        |error| Told {
            error: Some(error.to_string()),
            nothing: Some(error == ScrubError::NothingToResume),
        },
        |()| Told::default(),
    );
    serde_json::to_value(told).ok()
}

/// Bounds what a scrub reads, bytes a second, 0 = by nothing. It is told, as other changes of a pool are.
fn limit(volume: &Volume, bytes_per_s: u64) {
    let before = volume.scrub_record().limit;
    volume.scrub_limit(bytes_per_s);
    if bytes_per_s != before {
        let in_words = |limit| properties::of_scrub(limit).value;
        let (now, before) = (in_words(bytes_per_s), in_words(before));
        tracing::warn!("the limit of scrubs was changed: scrub-limit={now} bytes a second, before {before}");
    }
}

fn wish(volume: &Volume, words: &str) -> Option<Wish> {
    let mut wish = Wish::default();
    for word in words.split_ascii_whitespace() {
        match word.split_once('=') {
            None if word == "arena" => wish.arena = true,
            None if word == "rest" => wish.rest = true,
            None if word == "damaged" => wish.damaged = true,
            None if word == "all" => wish.frames = Frames::All,
            None if word == "oldest" => wish.frames = Frames::Oldest,
            None if word == "random" => wish.frames = Frames::Random,
            Some(("since", "last")) => wish.since_s = Some(volume.scrub_record().rest_done_s),
            Some(("since", seconds)) => wish.since_s = Some(seconds.parse().ok()?),
            Some(("top", ino)) => wish.top = Some(ino.parse().ok()?),
            Some(("at", interval)) => {
                let (from, to) = interval.split_once('-')?;
                wish.frames = Frames::At(from.parse().ok()?, to.parse().ok()?);
                wish.rest = false;
            }
            _ => return None,
        }
    }
    Some(wish)
}

fn report(volume: &Volume) -> Report {
    let record = volume.scrub_record();
    let page = PAGE as u64;
    Report {
        version: 1,
        id: volume.store().pool().id.to_string(),
        state: record.state.name().into(),
        phase: record.phase.name().into(),
        started_s: record.started_s,
        ended_s: record.ended_s,
        active_ms: record.active_ms,
        left_s: record.left_s(),
        total_bytes: record.total_pages.max(record.pages()) * page,
        done_bytes: record.pages() * page,
        limit_bytes_per_s: record.limit,
        arena: found(record.arena),
        metadata: found(record.metadata),
        data: found(record.data),
        rounds: found(volume.scrub_rounds()),
        rest_done_s: record.rest_done_s,
    }
}

fn found(looked: Looked) -> Found {
    Found {
        pages: looked.pages,
        bad: looked.bad,
        corrected: looked.mended,
        uncorrectable: looked.lost(),
    }
}

/// The line of `keepfs status`.
pub fn one_line(volume: &Volume) -> String {
    let record = volume.scrub_record();
    let found = || {
        let (bad, lost) = (record.bad(), record.lost());
        format!("{} corrected, {lost} not, of {} pages", bad - lost, record.pages())
    };
    match record.state {
        ScrubState::None => "none yet; memory is looked at all the time, the device once a month".into(),
        ScrubState::Running => {
            let percent = (record.pages() * 100)
                .checked_div(record.total_pages)
                .unwrap_or(0)
                .min(99);
            format!("in progress, {percent} % done; {}", found())
        }
        ScrubState::Paused => format!("paused; {}", found()),
        ScrubState::Canceled => format!("canceled; {}", found()),
        ScrubState::Finished => format!("{} in {}", found(), duration(record.active_ms / 1000)),
    }
}

/// When it began and ended, seconds since 1970. The server has no time zone to tell them in.
pub fn times(volume: &Volume) -> (Option<i64>, Option<i64>) {
    let record = volume.scrub_record();
    match record.state {
        ScrubState::None => (None, None),
        ScrubState::Running | ScrubState::Paused => (Some(record.started_s), None),
        ScrubState::Canceled | ScrubState::Finished => (Some(record.started_s), Some(record.ended_s)),
    }
}
