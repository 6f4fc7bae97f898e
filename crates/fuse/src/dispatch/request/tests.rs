//! A request whose bytes lie apart means what it means in one piece.

use super::*;
use crate::protocol::request::{CreateIn, InHeader};
use zerocopy::IntoBytes;

fn bytes(fixed: &[u8], rest: &[u8], total_extlen: u16) -> (Vec<u8>, Vec<u8>) {
    let header = InHeader {
        len: (size_of::<InHeader>() + fixed.len() + rest.len()) as u32,
        unique: 5,
        total_extlen,
        ..InHeader::default()
    };
    ([header.as_bytes(), fixed].concat(), rest.to_vec())
}

/// Both forms of one request.
fn both(head: &[u8], rest: &[u8], check: impl Fn(Request<'_>)) {
    check(Request::parse(Parts { head, rest }, None).unwrap());
    check(Request::parse((&*[head, rest].concat()).into(), None).unwrap());
}

#[test]
fn fixed_part_and_names_are_found_in_both_forms() {
    let args = CreateIn {
        mode: 0o644,
        ..CreateIn::default()
    };
    let (head, rest) = bytes(args.as_bytes(), b"a name\0", 0);
    both(&head, &rest, |request| {
        let (found, rest) = request.args_and_rest::<CreateIn>().unwrap();
        assert_eq!((found, name(rest).unwrap().0), (args, &b"a name"[..]));
    });
    let (head, rest) = bytes(&[], b"looked up\0", 0);
    both(&head, &rest, |request| {
        assert_eq!(name(request.body()).unwrap().0, b"looked up");
    });
    let (head, rest) = bytes(args.as_bytes(), &[], 0);
    both(&head, &rest, |request| assert_eq!(request.args::<CreateIn>(), Ok(args)));
}

#[test]
fn extensions_end_the_rest_in_both_forms() {
    let args = CreateIn::default();
    let group: Vec<u8> = [16_u32, 32, 1, 777].iter().flat_map(|n| n.to_ne_bytes()).collect();
    let (head, rest) = bytes(args.as_bytes(), &[b"n\0".to_vec(), group].concat(), 2);
    both(&head, &rest, |request| {
        assert_eq!(request.args_and_rest::<CreateIn>().unwrap().1, b"n\0");
    });
}

#[test]
fn lengths_that_do_not_fit_are_malformed() {
    let (head, rest) = bytes(&[0; 16], b"name\0", 0);
    let wrong = Malformed::Lengths { unique: 5 };
    let parse = |head, rest| Request::parse(Parts { head, rest }, None).err();
    assert_eq!(parse(&head, &rest[1..]), Some(wrong));
    assert_eq!(parse(&head[..50], &rest), Some(wrong));
    assert_eq!(parse(&head[..30], &rest), Some(Malformed::Headless));
    let (head, rest) = bytes(&[0; 16], b"name\0", 9);
    assert_eq!(parse(&head, &rest), Some(wrong), "more extensions than bytes");
}
