//! Who waits for a pool to be closed is told, whenever that is.

use super::*;
use std::sync::mpsc;
use std::time::Instant;

/// A server of a mount that is kept, so that it takes nothing away when it closes.
fn control(folder: &std::path::Path) -> Control {
    let record = Record {
        pid: 1,
        kept: true,
        pool: "/pool".into(),
        identities: Vec::new(),
        births: Default::default(),
        dir: "/dir".into(),
        device: "0:1".into(),
        since_ns: 1,
        options: Vec::new(),
    };
    let listener = UnixListener::bind(folder.join("socket")).unwrap();
    let answers = |question: &Question| (*question == Question::Get).then(|| json!("keepfs"));
    Control::over(listener, record, Arc::new(answers)).unwrap()
}

/// Asks to wait; what is told of the end.
fn wait(folder: &std::path::Path, begun: impl FnOnce()) -> String {
    let stream = UnixStream::connect(folder.join("socket")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    writeln!(&stream, "wait").unwrap();
    let mut lines = BufReader::new(&stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "{}");
    begun();
    lines.next().map_or(String::new(), |line| line.unwrap())
}

/// The pool is closed in the moment in which somebody has heard that he is waiting.
#[test]
fn who_has_just_begun_to_wait_is_told() {
    let until = Instant::now() + Duration::from_secs(2);
    for _ in (0..500).take_while(|_| Instant::now() < until) {
        let folder = tempfile::tempdir().unwrap();
        let control = control(folder.path());
        let told = wait(folder.path(), || drop(control.close(Ok(()))));
        assert_eq!(told, r#"{"durable":true}"#);
    }
}

/// S-16.34: those who waited for the server before, which died: they have come and not been heard when this one ends.
#[test]
fn who_came_before_the_end_is_told_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let control = control(folder.path());
    let waiting: Vec<UnixStream> = (0..40)
        .map(|_| {
            let stream = UnixStream::connect(folder.path().join("socket")).unwrap();
            writeln!(&stream, "wait").unwrap();
            stream
        })
        .collect();
    let kept = control.close(Ok(()));
    assert_eq!(kept.len(), waiting.len());
    for stream in waiting {
        stream.set_nonblocking(true).unwrap();
        let told: Vec<String> = BufReader::new(&stream).lines().map_while(Result::ok).collect();
        assert_eq!(told, ["{}", r#"{"durable":true}"#]);
    }
}

#[test]
fn who_comes_after_the_end_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let control = control(folder.path());
    drop(control.close(Err("no medium".into())));
    let told = wait(folder.path(), || {});
    assert_eq!(told, r#"{"durable":false,"error":"no medium"}"#);
}

/// Says a byte now and then until it is told to stop, or nobody listens.
fn drip(mut stream: UnixStream, stop: &mpsc::Receiver<()>, every: Duration) {
    while stop.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) && stream.write_all(b"x").is_ok() {}
}

/// It goes on saying bytes, never the end of the line, until the others have their answers.
#[test]
fn who_is_slow_stops_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let _control = control(folder.path());
    let connect = || UnixStream::connect(folder.path().join("socket")).unwrap();
    let (silent, slow) = (connect(), connect());
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || drip(slow, &stopped, Duration::from_millis(100)));
        for _ in 0..3 {
            let stream = connect();
            stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            writeln!(&stream, "get").unwrap();
            let answer = BufReader::new(&stream).lines().next();
            assert_eq!(answer.unwrap().unwrap(), "\"keepfs\"");
        }
        drop(stop);
    });
    drop(silent);
}

/// However short the pauses between its bytes are.
#[test]
fn a_question_ends_at_its_time() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (stop, stopped) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || drip(theirs, &stopped, Duration::from_millis(1)));
        let asked = question(&ours, Instant::now() + Duration::from_millis(200));
        drop(stop);
        let kind = asked.unwrap_err().kind();
        assert!(
            matches!(kind, io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock),
            "{kind}"
        );
    });
}

/// S-16.16: a server that does not know the question, or knows it in another version only, says so.
#[test]
fn who_asks_in_a_later_version_gets_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let _control = control(folder.path());
    let asked = |line: &str| {
        let stream = UnixStream::connect(folder.path().join("socket")).unwrap();
        writeln!(&stream, "{line}").unwrap();
        let answer = BufReader::new(&stream).lines().next().unwrap().unwrap();
        understood::<String>(&answer).map_err(|silent| silent.to_string())
    };
    assert_eq!(asked("get"), Ok("keepfs".into()));
    let why = asked("2 get").unwrap_err();
    assert!(
        why.contains("later release than the server (it asks in version 2"),
        "{why}"
    );
    let why = asked("sing").unwrap_err();
    assert!(why.contains("does not know the question"), "{why}");
    let why = understood::<u32>("\"keepfs\"").unwrap_err().to_string();
    assert!(why.contains("its answer is not understood"), "{why}");
}
