//! A run that fails, or that ends before its end, is no success; the archive is that of the release.

use super::{archive, judge};

#[test]
fn only_a_whole_run_passes() {
    assert_eq!(judge("noise\n[1.2] sh: KEEPFS ok install\r\nKEEPFS end\r\n"), Ok(1));
    for broken in ["", "KEEPFS ok install\n", "KEEPFS FAILED install\nKEEPFS end\n"] {
        assert!(judge(broken).is_err(), "{broken}");
    }
}

#[test]
fn the_archive_is_that_of_the_release() {
    let archives = "http://a/ bookworm-updates main\nhttp://b/ bookworm contrib\nhttp://c/ bookworm main\n";
    let release = "ID=debian\nVERSION_CODENAME=bookworm\n";
    assert_eq!(archive(archives, release), Some(("http://c/", "bookworm")));
    assert_eq!(archive(archives, "ID=other\n"), None);
}
