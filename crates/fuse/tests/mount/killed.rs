//! Servers that are killed: the test starts itself again as the server of a mount.

use super::support::{mount_here, possible};
use crate::probe::{Probe, gate};
use keepfs_fuse::anchor::LoopAnchor;
use keepfs_fuse::{How, MountConfig};
use std::fs;
use std::io::BufRead;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The mount point, in the environment of the server.
const SERVE: &str = "KEEPFS_TEST_SERVE";
/// Set if the server shall use an anchor.
const ANCHORED: &str = "KEEPFS_TEST_ANCHORED";
/// Set if the server shall unmount itself, and get stuck in it.
const STUCK: &str = "KEEPFS_TEST_STUCK";

/// The server's side. Says `mounted`, and `stuck` when the file system is asked to unmount.
fn serve(dir: PathBuf) {
    let anchor = LoopAnchor::attach("keepfs test").unwrap();
    let anchor_path = std::env::var_os(ANCHORED).map(|_| anchor.path().to_owned());
    let config = MountConfig {
        mountpoint: dir,
        anchor: anchor_path,
        ..MountConfig::default()
    };
    let (unmount_gate, lever) = gate();
    let session = mount_here(
        Arc::new(Probe {
            unmount_gate: Some(unmount_gate),
            ..Probe::default()
        }),
        &config,
    )
    .unwrap();
    drop(anchor);
    println!("\nmounted");
    if std::env::var_os(STUCK).is_some() {
        let unmounter = session.unmounter();
        std::thread::spawn(move || unmounter.unmount(How::Gentle));
        std::thread::spawn(move || {
            lever.arrived.recv().unwrap();
            println!("\nstuck");
            // Holds the other end until the process is killed.
            std::thread::park();
            drop(lever);
        });
    }
    session.run().unwrap();
}

/// The name of this module as tests are named.
fn here() -> &'static str {
    module_path!().split_once("::").map_or("", |(_, inside)| inside)
}

/// A server in a process of its own; killed and unmounted in the end, whatever happens.
struct Server {
    process: Child,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts test `name` of this module again as the server and waits until it says `word`.
    fn start(name: &str, settings: &[&str], word: &str) -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", &format!("{}::{name}", here()), "--nocapture"])
            .env(SERVE, dir.path());
        command.envs(settings.iter().map(|setting| (setting, "1")));
        let process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut server = Server { process, dir };
        let said = server.process.stdout.take().unwrap();
        let mut lines = std::io::BufReader::new(said).lines();
        while lines.next().unwrap().unwrap() != word {}
        server
    }

    /// kill -9, and the end of the process.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = keepfs_fuse::unmount(self.dir.path(), How::Lazy);
    }
}

/// Whether this process is the server of the test; then it has served.
fn served() -> bool {
    std::env::var_os(SERVE).map(|dir| serve(dir.into())).is_some()
}

#[test]
fn the_mount_gives_an_error_and_can_be_unmounted() {
    if served() || !possible() {
        return;
    }
    for settings in [&[][..], &[ANCHORED]] {
        let mut server = Server::start("the_mount_gives_an_error_and_can_be_unmounted", settings, "mounted");
        let root = server.dir.path().to_owned();
        fs::write(root.join("f"), b"x").unwrap();
        server.kill();
        let error = fs::read_dir(&root).unwrap_err();
        // The first call may still be on its way when the kernel notices.
        let told = error.raw_os_error();
        assert!(
            matches!(told, Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ECANCELED)),
            "{settings:?}: {error}"
        );
        keepfs_fuse::unmount(&root, How::Gentle).unwrap();
        assert!(fs::read_dir(&root).unwrap().next().is_none());
    }
}

/// Without a descriptor table of its own for the thread that unmounts, this hangs in the kernel for ever.
#[test]
fn a_server_stuck_in_its_own_umount_can_be_killed() {
    if served() || !possible() {
        return;
    }
    let name = "a_server_stuck_in_its_own_umount_can_be_killed";
    let mut server = Server::start(name, &[ANCHORED, STUCK], "stuck");
    server.kill();
    assert!(fs::read_dir(server.dir.path()).unwrap().next().is_none());
}

#[test]
fn callers_get_errors_and_none_hangs() {
    if served() || !possible() {
        return;
    }
    for settings in [&[][..], &[ANCHORED]] {
        for _ in 0..3 {
            let mut server = Server::start("callers_get_errors_and_none_hangs", settings, "mounted");
            let root = server.dir.path().to_owned();
            let (tell, told) = std::sync::mpsc::channel();
            std::thread::scope(|scope| {
                for client in 0..4 {
                    let (root, tell) = (root.join(format!("c{client}")), tell.clone());
                    scope.spawn(move || {
                        while work_once(&root).is_ok() {
                            let _ = tell.send(());
                        }
                    });
                }
                // Every client is at work; somewhere in it the server dies.
                (0..40).for_each(|_| told.recv().unwrap());
                server.kill();
            });
            assert!(fs::metadata(&root).is_err());
        }
    }
}

/// A few calls of every sort; ends with an error when the server is gone.
fn work_once(path: &std::path::Path) -> std::io::Result<()> {
    fs::write(path, vec![7; 200_000])?;
    fs::File::open(path)?.sync_all()?;
    if fs::read(path)?.len() != 200_000 {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    fs::rename(path, path.with_extension("moved"))?;
    fs::remove_file(path.with_extension("moved"))
}
