//! What is asked and answered is what it was, for ever: a line each in `golden/control`. S-16.16

use super::{Durable, Question, Told, Whereabouts};
use crate::line;
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
    let asked: Vec<String> = questions().iter().map(line::of).collect();
    assert_eq!(asked, QUESTIONS.lines().collect::<Vec<_>>());
    for (question, line) in questions().into_iter().zip(QUESTIONS.lines()) {
        assert_eq!(line::read(line), Some(question), "{line}");
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
        assert_eq!(line::read::<Question>(line), None, "{line:?}");
    }
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
