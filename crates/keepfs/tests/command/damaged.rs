//! Bad pages of a real pool, met by mounts, by a keeper's next server and by `keepfs check`: each costs what lies on it, and
//! is told (S-7.6, S-9.4, S-9.7).

use super::bed::{Bed, done, fails, keepfs, run};
use super::damage::pages_of;
use keepfs_format::plog;
use keepfs_format::superblock::{SLOTS, Superblock, slot_page};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File};
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const PAGE: usize = 4096;
/// What the pages of the files hold.
const FIRST: u8 = 0xA7;
const SECOND: u8 = 0xA8;
const OTHERS: u8 = 0xB9;

/// A mounted pool with two files of two pages at rest, each with five bytes staged over its first page by a sync.
fn staged(options: &str) -> Option<Bed> {
    let bed = Bed::mounted("")?;
    fs::write(bed.on("file"), [[FIRST; PAGE], [SECOND; PAGE]].concat()).unwrap();
    fs::write(bed.on("other"), [OTHERS; 2 * PAGE]).unwrap();
    bed.unmount();
    bed.mount(options);
    write_synced(&bed.on("file"), b"12345", 100);
    write_synced(&bed.on("other"), b"67890", 100);
    Some(bed)
}

fn write_synced(path: &Path, bytes: &[u8], offset: u64) {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.sync_all().unwrap();
}

/// The first page of a pool for which `is_it` holds.
fn page_of(pool: &Path, is_it: impl Fn(&[u8]) -> bool) -> u64 {
    let bytes = fs::read(pool).unwrap();
    let page = bytes.chunks_exact(PAGE).position(is_it);
    page.expect("it is there") as u64
}

/// Changes four bytes of a page: more than a page of the log is read without (S-9.24).
fn damage(pool: &Path, page: u64) {
    let file = File::options().read(true).write(true).open(pool).unwrap();
    let (mut bytes, at) = ([0; 4], page * PAGE as u64 + 3000);
    file.read_exact_at(&mut bytes, at).unwrap();
    file.write_all_at(&bytes.map(|byte| byte ^ 0x11), at).unwrap();
}

/// The pool of a mount as a power cut leaves it, with a page of it damaged.
fn cut(bed: &Bed, page: u64) -> Bed {
    let cut = Bed::empty();
    fs::copy(bed.pool(), cut.pool()).unwrap();
    damage(&cut.pool(), page);
    cut
}

