//! Changes that were acknowledged and are lost are told by `status` and its exit code until somebody takes note of it (S-18.12).

use super::bed::{Bed, done, end, fails, keepfs, run, soon};
use keepfs_format::plog::{self, PageHead};
use keepfs_format::{FromBytes, PAGE};
use rustix::fs::syncfs;
use rustix::io::Errno;
use rustix::process::{Signal, kill_process};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Exit code of `status -x`, and what it says.
fn unhealthy(of: &Path) -> (i32, String) {
    let output = run(keepfs(["status", "-x"]).arg(of));
    (
        output.status.code().unwrap(),
        String::from_utf8_lossy(&output.stdout).into_owned(),
    )
}

/// It is told with `words` everywhere, in this mount and the next one, until `damage clear`; then nothing is.
fn is_told_until_noted(bed: &Bed, words: &str) {
    let is_told = |of: &Path| {
        let (code, said) = unhealthy(of);
        assert_eq!(code, 3, "{said}");
        assert!(said.contains(words) && said.contains("damage clear"), "{said}");
        let (code, _) = fails(keepfs(["damage", "list"]).arg(of));
        assert_eq!(code, 1);
    };
    is_told(&bed.dir());
    assert_eq!(bed.line(&bed.dir(), "state"), "DEGRADED");
    bed.unmount();
    is_told(&bed.pool());
    bed.mount("commit=3600");
    is_told(&bed.dir());
    let cleared = done(keepfs(["damage", "clear"]).arg(bed.dir()));
    assert_ne!(cleared.trim(), "0 entries cleared");
    assert_eq!(unhealthy(&bed.dir()).0, 0);
    syncfs(File::open(bed.dir()).unwrap()).unwrap();
    assert_eq!(bed.line(&bed.dir(), "status"), "nothing to report");
    bed.unmount();
    assert_eq!(unhealthy(&bed.pool()).0, 0);
    bed.check();
}

/// The redo of the server, open for a program that writes where it should not.
fn staging(bed: &Bed) -> File {
    let mut found: Vec<_> = fs::read_dir(format!("/proc/{}/fd", bed.server()))
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let name = fs::read_link(&path).ok()?;
            let is_it = name.to_str()?.starts_with("/memfd:keepfs-staging ");
            is_it.then(|| File::options().read(true).write(true).open(path).unwrap())
        })
        .collect();
    found.pop().unwrap()
}

/// Where the next entry of the redo will begin (S-14.1).
fn next_entry(staging: &File) -> u64 {
    let mut cursor = [0; 8];
    staging.read_exact_at(&mut cursor, 64).unwrap();
    4096 + (u64::from_le_bytes(cursor) >> 20 & 0xF_FFFF) * 8
}

/// S-16.9: `held`, which was opened before the loss, changes nothing more; whoever opens the file again does.
fn is_told_to_who_writes(held: &File, path: &Path) {
    let is_eio = |what: std::io::Result<()>| {
        let error = what.expect_err("what was written may be lost");
        assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::IO.raw_os_error()));
    };
    let mut text = [0; 4];
    held.read_exact_at(&mut text, 0).unwrap();
    assert_eq!(&text, b"text");
    is_eio(held.write_all_at(b"more", 4));
    is_eio(held.sync_all());
    is_eio(held.set_len(2));
    let again = File::options().write(true).open(path).unwrap();
    again.write_all_at(b"more", 4).unwrap();
    again.sync_all().unwrap();
    assert_eq!(fs::read(path).unwrap(), b"textmore");
}

/// S-16.14: syncfs(2) fails until somebody takes note, and then does not; an unmount is told of nothing that it could wait for.
fn is_told_to_who_syncs_all(bed: &Bed) {
    let root = File::open(bed.dir()).unwrap();
    for _ in 0..2 {
        assert_eq!(syncfs(&root), Err(Errno::UCLEAN));
    }
}

#[test]
fn a_stray_write_into_the_redo_before_a_death_is_told_until_it_is_noted() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    fs::write(bed.on("before"), "text").unwrap();
    let held = File::options().read(true).write(true).open(bed.on("before")).unwrap();
    held.write_all_at(b"t", 0).unwrap();
    let staging = staging(&bed);
    let before = next_entry(&staging);
    fs::create_dir(bed.on("lost")).unwrap();
    // The end of the file before may have an entry of its own.
    let mut entries = vec![0; (next_entry(&staging) - before) as usize];
    staging.read_exact_at(&mut entries, before).unwrap();
    let name = entries.windows(4).position(|bytes| bytes == b"lost").unwrap();
    staging.write_all_at(b"LOST", before + name as u64).unwrap();
    assert_eq!(unhealthy(&bed.dir()).0, 0, "nothing is lost yet");
    bed.end_server(Signal::KILL);
    assert!(bed.on("before").exists() && !bed.on("lost").exists());
    is_told_to_who_writes(&held, &bed.on("before"));
    drop(held);
    is_told_to_who_syncs_all(&bed);
    is_told_until_noted(&bed, "changes that were not synced are lost");
}

