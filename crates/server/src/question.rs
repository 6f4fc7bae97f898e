//! What a server is asked on its control socket (S-16.16), and its answers that have no page of their own.

use crate::properties::Wanted;
use serde::{Deserialize, Serialize};

/// A question; as a line its name, with what it is about behind ([`crate::line`]).
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
