//! Two bad pages of the group that carried small writes over a checkpoint: nobody gives out older bytes and says nothing of it
//! (S-9.17, S-21.25).

use super::bed::{Bed, done, fails, keepfs, possible, run};
use super::damage::ruin;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// What all say who cannot name the files.
const OLDER: &str = "older bytes, or zeros";

/// A pool as after a crash: small synced writes to `a` and `b` were carried over by a checkpoint. Its image, the first page of the
/// carried group, and how many pages of the log stand before it.
fn crashed() -> Option<(Bed, u64, u64)> {
    if !possible() {
        return None;
    }
    let bed = Bed::empty();
    done(keepfs(["create", "--size", "64M"]).arg(bed.pool()));
    bed.mount("keeper=off,commit=3600");
    for name in ["a", "b"] {
        fs::write(bed.on(name), [b'A'; 8192]).unwrap();
        File::open(bed.on(name)).unwrap().sync_all().unwrap();
    }
    bed.unmount();
    bed.mount("keeper=off,commit=3600");
    for name in ["a", "b"] {
        let file = File::options().write(true).open(bed.on(name)).unwrap();
        file.write_all_at(&[b'N'; 100], 100).unwrap();
        file.sync_all().unwrap();
    }
    // The recovery's checkpoint carries them over.
    for mounts in [false, true] {
        if mounts {
            bed.mount("keeper=off,commit=3600");
        }
        bed.end_server(Signal::KILL);
        bed.unmount_dead();
    }
    let text = done(keepfs(["dump", "--json"]).arg(bed.pool()).arg("superblock"));
    let sb: Value = serde_json::from_str(&text).unwrap();
    let number = |name: &str| sb[name].as_u64().unwrap();
    let place = number("log_seq") % number("log_pages");
    Some((bed, number("log_start") + place, place))
}

fn said(command: &mut std::process::Command) -> (Option<i32>, String) {
    let output = run(command);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_carried_group_that_is_lost_is_told_by_all() {
    let Some((cut, first, before)) = crashed() else { return };
    let image = fs::read(cut.pool()).unwrap();
    // With the log before it the files are known, without it nobody knows them.
    for (bad, is_known) in [([0, 1], true), ([1, 2], true), ([0, 1], false)] {
        let what = format!("{bad:?} {is_known}");
        fs::write(cut.pool(), &image).unwrap();
        ruin(&cut, &bad.map(|n| first + n));
        if !is_known {
            ruin(&cut, &(first - before.min(20)..first).collect::<Vec<_>>());
        }
        let refused = fails(&mut cut.mounting("ro")).1;
        assert!(refused.contains("of which files is not known"), "{what}: {refused}");
        let lost = fs::read(cut.pool()).unwrap();
        let (code, text) = said(keepfs(["check"]).arg(cut.pool()));
        assert!(
            code == Some(4) && text.contains("[log-carried]") && text.contains(OLDER),
            "{what}: {text}"
        );

        let (code, text) = said(keepfs(["salvage"]).arg(cut.pool()).arg(cut.path("out")));
        assert!(code == Some(3) && text.contains(OLDER), "{what}: {text}");
        for name in ["/a: pages", "/b: pages"] {
            assert_eq!(text.contains(name), is_known, "{what}: {text}");
        }
        fs::remove_dir_all(cut.path("out")).unwrap();

        let mut dry = keepfs(["check", "--repair", "--dry-run"]);
        let (code, text) = said(dry.arg(cut.pool()));
        assert!(code == Some(4) && text.contains(OLDER), "{what}: {text}");
        let (code, text) = said(
            keepfs(["check", "--repair", "--undo-file"])
                .arg(cut.path("undo"))
                .arg(cut.pool()),
        );
        fs::remove_file(cut.path("undo")).unwrap();
        let last = text.lines().find(|line| line.contains("repaired, no errors")).unwrap();
        assert!(code == Some(5) && last.contains(OLDER), "{what}: {text}");
        assert_eq!(text.contains("/a (inode"), is_known, "{what}: {text}");
        cut.check();
        let list = said(keepfs(["damage", "list"]).arg(cut.pool())).1;
        assert!(list.contains(OLDER), "{what}: {list}");
        for name in ["/a (inode", "/b (inode"] {
            assert_eq!(list.contains(name), is_known, "{what}: {list}");
        }
        cut.mount("keeper=off");
        for name in ["a", "b"] {
            // Older bytes are given out only of what nobody can name.
            let page = File::open(cut.on(name)).unwrap().read_exact_at(&mut [0; 4096], 0);
            assert_eq!(page.is_err(), is_known, "{what}: {page:?}");
            File::open(cut.on(name))
                .unwrap()
                .read_exact_at(&mut [0; 4096], 4096)
                .unwrap();
        }
        let status = said(keepfs(["status"]).arg(cut.dir())).1;
        let is_said = status.contains(if is_known {
            "`keepfs damage list` names them"
        } else {
            OLDER
        });
        assert!(is_said && status.contains("DEGRADED"), "{what}: {status}");
        cut.unmount();

        // A mount that was told to go on keeps it in the list, too.
        fs::write(cut.pool(), &lost).unwrap();
        for how in ["cut-log,keeper=off", "keeper=off"] {
            cut.mount(how);
            for of in [["damage", "list"].as_slice(), &["status"]] {
                let (_, text) = said(keepfs(of).arg(cut.dir()));
                assert!(text.contains(OLDER), "{what} {how}: {text}");
            }
            cut.unmount();
        }
    }
}