/// Changes every place of the redo and the staged pages that has these bytes; how many there were.
fn spoil(staging: &File, bytes: &[u8]) -> usize {
    let mut all = vec![0; staging.metadata().unwrap().len() as usize];
    staging.read_exact_at(&mut all, 0).unwrap();
    let places: Vec<usize> = (0..=all.len() - bytes.len())
        .filter(|at| all[*at..].starts_with(bytes))
        .collect();
    for at in &places {
        staging.write_all_at(&[!bytes[0]], *at as u64).unwrap();
    }
    places.len()
}

/// S-16.14: a staged page of which neither memory nor redo has the bytes is lost while its server lives, and by none that follows it is
/// anything but that said: fsync(2) of the file fails, and so does syncfs(2), until the file is gone or somebody takes note.
#[test]
fn staged_data_that_are_lost_are_told_to_who_syncs_all() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    let needle = b"words that are nowhere else".repeat(8);
    let lose = |name: &str| {
        // Of what somebody's sync(2) has brought to the log nothing is lost: then it is tried anew.
        let error = soon("it is lost", || {
            fs::write(bed.on(name), &needle).unwrap();
            let file = File::open(bed.on(name)).unwrap();
            assert!(spoil(&staging(&bed), &needle) >= 2, "in the redo and in a staged page");
            file.sync_all().err()
        });
        assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()));
    };
    lose("first");
    is_told_to_who_syncs_all(&bed);
    let (code, said) = unhealthy(&bed.dir());
    assert_eq!(code, 3, "{said}");
    bed.end_server(Signal::KILL);
    is_told_to_who_syncs_all(&bed);
    fs::remove_file(bed.on("first")).unwrap();
    let root = || File::open(bed.dir()).unwrap();
    soon("the file is gone", || syncfs(root()).ok());
    lose("second");
    is_told_to_who_syncs_all(&bed);
    done(keepfs(["damage", "clear"]).arg(bed.dir()));
    syncfs(root()).unwrap();
    lose("third");
    is_told_to_who_syncs_all(&bed);
    // The next mount has answered nothing of it.
    bed.unmount();
    bed.mount("commit=3600");
    syncfs(root()).unwrap();
    let (code, said) = unhealthy(&bed.dir());
    assert_eq!(code, 3, "{said}");
    bed.unmount();
}

/// Without a stray write nothing is lost, and nothing is said.
#[test]
fn a_death_alone_loses_nothing() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    fs::create_dir(bed.on("there")).unwrap();
    bed.end_server(Signal::KILL);
    assert!(bed.on("there").exists());
    assert_eq!(unhealthy(&bed.dir()).0, 0);
}

/// A page of the log on the device.
struct LogPage {
    number: u64,
    sequence: u64,
    bytes: [u8; PAGE],
}

impl LogPage {
    /// Changes more of it than its checksum undoes (S-9.24).
    fn spoil(&self, bed: &Bed) {
        let file = File::options().write(true).open(bed.pool()).unwrap();
        let wrong: Vec<u8> = self.bytes[100..164].iter().map(|byte| !byte).collect();
        file.write_all_at(&wrong, self.number * PAGE as u64 + 100).unwrap();
    }
}

fn log_pages(bed: &Bed) -> Vec<LogPage> {
    let pool = fs::read(bed.pool()).unwrap();
    let pages = (0_u64..).zip(pool.as_chunks::<PAGE>().0);
    let log = pages.filter(|(_, page)| page.starts_with(&plog::MAGIC.to_le_bytes()));
    log.map(|(number, page)| LogPage {
        number,
        sequence: PageHead::read_from_prefix(page).unwrap().0.sequence.get(),
        bytes: *page,
    })
    .collect()
}

/// The first page of the log that has these bytes, as a name.
fn first_with<'l>(log: &'l [LogPage], bytes: &[u8]) -> &'l LogPage {
    let with = log
        .iter()
        .filter(|page| page.bytes.windows(bytes.len()).any(|found| found == bytes));
    with.min_by_key(|page| page.sequence).unwrap()
}

