//! The code-only view: each kind of literal and comment once.

use super::{code_only, has_word, lines_with_word};

#[test]
fn comments_and_literals_are_blank() {
    let text = "a // word\nb /* word /* word */ word\n*/ c \"word \\\" word\" d r#\"word \" word\"# e br\"word\" f";
    let code = code_only(text);
    assert!(!code.contains("word"), "{code}");
    assert_eq!(
        code.split_whitespace().collect::<Vec<_>>(),
        ["a", "b", "c", "d", "e", "f"]
    );
    assert_eq!(code.lines().count(), text.lines().count());
}

#[test]
fn lifetimes_are_code_and_characters_are_not() {
    let code = code_only("fn f<'a>(x: &'a str) { x.find('\"'); x.find('\\''); word }");
    assert!(code.contains("<'a>(x: &'a str)"));
    assert!(code.contains("word"));
    assert!(!code.contains('"'));
}

#[test]
fn an_identifier_ending_in_r_is_not_a_raw_string() {
    assert_eq!(code_only("for\"x\" word").trim_end(), "for    word");
}

#[test]
fn words_are_whole() {
    assert!(has_word("unsafe {", "unsafe"));
    assert!(!has_word("unsafe_code", "unsafe"));
    assert!(has_word("x.todo!()", "todo!"));
    assert_eq!(lines_with_word("a\nb\na b", "a").collect::<Vec<_>>(), [1, 3]);
}
