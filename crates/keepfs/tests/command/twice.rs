//! One pool is used once, by whatever name it is called (S-2.11).

use super::bed::{self, Bed, KEEPFS, done, fails, keepfs, possible, run, soon};
use super::borrowed::with_sbin;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A loop device, gone with this.
pub struct Loop(pub PathBuf);

impl Loop {
    pub fn over(file: &Path) -> Loop {
        Loop::with(&[], file)
    }

    fn with(more: &[&str], file: &Path) -> Loop {
        let made = done(Command::new("losetup").args(more).args(["--find", "--show"]).arg(file));
        Loop(made.trim().into())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = run(Command::new("losetup").arg("-d").arg(&self.0));
    }
}

fn mount(pool: &Path, dir: &Path) {
    done(keepfs(["mount"]).arg(pool).arg(dir));
}

/// Nothing that writes, and no reader that would be misled, gets `pool` while it is mounted at the bed's directory by another
/// name; each says where.
fn refused(bed: &Bed, pool: &Path) {
    let second = bed.path("second");
    fs::create_dir_all(&second).unwrap();
    let mounted = format!("in use (mounted at {} by process ", bed.dir().display());
    let mut mounting = keepfs(["mount"]);
    let mut reading = keepfs(["mount", "-o", "ro"]);
    for command in [
        mounting.arg(pool).arg(&second),
        reading.arg(pool).arg(&second),
        keepfs(["create", "--force"]).arg(pool),
        keepfs(["create", "--force", "--size", "32M"]).arg(pool),
        keepfs(["check"]).arg(pool),
        keepfs(["dump"]).arg(pool).arg("map"),
    ] {
        let (_, said) = fails(command);
        assert!(said.contains(&mounted), "{command:?}: {said}");
    }
    // What a server can be asked is asked.
    let label = done(keepfs(["get", "label"]).arg(pool));
    assert!(label.contains("bed"), "{label}");
}

/// Mounts the pool by one name, is refused by the other, and finds what was written.
fn one_excludes_the_other(bed: &Bed, first: &Path, second: &Path) {
    mount(first, &bed.dir());
    fs::write(bed.on("file"), "first").unwrap();
    refused(bed, second);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"first");
    bed.unmount();
    done(keepfs(["check", "--data"]).arg(second));
    mount(second, &bed.dir());
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"first");
    bed.unmount();
}

#[test]
fn a_loop_device_and_its_file_are_one_pool() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let device = Loop::over(&bed.pool());
    one_excludes_the_other(&bed, &bed.pool(), &device.0);
    one_excludes_the_other(&bed, &device.0, &bed.pool());
    let other = Loop::over(&bed.pool());
    one_excludes_the_other(&bed, &device.0, &other.0);
    // Made after the pool was mounted.
    drop((device, other));
    bed.mount("");
    let late = Loop::over(&bed.pool());
    refused(&bed, &late.0);
    bed.unmount();
}

#[test]
fn a_loop_device_on_a_loop_device_is_the_same_pool() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let lower = Loop::over(&bed.pool());
    let upper = Loop::over(&lower.0);
    one_excludes_the_other(&bed, &bed.pool(), &upper.0);
    one_excludes_the_other(&bed, &upper.0, &bed.pool());
    one_excludes_the_other(&bed, &upper.0, &lower.0);
    one_excludes_the_other(&bed, &lower.0, &upper.0);
}

#[test]
fn links_are_the_same_pool() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    symlink(bed.pool(), bed.path("soft")).unwrap();
    fs::hard_link(bed.pool(), bed.path("hard")).unwrap();
    for name in ["soft", "hard"] {
        one_excludes_the_other(&bed, &bed.pool(), &bed.path(name));
        one_excludes_the_other(&bed, &bed.path(name), &bed.pool());
    }
    let device = Loop::over(&bed.path("hard"));
    one_excludes_the_other(&bed, &bed.pool(), &device.0);
    one_excludes_the_other(&bed, &device.0, &bed.pool());
}

/// A keeper holds what lies beneath the device when its server has died, and the next server does.
#[test]
fn what_lies_beneath_stays_locked_over_a_servers_death() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let device = Loop::over(&bed.pool());
    mount(&device.0, &bed.dir());
    fs::write(bed.on("file"), "first").unwrap();
    bed.end_server(rustix::process::Signal::KILL);
    refused(&bed, &bed.pool());
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"first");
    refused(&bed, &bed.pool());
    bed.unmount();
    bed.check();
}

