//! Errors are lines on a terminal.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use super::FuseError;

/// S-18.10.
#[test]
fn paths_are_told_by_their_bytes() {
    let path = || OsStr::from_bytes(b"/m\xff\x1b[31m").into();
    let source = || io::Error::from(io::ErrorKind::NotFound);
    let errors = [
        FuseError::MountPoint {
            path: path(),
            source: source(),
        },
        FuseError::NotADirectory { path: path() },
        FuseError::BadPath { path: path() },
        FuseError::Mount {
            path: path(),
            source: source(),
        },
        FuseError::Busy { path: path() },
        FuseError::InUse { path: path() },
        FuseError::NotMounted { path: path() },
        FuseError::Unmount {
            path: path(),
            source: source(),
        },
    ];
    for error in errors {
        let told = error.to_string();
        assert!(told.contains("$'/m\\xff\\e[31m'"), "{told}");
    }
    let plain = FuseError::Busy {
        path: "/mnt/pool".into(),
    };
    assert!(plain.to_string().starts_with("/mnt/pool is busy"), "{plain}");
}
