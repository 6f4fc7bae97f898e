//! Cases in a process of its own: a line in, a line out. Who waits for it ends it when it hangs or takes too much
//! memory, and starts another when it died, so that one bad image never ends a run.

use super::base;
use super::case::{Case, Subject};
use super::exercise::{Outcome, exercise};
use keepfs_store::Reuse;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The argument that makes the binary a worker.
pub const ARGUMENT: &str = "--worker";
/// How long one image may take.
pub const TIME_MAX: Duration = Duration::from_secs(10);
/// How much resident memory a worker may gain, KiB.
pub const MEMORY_MAX_KIB: u64 = 256 << 10;
/// How much address space a worker may have, KiB (an allocation beyond fails and ends it).
const ADDRESS_MAX_KIB: u64 = 2 << 20;
/// Cases in which a pool may say that another machine has it: it is watched before it is written (S-2.12).
const WATCHED: &str = "superblock | ro_compat |";
/// For so long at most: three of the longest intervals and a second.
const WATCH_MAX: Duration = Duration::from_secs(3 * 20 + 1);
/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(50);

thread_local! {
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What a worker says of a case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// What became of it.
    pub outcome: Outcome,
    /// The image is one that this worker has seen already, made in another way.
    pub repeated: bool,
}

fn encode(answer: &Answer) -> String {
    let repeated = if answer.repeated { "again " } else { "" };
    format!("{repeated}{}", encode_outcome(&answer.outcome))
}

fn decode(line: &str) -> Answer {
    let rest = line.strip_prefix("again ");
    Answer {
        outcome: decode_outcome(rest.unwrap_or(line)),
        repeated: rest.is_some(),
    }
}

fn encode_outcome(outcome: &Outcome) -> String {
    let flat = |text: &str| text.replace('\n', " ");
    match outcome {
        Outcome::Refused(why) => format!("refused {}", flat(why)),
        Outcome::Errors(count) => format!("errors {count}"),
        Outcome::Served => "served".into(),
        Outcome::Violation(what) => format!("violation {}", flat(what)),
    }
}

fn decode_outcome(line: &str) -> Outcome {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "refused" => Outcome::Refused(rest.into()),
        "errors" => Outcome::Errors(rest.parse().unwrap_or(1)),
        "served" => Outcome::Served,
        "violation" => Outcome::Violation(rest.into()),
        _ => Outcome::Violation(format!("the worker said: {line}")),
    }
}

/// Reads cases from standard input until it ends, and tells what became of each.
pub fn serve() -> Result<(), String> {
    std::panic::set_hook(Box::new(|info| {
        let text = info.payload().downcast_ref::<String>().cloned();
        let text = text.or_else(|| info.payload().downcast_ref::<&str>().map(|s| (*s).to_owned()));
        let at = info
            .location()
            .map_or_else(String::new, |l| format!("{}:{}", l.file(), l.line()));
        PANIC.with(|p| *p.borrow_mut() = format!("panic at {at}: {}", text.unwrap_or_default()));
    }));
    let _reuse = Reuse::begin();
    let mut subjects: BTreeMap<String, Subject> = BTreeMap::new();
    let mut seen: HashMap<(String, u64), Outcome> = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let case: Case = line.map_err(|e| e.to_string())?.parse()?;
        if !subjects.contains_key(&case.base) {
            subjects.insert(case.base.clone(), base::subject(&case.base)?);
        }
        let answer = run(&subjects[&case.base], &case, &mut seen);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", encode(&answer)).map_err(|e| e.to_string())?;
        out.flush().map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// One case, panics caught. An image whose content (by its digest) was tried before is not tried again.
fn run(subject: &Subject, case: &Case, seen: &mut HashMap<(String, u64), Outcome>) -> Answer {
    let image = match case.image(subject) {
        Ok(image) => image,
        Err(what) => {
            return Answer {
                outcome: Outcome::Refused(format!("no such case: {what}")),
                repeated: false,
            };
        }
    };
    let key = (case.base.clone(), image.digest());
    if let Some(outcome) = seen.get(&key) {
        return Answer {
            outcome: outcome.clone(),
            repeated: true,
        };
    }
    PANIC.with(|p| p.borrow_mut().clear());
    let outcome = match catch_unwind(AssertUnwindSafe(|| {
        exercise(&case.base, &image, case.must_be_found(subject))
    })) {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Violation(PANIC.with(|p| p.borrow().clone())),
    };
    seen.insert(key, outcome.clone());
    Answer {
        outcome,
        repeated: false,
    }
}

/// A worker process.
pub struct Worker {
    child: Child,
    cases: ChildStdin,
    answers: Receiver<String>,
    memory_kib: Option<u64>,
}

impl Worker {
    /// Starts one.
    pub fn start() -> Result<Worker, String> {
        let program = std::env::current_exe().map_err(|e| e.to_string())?;
        let mut child = Command::new("sh")
            .arg("-c")
            .arg(format!("ulimit -v {ADDRESS_MAX_KIB}; exec \"$0\" {ARGUMENT}"))
            .arg(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("worker: {e}"))?;
        let (cases, out) = (child.stdin.take(), child.stdout.take());
        let (Some(cases), Some(out)) = (cases, out) else {
            return Err("worker: no pipes".into());
        };
        let (to, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                if to.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Worker {
            child,
            cases,
            answers,
            memory_kib: None,
        })
    }

    /// Resident memory, KiB.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap_or("0");
        line.trim().trim_end_matches(" kB").trim().parse().unwrap_or(0)
    }

    /// Runs a case. `Err`: the worker is gone, and that is what it did wrong.
    pub fn ask(&mut self, case: &Case) -> Result<Answer, String> {
        let begin = Instant::now();
        let text = case.to_string();
        let most = match text.contains(WATCHED) {
            true => TIME_MAX + WATCH_MAX,
            false => TIME_MAX,
        };
        if writeln!(self.cases, "{text}")
            .and_then(|()| self.cases.flush())
            .is_err()
        {
            return Err(self.death());
        }
        loop {
            match self.answers.recv_timeout(LOOK) {
                Ok(line) => {
                    let now = self.resident();
                    self.memory_kib.get_or_insert(now);
                    return Ok(decode(&line));
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.death()),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let grown = self.resident().saturating_sub(self.memory_kib.unwrap_or(u64::MAX));
            if begin.elapsed() > most || grown > MEMORY_MAX_KIB {
                let _ = self.child.kill();
                let _ = self.child.wait();
                return Err(match grown > MEMORY_MAX_KIB {
                    true => format!("its memory grew by {} MiB", grown >> 10),
                    false => format!("no answer in {} s", most.as_secs()),
                });
            }
        }
    }

    fn death(&mut self) -> String {
        match self.child.wait() {
            Ok(status) => format!("the process died: {status}"),
            Err(e) => format!("the process died: {e}"),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
