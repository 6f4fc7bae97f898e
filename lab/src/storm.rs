//! Strays and kills without pause (SPEC section 16; promise C-1): servers in processes of their own answer clients that are in a hurry,
//! while their memory is written over, more than any code can mend. Whatever was lost, told or refused: what lies on the
//! device at each death agrees with itself.

use crate::inject::Dice;
use crate::second::client::ask_once;
use crate::second::parent;
use crate::second::wire::End;
use crate::strays::memory::Memory;
use crate::strays::striker;
use keepfs_check::Severity;
use keepfs_store::{FormatOptions, Guard, Protection};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Pages of a pool.
const PAGES: u64 = 8192;
/// Clients of a server.
const CLIENTS: usize = 3;
/// Lives of a pool at most.
const LIVES: usize = 8;
/// Codes, in turn.
const CODES: [Protection; 5] = [
    Protection::Pcrc,
    Protection::Pq,
    Protection::Evenodd64,
    Protection::Evenodd256,
    Protection::Crc,
];

/// Guards, in turn.
const GUARDS: [(&str, Guard); 3] = [
    ("alias", Guard::Alias),
    ("mprotect", Guard::Mprotect),
    ("sealed", Guard::Sealed),
];

/// A guard by its name.
pub fn guard(name: &str) -> Option<Guard> {
    GUARDS.iter().find(|guard| guard.0 == name).map(|guard| guard.1)
}

/// What was done.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Servers.
    pub lives: u64,
    /// Strays.
    pub strays: u64,
    /// Requests that were answered.
    pub answers: u64,
    /// Servers that opened nothing.
    pub refused: u64,
}

/// The lives of one pool. Errors: the device does not agree with itself, in words.
pub fn pool(path: &Path, seed: u64, done: &mut Done) -> Result<(), String> {
    let mut dice = Dice::new(seed);
    let code = CODES[(seed % CODES.len() as u64) as usize];
    let guard = GUARDS[(seed / CODES.len() as u64 % GUARDS.len() as u64) as usize].0;
    let options = FormatOptions {
        protect: code,
        ..FormatOptions::default()
    };
    parent::format(path, PAGES, &options)?;
    let mut remains: Vec<(String, OwnedFd)> = Vec::new();
    // Some die of one or two strays, most of many.
    let most = *dice.one_of(&[2, 10, 40, 200]);
    for life in 0..LIVES {
        let mut server = parent::start(path, &[guard.to_owned()], &remains)?;
        done.lives += 1;
        let Ok((words, memory)) = server.control.receive() else {
            drop(server.child.wait());
            done.refused += 1;
            remains.clear();
            sound(path).map_err(|why| {
                format!("seed {seed} ({code}, {guard}), behind life {life}, which opened nothing: {why}")
            })?;
            continue;
        };
        let names = words.split(" | ").next().unwrap_or_default();
        remains = names.split(' ').map(str::to_owned).zip(memory).collect();
        let (answers, strays) = live(&server, &mut dice, most)?;
        done.answers += answers;
        done.strays += strays;
        drop(server.child.kill());
        drop(server.child.wait());
        sound(path).map_err(|why| format!("seed {seed} ({code}, {guard}, {most}), behind life {life}: {why}"))?;
    }
    Ok(())
}

