//! The binary under the names that mkfs(8), fsck(8) and mount(8) look for.

use super::bed::{Bed, KEEPFS, done, done_when_free, fails, keepfs, possible, run};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The binary under another name.
fn named(bed: &Bed, name: &str) -> Command {
    let link = bed.path(name);
    if !link.exists() {
        symlink(KEEPFS, &link).unwrap();
    }
    Command::new(link)
}

/// Runs a script in mounts of its own, where /sbin holds nothing but our names: nothing can be left behind there.
pub fn with_sbin(bed: &Bed, script: &str) -> Output {
    let sbin = bed.path("sbin");
    fs::create_dir_all(&sbin).unwrap();
    for name in [
        "mount.keepfs",
        "mount.fuse.keepfs",
        "mount.fuseblk.keepfs",
        "fsck.keepfs",
        "mkfs.keepfs",
    ] {
        let link: PathBuf = sbin.join(name);
        if !link.exists() {
            symlink(KEEPFS, link).unwrap();
        }
    }
    let real = Path::new("/sbin").canonicalize().unwrap();
    let whole = format!("set -e; mount --bind \"$1\" \"$2\"; pool=$3; dir=$4; {script}");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &whole, "sh"]);
    run(command.arg(&sbin).arg(real).arg(bed.pool()).arg(bed.dir()))
}

fn worked(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn mkfs_makes_a_pool() {
    let bed = Bed::empty();
    done(
        named(&bed, "mkfs.keepfs")
            .args(["--size", "64M", "-L", "music"])
            .arg(bed.pool()),
    );
    assert!(bed.line(&bed.pool(), "pool").starts_with("music"));
    let (code, said) = fails(named(&bed, "mkfs.keepfs").arg(bed.pool()));
    assert_eq!(code, 1);
    assert!(said.starts_with("mkfs.keepfs: "), "{said}");
}

#[test]
fn fsck_answers_as_fsck_does() {
    let bed = Bed::new();
    for options in [
        &[][..],
        &["-n"],
        &["-y"],
        &["-f"],
        &["-a", "-f"],
        &["-p", "-f"],
        &["-C", "-f"],
        &["-V"],
    ] {
        let output = run(named(&bed, "fsck.keepfs").arg(bed.pool()).args(options));
        assert_eq!(output.status.code(), Some(0), "{options:?}: {output:?}");
    }
    let quick = done(named(&bed, "fsck.keepfs").arg("-a").arg(bed.pool()));
    assert!(quick.contains("nothing to do"), "{quick}");
    assert_eq!(fails(&mut named(&bed, "fsck.keepfs")).0, 16);
    assert_eq!(fails(named(&bed, "fsck.keepfs").arg("/nowhere/pool")).0, 8);
    fs::write(bed.path("other"), vec![0; 1 << 20]).unwrap();
    assert_eq!(
        run(named(&bed, "fsck.keepfs").arg(bed.path("other"))).status.code(),
        Some(4)
    );
}

#[test]
fn mount_keepfs_takes_what_mount_gives() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    for name in ["mount.keepfs", "mount.fuse.keepfs"] {
        let mut mount = named(&bed, name);
        mount.arg(bed.pool()).arg(bed.dir());
        done(mount.args(["-n", "-v", "-o", "rw,noatime,defaults"]));
        assert!(bed.line(&bed.dir(), "mount").contains("read-write"));
        bed.unmount();
        let helper = |options: &[&str]| {
            let mut mount = named(&bed, name);
            mount.arg(bed.pool()).arg(bed.dir()).args(options);
            mount
        };
        done(&mut helper(&["-r"]));
        assert!(bed.line(&bed.dir(), "mount").contains("read-only"));
        bed.unmount();
        done(&mut helper(&["-w", "-s", "-o", "ro,unheard-of"]));
        assert!(bed.line(&bed.dir(), "mount").contains("read-write"));
        bed.unmount();
        done(&mut helper(&["-f"]));
        assert!(!bed.is_mounted());
        let (code, said) = fails(&mut helper(&["-o", "unheard-of"]));
        assert_eq!(code, 1);
        assert!(said.contains("'unheard-of'"), "{said}");
        assert_eq!(fails(named(&bed, name).arg("/nowhere/pool").arg(bed.dir())).0, 32);
    }
}