/// Two pools beside each other in one file do not mind each other, but the file is theirs; the same bytes twice are one pool.
#[test]
fn parts_of_a_file_are_pools_of_their_own() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let file = bed.path("both");
    done(Command::new("truncate").args(["-s", "64M"]).arg(&file));
    let part = |from: &str| Loop::with(&["--offset", from, "--sizelimit", "33554432"], &file);
    let (one, two, again) = (part("0"), part("33554432"), part("33554432"));
    for device in [&one, &two] {
        done(keepfs(["create", "--label", "bed"]).arg(&device.0));
    }
    mount(&one.0, &bed.dir());
    let second = bed.path("second");
    fs::create_dir(&second).unwrap();
    mount(&two.0, &second);
    for taken in [&file, &again.0] {
        let (_, said) = fails(keepfs(["create", "--force"]).arg(taken));
        assert!(said.contains("in use (another process has it open"), "{said}");
    }
    done(keepfs(["unmount"]).arg(&second));
    bed.unmount();
}

/// `mount -o loop`, an old habit of fstab lines.
#[test]
fn mount_with_the_option_loop_is_refused() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("");
    fs::create_dir(bed.path("second")).unwrap();
    let output = with_sbin(&bed, "mount -t keepfs -o loop \"$pool\" \"$dir/../second\"");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success() && said.contains("in use (mounted at "),
        "{output:?}"
    );
    bed.unmount();
    bed.check();
}

/// Runs a script with the program, a directory and this process's number in mounts of its own; what it says.
fn apart(bed: &Bed, script: &str) -> String {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", script, "sh", KEEPFS]);
    command.arg(bed.path("")).arg(std::process::id().to_string());
    let output = run(&mut command);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn another_mount_namespace_is_no_other_pool() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("");
    for name in ["view", "second"] {
        fs::create_dir(bed.path(name)).unwrap();
    }
    let said = apart(
        &bed,
        "cd \"$2\"; mount --bind . view; for own in no yes; do
         if $1 mount view/pool second; then exit 9; fi
         if $1 create --force view/pool; then exit 8; fi
         mount -t tmpfs none /run; done",
    );
    let mounted = format!("in use (mounted at {} by process ", bed.dir().display());
    assert_eq!(said.matches(&mounted).count(), 2, "{said}");
    // Where nobody can read where.
    assert_eq!(
        said.matches("in use (another process has it open)").count(),
        2,
        "{said}"
    );
    bed.unmount();
    bed.check();
}

/// The file beneath the loop device has no name where the second mount is tried.
#[test]
fn a_file_that_nobody_else_sees_is_the_same_pool() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    for name in ["private", "second"] {
        fs::create_dir(bed.path(name)).unwrap();
    }
    let said = apart(
        &bed,
        "cd \"$2\"; mount -t tmpfs none private; $1 create --size 32M private/pool >/dev/null || exit 9
         loop=$(losetup --find --show private/pool) || exit 8; worked=0
         outside() { nsenter --mount=/proc/$3/ns/mnt \"$1\" mount $loop \"$2/second\"; }
         $1 mount private/pool mount || worked=7; outside \"$@\" && worked=6; $1 unmount mount || worked=5
         losetup -d $loop; exit $worked",
    );
    let mounted = format!(
        "is in use (mounted at {} in another mount namespace",
        bed.dir().display()
    );
    assert!(said.contains(&mounted), "{said}");
}

