//! The clients of a mount whose servers die, all together.

use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use super::client::{Client, Slow};

/// Clients at work.
pub const CLIENTS: usize = 16;

/// What all clients share.
#[derive(Default)]
pub struct Shared {
    /// It is over.
    pub stop: AtomicBool,
    /// The first thing that went wrong.
    pub wrong: Mutex<Option<String>>,
    /// Who made which name in the directory where all make the same names.
    winners: Mutex<Vec<u64>>,
    /// Calls made.
    pub calls: AtomicU64,
    /// Calls that took long.
    pub slow: Mutex<Vec<Slow>>,
}

impl Shared {
    /// Something went wrong; the first of it is kept, and all stop.
    pub fn fail(&self, wrong: String) {
        if let Ok(mut first) = self.wrong.lock() {
            first.get_or_insert(wrong);
        }
        self.stop.store(true, Ordering::Release);
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }
}

/// All clients of one mount.
pub struct Crowd {
    /// What they share.
    pub shared: Arc<Shared>,
    clients: Vec<JoinHandle<Client>>,
}

impl Crowd {
    /// Begins under `root`; other seeds do other things.
    pub fn begin(root: &Path, seed: u64) -> Result<Crowd, String> {
        let shared = Arc::new(Shared::default());
        let race = root.join("race");
        fs::create_dir(&race).map_err(|e| format!("{}: {e}", race.display()))?;
        let clients = (0..CLIENTS).map(|n| start(root, n, seed, shared.clone()));
        let clients = clients.collect::<Result<_, String>>()?;
        Ok(Crowd { shared, clients })
    }

    /// Stops all; then everything must be as every one of them knows. Returns what they shared.
    pub fn end(self, root: &Path) -> Result<Arc<Shared>, String> {
        self.shared.stop.store(true, Ordering::Release);
        let ended: Vec<_> = self.clients.into_iter().map(JoinHandle::join).collect();
        if let Some(wrong) = self.shared.wrong.lock().map_err(|_| "a client panicked")?.take() {
            return Err(wrong);
        }
        for client in ended {
            client.map_err(|_| "a client panicked")?.verify()?;
        }
        one_winner_each(&root.join("race"), &self.shared)?;
        Ok(self.shared)
    }
}

/// A client that works until it is told to stop, or something is wrong.
fn start(root: &Path, number: usize, seed: u64, shared: Arc<Shared>) -> Result<JoinHandle<Client>, String> {
    let mut client = Client::new(root.join(format!("client{number}")), 1000 * seed + number as u64 + 1)?;
    let race = root.join("race");
    Ok(thread::spawn(move || {
        for round in 0.. {
            if shared.is_over() {
                break;
            }
            let done = client.step().and_then(|()| compete(&race, round / 64, round, &shared));
            if let Err(wrong) = done {
                shared.fail(wrong);
            }
        }
        shared.calls.fetch_add(client.calls, Ordering::Relaxed);
        if let Ok(mut slow) = shared.slow.lock() {
            slow.append(&mut client.slow);
        }
        client
    }))
}

/// All clients make the same names with O_EXCL: for each exactly one may succeed.
fn compete(race: &Path, name: u64, round: u64, shared: &Shared) -> Result<(), String> {
    if !round.is_multiple_of(64) {
        return Ok(());
    }
    let path = race.join(format!("r{name}"));
    let won = match File::create_new(&path) {
        Ok(_) => 1,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => 0,
        Err(e) => return Err(format!("create {}: {e}", path.display())),
    };
    let mut winners = shared.winners.lock().map_err(|_| "a client panicked")?;
    let name = usize::try_from(name).unwrap_or(usize::MAX);
    if winners.len() <= name {
        winners.resize(name + 1, 0);
    }
    winners[name] += won;
    Ok(())
}

fn one_winner_each(race: &Path, shared: &Shared) -> Result<(), String> {
    let winners = shared.winners.lock().map_err(|_| "a client panicked")?;
    match winners.iter().position(|won| *won != 1) {
        Some(name) => Err(format!(
            "{}: {} clients made it, each as the only one",
            race.join(format!("r{name}")).display(),
            winners[name]
        )),
        None => Ok(()),
    }
}
