//! Programs of the administrator that are run when something happens.

use crate::bed::{Bed, KEEPFS, copy_program, done, done_when_free, fails, keepfs, run, soon};
use crate::exposition::parse;
use crate::json::schema;
use crate::schema::errors;
use rustix::process::Signal;
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Writes a hook.
fn hook(config: &Path, name: &str, script: &str, mode: u32) {
    let folder = config.join("hooks.d");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    let (text, file) = (config.join(format!("{name}.text")), folder.join(name));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    copy_program(text, &file);
    fs::set_permissions(file, Permissions::from_mode(mode)).unwrap();
}

/// A hook that keeps each event: `N.env` and `N.json` in a directory.
fn keeping(config: &Path) -> PathBuf {
    let folder = config.join("told");
    fs::create_dir_all(&folder).unwrap();
    let to = folder.display();
    let script = format!(
        "cat > {to}/$KEEPFS_CLASS.$$.part; env | grep ^KEEPFS_ > {to}/$KEEPFS_CLASS.$$.env\n\
         mv {to}/$KEEPFS_CLASS.$$.part {to}/$KEEPFS_CLASS.$$.json"
    );
    hook(config, "keeping", &script, 0o755);
    folder
}

/// The events of a class that were kept, with their variables; of a mount, since a follower follows those of other tests too.
fn kept(folder: &Path, class: &str, of: Option<&Bed>) -> Vec<(Value, String)> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_of = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&format!("{class}.")) && name.ends_with(".json")
    };
    let schema = schema();
    let read = |path: PathBuf| {
        let event = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(errors(&schema, &schema["$defs"]["hook_event"], &event), [""; 0]);
        (event, fs::read_to_string(path.with_extension("env")).unwrap())
    };
    let is_there = |(event, _): &(Value, String)| of.is_none_or(|bed| event["dir"] == bed.dir().to_str().unwrap());
    files.filter(is_of).map(read).filter(is_there).collect()
}

/// `keepfs hooks follow`, which ends with the test.
struct Follower {
    process: Child,
    said: PathBuf,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Follower {
    fn start(config: &Path) -> Follower {
        let said = config.join("said");
        let mut command = Command::new(KEEPFS);
        command
            .args(["hooks", "follow", "--timeout", "5", "--config"])
            .arg(config);
        command.arg("--state").arg(config.join("state")).stdin(Stdio::null());
        command.stderr(File::create(&said).unwrap()).stdout(Stdio::null());
        Follower {
            process: command.spawn().unwrap(),
            said,
        }
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.said).unwrap()
    }
}

