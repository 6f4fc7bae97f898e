//! Who keeps a place, and who goes.

use super::*;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;

const MOST: usize = 3;

/// Hears clients that are answered with the byte that they say, once the test lets them.
fn hear(clients: &Arc<Clients<UnixStream>>, answer: &Arc<Mutex<()>>) -> UnixStream {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let answer = answer.clone();
    clients.hear(theirs, move |client| {
        let (mut stream, mut byte) = (&*client.connection, [0]);
        if stream.read_exact(&mut byte).is_ok() {
            client.is_answered(true);
            drop(answer.lock());
            stream.write_all(&byte).unwrap();
        }
    });
    ours
}

/// What comes from the other end: the byte, or its end.
fn said(mut client: &UnixStream) -> Option<u8> {
    let mut byte = [0];
    client.read_exact(&mut byte).ok().map(|()| byte[0])
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let (clients, answer) = (Clients::new(MOST, "test"), Arc::new(Mutex::new(())));
    let silent: Vec<UnixStream> = (0..200).map(|_| hear(&clients, &answer)).collect();
    let mut client = hear(&clients, &answer);
    client.write_all(b"x").unwrap();
    assert_eq!(said(&client), Some(b'x'));
    // Those that came first went first.
    assert_eq!(said(&silent[0]), None);
    let mut last = silent.last().unwrap();
    last.write_all(b"y").unwrap();
    assert_eq!(said(last), Some(b'y'));
}

#[test]
fn who_is_being_answered_stays() {
    let (clients, answer) = (Clients::new(MOST, "test"), Arc::new(Mutex::new(())));
    let held = answer.lock();
    let first: Vec<UnixStream> = (0..MOST).map(|_| hear(&clients, &answer)).collect();
    first.iter().for_each(|mut client| client.write_all(b"x").unwrap());
    let is_answered = |place: &Place<UnixStream>| place.stage == Stage::Answered;
    while !clients.taken.lock().iter().all(is_answered) {
        thread::yield_now();
    }
    let (come, has_come) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| come.send(hear(&clients, &answer)).unwrap());
        assert!(
            has_come.recv_timeout(Duration::from_millis(200)).is_err(),
            "there is no place"
        );
        drop(held);
        let mut last = has_come.recv_timeout(Duration::from_secs(30)).unwrap();
        last.write_all(b"z").unwrap();
        assert_eq!(said(&last), Some(b'z'));
    });
    assert!(first.iter().all(|client| said(client) == Some(b'x')));
}
