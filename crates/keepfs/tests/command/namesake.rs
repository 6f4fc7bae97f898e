//! Of pools with one UUID one is mounted at a time (S-2.18).

use super::bed::{self, Bed, copy_program, done, end, fails, keepfs, possible, run, soon};
use super::twice::Loop;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Barrier;

/// A copy of the bed's pool, and a second mount point.
struct Twin {
    pool: PathBuf,
    dir: PathBuf,
}

impl Twin {
    fn of(bed: &Bed) -> Twin {
        let (pool, dir) = (bed.path("copy"), bed.path("second"));
        done(Command::new("cp").arg("--sparse=always").arg(bed.pool()).arg(&pool));
        fs::create_dir(&dir).unwrap();
        Twin { pool, dir }
    }

    fn mounting(&self, options: &str) -> Command {
        mounting(&self.pool, &self.dir, options)
    }

    /// It is refused, for writing and for reading, in a sentence that names the pool that is in use.
    fn refused(&self, bed: &Bed) {
        for options in ["rw", "ro", "ro,keeper=off"] {
            let (_, said) = fails(&mut self.mounting(options));
            let where_it_is = format!("{}, is in use at {}", bed.pool().display(), bed.dir().display());
            let helps = format!("`keepfs set --new-id {}`", self.pool.display());
            assert!(
                said.contains(&where_it_is) && said.contains(&helps),
                "{options}: {said}"
            );
            assert_eq!(said.lines().count(), 1, "{said}");
        }
    }

    fn unmount(&self) {
        done(keepfs(["unmount"]).arg(&self.dir));
    }
}

impl Drop for Twin {
    fn drop(&mut self) {
        // Of a test that failed; else it is mounted no more.
        drop(run(keepfs(["unmount", "--lazy"]).arg(&self.dir)));
    }
}

fn mounting(pool: &Path, dir: &Path, options: &str) -> Command {
    let mut command = keepfs(["mount", "-o", options]);
    command.arg(pool).arg(dir);
    command
}

fn file_of(bed: &Bed) -> PathBuf {
    let id = done(keepfs(["get", "-H", "-o", "value", "id"]).arg(bed.pool()));
    PathBuf::from(format!("/run/keepfs/{}.pool", id.trim()))
}

#[test]
fn a_copy_of_a_mounted_pool_is_refused() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let (twin, file) = (Twin::of(&bed), file_of(&bed));
    for options in ["", "ro", "keeper=off"] {
        bed.mount(options);
        twin.refused(&bed);
        bed.unmount();
        assert!(!file.exists(), "{options}");
        // At once: who leaves is waited for.
        done(&mut twin.mounting(""));
        twin.unmount();
    }
    bed.mount("");
    done(keepfs(["set", "--new-id"]).arg(&twin.pool));
    done(&mut twin.mounting(""));
    twin.unmount();
    bed.unmount();
    bed.check();
}

/// What is mounted is known by its bytes: under another name, and read twice, it is itself; a copy in its place is not.
#[test]
fn a_pool_is_itself_whatever_its_name() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    let (other, third) = (bed.path("moved"), bed.path("third"));
    fs::create_dir(&third).unwrap();
    bed.mount("ro");
    fs::rename(bed.pool(), &other).unwrap();
    done(&mut mounting(&other, &third, "ro"));
    fs::rename(&other, bed.pool()).unwrap();
    twin.refused(&bed);
    // The second reader has the id when the first is gone.
    bed.unmount();
    let (_, said) = fails(&mut twin.mounting(""));
    assert!(said.contains("a pool with the same UUID"), "{said}");
    done(keepfs(["unmount"]).arg(&third));
    bed.mount("");
    fs::rename(bed.pool(), &other).unwrap();
    fs::rename(&twin.pool, bed.pool()).unwrap();
    let (_, said) = fails(&mut mounting(&bed.pool(), &third, ""));
    assert!(said.contains("a pool with the same UUID"), "{said}");
    bed.unmount();
}

