//! `keepfs set` and `keepfs get`: of a pool that is not mounted, and of one that programs are using.

use super::bed::{Bed, done, fails, keepfs, possible, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

const LEVELS: [&str; 6] = ["crc", "pq", "evenodd64", "evenodd256", "off", "pcrc"];

fn set(of: &Path, words: &[&str]) -> String {
    done(keepfs(["set"]).arg(of).args(words))
}

fn refused(of: &Path, words: &[&str]) -> (i32, String) {
    fails(keepfs(["set"]).arg(of).args(words))
}

/// One value, as scripts get it.
fn get(of: &Path, name: &str) -> String {
    done(keepfs(["get", "-H", "-p", "-o", "value", name]).arg(of))
        .trim_end()
        .to_owned()
}

#[test]
fn a_pool_that_is_not_mounted_changes_its_level_and_label() {
    let bed = Bed::new();
    assert_eq!(get(&bed.pool(), "protect"), "pcrc");
    for level in LEVELS {
        assert!(set(&bed.pool(), &[&format!("protect={level}")]).contains(&format!("protect={level}")));
        assert_eq!(get(&bed.pool(), "protect"), level);
        let superblock = done(keepfs(["dump"]).arg(bed.pool()).arg("superblock"));
        assert!(superblock.contains("clean"), "{superblock}");
        bed.check();
    }
    // As zfs(8) has it: what, then of what; more than one at once.
    done(keepfs(["set", "label=tax 2026", "protect=pq"]).arg(bed.pool()));
    assert_eq!(
        (get(&bed.pool(), "label").as_str(), get(&bed.pool(), "protect").as_str()),
        ("tax 2026", "pq")
    );
    let shown = done(keepfs(["get", "all"]).arg(bed.pool()));
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("NAME") && lines[0].ends_with("SOURCE"), "{shown}");
    let line = lines.iter().find(|line| line.contains(" size ")).unwrap();
    assert!(line.contains("64.0M") && line.ends_with('-'), "{shown}");
    assert_eq!(get(&bed.pool(), "size"), (64 << 20).to_string());
    assert_eq!(
        done(keepfs(["get", "-H", "label,protect"]).arg(bed.pool()))
            .lines()
            .count(),
        2
    );
    if possible() {
        bed.mount("");
        assert!(
            bed.line(&bed.dir(), "watched")
                .contains("protect pq (keepfs set), guard alias, audit on")
        );
        assert!(bed.line(&bed.dir(), "pool").contains("tax 2026"));
    }
}

/// What was changed is with the events of the pool, mounted or not.
#[test]
fn changes_are_told() {
    let bed = Bed::new();
    let told = |of: &Path| done(keepfs(["events"]).arg(of));
    let times = |of: &Path, what: &str| told(of).matches(what).count();
    set(&bed.pool(), &["label=tax", "protect=pq"]);
    let changed = "`keepfs set` has changed this: protect=pq, label=tax\n";
    assert_eq!(times(&bed.pool(), changed), 1, "{}", told(&bed.pool()));
    // Nothing is different.
    set(&bed.pool(), &["label=tax"]);
    assert_eq!(times(&bed.pool(), "has changed this"), 1, "{}", told(&bed.pool()));
    let new = done(keepfs(["set", "--new-id"]).arg(bed.pool()));
    let id = new.trim_end().rsplit_once("id=").unwrap().1;
    let events = told(&bed.pool());
    assert!(events.contains(&format!("has changed this: id={id}\n")), "{events}");
    if !possible() {
        return;
    }
    bed.mount("");
    for _ in 0..2 {
        set(&bed.dir(), &["scrub-limit=10M"]);
    }
    assert_eq!(
        times(&bed.dir(), "scrub-limit=10485760 bytes a second, before none"),
        1,
        "{}",
        told(&bed.dir())
    );
    done(keepfs(["scrub", "limit"]).arg(bed.dir()));
    assert_eq!(
        times(&bed.dir(), "the limit of scrubs was changed"),
        2,
        "{}",
        told(&bed.dir())
    );
    // What was told before is still there.
    assert!(
        told(&bed.dir()).contains("has changed this: id="),
        "{}",
        told(&bed.dir())
    );
}

#[test]
fn what_cannot_be_set_is_refused_with_a_reason() {
    let bed = Bed::new();
    let before = fs::read(bed.pool()).unwrap();
    for (words, code, said) in [
        (&["protect=adler"][..], 2, "one of pcrc, pq"),
        (&["colour=red"], 2, "there is no property 'colour'"),
        (&["guard=pkey"], 2, "-o guard="),
        (&["size=1G"], 2, "cannot change"),
        (&["protect"], 2, "say what to change"),
        (&["protect=pq", "colour=red"], 2, "colour"),
        (&["scrub-limit=10M"], 1, "while it is mounted only"),
    ] {
        let (is, says) = refused(&bed.pool(), words);
        assert!(is == code && says.contains(said), "{words:?}: {is} {says}");
        assert_eq!(says.trim_end().lines().count(), 1, "one sentence: {says}");
    }
    let (code, said) = fails(keepfs(["get", "colour"]).arg(bed.pool()));
    assert!(code == 2 && said.contains("colour"), "{said}");
    let (code, said) = fails(keepfs(["set", "protect=pq"]).arg(bed.path("nothing")));
    assert!(code == 1 && said.contains("nothing"), "{said}");
    assert!(fs::read(bed.pool()).unwrap() == before, "a refusal wrote something");
}

