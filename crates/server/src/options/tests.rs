//! Mount options: each does what it says, and nothing else is believed.

use super::{Anchor, MountOptions};
use keepfs_fs::AccessTimes;
use keepfs_fuse::{CacheMode, TransportKind};
use keepfs_store::{Equations, Guard};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

fn parse(list: &str) -> MountOptions {
    MountOptions::parse(&[list.into()], false).expect(list)
}

type Change = fn(&mut MountOptions);

#[test]
fn each_option_changes_its_own_field_only() {
    let plain = MountOptions::default();
    let cases: [(&str, Change); 26] = [
        ("ro", |o| o.read_only = true),
        ("nosuid", |o| o.nosuid = true),
        ("nodev", |o| o.nodev = true),
        ("noexec", |o| o.noexec = true),
        ("nosymfollow", |o| o.nosymfollow = true),
        ("nodiratime", |o| o.nodiratime = true),
        ("noatime", |o| o.access_times = AccessTimes::Never),
        ("strictatime", |o| o.access_times = AccessTimes::Strict),
        ("discard", |o| o.discard = true),
        ("remount", |o| o.remount = true),
        ("noallow_other", |o| o.allow_other = false),
        ("cache=writeback", |o| o.cache = CacheMode::Writeback),
        ("guard=off", |o| o.guard = Guard::Off),
        ("audit=off", |o| o.audit = Equations::NONE),
        ("guard=sealed", |o| o.guard = Guard::Sealed),
        ("guard=pkey", |o| o.guard = Guard::Pkey),
        ("guard=mprotect", |o| o.guard = Guard::Mprotect),
        ("commit=30", |o| o.commit = Duration::from_secs(30)),
        ("arena=128M", |o| o.arena = 128 << 20),
        ("io=direct", |o| o.direct = true),
        ("log-free=20", |o| o.log_free = 20),
        ("anchor=none", |o| o.anchor = Anchor::None),
        ("transport=uring", |o| o.transport = TransportKind::Uring),
        ("transport=dev", |o| o.transport = TransportKind::Dev),
        ("threads=3", |o| o.threads = Some(3)),
        ("log=/a/b", |o| o.log = Some("/a/b".into())),
    ];
    for (word, change) in cases {
        let mut expected = plain.clone();
        change(&mut expected);
        assert_ne!(expected, plain, "{word}");
        assert_eq!(parse(word), expected, "{word}");
    }
}

#[test]
fn the_last_one_wins() {
    assert!(!parse("ro,rw").read_only);
    assert!(parse("suid,nosuid").nosuid);
    let lists = ["commit=1".to_owned(), "commit=2".to_owned()];
    let options = MountOptions::parse(&lists, false).expect("two lists");
    assert_eq!(options.commit, Duration::from_secs(2));
}

#[test]
fn options_of_mount_itself_are_passed_over() {
    let list = "defaults,noauto,nofail,_netdev,x-systemd.automount,x-gvfs-name=a,comment=b,user=somebody";
    assert_eq!(parse(list), MountOptions::default());
}

/// S-20.17.
#[test]
fn options_for_users_imply_what_mount_says() {
    let implied = |list: &str| {
        let options = parse(list);
        [options.nosuid, options.nodev, options.noexec]
    };
    for word in ["user", "users"] {
        assert_eq!(implied(word), [true; 3], "{word}");
    }
    for word in ["owner", "group"] {
        assert_eq!(implied(word), [true, true, false], "{word}");
    }
    assert_eq!(implied("user,exec,dev"), [true, false, false]);
    assert_eq!(implied("suid,exec,user"), [true; 3]);
    // How mount(8) calls its helpers.
    assert_eq!(implied("rw,nosuid,nodev,user,exec"), [true, true, false]);
    assert_eq!(implied("rw,user=somebody,exec,suid,dev"), [false; 3]);
}

/// S-20.17: those of mount(8) for every file system.
#[test]
fn no_option_of_every_file_system_is_unknown() {
    let list = "async,atime,noatime,auto,noauto,context=a,fscontext=a,defcontext=a,rootcontext=a,defaults,dev,nodev,diratime,\
        nodiratime,dirsync,exec,noexec,group,iversion,noiversion,mand,nomand,_netdev,nofail,relatime,norelatime,strictatime,\
        nostrictatime,lazytime,nolazytime,suid,nosuid,silent,loud,owner,remount,ro,rw,sync,user,nouser,users,X-a,x-a,\
        X-mount.mkdir,X-mount.subdir=a,X-mount.owner=a,X-mount.group=a,X-mount.mode=0,X-mount.idmap=a,nosymfollow,symfollow";
    for word in list.split(',') {
        if let Err(refused) = MountOptions::parse(&[word.into()], false) {
            let said = refused.to_string();
            assert!(said.contains(&format!("mount option '{word}': ")), "{word}: {said}");
        }
    }
}

