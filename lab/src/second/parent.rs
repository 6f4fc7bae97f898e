//! The parent: keeper and kernel in one. It starts servers, holds what outlives them, kills them, and sends again what they
//! had not answered.

use super::client::{Client, Line, Random, ask_once};
use super::wire::End;
use keepfs_media::file::{FileDevice, FileOptions, OpenMode};
use keepfs_store::FormatOptions;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Pages of the pool.
const PAGES: u64 = 16_384;

/// The signal that nobody can catch.
const KILLED: i32 = 9;

/// What to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where the pool lies; a new file.
    pub pool: PathBuf,
    /// Servers that are killed.
    pub kills: u64,
    /// Clients.
    pub clients: u64,
    /// Random numbers.
    pub seed: u64,
    /// Arguments of every server besides.
    pub more: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Servers killed.
    pub kills: u64,
    /// Of these, before they had resumed.
    pub early: u64,
    /// Operations of all clients.
    pub operations: u64,
    /// Requests sent again.
    pub again: u64,
    /// What the servers told of their resumes: times of the parts in microseconds.
    pub pauses: Vec<Vec<u64>>,
}

/// A server.
pub struct Server {
    /// Its process.
    pub child: Child,
    /// The conversation with it.
    pub control: End,
}

/// What is in force now, for the clients.
#[derive(Default)]
struct Now {
    /// Counts servers; 0: none serves.
    life: u64,
    lines: Vec<Option<Arc<End>>>,
    again: u64,
    /// There is an end.
    over: Option<String>,
}

/// Shared by parent and clients.
#[derive(Default)]
struct Board {
    now: Mutex<Now>,
    changed: Condvar,
}

