//! What is no scrape gets a refusal, and never more room or time than a scrape.

use super::{Desk, REQUEST_MAX, head};
use std::io;

#[test]
fn only_gets_of_the_metrics_are_answered() {
    let desk = Desk {
        page: Box::new(|| "keepfs_up 1\n".into()),
    };
    for (line, status, body) in [
        ("GET /metrics HTTP/1.1", "200", "keepfs_up 1\n"),
        ("GET /metrics?x=1 HTTP/1.0", "200", "keepfs_up 1\n"),
        ("HEAD /metrics HTTP/1.1", "200", ""),
        ("GET / HTTP/1.1", "404", "the metrics are at /metrics\n"),
        ("POST /metrics HTTP/1.1", "405", "only GET is answered\n"),
        ("GET /metrics", "400", "this is no request of HTTP/1.1\n"),
        ("GET /metrics HTTP/2", "505", "HTTP/1.1 is spoken here\n"),
    ] {
        let reply = desk.reply(&format!("{line}\r\nHost: x\r\n\r\n"));
        let (head, said) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{line}: {head}");
        assert_eq!(said, body, "{line}");
    }
}

#[test]
fn a_request_is_bounded() {
    let long = vec![b'x'; 2 * REQUEST_MAX];
    assert_eq!(head(&long[..]).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    assert_eq!(head(&b"GET"[..]).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