/// A linear target over a loop device over a pool.
#[test]
fn a_device_mapper_over_a_pool_is_the_same_pool() {
    if !possible() {
        return;
    }
    if !run(Command::new("dmsetup").arg("targets")).status.success() {
        bed::skipped("the device mapper");
        return;
    }
    let bed = Bed::new();
    let lower = Loop::over(&bed.pool());
    let name = format!("keepfs-test-{}", std::process::id());
    let table = format!("0 131072 linear {} 0", lower.0.display());
    bed.mount("");
    // The kernel gives away a device that only its file says is in use.
    done(Command::new("dmsetup").args(["create", &name, "--table", &table]));
    let tried = std::panic::catch_unwind(|| {
        let upper = Path::new("/dev/mapper").join(&name);
        let (_, said) = fails(keepfs(["mount"]).arg(&upper).arg(bed.path("")));
        assert!(said.contains("in use (another process has it open as "), "{said}");
        bed.unmount();
        mount(&upper, &bed.dir());
        for taken in [&lower.0, &bed.pool()] {
            for command in [keepfs(["create", "--force"]).arg(taken), keepfs(["check"]).arg(taken)] {
                assert!(fails(command).1.contains("in use ("), "{command:?}");
            }
        }
        bed.unmount();
    });
    let removed = run(Command::new("dmsetup").args(["remove", "--retry", &name]));
    tried.unwrap();
    assert!(removed.status.success(), "{removed:?}");
}

/// A number of an inode that is used again is another pool's: what is left of a dead mount of the one before is none of its. S-2.11
#[test]
fn a_number_that_is_used_again_is_another_pool() {
    let Some(bed) = Bed::mounted("keeper=off") else { return };
    let number = || fs::metadata(bed.pool()).unwrap().ino();
    let before = number();
    bed.end_server(Signal::KILL);
    soon("the mount is dead", || fs::metadata(bed.dir()).is_err().then_some(()));
    fs::remove_file(bed.pool()).unwrap();
    let is_used_again = (0..100).any(|n| {
        done(keepfs(["create", "--size", "32M", "--label", "newer"]).arg(bed.pool()));
        number() == before || {
            fs::rename(bed.pool(), bed.path(&format!("other{n}"))).unwrap();
            false
        }
    });
    if !is_used_again {
        return bed::skipped("a file system that uses numbers of inodes again");
    }
    assert_eq!(bed.line(&bed.pool(), "state"), "OFFLINE");
    let (_, said) = fails(keepfs(["unmount"]).arg(bed.pool()));
    assert!(said.contains("no pool is mounted at"), "{said}");
    done(keepfs(["set", "label=newest"]).arg(bed.pool()));
    done(keepfs(["check"]).arg(bed.pool()));
    assert!(bed.is_mounted());
    done(keepfs(["unmount", "-f"]).arg(bed.dir()));
}

/// A pool that is moved while it is mounted is told by the name that it has; the old one still leads to its mount. S-2.11
#[test]
fn a_pool_that_was_moved_has_its_new_name() {
    for options in ["keeper=on", "keeper=off"] {
        let Some(bed) = Bed::mounted(options) else { return };
        let moved = bed.path("moved");
        fs::rename(bed.pool(), &moved).unwrap();
        assert_eq!(bed.status()["pool"].as_str(), moved.to_str(), "{options}");
        let all = done(&mut keepfs(["status"]));
        assert!(
            all.contains(moved.to_str().unwrap()) && !all.contains(bed.pool().to_str().unwrap()),
            "{all}"
        );
        for pool in [&moved, &bed.pool()] {
            let (_, said) = fails(keepfs(["check"]).arg(pool));
            let told = format!("{} is in use (mounted at {}", moved.display(), bed.dir().display());
            assert!(said.contains(&told), "{said}");
        }
        bed.unmount();
        done(keepfs(["check"]).arg(&moved));
    }
}

/// A pool that was removed may still be mounted: its path leads to what is there now.
#[test]
fn a_path_leads_to_the_pool_that_is_there() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::remove_file(bed.pool()).unwrap();
    done(keepfs(["create", "--size", "32M", "--label", "newer"]).arg(bed.pool()));
    assert_eq!(bed.line(&bed.pool(), "state"), "OFFLINE");
    let of = |path: &Path| {
        done(keepfs(["get", "-H", "-o", "value", "label"]).arg(path))
            .trim()
            .to_owned()
    };
    assert_eq!((of(&bed.pool()), of(&bed.dir())), ("newer".into(), "bed".into()));
    let (_, said) = fails(keepfs(["unmount"]).arg(bed.pool()));
    assert!(said.contains("no pool is mounted at"), "{said}");
    let second = bed.path("second");
    fs::create_dir(&second).unwrap();
    mount(&bed.pool(), &second);
    done(keepfs(["unmount"]).arg(bed.pool()));
    assert!(bed.is_mounted());
    bed.unmount();
}