/// The pages of the log that are written last are bad when another server takes over, and the redo has only what follows them.
#[test]
fn a_log_that_ends_too_early_at_a_death_is_told_until_it_is_noted() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    fs::write(bed.on("synced"), "text").unwrap();
    File::open(bed.on("synced")).unwrap().sync_all().unwrap();
    fs::create_dir(bed.on("behind")).unwrap();
    // Nothing is written behind what is damaged.
    let server = bed.server();
    kill_process(server, Signal::STOP).unwrap();
    let log = log_pages(&bed);
    let first = first_with(&log, b"synced");
    for page in log.iter().filter(|page| page.sequence >= first.sequence) {
        page.spoil(&bed);
    }
    end(server, Signal::KILL);
    assert!(!bed.on("behind").exists());
    is_told_until_noted(&bed, "synced ones perhaps among them");
}

/// A mount with synced files, of whose log a page is bad on the device.
fn with_a_bad_log() -> Option<(Bed, Vec<String>)> {
    let bed = Bed::mounted("commit=3600")?;
    let names: Vec<String> = (10..30).map(|n| format!("synced {n}")).collect();
    for name in &names {
        fs::write(bed.on(name), name).unwrap();
        File::open(bed.on(name)).unwrap().sync_all().unwrap();
    }
    first_with(&log_pages(&bed), b"synced 12").spoil(&bed);
    Some((bed, names))
}

fn are_there(bed: &Bed, names: &[String]) {
    for name in names {
        let has = fs::read(bed.on(name)).ok();
        assert_eq!(has.as_deref(), Some(name.as_bytes()), "{name}");
    }
}

/// A page of the log goes bad on the device while its server lives: a planned change of servers loses nothing of what is behind it.
/// S-16.38
#[test]
fn a_log_that_went_bad_costs_a_planned_change_of_servers_nothing() {
    for change in [&["upgrade"][..], &["set", "label=other"]] {
        let Some((bed, names)) = with_a_bad_log() else { return };
        let before = bed.server();
        done(keepfs(&change[..1]).arg(bed.dir()).args(&change[1..]));
        assert_ne!(bed.server(), before);
        are_there(&bed, &names);
        assert_eq!(unhealthy(&bed.dir()).0, 0, "nobody needs that page");
        bed.unmount();
        bed.check();
    }
}

/// A scrub finds such a page and tells it; behind it nobody needs the page, whoever dies. S-19.4
#[test]
fn a_scrub_finds_a_bad_page_of_the_log() {
    let Some((bed, names)) = with_a_bad_log() else { return };
    let scrub = || {
        let text = done(keepfs(["scrub", "start", "--wait", "--json"]).arg(bed.dir()));
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        (
            found["metadata"]["bad"].as_u64(),
            found["metadata"]["corrected"].as_u64(),
        )
    };
    assert_eq!(scrub(), (Some(1), Some(1)));
    let told = done(keepfs(["events"]).arg(bed.dir()));
    assert!(
        told.contains("memory has what its group had: nothing is lost"),
        "{told}"
    );
    assert_eq!(scrub(), (Some(0), Some(0)));
    bed.end_server(Signal::KILL);
    are_there(&bed, &names);
    bed.unmount();
    bed.check();
}

/// A takeover that meets bad metadata which all need says what helps against that, not against a failing device.
#[test]
fn a_takeover_that_ends_writing_for_bad_metadata_does_not_send_to_the_device() {
    let Some(bed) = Bed::with_a_file() else { return };
    // In a checkpoint.
    bed.unmount();
    bed.mount("commit=3600");
    for copy in ["0", "1"] {
        let words = ["scribble", "--kind", "bitmap", "--path", "/dir/file", "--offset", "100"];
        done(
            keepfs(["inject"])
                .arg(bed.dir())
                .args(words)
                .args(["--at", "device", "--copy", copy]),
        );
    }
    bed.end_server(Signal::KILL);
    assert_eq!(fs::read(bed.on("dir/file")).unwrap(), vec![1; 30_000]);
    let (code, said) = unhealthy(&bed.dir());
    assert_eq!(code, 4, "{said}");
    assert!(
        said.contains("metadata that all need is damaged") && said.contains("keepfs check"),
        "{said}"
    );
    assert!(!said.contains("see to the device"), "{said}");
}