/// A device over a copy is the copy.
#[test]
fn a_copy_behind_a_device_is_refused() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    let device = Loop::over(&twin.pool);
    bed.mount("");
    let (_, said) = fails(&mut mounting(&device.0, &twin.dir, ""));
    assert!(said.contains("a pool with the same UUID"), "{said}");
    bed.unmount();
    done(&mut mounting(&device.0, &twin.dir, ""));
    let (_, said) = fails(&mut bed.mounting("ro"));
    assert!(said.contains(&format!("{}, is in use", device.0.display())), "{said}");
    twin.unmount();
}

/// The id outlives servers, programs and keepers, and ends with all of them.
#[test]
fn the_id_is_the_mounts_not_its_servers() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    bed.mount("");
    bed.end_server(Signal::KILL);
    twin.refused(&bed);
    let program = bed.path("program");
    copy_program(bed::KEEPFS, &program);
    done(keepfs(["upgrade"]).arg(bed.dir()).arg(&program));
    twin.refused(&bed);
    let keeper = |bed: &Bed| bed.status()["keeper"]["pid"].as_i64().unwrap() as i32;
    let first = keeper(&bed);
    end(rustix::process::Pid::from_raw(first).unwrap(), Signal::KILL);
    soon("there is another keeper", || (keeper(&bed) != first).then_some(()));
    bed.end_server(Signal::KILL);
    twin.refused(&bed);
    bed.unmount();
    // A server that dies alone leaves its files, and nothing holds them.
    bed.mount("keeper=off");
    bed.end_server(Signal::KILL);
    done(Command::new("umount").arg("-l").arg(bed.dir()));
    done(&mut twin.mounting(""));
    twin.unmount();
}

/// `nouuid` is for a look: beside the pool, with no events of one at the other.
#[test]
fn a_copy_can_be_looked_at() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    done(&mut twin.mounting("ro,nouuid"));
    bed.mount("");
    let (_, said) = fails(&mut bed.mounting("remount,nouuid"));
    assert!(said.contains("'nouuid' cannot change"), "{said}");
    bed.end_server(Signal::KILL);
    let events = |of: &Path| done(keepfs(["events"]).arg(of));
    soon("its server's death is told", || {
        events(&bed.dir()).contains("this one took its place").then_some(())
    });
    assert!(!events(&twin.dir).contains("took its place"));
    twin.unmount();
    assert!(!events(&twin.pool).contains("took its place"));
    done(&mut twin.mounting("nouuid"));
    bed.unmount();
    bed.mount("");
    bed.unmount();
    twin.unmount();
}

/// Of two that come at once one is mounted.
#[test]
fn of_twins_that_come_at_once_one_is_mounted() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    let start = Barrier::new(2);
    for _ in 0..10 {
        let at_once = |mut command: Command| {
            start.wait();
            run(&mut command)
        };
        let (one, other): (Output, Output) = std::thread::scope(|scope| {
            let one = scope.spawn(|| at_once(bed.mounting("")));
            let other = at_once(twin.mounting(""));
            (one.join().unwrap(), other)
        });
        assert!(one.status.success() != other.status.success(), "{one:?} {other:?}");
        match one.status.success() {
            true => bed.unmount(),
            false => twin.unmount(),
        }
    }
}

/// Where /run is the same, another namespace of mounts has the same ids.
#[test]
fn another_mount_namespace_has_the_same_ids() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let twin = Twin::of(&bed);
    bed.mount("");
    let mut apart = Command::new("unshare");
    apart
        .args(["--mount", "--propagation", "private"])
        .arg(bed::KEEPFS)
        .arg("mount");
    let (_, said) = fails(apart.arg(&twin.pool).arg(&twin.dir));
    assert!(said.contains("a pool with the same UUID"), "{said}");
    bed.unmount();
}
