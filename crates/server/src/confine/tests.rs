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
        libc::SYS_rt_sigqueueinfo,
        libc::SYS_unshare,
        libc::SYS_prlimit64,
    ];
    for call in refused {
        assert!(!rules.contains_key(&call), "call {call}");
    }
}

/// Decision 0612: where a call may do both, its arguments decide, in the filter of each phase.
#[test]
fn calls_that_may_signal_or_make_processes_are_seen_through() {
    for rules in [rules().expect("rules"), first_rules().expect("rules")] {
        for call in [
            libc::SYS_fcntl,
            libc::SYS_clone,
            libc::SYS_tgkill,
            libc::SYS_prctl,
            libc::SYS_ioctl,
        ] {
            assert!(rules.get(&call).is_some_and(|rules| !rules.is_empty()), "call {call}");
        }
    }
}

/// Landlock alone, where the kernel has it for signals (6.12): no filter is set here.
#[test]
fn no_signal_leaves_the_threads_that_are_limited() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::Command;

    let mut other = Command::new("sleep").arg("1000").spawn().expect("a process");
    let pid = Pid::from_child(&other);
    let tried = std::thread::spawn(move || {
        let before = kill_process(pid, Signal::CONT);
        let has_landlock = paths::limit().expect("limited");
        (has_landlock, before, kill_process(pid, Signal::CONT))
    });
    let (has_landlock, before, after) = tried.join().expect("it lives");
    other.kill().and_then(|()| other.wait()).expect("its end");
    before.expect("it could");
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    let version = (numbers.next(), numbers.next());
    if !has_landlock || version < (Some(6), Some(12)) {
        use std::io::Write;
        return drop(writeln!(std::io::stderr(), "skipped: needs Landlock for signals"));
    }
    assert_eq!(after, Err(rustix::io::Errno::PERM));
}

/// On a thread of its own: what it is given up stays with it.
#[test]
fn before_a_pool_is_read_the_worst_is_refused_and_what_is_open_can_be_written() {
    use std::fs::{self, File, Permissions};
    use std::io::Write;
    use std::net::UdpSocket;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
    use std::process::Command;

    let tried = std::thread::spawn(|| {
        let (own, others) = (tempfile::tempdir().expect("one"), tempfile::tempdir().expect("two"));
        let (own, others) = (own.path(), others.path());
        let victim = others.join("victim");
        fs::write(&victim, "").expect("a file");
        let mut file = File::create(own.join("file")).expect("a file");
        let has_landlock = paths::limit().expect("limited");
        for program in [no_structs(), first_program()] {
            seccompiler::apply_filter(&program.expect("a program")).expect("confined");
        }
        let needed = [
            file.write_all(b"an event"),
            file.set_len(0),
            UnixStream::pair().map(drop),
            std::thread::Builder::new().spawn(|| ()).map(drop),
            fs::read("/proc/self/mountinfo").map(drop),
        ];
        let refused = [
            ("a program", Command::new("/bin/true").spawn().map(drop)),
            ("network", UdpSocket::bind("127.0.0.1:0").map(drop)),
            ("a socket", UnixDatagram::unbound().map(drop)),
            ("a listener", UnixListener::bind(own.join("socket")).map(drop)),
            ("a link", symlink("/", own.join("link"))),
            ("a mode", fs::set_permissions(own, Permissions::from_mode(0o777))),
            (
                "a signal",
                rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::CONT)
                    .map_err(Into::into),
            ),
            (
                "signals of a file",
                rustix::fs::fcntl_setfl(&file, rustix::fs::OFlags::from_bits_retain(libc::O_ASYNC as u32))
                    .map_err(Into::into),
            ),
            ("root", rustix::process::chroot("/").map_err(Into::into)),
        ];
        let of_others = [
            ("reading", File::open(&victim).map(drop)),
            ("writing", File::options().write(true).open(&victim).map(drop)),
            ("making", File::create(others.join("new")).map(drop)),
            ("renaming", fs::rename(&victim, others.join("new"))),
            ("moving in", fs::rename(&victim, own.join("new"))),
            ("removing", fs::remove_file(&victim)),
            ("a folder", fs::create_dir(others.join("folder"))),
            (
                "a setting",
                File::options().write(true).open("/proc/self/oom_score_adj").map(drop),
            ),
        ];
        (needed, refused, has_landlock.then_some(of_others))
    });
    let (needed, refused, of_others) = tried.join().expect("it lives");
    for result in needed {
        result.expect("it is needed");
    }
    for (what, result) in refused {
        assert_eq!(result.expect_err(what).raw_os_error(), Some(libc::EPERM), "{what}");
    }
    let Some(of_others) = of_others else {
        return drop(writeln!(std::io::stderr(), "skipped: needs Landlock"));
    };
    for (what, result) in of_others {
        let error = result.expect_err(what).raw_os_error();
        assert!(matches!(error, Some(libc::EACCES | libc::EXDEV)), "{what}: {error:?}");
    }
}
