//! What is asked and answered is what it was, for ever: a line each in `golden/control`. S-16.16

mod pages;

use super::{Durable, Question, Told, UNKNOWN, VERSION, Whereabouts, in_version, not_earlier, not_later};
use crate::properties::Wanted;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const QUESTIONS: &str = include_str!("../../golden/control/questions");
const ANSWERS: &str = include_str!("../../golden/control/answers");

fn questions() -> Vec<Question> {
    vec![
        Question::Status,
        Question::Alive,
        Question::Sync,
        Question::Follow,
        Question::Write,
        Question::Where,
        Question::Events,
        Question::Get,
        Question::Upgrade,
        Question::Wait,
        Question::History(7),
        Question::Damage,
        Question::DamageClear,
        Question::Set(Wanted {
            protect: Some("pq".into()),
            label: Some("a b".into()),
            scrub_limit: None,
            mmp: Some(5),
        }),
        Question::ScrubStart(String::new()),
        Question::ScrubStart("rest since=last".into()),
        Question::ScrubPause,
        Question::ScrubResume,
        Question::ScrubCancel,
        Question::ScrubLimit(1 << 20),
        Question::ScrubStatus,
        Question::Inject("list".into()),
        Question::Planted("store".into()),
    ]
}

#[test]
fn every_question_is_what_it_was_and_is_understood() {
    let asked: Vec<String> = questions().iter().map(Question::line).collect();
    assert_eq!(asked, QUESTIONS.lines().collect::<Vec<_>>());
    for (question, line) in questions().into_iter().zip(QUESTIONS.lines()) {
        assert_eq!(Question::read(line), Ok(question), "{line}");
    }
}

#[test]
fn no_other_line_is_a_question() {
    for line in [
        "",
        "statu",
        "status now",
        "history",
        "history x",
        "scrub",
        "scrub limit",
        "set {",
        "damage all",
    ] {
        assert_eq!(Question::read(line), Err(UNKNOWN.to_owned()), "{line:?}");
    }
}

/// A version is told before the name, but for the first.
#[test]
fn a_question_tells_its_version() {
    assert_eq!(in_version(1, "history 7"), "history 7");
    assert_eq!(in_version(2, "history 7"), "2 history 7");
    assert_eq!(Question::read("1 history 7"), Ok(Question::History(7)));
    let later = VERSION + 1;
    for asked in ["status", "sing", "set {"] {
        let why = Question::read(&in_version(later, asked)).unwrap_err();
        let wanted = format!(
            "this command is of a later release than the server (it asks in version {later}, and the server knows them up to {VERSION})"
        );
        assert!(why.starts_with(&wanted), "{why}");
    }
    assert_eq!((not_later(2, 2), not_earlier(2, 2)), (Ok(()), Ok(())));
    let why = not_earlier(1, 2).unwrap_err();
    assert!(
        why.starts_with("this command is of an earlier release than the server (it asks in version 1"),
        "{why}"
    );
    let known = questions().iter().map(Question::since).max();
    assert!(known <= Some(VERSION), "a question of a version that nobody knows");
}

#[test]
fn every_answer_is_what_it_was_and_is_understood() {
    fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(answer: &T, line: Option<&str>) {
        let line = line.unwrap();
        assert_eq!(serde_json::to_string(answer).unwrap(), line);
        assert_eq!(serde_json::from_str::<T>(line).unwrap(), *answer);
    }
    let mut lines = ANSWERS.lines();
    same(&Told::default(), lines.next());
    same(&Told::error("it has no keeper"), lines.next());
    let nothing = Told {
        nothing: Some(true),
        ..Told::error("there is no scrub to resume")
    };
    same(&nothing, lines.next());
    same(&Durable::from(Ok(())), lines.next());
    same(&Durable::from(Err("EIO".to_owned())), lines.next());
    let place = Whereabouts {
        serves: true,
        mounted: false,
    };
    same(&place, lines.next());
    assert_eq!(lines.next(), None);
}