/// S-20.25: of mount(8) a remount gets all flags that shall hold; what is not among them does not. Access times stay if none is named.
#[test]
fn a_remount_of_mount_takes_flags_away() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let given = |options: &str| {
        let mut mount = named(&bed, "mount.keepfs");
        done(mount.arg(bed.pool()).arg(bed.dir()).args(["-o", options]));
        bed.flags().join(",")
    };
    let table = "remount,user_id=0,group_id=0,default_permissions,allow_other,max_read=1048576,blksize=4096";
    given("noexec,nosuid,nodiratime,nosymfollow");
    for (options, becomes) in [
        (
            "rw,nosuid,nodiratime,relatime,nosymfollow",
            "rw,nosuid,nodiratime,relatime,nosymfollow",
        ),
        (
            "rw,nodiratime,relatime,nosymfollow",
            "rw,nodiratime,relatime,nosymfollow",
        ),
        ("rw,relatime,nosymfollow", "rw,relatime,nosymfollow"),
        ("rw,noatime,nodiratime", "rw,noatime,nodiratime"),
        ("rw,nodev", "rw,nodev,noatime,nodiratime"),
        ("rw,strictatime", "rw"),
        ("rw,noexec", "rw,noexec"),
        ("ro", "ro"),
        ("rw", "rw"),
    ] {
        assert_eq!(given(&format!("{options},{table}")), becomes, "{options}");
    }
}

#[test]
fn mount_finds_us_by_type() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let script = "mount -t keepfs -o noatime,nosuid \"$pool\" \"$dir\"; echo text > \"$dir\"/file
        grep \" $dir \" /proc/self/mountinfo; umount \"$dir\"";
    let table = worked(&with_sbin(&bed, script));
    assert!(table.contains(&format!(" {} ", bed.pool().display())), "{table}");
    assert!(
        table.contains("keepfs") && table.contains("nosuid") && table.contains("noatime"),
        "{table}"
    );
    bed.check();
    bed.mount("");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text\n");
    bed.unmount();
    let script = "mount -t fuse.keepfs \"$pool\" \"$dir\"; cat \"$dir\"/file; umount \"$dir\"";
    assert_eq!(worked(&with_sbin(&bed, script)), "text\n");
    let refused = with_sbin(&bed, "mount -t keepfs -o nonsense \"$pool\" \"$dir\"");
    assert!(!refused.status.success());
    assert!(
        String::from_utf8_lossy(&refused.stderr).contains("'nonsense'"),
        "{refused:?}"
    );
}

#[test]
fn a_line_of_fstab_works() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let fstab = bed.path("fstab");
    let line = format!(
        "{} {} keepfs defaults,noexec,nofail,x-systemd.automount 0 2\n",
        bed.pool().display(),
        bed.dir().display()
    );
    fs::write(&fstab, line).unwrap();
    let script = format!(
        "mount -T '{0}' \"$dir\"; echo text > \"$dir\"/file; grep \" $dir \" /proc/self/mountinfo; umount \"$dir\"
        fsck.keepfs -a \"$pool\"; mount -T '{0}' -a; cat \"$dir\"/file; umount \"$dir\"",
        fstab.display()
    );
    let said = worked(&with_sbin(&bed, &script));
    assert!(said.contains("noexec") && said.ends_with("text\n"), "{said}");
    bed.check();
}

/// The source is the pool: everything that asks by it finds the mount.
#[test]
fn the_source_is_the_pool() {
    if !possible() {
        return;
    }
    for options in ["anchor=loop", "anchor=none"] {
        let bed = Bed::new();
        bed.mount(options);
        let pool = bed.pool();
        let source = done(Command::new("findmnt").args(["-no", "SOURCE"]).arg(bed.dir()));
        assert_eq!(source.trim(), pool.to_str().unwrap(), "{options}");
        let target = done(Command::new("findmnt").args(["-no", "TARGET", "-S"]).arg(&pool));
        assert_eq!(target.trim(), bed.dir().to_str().unwrap(), "{options}");
        let shown = done(Command::new("df").arg("--output=source").arg(bed.dir()));
        assert!(shown.contains(pool.to_str().unwrap()), "{shown}");
        done_when_free(Command::new("umount").arg(&pool), "busy");
        assert!(!bed.is_mounted());
        bed.check();
    }
}