impl Board {
    fn with<T>(&self, f: impl FnOnce(&mut Now) -> T) -> T {
        let result = f(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
        result
    }

    /// The line of a client in another life than `life`.
    fn line(&self, client: usize, life: u64) -> Result<(u64, Arc<End>), String> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(why) = &now.over {
                return Err(why.clone());
            }
            if now.life != life
                && let Some(Some(line)) = now.lines.get(client)
            {
                return Ok((now.life, line.clone()));
            }
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The line of one client over all servers.
struct Wire {
    board: Arc<Board>,
    client: usize,
    life: u64,
    line: Option<Arc<End>>,
    unique: u64,
}

impl Line for Wire {
    fn ask(&mut self, words: &str) -> Result<String, String> {
        self.unique += 64;
        let mut how = "new";
        loop {
            let line = match &self.line {
                Some(line) => line.clone(),
                None => {
                    let (life, line) = self.board.line(self.client, self.life)?;
                    self.life = life;
                    self.line.insert(line).clone()
                }
            };
            if let Ok(answer) = ask_once(&line, &format!("{} {how} {words}", self.unique)) {
                return Ok(answer);
            }
            self.line = None;
            how = "again";
            self.board.with(|now| now.again += 1);
        }
    }
}

/// Runs a plan. Errors: what was not as it must be, in words.
pub fn run(plan: &Plan) -> Result<Outcome, String> {
    format(&plan.pool, PAGES, &FormatOptions::default())?;
    let board = Arc::new(Board::default());
    let clients: Vec<_> = (0..plan.clients)
        .map(|number| {
            let (board, seed) = (board.clone(), plan.seed * 1000 + number);
            std::thread::spawn(move || {
                let result = work(number, seed, &board);
                if let Err(why) = &result {
                    board.with(|now| now.over.get_or_insert_with(|| why.clone()).len());
                }
                result
            })
        })
        .collect();
    let lives = lives(plan, &board);
    if let Err(why) = &lives {
        board.with(|now| now.over = Some(why.clone()));
    }
    let mut done = 0;
    for client in clients {
        done += client.join().map_err(|_| "a client panicked".to_owned())??;
    }
    let (mut outcome, last) = lives?;
    end(last)?;
    sound(&plan.pool)?;
    outcome.operations = done;
    outcome.again = board.with(|now| now.again);
    Ok(outcome)
}

/// Makes a pool in a new file.
pub fn format(pool: &Path, pages: u64, options: &FormatOptions) -> Result<(), String> {
    let failed = |e: &dyn std::fmt::Display| format!("cannot make the pool: {e}");
    let file = std::fs::File::create(pool).map_err(|e| failed(&e))?;
    file.set_len(pages * 4096).map_err(|e| failed(&e))?;
    let device = FileDevice::open(pool, OpenMode::ReadWrite, FileOptions::default()).map_err(|e| failed(&e))?;
    keepfs_fs::Volume::format(Arc::new(device), options).map_err(|e| failed(&e))
}

/// A client until the end is announced.
fn work(number: u64, seed: u64, board: &Arc<Board>) -> Result<u64, String> {
    let mut wire = Wire {
        board: board.clone(),
        client: number as usize,
        life: 0,
        line: None,
        unique: number + 1,
    };
    let mut client = Client::new(number, seed, &mut wire)?;
    while board.with(|now| now.life != u64::MAX) {
        client.step(&mut wire)?;
        if client.done.is_multiple_of(500) {
            client.check(&mut wire)?;
        }
    }
    client.check(&mut wire)?;
    client.leave(&mut wire)?;
    Ok(client.done)
}

/// All servers, one after the other.
fn lives(plan: &Plan, board: &Board) -> Result<(Outcome, Server), String> {
    let mut outcome = Outcome::default();
    let mut random = Random(plan.seed);
    let mut remains: Vec<(String, OwnedFd)> = Vec::new();
    while outcome.kills < plan.kills {
        if let Some(why) = board.with(|now| now.over.clone()) {
            return Err(why);
        }
        outcome.kills += 1;
        let mut server = start(&plan.pool, &plan.more, &remains)?;
        // One of three dies while it resumes, but not the first, which has nothing to resume.
        if random.below(3) == 0 && !remains.is_empty() {
            server.control.gone_within(random.below(30_000));
            kill(server)?;
            outcome.early += 1;
            continue;
        }
        let Some(now) = ready(&server, &mut outcome)? else {
            // It has killed itself while it resumed.
            let status = server.child.wait().map_err(|e| e.to_string())?;
            if status.signal() != Some(KILLED) {
                return Err(format!("a server ended by itself: {status}"));
            }
            outcome.early += 1;
            continue;
        };
        remains = now;
        serve(&server, board, plan)?;
        server.control.gone_within(random.below(12_000));
        board.with(|now| now.lines.clear());
        kill(server)?;
    }
    let server = start(&plan.pool, &[], &remains)?;
    ready(&server, &mut outcome)?.ok_or("the last server ended")?;
    serve(&server, board, plan)?;
    // The clients end when they see it, with this server.
    board.with(|now| now.life = u64::MAX);
    Ok((outcome, server))
}

/// Ends the last server in order.
fn end(mut server: Server) -> Result<(), String> {
    server.control.send("end", &[]).map_err(|e| e.to_string())?;
    let (words, _) = server.control.receive().map_err(|e| format!("no unmount: {e}"))?;
    server.child.wait().map_err(|e| e.to_string())?;
    match words.as_str() {
        "unmounted" => Ok(()),
        other => Err(format!("unmount: {other}")),
    }
}

/// The pool as it lies there agrees with itself, and nothing without a name is left.
fn sound(pool: &Path) -> Result<(), String> {
    let device = FileDevice::open(pool, OpenMode::ReadOnly, FileOptions::default()).map_err(|e| e.to_string())?;
    let store = keepfs_store::StoreOptions {
        read_only: true,
        ..keepfs_store::StoreOptions::default()
    };
    let store = keepfs_store::Store::open(Arc::new(device), &store).map_err(|e| e.to_string())?;
    let left = store.orphans().map_err(|e| e.to_string())?;
    if !left.is_empty() {
        return Err(format!("inodes without names that nobody holds are left: {left:?}"));
    }
    let image = std::fs::read(pool).map_err(|e| e.to_string())?;
    let report = keepfs_check::walk(&image, &keepfs_check::Options::default());
    match report.findings.first() {
        None => Ok(()),
        Some(finding) => Err(format!("the walk tells: {finding}")),
    }
}

/// Starts a server of a pool, which goes on with the memory of the one before it.
pub fn start(pool: &Path, more: &[String], remains: &[(String, OwnedFd)]) -> Result<Server, String> {
    let failed = |e: io::Error| format!("cannot start a server: {e}");
    let (control, theirs) = End::pair().map_err(failed)?;
    let me = std::env::current_exe().map_err(failed)?;
    let mut command = Command::new(me);
    command.arg("child").arg(pool).args(more);
    let child = command.stdin(Stdio::from(theirs)).spawn().map_err(failed)?;
    let names: Vec<&str> = remains.iter().map(|(name, _)| name.as_str()).collect();
    let memory: Vec<_> = remains.iter().map(|(_, memory)| memory.as_fd()).collect();
    let _ = control.send(&format!(" {}", names.join(" ")), &memory);
    Ok(Server { child, control })
}

/// Waits until the server has opened the pool; its memory files, `None` if it ended before. Errors: what it told is wrong.
fn ready(server: &Server, outcome: &mut Outcome) -> Result<Option<Vec<(String, OwnedFd)>>, String> {
    let Ok((words, memory)) = server.control.receive() else {
        return Ok(None);
    };
    let (names, told) = words.split_once(" | ").unwrap_or((&words, ""));
    let told: Vec<&str> = told.split_whitespace().collect();
    if told.len() >= 8 {
        let numbers: Vec<u64> = told[..8].iter().filter_map(|word| word.parse().ok()).collect();
        match &told[8..] {
            [] if numbers[0] == 0 => {}
            _ => return Err(format!("a server told of damage that nobody did: {words}")),
        }
        outcome.pauses.push(numbers[2..].to_vec());
    }
    Ok(Some(names.split(' ').map(str::to_owned).zip(memory).collect()))
}

/// The server may answer; each client gets a line to it.
fn serve(server: &Server, board: &Board, plan: &Plan) -> Result<(), String> {
    let pairs: Result<Vec<_>, _> = (0..plan.clients).map(|_| End::pair()).collect();
    let (ours, theirs): (Vec<End>, Vec<OwnedFd>) = pairs.map_err(|e| e.to_string())?.into_iter().unzip();
    let theirs: Vec<_> = theirs.iter().map(AsFd::as_fd).collect();
    // A server that has killed itself is noticed by who waits for it.
    let _ = server.control.send("go", &theirs);
    board.with(|now| {
        now.life += 1;
        now.lines = ours.into_iter().map(|end| Some(Arc::new(end))).collect();
    });
    Ok(())
}

fn kill(mut server: Server) -> Result<(), String> {
    server.child.kill().map_err(|e| e.to_string())?;
    server.child.wait().map_err(|e| e.to_string()).map(drop)
}