/// Reads `len` bytes at `offset`.
fn read(path: &Path, offset: u64, len: usize) -> std::io::Result<Vec<u8>> {
    let mut bytes = vec![0; len];
    File::open(path)?.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

#[track_caller]
fn is_eio<T: std::fmt::Debug>(result: std::io::Result<T>) {
    let eio = Some(rustix::io::Errno::IO.raw_os_error());
    assert_eq!(result.unwrap_err().raw_os_error(), eio);
}

/// The one page of `file` is EIO and told with its path; everything else is there.
fn judge(bed: &Bed) {
    is_eio(read(&bed.on("file"), 100, 5));
    assert!(read(&bed.on("file"), PAGE as u64, PAGE).unwrap() == [SECOND; PAGE]);
    assert_eq!(read(&bed.on("other"), 98, 9).unwrap(), b"\xB9\xB967890\xB9\xB9");
    let listed = run(keepfs(["damage", "list", "--json"]).arg(bed.dir()));
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    let list: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let [lost] = &list["damage"].as_array().unwrap()[..] else {
        panic!("{list}")
    };
    assert_eq!(
        (&lost["path"], &lost["lost"]),
        (&"/file".into(), &true.into()),
        "{list}"
    );
    assert_eq!((&lost["from"], &lost["length"]), (&0.into(), &PAGE.into()), "{list}");
}

/// The page is EIO for a sync, too, everything can be written, and the page heals when it is written whole.
fn goes_on(bed: &Bed) {
    is_eio(File::open(bed.on("file")).unwrap().sync_all());
    write_synced(&bed.on("new"), b"new", 0);
    write_synced(&bed.on("other"), b"more", 5000);
    write_synced(&bed.on("file"), &[SECOND; PAGE], 0);
    assert!(read(&bed.on("file"), 0, 2 * PAGE).unwrap() == [SECOND; 2 * PAGE]);
    bed.unmount();
    bed.check();
}

/// A bad page under a staged one, after a power cut: `check` tells it, both kinds of mount go on without it. S-9.4, S-7.6
#[test]
fn a_bad_page_under_staged_data_costs_this_page() {
    let Some(bed) = staged("commit=3600") else { return };
    let base = page_of(&bed.pool(), |page| page == [FIRST; PAGE]);
    let cut = cut(&bed, base);
    bed.unmount();
    for more in [&[][..], &["--data"]] {
        let checked = run(keepfs(["check"]).args(more).arg(cut.pool()));
        assert_eq!(checked.status.code(), Some(4), "{checked:?}");
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(
            said.contains("[data-bad]") && said.contains(&base.to_string()),
            "{said}"
        );
    }
    cut.mount("ro");
    judge(&cut);
    cut.unmount();
    cut.mount("");
    judge(&cut);
    goes_on(&cut);
}

/// The same where the server was killed, without a keeper and with one, whose next server meets it. S-9.4, S-16.5
#[test]
fn a_bad_page_under_staged_data_costs_a_mount_nothing_else() {
    for keeper in ["off", "on"] {
        let Some(bed) = staged(&format!("commit=3600,keeper={keeper}")) else {
            return;
        };
        let base = page_of(&bed.pool(), |page| page == [FIRST; PAGE]);
        damage(&bed.pool(), base);
        bed.end_server(Signal::KILL);
        if keeper == "off" {
            bed.unmount_dead();
            bed.mount("");
        }
        judge(&bed);
        goes_on(&bed);
    }
}

/// One flipped bit in a log of a crash: `check` warns, and the mount has all that was synced and tells it. S-9.24
#[test]
fn a_flipped_bit_of_a_log_costs_nothing() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    for n in 0..5 {
        write_synced(&bed.on(&format!("synced-{n}")), b"synced", 0);
    }
    let cuts = ["synced-2", "synced-4"].map(|flipped| {
        let page = page_of(&bed.pool(), |page| {
            page.starts_with(&plog::MAGIC.to_le_bytes()) && page.windows(8).any(|name| name == flipped.as_bytes())
        });
        let cut = Bed::empty();
        fs::copy(bed.pool(), cut.pool()).unwrap();
        let file = File::options().read(true).write(true).open(cut.pool()).unwrap();
        let (mut byte, at) = ([0], page * PAGE as u64 + 3000);
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 0x20], at).unwrap();
        (cut, page)
    });
    bed.unmount();
    for (cut, page) in cuts {
        let checked = run(keepfs(["check"]).arg(cut.pool()));
        let said = String::from_utf8(checked.stdout).unwrap();
        assert!(said.contains("[log-flipped]"), "{said}");
        assert!(said.contains("from byte 3000 on"), "{said}");
        assert_eq!(checked.status.code(), Some(0), "{said}");
        for how in ["ro", ""] {
            cut.mount(how);
            for n in 0..5 {
                assert_eq!(fs::read(cut.on(&format!("synced-{n}"))).unwrap(), b"synced");
            }
            let events = done(keepfs(["events"]).arg(cut.dir()));
            assert!(events.contains("bit flip: byte 3000 bit 5"), "{events}");
            let status = String::from_utf8(run(keepfs(["status"]).arg(cut.dir())).stdout).unwrap();
            let bad = format!("page {page} of the device, of the log, was bad");
            assert!(status.contains(&bad), "{status}");
            cut.unmount();
        }
        cut.check();
    }
}

/// The slots of the newest superblock in the file of a pool.
fn newest_slots(pool: &Path) -> Vec<u64> {
    let bytes = fs::read(pool).unwrap();
    let pages = (bytes.len() / PAGE) as u64;
    let generation_at = |page: u64| {
        let at = page as usize * PAGE + offset_of!(Superblock, generation);
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
    };
    let slots = (0..SLOTS).map(|slot| slot_page(slot, pages));
    let newest = slots.clone().map(generation_at).max();
    slots.filter(|page| Some(generation_at(*page)) == newest).collect()
}