#[test]
fn mounting_all_twice_is_fine() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let fstab = bed.path("fstab");
    let line = format!("{} {} keepfs noatime 0 0\n", bed.pool().display(), bed.dir().display());
    fs::write(&fstab, line).unwrap();
    let script = format!(
        "mount -T '{0}' -a; mount -T '{0}' -a; mount -T '{0}' -o remount,ro \"$dir\"
        grep \" $dir \" /proc/self/mountinfo; umount \"$pool\"",
        fstab.display()
    );
    let said = worked(&with_sbin(&bed, &script));
    assert_eq!(said.lines().count(), 1, "mounted once: {said}");
    assert!(said.contains(" ro,"), "{said}");
}

/// What mount(8) takes from the kernel's table is no guess of the user's.
#[test]
fn remounting_needs_no_line_in_fstab() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    bed.mount("noatime,nodiratime");
    let script = "for how in ro rw,relatime ro,noatime,nodiratime; do
            mount -o remount,$how \"$dir\"; grep \" $dir \" /proc/self/mountinfo; done; umount \"$dir\"";
    let said = worked(&with_sbin(&bed, script));
    let modes: Vec<&str> = said.lines().map(|line| line.split(' ').nth(5).unwrap()).collect();
    assert_eq!(
        modes,
        [
            "ro,noatime,nodiratime",
            "rw,nodiratime,relatime",
            "ro,noatime,nodiratime"
        ]
    );
    let (code, refused) = fails(&mut bed.mounting("user_id=0"));
    assert!(
        code == 2 && refused.contains("'user_id=0'"),
        "only what is mounted has it: {refused}"
    );
}

/// mount(8) returns from a remount to ro when the pool is closed: by the helper for the type that the kernel shows (S-20.15).
#[test]
fn a_remount_by_mount_has_closed_the_pool() {
    for options in ["commit=3600", "commit=3600,anchor=none"] {
        let Some(bed) = Bed::mounted(options) else { return };
        (0..200).for_each(|n| fs::write(bed.on(&format!("file{n}")), "text").unwrap());
        let script = format!("mount -o remount,ro \"$dir\"; {KEEPFS} check --live \"$pool\"; umount \"$dir\"");
        let said = worked(&with_sbin(&bed, &script));
        assert!(said.contains("closed properly"), "{said}");
        // The namespace has a mount of its own.
        bed.unmount();
    }
}

/// S-20.17: as mount(8) with any file system, with it and without it.
#[test]
fn options_for_users_take_rights_away() {
    if !possible() {
        return;
    }
    let bed = Bed::new();
    let cases = [
        ("user", ["nosuid", "nodev", "noexec"].as_slice()),
        ("users,exec", &["nosuid", "nodev"]),
        ("owner", &["nosuid", "nodev"]),
        ("group,dev", &["nosuid"]),
        ("exec,user", &["nosuid", "nodev", "noexec"]),
    ];
    for (options, expected) in cases {
        let is_here = |flags: &[String]| flags[1..flags.len() - 1] == *expected;
        bed.mount(options);
        assert!(is_here(&bed.flags()), "{options}: {:?}", bed.flags());
        bed.unmount();
        let script = format!(
            "mount -t keepfs -o {options} \"$pool\" \"$dir\"; grep \" $dir \" /proc/self/mountinfo; umount \"$dir\""
        );
        let said = worked(&with_sbin(&bed, &script));
        let flags: Vec<String> = said.split(' ').nth(5).unwrap().split(',').map(str::to_owned).collect();
        assert!(is_here(&flags), "mount -o {options}: {flags:?}");
    }
}

#[test]
fn links_are_made_and_taken_away() {
    let bed = Bed::empty();
    let folder = bed.path("sbin-of-ours");
    fs::create_dir(&folder).unwrap();
    let links = |more: &[&str]| run(keepfs(["install-links"]).arg(&folder).args(more));
    assert!(links(&[]).status.success());
    assert!(links(&[]).status.success(), "a second time it replaces its own");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 5);
    let help = done(Command::new(folder.join("mount.keepfs")).arg("--help"));
    assert!(help.contains("cache="), "{help}");
    assert!(links(&["--remove"]).status.success());
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
    fs::write(folder.join("mount.keepfs"), "somebody's").unwrap();
    let refused = links(&[]);
    assert!(!refused.status.success());
    assert!(String::from_utf8_lossy(&refused.stderr).contains("mount.keepfs is no link"));
    assert_eq!(fs::read(folder.join("mount.keepfs")).unwrap(), b"somebody's");
}
