//! A pool in a file whose file system is full (S-2.14).

use super::bed::{Bed, done, end, keepfs, possible, run, skipped, soon};
use rustix::process::{Pid, Signal};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An ext4 of 64 MiB, which is gone with this.
struct Host {
    bed: Bed,
}

impl Host {
    /// With a pool of 512 MiB on it, mounted. `None` if that cannot be had here.
    fn new() -> Option<Host> {
        if !possible() {
            return None;
        }
        let bed = Bed::empty();
        let image = bed.path("image");
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir(bed.path("host")).unwrap();
        let made = run(Command::new("mkfs.ext4").args(["-q", "-m", "0"]).arg(&image))
            .status
            .success();
        if !made
            || !run(Command::new("mount")
                .args(["-o", "loop"])
                .arg(&image)
                .arg(bed.path("host")))
            .status
            .success()
        {
            skipped("mkfs.ext4 and a loop device");
            return None;
        }
        let host = Host { bed };
        done(keepfs(["create", "--size", "512M"]).arg(host.pool()));
        host.mount();
        Some(host)
    }

    fn pool(&self) -> PathBuf {
        self.bed.path("host/pool")
    }

    fn mount(&self) {
        done(keepfs(["mount"]).arg(self.pool()).arg(self.bed.dir()));
    }

    /// Writes files until there is no room; their number.
    fn fill(&self) -> usize {
        for number in 0.. {
            let written = fs::File::create(self.file(number)).and_then(|mut file| {
                file.write_all(&vec![number as u8; 4 << 20])?;
                file.sync_all()
            });
            if let Err(error) = written {
                assert_eq!(error.kind(), std::io::ErrorKind::StorageFull, "{error}");
                return number;
            }
        }
        unreachable!()
    }

    fn file(&self, number: usize) -> PathBuf {
        self.bed.on(&format!("file{number}"))
    }

    /// Removes what the file was half written to, and another one, and makes room of them.
    fn clear(&self, last: usize) {
        // Behind a crash it need not be there.
        let _ = fs::remove_file(self.file(last));
        fs::remove_file(self.file(0)).unwrap();
        done(Command::new("fstrim").arg(self.bed.dir()));
    }

    fn writes_again(&self) {
        soon("there is room", || {
            fs::write(self.file(0), vec![7; 1 << 20])
                .and_then(|()| fs::File::open(self.file(0))?.sync_all())
                .ok()
        });
        assert_eq!(self.bed.status()["state"], "ONLINE");
        assert_eq!(fs::read(self.file(1)).unwrap(), vec![1; 4 << 20]);
    }

    fn check(self) {
        self.bed.unmount();
        done(keepfs(["check", "--data"]).arg(self.pool()));
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.bed.is_mounted() {
            drop(run(keepfs(["unmount", "--lazy"]).arg(self.bed.dir())));
        }
        drop(run(Command::new("umount").arg("--lazy").arg(self.bed.path("host"))));
    }
}

#[test]
fn a_full_host_is_enospc_and_the_pool_goes_on() {
    let Some(host) = Host::new() else { return };
    let last = host.fill();
    assert!(last > 2, "{last}");
    let errors = host.bed.line(&host.bed.dir(), "errors");
    assert!(errors.contains("no room for more data"), "{errors}");
    assert_eq!(host.bed.status()["state"], "DEGRADED");
    assert_eq!(fs::read(host.file(1)).unwrap(), vec![1; 4 << 20]);
    let events = || done(keepfs(["events"]).arg(host.bed.dir()));
    assert_eq!(
        events().matches("the file system under the pool is full").count(),
        1,
        "{}",
        events()
    );
    host.clear(last);
    host.writes_again();
    assert!(events().contains("has room again"), "{}", events());
    host.check();
}

#[test]
fn a_pool_on_a_full_host_is_mounted_after_a_crash_to_make_room() {
    let Some(host) = Host::new() else { return };
    let last = host.fill();
    let status = host.bed.status();
    let pid = |of: &serde_json::Value| Pid::from_raw(of.as_i64().unwrap() as i32).unwrap();
    for of in [
        &status["keeper"]["spare_pid"],
        &status["keeper"]["pid"],
        &status["server_pid"],
    ] {
        end(pid(of), Signal::KILL);
    }
    done(Command::new("umount").arg("--lazy").arg(host.bed.dir()));
    host.mount();
    host.clear(last);
    host.writes_again();
    host.check();
}

/// The log is there before the host is full.
#[test]
fn a_pool_is_made_with_its_log() {
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "512M", "--log-size", "32M"]).arg(bed.path("pool")));
    assert!(allocated(&bed.path("pool")) >= 32 << 20);
}

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// S-2.17: a preallocated pool keeps its room through what is removed, trimmed and discarded, and has it when it grows.
#[test]
fn a_preallocated_pool_keeps_its_room() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let pool = bed.path("pool");
    done(keepfs(["create", "--size", "64M", "--preallocate"]).arg(&pool));
    assert!(allocated(&pool) >= 64 << 20);
    done(keepfs(["mount", "-o", "discard"]).arg(&pool).arg(bed.dir()));
    fs::write(bed.on("file"), vec![7; 16 << 20]).unwrap();
    fs::remove_file(bed.on("file")).unwrap();
    done(Command::new("sync").arg("-f").arg(bed.dir()));
    done(Command::new("fstrim").arg(bed.dir()));
    done(keepfs(["unmount"]).arg(bed.dir()));
    assert!(allocated(&pool) >= 64 << 20);
    done(keepfs(["grow", "--size", "96M"]).arg(&pool));
    assert!(allocated(&pool) >= 96 << 20);
    done(keepfs(["check"]).arg(&pool));
}