/// What a follower keeps of what was told of a pool; null before there is something.
fn state_of(config: &Path, bed: &Bed) -> Value {
    let id = bed.status()["id"].as_str().unwrap().to_owned();
    let text = fs::read(config.join("state").join(format!("{id}.told"))).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// Until the follower has seen the pool, what happens is not told as news.
fn is_followed(config: &Path, bed: &Bed) {
    soon("the mount is followed", || {
        state_of(config, bed).is_object().then_some(())
    });
}

#[test]
fn hooks_are_told_of_damage_deaths_states_and_scrubs() {
    let Some(bed) = Bed::with_a_file() else { return };
    let config = bed.path("etc");
    let told = keeping(&config);
    let mark = config.join("never");
    hook(&config, "writable", &format!("touch {}", mark.display()), 0o775);
    hook(&config, "fails", "exit 3", 0o755);
    let follower = Follower::start(&config);
    is_followed(&config, &bed);
    // A second one with this state would run each hook twice.
    let mut second = Command::new("timeout");
    second.args(["20", KEEPFS, "hooks", "follow", "--config"]).arg(&config);
    let (code, said) = fails(second.arg("--state").arg(config.join("state")));
    assert!(
        code == 1 && said.contains("another `keepfs hooks follow`"),
        "{code} {said}"
    );
    bed.end_server(Signal::KILL);
    fs::write(bed.on("other"), "text").unwrap();
    let (death, variables) = soon("the death is told", || kept(&told, "death", Some(&bed)).pop());
    assert_eq!(death["dir"], bed.dir().to_str().unwrap());
    assert_eq!(death["details"]["deaths"], 1);
    assert!(death["summary"].as_str().unwrap().contains("signal 9"), "{death}");
    assert!(variables.contains("KEEPFS_CLASS=death\n"), "{variables}");
    assert!(
        variables.contains(&format!("KEEPFS_DIR={}\n", bed.dir().display())),
        "{variables}"
    );
    let words = ["scribble", "--kind", "inode", "--path", "/dir/file", "--offset", "8"];
    done(keepfs(["inject"]).arg(bed.dir()).args(words));
    done_when_free(
        keepfs(["scrub", "start", "--arena", "--wait"]).arg(bed.dir()),
        "under way",
    );
    let (damage, _) = soon("the damage is told", || kept(&told, "damage", Some(&bed)).pop());
    let events = damage["details"]["events"].as_array().unwrap();
    assert!(!events.is_empty() && events[0]["place"] == "memory", "{damage:#}");
    // By its path, for people and for programs (S-18.9).
    assert_eq!(events[0]["files"][0]["path"], "/dir/file", "{damage:#}");
    let named = ["summary", "text"].map(|told| damage[told].as_str().unwrap().contains("/dir/file (inode "));
    assert_eq!(named, [true; 2], "{damage:#}");
    let is_degraded =
        |(event, _): &(Value, String)| event["state"] == "DEGRADED" && event["details"]["before"] == "ONLINE";
    let state = soon("the state is told", || {
        kept(&told, "state", Some(&bed)).into_iter().find(is_degraded)
    });
    assert!(state.0["details"]["action"].is_string(), "{:#}", state.0);
    let (scrub, _) = soon("the scrub's end is told", || kept(&told, "scrub", Some(&bed)).pop());
    assert_eq!(scrub["details"]["scrub"]["state"], "finished");
    soon("failures are said", || {
        let said = follower.said();
        let all = [
            "fails for",
            "exit status: 3",
            "writable for",
            "may be written by others than root",
        ];
        all.iter().all(|part| said.contains(part)).then_some(())
    });
    assert!(!mark.exists(), "what others may write is not run");
    // Nothing is told twice by who follows next, once all hooks have ended.
    soon("what was told is kept", || {
        let now = state_of(&config, &bed);
        let is_kept = now["deaths"] == 1 && now["event"] != 0 && now["state"] == "DEGRADED";
        (is_kept && now["scrub_ended_s"] == scrub["details"]["scrub"]["ended_s"]).then_some(())
    });
    let before = ["death", "damage", "state"].map(|class| kept(&told, class, Some(&bed)).len());
    drop(follower);
    let _follower = Follower::start(&config);
    done(keepfs(["damage", "clear"]).arg(bed.dir()));
    let is_well = |(event, _): &(Value, String)| event["state"] == "ONLINE" && event["details"]["before"] == "DEGRADED";
    soon("it is well again", || {
        kept(&told, "state", Some(&bed)).into_iter().find(is_well)
    });
    let after = ["death", "damage", "state"].map(|class| kept(&told, class, Some(&bed)).len());
    assert_eq!(after, [before[0], before[1], before[2] + 1]);
}

/// What hooks were at when their follower was killed they are told by the next one.
#[test]
fn hooks_are_told_again_what_they_were_not_told() {
    let Some(bed) = Bed::mounted("") else { return };
    let config = bed.path("etc");
    let mark = config.join("begun");
    let script = format!(
        "[ \"$KEEPFS_CLASS $KEEPFS_DIR\" = \"death {}\" ] || exit 0; touch {}; sleep 20",
        bed.dir().display(),
        mark.display()
    );
    hook(&config, "slow", &script, 0o755);
    let follower = Follower::start(&config);
    is_followed(&config, &bed);
    bed.end_server(Signal::KILL);
    soon("a hook is at it", || mark.exists().then_some(()));
    // Long enough for two more looks at the mount.
    std::thread::park_timeout(Duration::from_millis(2500));
    drop(follower);
    fs::remove_file(config.join("hooks.d/slow")).unwrap();
    let told = keeping(&config);
    let _follower = Follower::start(&config);
    soon("the death is told again", || kept(&told, "death", Some(&bed)).pop());
}

/// Settings that others could write are not used, which is said, and no event is told without them: it waits.
#[test]
fn hooks_wait_for_settings_that_can_be_used() {
    let Some(bed) = Bed::mounted("") else { return };
    let config = bed.path("etc");
    let told = keeping(&config);
    let conf = config.join("hooks.conf");
    fs::write(&conf, "WHO=root\n").unwrap();
    let follower = Follower::start(&config);
    is_followed(&config, &bed);
    fs::set_permissions(&conf, Permissions::from_mode(0o666)).unwrap();
    bed.end_server(Signal::KILL);
    soon("it is said", || {
        let said = follower.said();
        let is_said = said.contains("may be written by others than root; hooks are not run");
        is_said.then_some(())
    });
    // Long enough to try again.
    std::thread::park_timeout(Duration::from_millis(2500));
    assert!(kept(&told, "death", Some(&bed)).is_empty());
    assert_eq!(
        follower.said().matches("hooks are not run").count(),
        1,
        "{}",
        follower.said()
    );
    fs::set_permissions(&conf, Permissions::from_mode(0o644)).unwrap();
    soon("the death is told", || kept(&told, "death", Some(&bed)).pop());
    assert!(follower.said().contains("can be used again"), "{}", follower.said());
}

/// Of a mount that nobody serves any more, and that is mounted again.
#[test]
fn hooks_are_told_of_a_mount_that_is_dead() {
    let Some(bed) = Bed::mounted("keeper=off") else { return };
    let config = bed.path("etc");
    let told = keeping(&config);
    let _follower = Follower::start(&config);
    is_followed(&config, &bed);
    let dir = bed.dir().to_str().unwrap().to_owned();
    let id = bed.status()["id"].clone();
    bed.end_server(Signal::KILL);
    let is_now = |state: &'static str| move |(event, _): &(Value, String)| event["state"] == state;
    let (event, _) = soon("its death is told", || {
        kept(&told, "state", Some(&bed)).into_iter().find(is_now("UNAVAIL"))
    });
    assert_eq!((&event["id"], &event["details"]["before"]), (&id, &"ONLINE".into()));
    let metrics = parse(&done(keepfs(["metrics"]).arg(bed.dir()))).unwrap();
    assert_eq!(metrics.one("keepfs_up", &[("dir", &dir)]), 0.0);
    assert_eq!(metrics.one("keepfs_pool_state", &[("state", "unavail")]), 1.0);
    bed.unmount_dead();
    bed.mount("");
    soon("it is well again", || {
        kept(&told, "state", Some(&bed)).into_iter().find(is_now("ONLINE"))
    });
}

#[test]
fn a_test_says_how_each_hook_ends() {
    let bed = Bed::empty();
    let config = bed.path("etc");
    let told = keeping(&config);
    let test = |more: &[&str]| run(keepfs(["hooks", "test", "--config"]).arg(&config).args(more));
    let output = test(&[]);
    assert!(output.status.success(), "{output:?}");
    let (event, variables) = kept(&told, "test", None).pop().unwrap();
    assert!(event["pool"].is_null() && event["version"] == 1, "{event}");
    assert!(variables.contains("KEEPFS_SUMMARY=this is a test"), "{variables}");
    // One that never ends, with a child that does not either.
    hook(&config, "hangs", "sleep 1000 & wait", 0o755);
    hook(&config, "plain", "exit 0", 0o644);
    let output = test(&["--timeout", "1"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hangs: was ended: it took longer than 1 s\n"), "{said}");
    assert!(said.contains("keeping: done\n"), "{said}");
    assert!(said.contains("plain: not run: it is not executable\n"), "{said}");
    let listed = run(keepfs(["hooks", "list", "--config"]).arg(&config));
    assert_eq!(listed.status.code(), Some(1), "{listed:?}");
    fs::write(config.join("hooks.conf"), "nonsense\n").unwrap();
    let (code, said) = fails(keepfs(["hooks", "test", "--config"]).arg(&config));
    assert!(
        code == 1 && said.contains("hooks.conf, line 1: not NAME=VALUE: nonsense"),
        "{said}"
    );
}

/// The hook that is brought: by sendmail(8) to whom hooks.conf names, and to nobody without.
#[test]
fn mail_goes_to_whom_the_settings_name() {
    let bed = Bed::empty();
    let config = bed.path("etc");
    let shipped = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/mail")).unwrap();
    hook(&config, "mail", shipped.strip_prefix("#!/bin/sh\n").unwrap(), 0o755);
    let sent = bed.path("sent");
    let bin = bed.path("bin");
    fs::create_dir(&bin).unwrap();
    let (text, sendmail) = (bed.path("sendmail.text"), bin.join("sendmail"));
    let script = format!("#!/bin/sh\necho \"$@\" > {0}; cat >> {0}\n", sent.display());
    fs::write(&text, script).unwrap();
    copy_program(text, &sendmail);
    fs::set_permissions(&sendmail, Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let test = || {
        let mut command = keepfs(["hooks", "test", "--config"]);
        let output = run(command.arg(&config).env("PATH", &path).env_remove("MAIL_TO"));
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let conf = config.join("hooks.conf");
    let (code, said) = test();
    assert!(!sent.exists(), "nobody is named");
    let why = format!("no mail: MAIL_TO is not set in {}\n", conf.display());
    assert!(
        code == Some(1) && said.contains(&why) && said.ends_with("mail: did nothing\n"),
        "{said}"
    );
    fs::write(&conf, "# who\nMAIL_TO=\"root@here\"\n").unwrap();
    let (code, said) = test();
    assert!(code == Some(0) && said.ends_with("mail: done\n"), "{said}");
    let mail = fs::read_to_string(&sent).unwrap();
    assert!(mail.starts_with("-oi -t\nTo: root@here\nSubject: keepfs on "), "{mail}");
    assert!(mail.contains(": this is a test: nothing has happened\n"), "{mail}");
    fs::remove_file(&sent).unwrap();
    fs::write(&conf, "MAIL_TO=root@here\nMAIL_CLASSES=damage state\n").unwrap();
    let (code, said) = test();
    assert!(!sent.exists(), "of another class");
    let why = "no mail: MAIL_CLASSES does not have test in ";
    assert!(code == Some(1) && said.contains(why), "{said}");
    // It ends with the command that tells more.
    for (class, next) in [("damage", "damage list"), ("state", "status")] {
        let mut mail = Command::new("sh");
        mail.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("kit/mail"));
        let of = ["SUMMARY", "TEXT", "HOST", "ID", "LABEL", "DIR", "STATE"];
        mail.envs(of.map(|name| (format!("KEEPFS_{name}"), "x")));
        mail.env("PATH", &path).env("MAIL_TO", "root");
        done(mail.env("KEEPFS_CLASS", class).env("KEEPFS_POOL", "/var/pool"));
        let mail = fs::read_to_string(&sent).unwrap();
        assert!(mail.ends_with(&format!("\n    keepfs {next} /var/pool\n")), "{mail}");
    }
}
