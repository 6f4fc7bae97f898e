//! Mounts that go on where nobody looks for them: unmounted lazily while in use, or bound elsewhere.

use super::bed::{Bed, done, done_when_free, fails, keepfs};
use std::fs;
use std::path::Path;
use std::process::Command;

fn said(of: &Path) -> String {
    done(keepfs(["status"]).arg(of))
}

/// What names the pool finds its server, says that it is mounted nowhere, and ends it.
#[test]
fn a_pool_unmounted_lazily_is_found_by_its_name() {
    let Some(bed) = Bed::mounted("") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let open = fs::File::open(bed.on("file")).unwrap();
    done(Command::new("umount").arg("-l").arg(bed.dir()));
    let where_it_was = format!("unmounted from {} while it was in use", bed.dir().display());
    let text = said(&bed.pool());
    assert!(text.contains(&where_it_was) && text.contains("unmount -f"), "{text}");
    done(keepfs(["events"]).arg(bed.pool()));
    for mut command in [keepfs(["unmount"]), keepfs(["check"])] {
        let (code, text) = fails(command.arg(bed.pool()));
        assert!(code != 0 && text.contains(&where_it_was), "{code}: {text}");
    }
    // A machine without fusectl has no way but to end who uses it.
    if Path::new("/sys/fs/fuse/connections")
        .read_dir()
        .is_ok_and(|mut all| all.next().is_some())
    {
        done(keepfs(["unmount", "-f"]).arg(bed.pool()));
        bed.check();
    }
    drop(open);
    bed.check();
    assert!(said(&bed.pool()).contains("OFFLINE"));
}

/// A bind mount stays, and is found by the pool.
#[test]
fn a_pool_bound_elsewhere_is_found_by_its_name() {
    let Some(bed) = Bed::mounted("") else { return };
    let bound = bed.path("bound");
    fs::create_dir(&bound).unwrap();
    done(Command::new("mount").arg("--bind").arg(bed.dir()).arg(&bound));
    let first = done_when_free(keepfs(["unmount"]).arg(bed.dir()), "busy");
    let (text, line) = (said(&bed.pool()), bed.line(&bed.pool(), "state"));
    done_when_free(keepfs(["unmount"]).arg(bed.pool()), "busy");
    assert!(first.contains("stays mounted at"), "{first}");
    assert!(line == "ONLINE" && text.contains(&*bound.to_string_lossy()), "{text}");
    bed.check();
}