/// Two programs at work while all levels take turns: each file is what its writer made it.
#[test]
fn a_level_changes_under_load() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    let stop = AtomicBool::new(false);
    let worker = |name: &str| {
        let (mut made, dir) = (Vec::new(), bed.on(name));
        fs::create_dir(&dir).unwrap();
        for n in 0u32.. {
            let (new, old) = (dir.join(format!("new{n}")), dir.join(format!("{n}")));
            let bytes = vec![n as u8; (n as usize * 37) % 9000];
            fs::write(&new, &bytes).unwrap();
            fs::rename(&new, &old).unwrap();
            assert_eq!(fs::read(&old).unwrap(), bytes);
            made.push((old, bytes));
            if n % 3 == 0 && n > 30 {
                let (gone, _) = made.swap_remove(n as usize % 17);
                fs::remove_file(gone).unwrap();
            }
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        (dir, made)
    };
    let (mut servers, mut made) = (vec![bed.server()], Vec::new());
    std::thread::scope(|scope| {
        let workers = [scope.spawn(|| worker("a")), scope.spawn(|| worker("b"))];
        for level in LEVELS.iter().cycle().take(12) {
            set(&bed.dir(), &[&format!("protect={level}")]);
            assert_eq!(bed.status()["arena"]["protect"], *level);
            servers.push(bed.server());
        }
        stop.store(true, Ordering::Relaxed);
        made.extend(workers.map(|worker| worker.join().unwrap()));
    });
    // Each change had a server of its own, and none of them died.
    servers.dedup();
    assert_eq!(servers.len(), 13);
    assert_eq!(bed.status()["keeper"]["deaths"], 0);
    compare(&made);
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert!(!events.contains("memory of the server"), "{events}");
    bed.unmount();
    bed.check();
    bed.mount("");
    compare(&made);
    assert_eq!(get(&bed.dir(), "protect"), "pcrc");
}

/// A directory, and the files that were made in it, with their bytes.
type Made = (PathBuf, Vec<(PathBuf, Vec<u8>)>);

fn compare(made: &[Made]) {
    for (dir, files) in made {
        let mut names: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
        let mut expected: Vec<PathBuf> = files.iter().map(|(path, _)| path.clone()).collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
        for (path, bytes) in files {
            assert!(fs::read(path).unwrap() == *bytes, "{}", path.display());
        }
    }
}

/// What is not synced outlives the change, and a server that dies behind it is followed by one with the new level.
#[test]
fn a_changed_level_outlives_its_server() {
    let Some(bed) = Bed::mounted("commit=3600") else { return };
    fs::write(bed.on("file"), "unsynced").unwrap();
    let said = done(
        keepfs(["set", "--json"])
            .arg(bed.pool())
            .args(["protect=evenodd64", "label=new"]),
    );
    let answer: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(answer["server_pid"], bed.status()["server_pid"]);
    let server = bed.server();
    // The same again changes nothing, and needs no other server.
    set(&bed.dir(), &["protect=evenodd64"]);
    assert_eq!(bed.server(), server);
    let events = done(keepfs(["events"]).arg(bed.dir()));
    assert_eq!(events.matches("`keepfs set` has changed this: ").count(), 1, "{events}");
    assert!(events.contains("this: protect=evenodd64, label=new"), "{events}");
    bed.end_server(rustix::process::Signal::KILL);
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"unsynced");
    let status = bed.status();
    assert_eq!(
        (&status["arena"]["protect"], &status["label"]),
        (&"evenodd64".into(), &"new".into())
    );
    assert_eq!(
        (get(&bed.dir(), "label").as_str(), get(&bed.dir(), "keeper").as_str()),
        ("new", "on")
    );
    bed.unmount();
    bed.check();
}

