//! A program that is not `keepfs` mounts a pool by the library: the example `mounting`.

use crate::bed::{Bed, KEEPFS, done, end, keepfs, possible, soon};
use keepfs::{OpenOptions, Pool};
use rustix::process::{Pid, Signal};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The example, as `cargo test` has built it beside the program under test; where only this test was built, it is built here.
fn example() -> PathBuf {
    let folder = Path::new(KEEPFS).parent().unwrap();
    let program = folder.join("examples/mounting");
    if !is_fresh(&program) {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let profile = folder.file_name().and_then(|name| name.to_str());
        let profile = profile.filter(|profile| *profile != "debug").unwrap_or("dev");
        let words = [
            "build",
            "--quiet",
            "--offline",
            "--package",
            "keepfs",
            "--example",
            "mounting",
            "--profile",
            profile,
        ];
        done(Command::new(cargo).args(words).current_dir(env!("CARGO_MANIFEST_DIR")));
    }
    program
}

/// Whether nothing that a program is made of, as cargo has noted that beside it, was changed since.
fn is_fresh(program: &Path) -> bool {
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified()).ok();
    let (Some(built), Ok(made_of)) = (changed(program), fs::read_to_string(program.with_extension("d"))) else {
        return false;
    };
    let mut sources = made_of.split_whitespace().skip(1).map(Path::new);
    sources.all(|source| changed(source).is_some_and(|changed| changed <= built))
}

fn pid(of: &Value) -> Option<Pid> {
    Pid::from_raw(i32::try_from(of.as_i64()?).ok()?)
}

/// Keeper and server are that program, confined and replaced as those of `keepfs` are, and every command knows the mount. S-16.13
#[test]
fn any_program_mounts_and_its_server_is_replaced_when_it_dies() {
    if !possible() {
        return;
    }
    let bed = Bed::empty();
    let program = example();
    let mut command = Command::new(&program);
    let command = command.arg(bed.pool()).arg(bed.dir());
    let mut mounted = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(mounted.stdout.take().unwrap())
        .read_line(&mut said)
        .unwrap();
    assert_eq!(said, format!("mounted at {}\n", bed.dir().display()));
    let status = || -> Value { serde_json::from_str(&done(keepfs(["status", "--json"]).arg(bed.dir()))).unwrap() };
    let begun = status();
    for process in [pid(&begun["server_pid"]), pid(&begun["keeper"]["pid"])] {
        let runs = fs::read_link(format!("/proc/{}/exe", process.unwrap().as_raw_nonzero())).unwrap();
        assert_eq!(runs, program.canonicalize().unwrap());
    }
    assert_eq!(begun["mount"]["access_times"], "noatime");
    end(pid(&begun["server_pid"]).unwrap(), Signal::KILL);
    fs::write(bed.on("after"), "second light").unwrap();
    let deaths = soon("the death is told", || {
        status()["keeper"]["deaths"].as_u64().filter(|deaths| *deaths > 0)
    });
    assert_eq!(deaths, 1);
    drop(mounted.stdin.take());
    assert!(mounted.wait().unwrap().success());
    let pool = Pool::open(bed.pool(), &OpenOptions::default()).unwrap();
    assert_eq!(pool.read("note").unwrap(), b"first light");
    assert_eq!(pool.read("after").unwrap(), b"second light");
    pool.close().unwrap();
}
