//! What a server is asked on its control socket, and in which version (S-16.16); its answers that have no page of their own.

use crate::line;
use crate::properties::Wanted;
use serde::{Deserialize, Serialize};

/// The latest version of questions and answers that this program knows.
pub const VERSION: u32 = 1;
/// The one that a question does not tell.
const FIRST: u32 = 1;

/// A question; as a line its name, with what it is about behind (`crate::line`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// How the pool is: [`crate::figures::Status`].
    Status,
    /// A sign of life: [`Told`].
    #[serde(rename = "status alive")]
    Alive,
    /// Make everything durable: [`Durable`].
    Sync,
    /// Do what the table of mounts says: [`Told`].
    Follow,
    /// A pool that was mounted read-only will be written: [`Told`].
    Write,
    /// [`Whereabouts`].
    Where,
    /// What was logged: a list of [`crate::logging::Event`].
    Events,
    /// A list of [`crate::properties::Property`].
    Get,
    /// Make room for the program that was wished: [`Told`], if it does not.
    Upgrade,
    /// Answered at once by [`Told`], and by [`Durable`] when the pool is closed; the connection ends when the pool is free.
    Wait,
    /// What was noticed with a greater number: a list of [`crate::history::Noticed`].
    History(u64),
    /// A list of [`crate::history::Damaged`].
    Damage,
    /// Take note of it: how many there were.
    #[serde(rename = "damage clear")]
    DamageClear,
    /// Change what the pool keeps: [`Told`], if the server stays.
    Set(Wanted),
    /// Look at everything, or at what these words say: [`Told`], as for the next four.
    #[serde(rename = "scrub start")]
    ScrubStart(String),
    /// Go on later.
    #[serde(rename = "scrub pause")]
    ScrubPause,
    /// Go on.
    #[serde(rename = "scrub resume")]
    ScrubResume,
    /// Stop it.
    #[serde(rename = "scrub cancel")]
    ScrubCancel,
    /// Read so many bytes a second, 0 = as many as it can.
    #[serde(rename = "scrub limit")]
    ScrubLimit(u64),
    /// [`crate::scrub::Report`].
    #[serde(rename = "scrub status")]
    ScrubStatus,
    /// Put a fault into a pool that was made for tests.
    Inject(String),
    /// Misbehave, in a build that can.
    Planted(String),
}

impl Question {
    /// The version since which it and its answers mean what they do. What changes the meaning of one gives it, and [`VERSION`], the
    /// next; more fields, each with a default, and more questions change none.
    pub fn since(&self) -> u32 {
        FIRST
    }

    /// As it is asked.
    pub fn line(&self) -> String {
        in_version(self.since(), &line::of(self))
    }

    /// What a line asks. Errors: a sentence for who asks; it is not known, or of another version.
    pub fn read(asked: &str) -> Result<Question, String> {
        let told = asked.split_once(' ');
        let told = told.and_then(|(version, rest)| Some((version.parse().ok()?, rest)));
        let (version, name) = told.unwrap_or((FIRST, asked));
        not_later(version, VERSION)?;
        let question: Question = line::read(name).ok_or_else(|| UNKNOWN.to_owned())?;
        not_earlier(version, question.since())?;
        Ok(question)
    }

    /// Whether it changes nothing, and may be answered beside others.
    pub fn is_look(&self) -> bool {
        matches!(
            self,
            Question::Status
                | Question::Alive
                | Question::Events
                | Question::Get
                | Question::History(_)
                | Question::Where
                | Question::ScrubStatus
        )
    }
}

/// A question as a line, in a version.
fn in_version(version: u32, line: &str) -> String {
    match version {
        FIRST => line.to_owned(),
        later => format!("{later} {line}"),
    }
}

/// Errors: the server knows only earlier versions than the one that is told.
fn not_later(told: u32, known: u32) -> Result<(), String> {
    match told <= known {
        true => Ok(()),
        false => Err(format!(
            "this command is of a later release than the server (it asks in version {told}, and the server knows them up to {known}); use \
             the command of the server's release, or let `keepfs upgrade` give the mount this one's server"
        )),
    }
}

/// Errors: the question means something else since a later version than the one that is told.
fn not_earlier(told: u32, since: u32) -> Result<(), String> {
    match told >= since {
        true => Ok(()),
        false => Err(format!(
            "this command is of an earlier release than the server (it asks in version {told}, and this question is of version {since}); \
             use the command of the server's release"
        )),
    }
}

/// The answer to what is no question here.
pub const UNKNOWN: &str =
    "this server does not know the question; it is of another version: use the command of the server's release";

/// That it is done, or why not.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Told {
    /// Why it is not done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// There was nothing to do it to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nothing: Option<bool>,
}

impl Told {
    /// It is not done.
    pub fn error(why: impl Into<String>) -> Told {
        Told {
            error: Some(why.into()),
            nothing: None,
        }
    }
}

impl From<Result<(), String>> for Told {
    fn from(done: Result<(), String>) -> Told {
        done.map_or_else(Told::error, |()| Told::default())
    }
}

/// Whether everything is durable.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Durable {
    /// It is.
    pub durable: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Result<(), String>> for Durable {
    fn from(done: Result<(), String>) -> Durable {
        Durable {
            durable: done.is_ok(),
            error: done.err(),
        }
    }
}

/// Whether a server goes on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Whereabouts {
    /// It serves.
    pub serves: bool,
    /// It sees its mount in the table of mounts.
    pub mounted: bool,
}

#[cfg(test)]
mod tests;