#[test]
fn without_a_keeper_or_read_only_it_is_refused() {
    let Some(bed) = Bed::mounted("keeper=off,guard=sealed") else {
        return;
    };
    let (code, said) = refused(&bed.dir(), &["protect=pq"]);
    assert!(
        code == 1 && said.contains("unmount it, keepfs set") && said.contains("pool"),
        "{said}"
    );
    // What is so already is no error, and the limit of scrubs needs nobody.
    set(&bed.dir(), &["protect=pcrc", "scrub-limit=10M"]);
    assert_eq!(get(&bed.dir(), "scrub-limit"), (10 << 20).to_string());
    set(&bed.dir(), &["scrub-limit=none"]);
    assert_eq!(get(&bed.dir(), "scrub-limit"), "none");
    let shown = done(keepfs(["get", "-H", "-o", "property,value,source", "all"]).arg(bed.dir()));
    for line in [
        "protect\tpcrc\tlocal",
        "guard\tsealed\ttemporary",
        "audit\ton\tdefault",
        "keeper\toff\ttemporary",
    ] {
        assert!(shown.lines().any(|shown| shown == line), "{line} in {shown}");
    }
    bed.unmount();
    bed.mount("ro");
    let (code, said) = refused(&bed.dir(), &["protect=pq"]);
    assert!(code == 1 && said.contains("remount,rw"), "{said}");
    assert_eq!(get(&bed.dir(), "readonly"), "on");
    done(&mut bed.mounting("remount,rw"));
    set(&bed.dir(), &["protect=pq"]);
    assert_eq!(bed.status()["arena"]["protect"], "pq");
    assert!(run(keepfs(["get", "all"]).arg(bed.dir())).status.success());
}

/// A level that there is no memory for: one sentence before anything is changed, and the mount does not even pause.
#[test]
fn a_level_without_memory_changes_nothing() {
    let Some(bed) = Bed::mounted("arena=512M") else { return };
    fs::write(bed.on("file"), "text").unwrap();
    let server = bed.server();
    let pid = server.as_raw_nonzero().to_string();
    let table = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let has = table.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let kib: u64 = has.trim().trim_end_matches(" kB").parse().unwrap();
    let limit = |bytes: &str| {
        done(std::process::Command::new("prlimit").args(["--pid", &pid, &format!("--as={bytes}")]));
    };
    // Half of what the parity would take; a server that just began may still start threads and grow its heap.
    limit(&((kib + (32 << 10)) << 10).to_string());
    let (code, said) = refused(&bed.dir(), &["protect=evenodd256", "label=new"]);
    assert!(
        code == 1 && said.contains("no memory for this level, and nothing was changed"),
        "{said}"
    );
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    let status = bed.status();
    assert_eq!((bed.server(), &status["keeper"]["deaths"]), (server, &0.into()));
    assert_eq!(
        (&status["arena"]["protect"], &status["label"]),
        (&"pcrc".into(), &"bed".into())
    );
    assert_eq!(get(&bed.dir(), "protect"), "pcrc");
    // What takes no more is not refused.
    set(&bed.dir(), &["label=new"]);
    set(&bed.dir(), &["protect=evenodd256"]);
    assert_eq!(bed.status()["arena"]["protect"], "evenodd256");
    assert_eq!(fs::read(bed.on("file")).unwrap(), b"text");
    bed.unmount();
    bed.check();
}

/// A control group of memory that is removed with this, once nobody is in it.
struct Group(std::path::PathBuf);

impl Group {
    /// One of at most so many bytes; `None`: none can be made here.
    fn of(bytes: u64) -> Option<Group> {
        let name = format!("keepfs-test-{}", std::process::id());
        [("memory", "memory.limit_in_bytes"), ("", "memory.max")]
            .into_iter()
            .find_map(|(controller, limit)| {
                let folder = std::path::Path::new("/sys/fs/cgroup").join(controller).join(&name);
                fs::create_dir(&folder).ok()?;
                let group = Group(folder);
                // Where the controller is not there the file is not.
                let limit = group.0.join(limit);
                (limit.exists() && fs::write(limit, bytes.to_string()).is_ok()).then_some(group)
            })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// The same where its control group has not so much: the command knows, and nobody is asked to try.
#[test]
fn a_level_that_its_group_has_no_memory_for_changes_nothing() {
    let Some(group) = Group::of(256 << 20) else {
        super::bed::skipped("the right to make a control group of memory");
        return;
    };
    // The parity of evenodd64 takes half as much as the arena, whose pages are there when they are used only.
    let Some(bed) = Bed::mounted("arena=1G") else { return };
    fs::write(group.0.join("cgroup.procs"), bed.server().to_string()).unwrap();
    fs::write(bed.on("file"), "text").unwrap();
    let server = bed.server();
    let (code, said) = refused(&bed.dir(), &["label=new", "protect=evenodd64"]);
    assert!(
        code == 1 && said.contains("protect=evenodd64 takes") && said.contains("nothing was changed"),
        "{said}"
    );
    assert_eq!(said.trim_end().lines().count(), 1, "one sentence: {said}");
    assert_eq!(bed.server(), server);
    assert_eq!(
        (get(&bed.dir(), "protect"), get(&bed.dir(), "label")),
        ("pcrc".into(), "bed".into())
    );
    bed.unmount();
    bed.check();
}

#[test]
fn get_says_that_it_takes_one_pool_at_a_time() {
    let bed = Bed::new();
    let (code, said) = fails(keepfs(["get", "id"]).arg(bed.pool()).arg(bed.pool()));
    assert!(code == 2 && said.contains("takes one pool at a time"), "{said}");
    let (code, said) = fails(keepfs(["get", "colour"]).arg(bed.pool()));
    assert!(code == 2 && said.contains("there is no property 'colour'"), "{said}");
}
