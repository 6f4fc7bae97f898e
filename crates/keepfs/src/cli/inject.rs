//! `keepfs inject`: puts faults into a pool for tests, from outside: bytes in the server's memory and on the device are
//! written by this process, which asks the server only where a structure lies (S-2.8).

mod args;
mod memory;
mod pattern;

pub use args::Inject;

use super::scrub::{alive, server};
use super::set;
use super::tell::say;
use args::{Device, Kind, Logic, Place, Scribble, What, Whose, Wild};
use keepfs::{OpenOptions, Pool};
use keepfs_check::read::View;
use keepfs_format::PAGE;
use keepfs_format::superblock::INCOMPAT_TEST;
use keepfs_server::live::inject::{Where, place_of};
use keepfs_server::question::Question;
use keepfs_server::registry::Record;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, control, image};
use memory::Arena;
use serde_json::Value;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Injects.
pub fn run(args: &Inject) -> Outcome {
    match &args.what {
        What::Scribble(what) => scribble(&args.of, what),
        What::Wild(what) => wild(&args.of, what),
        What::Logic(what) => logic(&args.of, what),
        What::Device(what) => device(&args.of, what),
        What::List => list(&args.of),
        What::Cancel { number } => {
            let named = number.map_or(String::new(), |number| format!(" {number}"));
            let answer = told(&server(&args.of)?, &format!("cancel{named}"))?;
            if let (Some(number), Some(0)) = (number, answer["canceled"].as_u64()) {
                return Err(Failure::Other(format!(
                    "no fault number {number} waits to happen; `keepfs inject {} list` shows those that do",
                    args.of.shown()
                )));
            }
            say!("{} taken back", answer["canceled"]);
            Ok(0)
        }
    }
}

/// Asks a server; an error that it answers is a failure.
fn told(record: &Record, words: &str) -> Result<Value, Failure> {
    let answer: Result<Value, _> = control::ask(record, &Question::Inject(words.to_owned()));
    let answer = answer.map_err(|e| Failure::Other(format!("{}: {e}", record.dir.shown())))?;
    match answer["error"].as_str() {
        Some(error) => Err(Failure::Other(format!("{}: {error}", record.dir.shown()))),
        None => Ok(answer),
    }
}

fn scribble(of: &Path, what: &Scribble) -> Outcome {
    let at_rest = what.at == Place::Device || what.kind == Kind::Data;
    let record = match server(of) {
        Ok(record) => record,
        Err(_) if at_rest => return offline(of, what),
        Err(failure) => return Err(failure),
    };
    let question = format!(
        "where {} {} {} {}",
        what.kind.word(),
        inode_of(&record, &what.whose)?,
        what.offset,
        if at_rest { "rest" } else { "memory" }
    );
    let answer = told(&record, &question)?;
    let place: Where = serde_json::from_value(answer).map_err(|e| Failure::Other(e.to_string()))?;
    match at_rest {
        true => on_device(&record.pool, what, &place),
        false => in_memory(what, &place),
    }
}

fn in_memory(what: &Scribble, place: &Where) -> Outcome {
    let at = within(what, place)?;
    let arena = Arena::open(place.pid, place.arena)?;
    let offset = place.frame * PAGE as u64 + at as u64;
    let (old, new) = change(what, |old| arena.read(offset, old), |new| arena.write(offset, new))?;
    say!(
        "{} in memory: frame {}, offset {at}, address {:#x}: {} was {}",
        place.name,
        place.frame,
        place.arena + offset,
        hex(&new),
        hex(&old)
    );
    say!("it is found when somebody needs it, or by `keepfs scrub start --arena --wait`; `keepfs events` tells");
    Ok(0)
}

fn on_device(pool: &Path, what: &Scribble, place: &Where) -> Outcome {
    let at = within(what, place)?;
    let page = place.pages[what.copy];
    if page == 0 {
        return Err(Failure::Other(format!(
            "{} has no copy {} on the device",
            place.name, what.copy
        )));
    }
    let file = File::options().read(true).write(true).open(pool);
    let file = file.map_err(Failure::io("open", pool))?;
    let offset = page * PAGE as u64 + at as u64;
    let (old, new) = change(
        what,
        |old| file.read_exact_at(old, offset).map_err(Failure::io("read", pool)),
        |new| file.write_all_at(new, offset).map_err(Failure::io("write", pool)),
    )?;
    file.sync_data().map_err(Failure::io("sync", pool))?;
    say!(
        "{} on the device: copy {}, page {page}, offset {at}: {} was {}",
        place.name,
        what.copy,
        hex(&new),
        hex(&old)
    );
    say!("it is found when somebody reads it, or by `keepfs scrub start --rest --wait`; `keepfs events` tells");
    Ok(0)
}

/// The old bytes are read, the new ones made of them and written. Both.
fn change(
    what: &Scribble,
    read: impl FnOnce(&mut [u8]) -> Result<(), Failure>,
    write: impl FnOnce(&[u8]) -> Result<(), Failure>,
) -> Result<(Vec<u8>, Vec<u8>), Failure> {
    let mut old = vec![0; what.length];
    read(&mut old)?;
    let new = what.pattern.over(&old)?;
    write(&new)?;
    Ok((old, new))
}

