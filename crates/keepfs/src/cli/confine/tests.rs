//! The filter is one that the kernel takes, and has what must be on it.

use super::*;

#[test]
fn the_filter_is_a_program() {
    assert!(!program().expect("a program").is_empty());
}

#[test]
fn nothing_that_names_a_file_or_starts_a_program_is_on_it() {
    let rules = rules().expect("rules");
    let refused = [
        libc::SYS_openat,
        libc::SYS_openat2,
        libc::SYS_execve,
        libc::SYS_execveat,
        libc::SYS_socket,
        libc::SYS_connect,
        libc::SYS_bind,
        libc::SYS_ptrace,
        libc::SYS_process_vm_writev,
        libc::SYS_process_vm_readv,
        libc::SYS_kill,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_unlinkat,
        libc::SYS_renameat2,
        libc::SYS_bpf,
        libc::SYS_io_uring_setup,
        libc::SYS_memfd_create,
    ];
    for call in refused {
        assert!(!rules.contains_key(&call), "call {call}");
    }
}

/// On a thread of its own: the filter stays with it.
#[test]
fn before_a_pool_is_read_the_worst_is_refused_and_files_can_be_opened() {
    use std::fs::{self, File, Permissions};
    use std::net::UdpSocket;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;

    let tried = std::thread::spawn(|| {
        let dir = tempfile::tempdir().expect("a directory");
        seccompiler::apply_filter(&first_program().expect("a program")).expect("confined");
        let file = dir.path().join("file");
        let needed = [
            File::create(&file).map(drop),
            UnixDatagram::unbound().map(drop),
            std::thread::Builder::new().spawn(|| ()).map(drop),
            fs::rename(&file, dir.path().join("other")),
        ];
        let refused = [
            ("a program", Command::new("/bin/true").spawn().map(drop)),
            ("network", UdpSocket::bind("127.0.0.1:0").map(drop)),
            ("a link", symlink("/", dir.path().join("link"))),
            ("a mode", fs::set_permissions(dir.path(), Permissions::from_mode(0o777))),
            (
                "a signal",
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CONT)
                    .map_err(Into::into),
            ),
            ("root", rustix::process::chroot("/").map_err(Into::into)),
        ];
        (needed, refused)
    });
    let (needed, refused) = tried.join().expect("it lives");
    for result in needed {
        result.expect("it is needed");
    }
    for (what, result) in refused {
        assert_eq!(result.expect_err(what).raw_os_error(), Some(libc::EPERM), "{what}");
    }
}
