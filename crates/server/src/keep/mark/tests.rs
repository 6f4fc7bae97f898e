//! Who has the mark of a mount.

use super::Mark;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

fn sleeping(mark: Option<&Mark>, user: Option<u32>) -> Child {
    let mut command = Command::new("sleep");
    command.arg("60");
    mark.into_iter().for_each(|mark| mark.put_on(&mut command));
    user.into_iter().for_each(|user| {
        command.uid(user);
    });
    command.spawn().unwrap()
}

/// S-16.31: of this user's processes those of the mount, and nobody else's.
#[test]
fn bearers_are_of_the_mount_and_of_the_user() {
    let (mark, another) = (Mark("1.of-a-test".into()), Mark("1.of-a-test-too".into()));
    let mut started = vec![
        sleeping(Some(&mark), None),
        sleeping(Some(&another), None),
        sleeping(None, None),
    ];
    if rustix::process::getuid().is_root() {
        started.push(sleeping(Some(&mark), Some(65534)));
    }
    let found = mark.bearers();
    let found: Vec<_> = found.iter().map(|(pid, _)| pid.as_raw_nonzero().get()).collect();
    for child in &mut started {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    assert_eq!(found, [started[0].id() as i32]);
    assert!(mark.bearers().is_empty());
}

/// The mark of a mount tells it from every other one of this machine. S-16.31
#[test]
fn a_mount_has_a_mark_of_its_own() {
    let mark = Mark::new();
    assert_eq!(mark, Mark::new());
    let text = mark.0.to_str().unwrap();
    let (pid, started) = text.split_once('.').unwrap();
    assert_eq!(pid, std::process::id().to_string());
    assert!(started.parse::<u64>().unwrap() > 0);
}
