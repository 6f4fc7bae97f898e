//! What is run as root is root's alone.

use super::{Programs, is_name, refusal, setting};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

#[test]
fn names_are_those_of_run_parts() {
    for (name, is) in [
        ("mail", true),
        ("10-page_me", true),
        ("mail.dpkg-old", false),
        ("mail~", false),
        (".hidden", false),
    ] {
        assert_eq!(is_name(name), is, "{name}");
    }
}

#[test]
fn settings_are_names_with_values() {
    let of = |line| setting(line).map(|(name, value)| format!("{name}:{value}"));
    assert_eq!(of("MAIL_TO=root@x").as_deref(), Some("MAIL_TO:root@x"));
    assert_eq!(of("MAIL_TO=\"a b\"").as_deref(), Some("MAIL_TO:a b"));
    for line in ["MAIL_TO", "=x", "mail_to=x", "LD_PRELOAD=/x", "export A=b"] {
        assert_eq!(of(line), None, "{line}");
    }
}

#[test]
fn what_others_could_change_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let hooks = folder.path().join("hooks.d");
    fs::create_dir(&hooks).unwrap();
    let mode = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    mode(&hooks, 0o755);
    let hook = hooks.join("hook");
    fs::write(&hook, "#!/bin/sh\n").unwrap();
    let why = || refusal(&hook, true).unwrap_or_default();
    mode(&hook, 0o644);
    assert_eq!(why(), "it is not executable");
    assert_eq!(refusal(&hook, false), None);
    mode(&hook, 0o755);
    assert_eq!(why(), "");
    for writable in [0o775, 0o757] {
        mode(&hook, writable);
        assert!(why().ends_with("may be written by others than root"), "{}", why());
    }
    mode(&hook, 0o755);
    chown(&hook, Some(1), None).unwrap();
    assert!(why().ends_with("is not root's"), "{}", why());
    chown(&hook, Some(0), None).unwrap();
    mode(&hooks, 0o777);
    assert!(
        why().ends_with("hooks.d may be written by others than root"),
        "{}",
        why()
    );
    mode(&hooks, 0o755);
    // A link is as good as what it leads to; one to nothing takes a hook away.
    let link = hooks.join("link");
    symlink(&hook, &link).unwrap();
    symlink("/dev/null", hooks.join("masked")).unwrap();
    symlink("/nowhere", hooks.join("dangling")).unwrap();
    let found = Programs::new(Some(folder.path())).all();
    let names: Vec<(&str, bool)> = found
        .iter()
        .map(|(path, refused)| (path.file_name().unwrap().to_str().unwrap(), refused.is_none()))
        .collect();
    assert_eq!(names, [("dangling", false), ("hook", true), ("link", true)]);
}
