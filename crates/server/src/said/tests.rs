//! What was said once is understood for ever: each file of `golden/keeper` is a message as it is on the wire, a line and bytes.
//! S-16.15

use super::{Attached, Said, VERSION, understood};
use crate::held::Held;
use crate::line;
use crate::lives::{Begin, Death, Mode};
use crate::place::Place;
use crate::registry::Record;
use crate::rooms::PLACE;
use crate::wire::{receive, send};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::ffi::OsStr;
use std::fs;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

fn file(name: &str) -> Vec<u8> {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "golden/keeper", name].iter().collect();
    fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn begin() -> Begin {
    Begin {
        version: 1,
        keeper_pid: 4711,
        lives: 3,
        deaths: 2,
        mode: Mode::ReadOnly,
        last_death: Some(Death {
            how: "signal 9".into(),
            at_s: 1_764_187_200,
            noticed_ns: 98_765_432_100,
        }),
        after_death: true,
    }
}

fn place() -> Place {
    Place {
        version: 1,
        record: Record {
            pid: 4711,
            kept: true,
            pool: "/pools/photos".into(),
            identities: vec!["file 8:1 1234".into()],
            births: Default::default(),
            dir: "/mnt/photos".into(),
            device: "0:52".into(),
            since_ns: 1_764_187_200_000_000_000,
            options: vec!["noatime,commit=1".into()],
        },
        anchored: true,
        nonce: Some(0x0123_4567_89AB_CDEF),
        writing: Some(true),
    }
}

/// Of a mount whose paths are no UTF-8.
fn place_of_bytes() -> Place {
    let mut place = place();
    place.record.pool = OsStr::from_bytes(b"/pools/photos\xff").into();
    place.record.dir = OsStr::from_bytes(b"/mnt/\xe4").into();
    place.version = Place::version_of(&place.record);
    place
}

/// All that can be said, with the bytes that go beside it.
fn all() -> Vec<(&'static str, Said, Vec<u8>)> {
    let json = |begin: &Begin| serde_json::to_vec(begin).unwrap();
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        (
            "put-place",
            Said::Put(PLACE.into()),
            serde_json::to_vec(&place()).unwrap(),
        ),
        (
            "put-place-bytes",
            Said::Put(PLACE.into()),
            serde_json::to_vec(&place_of_bytes()).unwrap(),
        ),
        ("put-spare", Said::Put("spare".into()), text("4712")),
        ("begin", Said::Begin, json(&begin())),
        (
            "begin-first",
            Said::Begin,
            json(&Begin {
                version: 1,
                ..Begin::first(4711)
            }),
        ),
        ("ready", Said::Ready, Vec::new()),
        ("unmount", Said::Unmount, Vec::new()),
        ("ended", Said::Ended(0), Vec::new()),
        ("upgrade", Said::Upgrade, Vec::new()),
        (
            "refused",
            Said::Refused,
            text("nothing is kept under the name \"other\""),
        ),
        ("stays", Said::Stays, text("/mnt/photos is in use")),
        ("says", Said::Says, text("no keeper stands ready")),
        ("serving", Said::Serving(4713), json(&begin())),
        ("stand-in", Said::StandIn, json(&begin())),
        ("stand-down", Said::StandDown, Vec::new()),
        ("attach", Said::Attach, Vec::new()),
        ("warning", Said::Warning, text("no anchor")),
        (
            "attached-anchored",
            Said::Attached(Attached::Anchored),
            text("description"),
        ),
        ("attached-plain", Said::Attached(Attached::Plain), text("description")),
        ("failed", Said::Failed, text("/mnt/photos is no directory")),
    ]
}

#[test]
fn every_message_is_what_it_was_and_is_understood() {
    for (name, said, bytes) in all() {
        let golden = file(name);
        let mut ours = line::of(&said).into_bytes();
        ours.push(b'\n');
        ours.extend(&bytes);
        assert_eq!(
            String::from_utf8_lossy(&ours),
            String::from_utf8_lossy(&golden),
            "{name}"
        );
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        rustix::net::send(&a, &golden, rustix::net::SendFlags::empty()).unwrap();
        let message = receive(b.as_fd(), true).unwrap().unwrap();
        assert_eq!((message.said, message.bytes), (Some(said), bytes), "{name}");
    }
    let known = all().len() + OF_BEFORE.len();
    let folder = [env!("CARGO_MANIFEST_DIR"), "golden/keeper"]
        .iter()
        .collect::<PathBuf>();
    assert_eq!(fs::read_dir(folder).unwrap().count(), known, "files that no test reads");
}

/// As programs said it that knew nothing of versions.
const OF_BEFORE: [&str; 2] = ["before-begin", "before-put-place"];

#[test]
fn what_programs_said_before_versions_is_of_the_first() {
    let bytes_of = |name: &str| {
        let golden = file(name);
        let end = golden.iter().position(|byte| *byte == b'\n').unwrap();
        golden[end + 1..].to_vec()
    };
    assert_eq!(Begin::read(&bytes_of(OF_BEFORE[0])).unwrap(), begin());
    let before = Place::read(&bytes_of(OF_BEFORE[1])).unwrap();
    assert_eq!(
        serde_json::to_value(before).unwrap(),
        serde_json::to_value(place()).unwrap()
    );
}

/// Paths are bytes, and a program that would take their text for them must not serve; all others can (S-16.15, S-18.10).
#[test]
fn paths_are_told_by_their_bytes() {
    assert_eq!((Place::version_of(&place().record), Begin::first(1).version), (1, 1));
    assert_eq!(place_of_bytes().version, 2);
    let told = Place::read(&serde_json::to_vec(&place_of_bytes()).unwrap()).unwrap();
    assert_eq!(told.record, place_of_bytes().record);
}

/// Whoever cannot know what is meant ends before it takes anything, and the program before it goes on.
#[test]
fn a_later_version_is_refused_with_a_sentence() {
    let later = VERSION + 1;
    understood(VERSION, "its keeper").unwrap();
    let begin = serde_json::to_vec(&Begin {
        version: later,
        ..begin()
    })
    .unwrap();
    let said = Begin::read(&begin).unwrap_err().to_string();
    let wanted = format!(
        "its keeper is of a later release (it speaks version {later}, and this program knows them up to {VERSION})"
    );
    assert!(said.starts_with(&wanted), "{said}");
    let place = serde_json::to_vec(&Place {
        version: later,
        ..place()
    })
    .unwrap();
    let said = Place::read(&place).err().unwrap().to_string();
    assert!(
        said.starts_with("the server before this one is of a later release"),
        "{said}"
    );
}

/// A program of another release may say more.
#[test]
fn what_is_not_known_is_told_from_what_is() {
    let (a, b) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    for unknown in ["sing", "ended in tears", "ready now", "attached sideways", ""] {
        rustix::net::send(&a, format!("{unknown}\n").as_bytes(), rustix::net::SendFlags::empty()).unwrap();
        assert_eq!(receive(b.as_fd(), true).unwrap().unwrap().said, None, "{unknown:?}");
    }
    send(a.as_fd(), &Said::Put("7".into()), b"", &[]).unwrap();
    let message = receive(b.as_fd(), true).unwrap().unwrap();
    assert_eq!(message.said, Some(Said::Put("7".into())));
    assert!(Held::default().is_empty());
}