/// A power cut behind a sync, and a wrong bit in each slot of the newest superblock, which alone leads to what was synced: `check` warns,
/// each mount has it and tells, and a mount for writing, or a repair, leaves whole slots. S-2.27
#[test]
fn a_wrong_bit_in_each_newest_superblock_costs_nothing() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    write_synced(&bed.on("synced"), b"synced", 0);
    let image = fs::read(bed.pool()).unwrap();
    bed.unmount();
    // In the magic, in the number of pages, in a root, where nothing stands, and in the checksum.
    for byte in [3, 98, 400, 3000, 4090] {
        let cut = Bed::empty();
        fs::write(cut.pool(), &image).unwrap();
        let slots = newest_slots(&cut.pool());
        assert_eq!(slots.len(), 2);
        let file = File::options().write(true).open(cut.pool()).unwrap();
        for page in &slots {
            let at = *page as usize * PAGE + byte;
            file.write_all_at(&[image[at] ^ 0x20], at as u64).unwrap();
        }
        let flipped = fs::read(cut.pool()).unwrap();
        assert!(done(keepfs(["probe"]).arg(cut.pool())).contains("LABEL=\"bed\""));
        let said = done(keepfs(["check"]).arg(cut.pool()));
        assert_eq!(said.matches("[superblock-flipped]").count(), 2, "{said}");
        assert!(said.contains(&format!("has a wrong bit, in byte {byte}")), "{said}");
        for how in ["ro", ""] {
            cut.mount(how);
            assert_eq!(fs::read(cut.on("synced")).unwrap(), b"synced");
            let events = done(keepfs(["events"]).arg(cut.dir()));
            assert!(events.contains(&format!("bit flip: byte {byte} bit 5")), "{events}");
            let status = String::from_utf8(run(keepfs(["status"]).arg(cut.dir())).stdout).unwrap();
            assert!(status.contains("2 superblocks"), "{status}");
            cut.unmount();
        }
        let said = done(keepfs(["check"]).arg(cut.pool()));
        assert!(!said.contains("warning"), "{said}");
        fs::write(cut.pool(), flipped).unwrap();
        let repaired = run(keepfs(["check", "--repair", "--undo-file"])
            .arg(cut.path("undo"))
            .arg(cut.pool()));
        assert_eq!(repaired.status.code(), Some(1), "{repaired:?}");
        let said = done(keepfs(["check"]).arg(cut.pool()));
        assert!(!said.contains("warning"), "{said}");
        cut.mount("");
        assert_eq!(fs::read(cut.on("synced")).unwrap(), b"synced");
        cut.unmount();
        cut.check();
    }
}

/// Many mounts at once, while a second ends: what each has mended is told by its status, whether the second ended before it was
/// read, before it was there, or behind. S-18.18
#[test]
fn what_a_mount_mends_while_a_second_ends_is_news() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    write_synced(&bed.on("synced"), b"synced", 0);
    let mut image = fs::read(bed.pool()).unwrap();
    for page in newest_slots(&bed.pool()) {
        image[page as usize * PAGE + 3000] ^= 0x20;
    }
    bed.unmount();
    thread::scope(|threads| {
        for left in (10..=150).step_by(10).map(Duration::from_millis) {
            let image = &image;
            threads.spawn(move || {
                let cut = Bed::empty();
                fs::write(cut.pool(), image).unwrap();
                let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
                let next = Duration::from_secs(now.as_secs() + 2);
                thread::park_timeout(next - left - now);
                cut.mount("ro,nouuid");
                let status = String::from_utf8(run(keepfs(["status"]).arg(cut.dir())).stdout).unwrap();
                assert!(status.contains("2 superblocks"), "{left:?} before: {status}");
                cut.unmount();
            });
        }
    });
}

