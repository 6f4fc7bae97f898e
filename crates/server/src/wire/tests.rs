//! Messages over a real pair of sockets.

use super::{DESCRIPTORS_MAX, receive, send, send_all};
use crate::held::{Held, Item};
use crate::said::Said;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};

fn pair() -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

fn put(name: &str) -> Said {
    Said::Put(name.to_owned())
}

fn file(text: &str) -> OwnedFd {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.into()
}

fn text(descriptor: OwnedFd) -> String {
    let mut file = File::from(descriptor);
    file.rewind().unwrap();
    let mut text = String::new();
    file.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn a_message_arrives_whole_and_in_order() {
    let (a, b) = pair();
    send(
        a.as_fd(),
        &put("one"),
        b"line\nand \0 more",
        &[file("first"), file("second")],
    )
    .unwrap();
    send(a.as_fd(), &Said::Ready, b"", &[]).unwrap();
    let message = receive(b.as_fd(), true).unwrap().unwrap();
    assert_eq!(message.said, Some(put("one")));
    assert_eq!(message.bytes, b"line\nand \0 more");
    let texts: Vec<String> = message.descriptors.into_iter().map(text).collect();
    assert_eq!(texts, ["first", "second"]);
    assert_eq!(receive(b.as_fd(), true).unwrap().unwrap().said, Some(Said::Ready));
}

#[test]
fn nothing_to_read_and_nobody_there_are_told_apart() {
    let (a, b) = pair();
    assert_eq!(receive(b.as_fd(), false).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    send(a.as_fd(), &Said::Ended(0), b"", &[]).unwrap();
    drop(a);
    // What was said before the end is heard.
    assert_eq!(receive(b.as_fd(), false).unwrap().unwrap().said, Some(Said::Ended(0)));
    assert!(receive(b.as_fd(), false).unwrap().is_none());
    assert_eq!(
        send(b.as_fd(), &Said::Ready, b"", &[]).unwrap_err().kind(),
        io::ErrorKind::BrokenPipe
    );
}

#[test]
fn as_many_descriptors_as_the_kernel_takes() {
    let (a, b) = pair();
    let many = |number| (0..number).map(|_| file("")).collect::<Vec<_>>();
    assert!(send(a.as_fd(), &put("many"), b"", &many(DESCRIPTORS_MAX + 1)).is_err());
    send(a.as_fd(), &put("many"), b"", &many(DESCRIPTORS_MAX)).unwrap();
    let message = receive(b.as_fd(), true).unwrap().unwrap();
    assert_eq!(message.descriptors.len(), DESCRIPTORS_MAX);
}

#[test]
fn what_is_put_again_replaces_all_of_it() {
    let mut held = Held::default();
    let item = |texts: &[&str]| Item {
        bytes: texts.join(" ").into_bytes(),
        descriptors: texts.iter().map(|text| file(text)).collect(),
    };
    held.put("x", item(&["old", "older"]));
    held.put("x", item(&["new"]));
    let (a, b) = pair();
    send_all(a.as_fd(), &held).unwrap();
    let message = receive(b.as_fd(), true).unwrap().unwrap();
    assert_eq!((message.said, &*message.bytes), (Some(put("x")), &b"new"[..]));
    assert_eq!(message.descriptors.len(), 1);
    assert!(receive(b.as_fd(), false).is_err(), "one message, not two");
}

/// A server that dies with words of its keeper unread: what it had put is held all the same.
#[test]
fn what_was_said_before_a_death_is_heard_though_the_answer_was_not() {
    let (keeper, server) = pair();
    send(keeper.as_fd(), &put("spare"), b"", &[]).unwrap();
    send(server.as_fd(), &put("remains"), b"memory", &[file("content")]).unwrap();
    drop(server);
    let message = receive(keeper.as_fd(), false).unwrap().expect("it was said");
    assert_eq!(message.said, Some(put("remains")));
    assert_eq!(text(message.descriptors.into_iter().next().unwrap()), "content");
    assert!(receive(keeper.as_fd(), false).unwrap().is_none());
}