/// Clients work while strays fall. Answers and strays.
fn live(server: &parent::Server, dice: &mut Dice, most: usize) -> Result<(u64, u64), String> {
    let pairs: Result<Vec<_>, _> = (0..CLIENTS).map(|_| End::pair()).collect();
    let (ours, theirs): (Vec<End>, Vec<OwnedFd>) = pairs.map_err(|e| e.to_string())?.into_iter().unzip();
    let lines: Vec<_> = theirs.iter().map(AsFd::as_fd).collect();
    drop(server.control.send("go", &lines));
    // The server alone has them, so that its death ends them.
    drop(theirs);
    let over = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = ours
        .into_iter()
        .enumerate()
        .map(|(me, line)| {
            let (over, seed) = (over.clone(), dice.below(1 << 30) as u64);
            std::thread::spawn(move || work(me, seed, &line, &over))
        })
        .collect();
    let micros = 2_000 + dice.below(40_000) as u64;
    let end = Instant::now() + Duration::from_micros(micros);
    let (mut strays, wanted) = (0, 1 + dice.below(most));
    if let Ok(memory) = Memory::of(server.child.id() as i32, None) {
        // A while without, so that there is something to be lost.
        server.control.gone_within(dice.below(micros as usize) as u64);
        for _ in 0..wanted {
            strays += u64::from(striker::anywhere(&memory, dice));
        }
    }
    server
        .control
        .gone_within(end.saturating_duration_since(Instant::now()).as_micros() as u64);
    over.store(true, Ordering::Release);
    // Who waits for an answer is freed by the death.
    let pid = rustix::process::Pid::from_raw(server.child.id() as i32).ok_or("no process")?;
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    let answers = clients.into_iter().map(|client| client.join().unwrap_or(0)).sum();
    Ok((answers, strays))
}

/// A client: anything, whatever the answers are.
fn work(me: usize, seed: u64, line: &End, over: &AtomicBool) -> u64 {
    let mut dice = Dice::new(seed);
    let (mut known, mut count) = (vec![(1_u64, true)], 0);
    while !over.load(Ordering::Acquire) {
        let dirs: Vec<u64> = known.iter().filter(|one| one.1).map(|one| one.0).collect();
        let files: Vec<u64> = known.iter().filter(|one| !one.1).map(|one| one.0).collect();
        let (dir, other) = (*dice.one_of(&dirs), *dice.one_of(&dirs));
        let file = if files.is_empty() { 1 } else { *dice.one_of(&files) };
        let name = |dice: &mut Dice| format!("n{me}-{}", dice.below(24));
        let words = match dice.below(17) {
            0..=2 => format!("mknod {dir} {}", name(&mut dice)),
            3 => format!("mkdir {dir} {}", name(&mut dice)),
            4 => format!("unlink {dir} {}", name(&mut dice)),
            5 => format!("rmdir {dir} {}", name(&mut dice)),
            6 => format!("rename {dir} {} {other} {}", name(&mut dice), name(&mut dice)),
            7 => format!("link {file} {dir} {}", name(&mut dice)),
            8 => format!("truncate {file} {}", dice.below(40_000)),
            9 => format!("setxattr {file} user.a {}", "v".repeat(1 + dice.below(300))),
            10 => format!("removexattr {file} user.a"),
            11 => format!("fsync {file}"),
            12 => format!("lookup {dir} {}", name(&mut dice)),
            _ => {
                let len = *dice.one_of(&[10, 700, 4096, 9000]);
                format!("write {file} {} {} {len}", dice.below(30_000), 1 + dice.below(250))
            }
        };
        let unique = (count + 1) * 64 + me as u64;
        let Ok(answer) = ask_once(line, &format!("{unique} new {words}")) else {
            break;
        };
        count += 1;
        let is_dir = words.starts_with("mkdir");
        if is_dir || words.starts_with("mknod") {
            let ino = answer
                .strip_prefix("ok ")
                .and_then(|rest| rest.split(' ').next()?.parse().ok());
            known.extend(ino.map(|ino| (ino, is_dir)));
        }
    }
    count
}

/// What lies there agrees with itself.
fn sound(path: &Path) -> Result<(), String> {
    let image = std::fs::read(path).map_err(|e| e.to_string())?;
    let report = keepfs_check::walk(&image, &keepfs_check::Options::default());
    let wrong: Vec<_> = report
        .findings
        .iter()
        .filter(|finding| finding.severity() == Severity::Error)
        .map(ToString::to_string)
        .collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("; ")),
    }
}
