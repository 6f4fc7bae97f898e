//! `keepfs damage`: what of a pool was damaged, whose it is, and what was done (S-18.6).

use super::args::{Damage, DamageWhat};
use super::json;
use super::tell::say;
use super::times;
use keepfs::{OpenOptions, Pool};
use keepfs_server::history::{self, Damaged};
use keepfs_server::question::Question;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, figures};
use serde_json::json;
use std::path::Path;

/// Lists or clears.
pub fn run(args: &Damage) -> Outcome {
    match &args.what {
        DamageWhat::List { of, json } => list(of, *json),
        DamageWhat::Clear { of, json } => clear(of, *json),
    }
}

/// Exit code 0: nothing is lost; 1: something is.
fn list(of: &Path, json: bool) -> Outcome {
    let list = gather(of)?;
    let code = u8::from(list.iter().any(|entry| entry.lost));
    if json {
        println!("{}", json::text(&json!({"version": figures::VERSION, "damage": list}))?);
        return Ok(code);
    }
    if list.is_empty() {
        println!("nothing was damaged");
    }
    list.iter().for_each(|entry| say!("{}", line(entry)));
    Ok(code)
}

/// An entry in words.
pub fn line(entry: &Damaged) -> String {
    if let Some(what) = lost_changes(entry) {
        return format!(
            "LOST {what}; {} times, first {}, last {}",
            entry.count,
            times::told(entry.first_s),
            times::told(entry.last_s)
        );
    }
    let whose = entry.whose();
    let what = match &entry.metablock {
        Some(id) if entry.from != 0 => format!(
            "metadata {id}, bytes {} to {}",
            entry.from,
            entry.from.saturating_add(entry.length)
        ),
        Some(id) => format!("metadata {id}"),
        None if entry.length == 0 => "all of it".to_owned(),
        None => format!("bytes {} to {}", entry.from, entry.from.saturating_add(entry.length)),
    };
    let lost = if entry.lost { "LOST" } else { "mended" };
    format!(
        "{lost} {whose}: {what} ({}): {}; {}; {} times, first {}, last {}",
        entry.place,
        entry.verdict,
        entry.done,
        entry.count,
        times::told(entry.first_s),
        times::told(entry.last_s)
    )
}

/// Changes that nobody can name the files of (S-18.12).
fn lost_changes(entry: &Damaged) -> Option<String> {
    let is_of_nobody = entry.lost && entry.inode == 0;
    if let Some(id) = entry.metablock.as_deref().filter(|id| id.starts_with("map:"))
        && is_of_nobody
        && entry.place == "repair"
    {
        return Some(format!(
            "perhaps, files, or what was written last of them: {id}, which led to them, was lost (repair)"
        ));
    }
    let is_of_all = is_of_nobody && entry.metablock.is_none();
    match (&entry.place[..], entry.length) {
        ("redo", count) if is_of_all => Some(format!("{count} transactions behind {} (redo)", entry.from)),
        ("repair", count) if is_of_all => Some(format!("{count} more objects that a repair gave up")),
        ("log", 0) if is_of_all => Some(format!("perhaps, what log group {} held (log)", entry.from)),
        ("log", 1) if is_of_all => Some(format!(
            "what was synced in log group {} and behind it (log)",
            entry.from
        )),
        ("log", _) if is_of_all => Some(format!(
            "what was synced in log group {} and behind it, and small writes that were synced before it, of which files is not known: \
             these have older bytes, or zeros (log)",
            entry.from
        )),
        _ => None,
    }
}

fn gather(of: &Path) -> Result<Vec<Damaged>, Failure> {
    let server = history::server_of(of)?;
    if let Some(record) = &server
        && let Some(list) = history::ask(record, &Question::Damage)?
    {
        return Ok(list);
    }
    let pool = server.map_or_else(|| of.to_owned(), |record| record.pool);
    history::damage_on_device(&pool)
}

fn clear(of: &Path, json: bool) -> Outcome {
    let server = history::server_of(of)?;
    let asked = server
        .as_ref()
        .map(|record| history::ask::<u64>(record, &Question::DamageClear));
    let cleared = match asked.transpose()?.flatten() {
        Some(cleared) => cleared,
        None => clear_on_device(server.as_ref().map_or(of, |record| &record.pool))?,
    };
    match json {
        true => println!(
            "{}",
            json::text(&json!({"version": figures::VERSION, "cleared": cleared}))?
        ),
        false => println!("{cleared} entries cleared"),
    }
    Ok(0)
}

/// A pool that nobody serves is opened for it, and recovered if it was not closed.
fn clear_on_device(pool: &Path) -> Result<u64, Failure> {
    let pool = patiently(pool, || Ok(Pool::open(pool, &OpenOptions::default())?))?;
    let cleared = pool.volume().store().history().clear_damage() as u64;
    pool.close()?;
    Ok(cleared)
}
