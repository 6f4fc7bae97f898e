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