/// Where in the metablock the scribble begins.
fn within(what: &Scribble, place: &Where) -> Result<usize, Failure> {
    let in_page = if what.kind == Kind::Data {
        what.offset % PAGE as u64
    } else {
        what.offset
    };
    let at = place.base.saturating_add(usize::try_from(in_page).unwrap_or(PAGE));
    match at.checked_add(what.length).is_some_and(|end| end <= PAGE) && what.length > 0 {
        true => Ok(at),
        false => Err(Failure::Usage(format!(
            "{} bytes at offset {} do not lie in {}, which has {} there",
            what.length,
            what.offset,
            place.name,
            PAGE - place.base
        ))),
    }
}

/// A pool that is not mounted: opened, recovered if it was not closed, and closed again before its bytes are changed.
fn offline(path: &Path, what: &Scribble) -> Outcome {
    only_for_tests(path)?;
    let pool: Pool = patiently(path, || Ok(Pool::open(path, &OpenOptions::default())?))?;
    let ino = match &what.whose.path {
        Some(inside) => pool.symlink_metadata(inside)?.attr().ino.0,
        None => what.whose.ino.unwrap_or_default(),
    };
    let found = place_of(pool.volume(), what.kind.word(), ino, what.offset, true);
    let place = found.map_err(|why| Failure::Other(format!("{}: {why}", path.shown())))?;
    pool.close()?;
    on_device(path, what, &place)
}

/// A pool that was not made for tests is not even opened.
fn only_for_tests(path: &Path) -> Result<(), Failure> {
    let image = patiently(path, || image::DeviceImage::open(path))?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })?;
    match view.superblock().incompat.get() & INCOMPAT_TEST {
        0 => Err(Failure::Other(format!(
            "{}: faults are injected into pools for tests only; make one with `keepfs create --test`",
            path.shown()
        ))),
        _ => Ok(()),
    }
}

/// The inode of a mounted pool that is meant.
fn inode_of(record: &Record, whose: &Whose) -> Result<u64, Failure> {
    let Some(path) = &whose.path else {
        return Ok(whose.ino.unwrap_or_default());
    };
    alive(record)?;
    let path = record.dir.join(path.strip_prefix("/").unwrap_or(path));
    let found = path.symlink_metadata().map_err(Failure::io("look at", &path))?;
    Ok(found.ino())
}

fn wild(of: &Path, what: &Wild) -> Outcome {
    let record = server(of)?;
    // Before it changes anything: whether it is a pool for tests.
    told(&record, "arena")?;
    if let Some(level) = what.level {
        set::level(&record, level)?;
    }
    let answer = told(&record, "arena")?;
    let arena = Arena::open(
        answer["pid"].as_u64().unwrap_or(0) as u32,
        answer["arena"].as_u64().unwrap_or(0),
    )?;
    let done = memory::wild(&arena, what.threads, what.count, what.seed)?;
    say!(
        "{} stray writes, {} bytes, all over {} MiB of metadata in memory",
        done.writes,
        done.bytes,
        arena.len() >> 20
    );
    Ok(0)
}

fn logic(of: &Path, what: &Logic) -> Outcome {
    let record = server(of)?;
    let ino = inode_of(&record, &what.whose)?;
    let field = what.field.word();
    let answer = told(&record, &format!("logic {field} {ino}"))?;
    let dir = record.dir.shown();
    match answer["told"].as_str() {
        Some(why) => {
            say!(
                "{field} of inode {ino}, one more than is right, in a transaction of its own: taken back, nothing of it was written: {why}"
            );
            say!("`keepfs events {dir}` tells it too");
        }
        None => say!(
            "{field} of inode {ino} is one more than is right, and nobody saw it: the equation that would is switched off \
             (`keepfs get audit {dir}`); `keepfs check` finds it when the pool is unmounted"
        ),
    }
    Ok(0)
}

fn device(of: &Path, what: &Device) -> Outcome {
    let fault = match what.error {
        args::Fault::Eio => "eio".to_owned(),
        args::Fault::Latency => format!("latency={}", what.ms),
    };
    let question = format!("device {} {fault} {}", what.op.word(), what.count);
    let answer = told(&server(of)?, &question)?;
    say!(
        "number {}: {} of the device, the next {}: {fault}",
        answer["number"],
        what.op.word(),
        what.count
    );
    Ok(0)
}

fn list(of: &Path) -> Outcome {
    let answer = told(&server(of)?, "list")?;
    match answer["injections"].as_array().filter(|all| !all.is_empty()) {
        None => say!("nothing waits to happen"),
        Some(all) => all.iter().for_each(|one| {
            say!(
                "{}: {} {} ({} left)",
                one["number"],
                text(&one["op"]),
                text(&one["fault"]),
                one["left"]
            );
        }),
    }
    Ok(0)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// At most 64 bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    shown + if bytes.len() > 64 { "…" } else { "" }
}