/// What a mount mended is told by each of its servers, until somebody takes note: a wrong bit in a page of the log, and a bad
/// copy of metadata. S-18.18
#[test]
fn what_a_mount_mended_is_told_by_its_next_servers() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    for n in 0..5 {
        write_synced(&bed.on(&format!("synced-{n}")), b"synced", 0);
    }
    let page = page_of(&bed.pool(), |page| {
        page.starts_with(&plog::MAGIC.to_le_bytes()) && page.windows(8).any(|name| name == b"synced-2")
    });
    let image = fs::read(bed.pool()).unwrap();
    bed.unmount();
    let flipped = |cut: &Bed| {
        let at = page * PAGE as u64 + 3000;
        let file = File::options().write(true).open(cut.pool()).unwrap();
        file.write_all_at(&[image[at as usize] ^ 0x20], at).unwrap();
    };
    let copy = |cut: &Bed| damage(&cut.pool(), pages_of(cut, "Inodes:0")[0]);
    let of_log = format!("page {page} of the device, of the log, was bad");
    let ways: [&dyn Fn(&Bed); 2] = [&flipped, &copy];
    for (spoil, told) in ways.into_iter().zip([&*of_log, "1 copies of metadata were bad"]) {
        let cut = Bed::empty();
        fs::write(cut.pool(), &image).unwrap();
        spoil(&cut);
        cut.mount("commit=3600");
        fs::read_dir(cut.dir())
            .unwrap()
            .for_each(|entry| drop(entry.unwrap().metadata()));
        let tells = |who: &str| {
            let (state, errors) = (cut.line(&cut.dir(), "state"), cut.line(&cut.dir(), "errors"));
            assert!(state == "DEGRADED" && errors.contains(told), "{who}: {state}: {errors}");
            assert_eq!(
                run(keepfs(["status", "-x"]).arg(cut.dir())).status.code(),
                Some(3),
                "{who}"
            );
        };
        tells("the first");
        cut.end_server(Signal::KILL);
        tells("behind a death");
        done(keepfs(["upgrade"]).arg(cut.dir()));
        tells("behind an upgrade");
        run(keepfs(["damage", "clear"]).arg(cut.dir()));
        for who in ["the same", "the next"] {
            assert_eq!(cut.line(&cut.dir(), "state"), "ONLINE", "{who}: {told}");
            done(keepfs(["upgrade"]).arg(cut.dir()));
        }
        cut.unmount();
    }
}

/// A log that is damaged before changes that were synced: `check` tells it, no mount writes to the pool unasked, a read-only
/// one shows what was before, and with `-o cut-log` work goes on from there. S-9.7
#[test]
fn a_log_damaged_in_the_middle_is_cut_when_its_user_says_so() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    for n in 0..5 {
        write_synced(&bed.on(&format!("synced-{n}")), b"synced", 0);
    }
    let page = page_of(&bed.pool(), |page| {
        page.starts_with(&plog::MAGIC.to_le_bytes()) && page.windows(8).any(|name| name == b"synced-2")
    });
    let cut = cut(&bed, page);
    bed.unmount();
    let (code, _) = fails(keepfs(["check"]).arg(cut.pool()));
    assert_eq!(code, 4);
    let (code, said) = fails(&mut cut.mounting(""));
    assert_eq!(code, 1);
    assert!(said.contains("-o cut-log"), "{said}");
    let judge = || {
        for n in 0..5 {
            assert_eq!(cut.on(&format!("synced-{n}")).exists(), n < 2, "synced-{n}");
        }
        let events = done(keepfs(["events"]).arg(cut.dir()));
        assert!(events.contains("log group"), "{events}");
    };
    cut.mount("ro");
    judge();
    assert!(fs::write(cut.on("new"), "").is_err());
    cut.unmount();
    fails(&mut cut.mounting(""));
    cut.mount("cut-log");
    judge();
    write_synced(&cut.on("new"), b"new", 0);
    cut.unmount();
    cut.check();
    cut.mount("");
    assert_eq!(fs::read(cut.on("new")).unwrap(), b"new");
    assert_eq!(fs::read(cut.on("synced-1")).unwrap(), b"synced");
}