#[test]
fn unknown_and_senseless_options_are_refused_by_name() {
    for word in [
        "nonsense",
        "cache=maybe",
        "guard=",
        "audit=without:nothing",
        "commit=0",
        "commit=soon",
        "arena=1M",
        "arena=2T",
        "arena=big",
        "threads=0",
        "transport=fast",
        "sync",
        "dirsync",
        "lazytime",
        "iversion",
        "mand",
        "context=a",
        "X-mount.subdir=a",
        "log=",
        "x=1",
    ] {
        let error = MountOptions::parse(&[word.into()], false).expect_err(word);
        assert!(error.to_string().contains(&format!("'{word}'")), "{word}: {error}");
    }
}

/// Decision 0421.
#[cfg(not(feature = "comparison"))]
#[test]
fn options_for_comparison_are_unknown_in_what_is_shipped() {
    for word in ["nocompact", "nooplog", "compact", "oplog"] {
        let error = MountOptions::parse(&[word.into()], false).expect_err(word);
        let said = error.to_string();
        assert!(said.contains(&format!("unknown mount option '{word}'")), "{said}");
        assert!(
            !super::HELP.contains(word) && !super::offered().contains(&word.to_owned()),
            "{word}"
        );
    }
}

/// Decision 0421.
#[cfg(feature = "comparison")]
#[test]
fn options_for_comparison_reach_the_store() {
    let told = |list: &str| {
        let store = parse(list).open().volume().store;
        (store.compact, store.oplog)
    };
    assert_eq!(told("rw"), (true, true));
    assert_eq!(told("nocompact"), (false, true));
    assert_eq!(told("nooplog"), (true, false));
    let fixed = parse("nocompact").fixed_that_differs(&parse("nooplog"));
    assert_eq!(fixed, Some("what is for comparison"));
}

#[test]
fn sloppy_passes_over_unknown_names_but_not_senseless_values() {
    assert!(
        MountOptions::parse(&["nonsense,ro".into()], true)
            .expect("sloppy")
            .read_only
    );
    assert!(MountOptions::parse(&["commit=soon".into()], true).is_err());
}

#[test]
fn a_read_only_mount_moves_no_access_times() {
    assert_eq!(parse("ro").open().access_times, AccessTimes::Never);
    assert_eq!(parse("noatime").open().access_times, AccessTimes::Never);
    assert_eq!(parse("ro,strictatime").open().access_times, AccessTimes::Never);
    assert_eq!(parse("strictatime").open().access_times, AccessTimes::Strict);
    assert_eq!(parse("strictatime,atime").open().access_times, AccessTimes::Relative);
    assert_eq!(parse("rw").open().access_times, AccessTimes::Relative);
}

#[test]
fn a_remount_changes_flags_only() {
    let mounted = parse("cache=writeback,commit=7");
    let same = parse("cache=writeback,commit=7,remount,ro,noatime,nosuid,nodev,noexec");
    assert_eq!(mounted.fixed_that_differs(&same), None);
    for (list, name) in [
        ("noallow_other", "allow_other"),
        ("cache=direct", "cache"),
        ("guard=off", "guard"),
        ("audit=without:links", "audit"),
        ("commit=8", "commit"),
        ("arena=128M", "arena"),
        ("anchor=none", "anchor"),
        ("threads=3", "threads"),
        ("transport=uring", "transport"),
        ("log=/a", "log"),
        ("discard", "discard"),
    ] {
        let other = parse(&format!("cache=writeback,commit=7,{list}"));
        assert_eq!(mounted.fixed_that_differs(&other), Some(name));
    }
}

/// S-18.16.
#[test]
fn a_log_is_at_any_bytes() {
    let list = |bytes: &[u8]| MountOptions::list(OsStr::from_bytes(bytes).to_owned());
    assert_eq!(list("ro,log=/ü,noatime".as_bytes()).unwrap(), "ro,log=/ü,noatime");
    let told = list(b"ro,log=/a\xff\n=,noatime").unwrap();
    assert_eq!(told, "ro,log-bytes=2f61ff0a3d,noatime");
    let options = MountOptions::parse(&[told], false).unwrap();
    assert_eq!(options.log.unwrap().as_os_str().as_bytes(), b"/a\xff\n=");
    assert!(options.read_only);
    let why = list(b"ro,comment=\xff\x1b").unwrap_err();
    assert_eq!(why, "mount option $'comment=\\xff\\e' is no UTF-8");
    for wrong in ["log-bytes=", "log-bytes=f", "log-bytes=0g"] {
        MountOptions::parse(&[wrong.to_owned()], false).unwrap_err();
    }
}

/// S-18.17: what stands from the root stays as it is.
#[test]
fn a_log_is_where_who_mounts_is() {
    let here = std::env::current_dir().unwrap();
    let lists = ["ro,log=a,noatime", "log=/b/../c", "log=", "log-bytes=61ff", "catalog=a"].map(str::to_owned);
    let from_the_root = MountOptions::from_the_root(&lists);
    assert_eq!(from_the_root[0], format!("ro,log={},noatime", here.join("a").display()));
    assert_eq!(from_the_root[1..3], lists[1..3]);
    let options = MountOptions::parse(&from_the_root[3..4], false).unwrap();
    let log = here.join(OsStr::from_bytes(b"a\xff"));
    assert_eq!(options.log.unwrap(), log);
    assert_eq!(from_the_root[4], lists[4]);
}
