//! `keepfs get`: properties of a pool, and of its mount if it is mounted.

use super::completion::values;
use super::json;
use super::times;
use clap::{Args as Fields, ValueEnum};
use clap_complete::ArgValueCompleter;
use keepfs_check::read::View;
use keepfs_server::image::DeviceImage;
use keepfs_server::properties::{self, CREATED, Property};
use keepfs_server::question::Question;
use keepfs_server::size::Size;
use keepfs_server::visible::one_line;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, figures, history, mmp, told_path, visible};
use keepfs_store::Pool;
use serde_json::json;
use std::path::{Path, PathBuf};

/// For `--help`.
pub const HELP: &str = "\
Sources: local (`keepfs set` changes it: kept in the pool, but scrub-limit, which ends with the mount), temporary (an option of this mount), default, - (never changes).";

/// `keepfs get`.
#[derive(Fields, Debug)]
#[command(after_help = HELP)]
pub struct Get {
    /// Which properties, separated by commas, or all
    #[arg(value_name = "all|NAME,NAME...", add = ArgValueCompleter::new(values::property_names))]
    pub names: String,
    /// The mount point or the pool
    #[arg(value_name = "DIR|POOL", add = ArgValueCompleter::new(values::mounted))]
    pub of: PathBuf,
    /// Names may be words of their own; the pool is the last word
    #[arg(hide = true)]
    pub more: Vec<PathBuf>,
    /// For scripts: no heading, columns separated by one tab
    #[arg(short = 'H')]
    pub script: bool,
    /// Sizes in bytes, times in seconds since 1970
    #[arg(short = 'p')]
    pub exact: bool,
    /// Which columns
    #[arg(
        short = 'o',
        value_name = "COLUMNS",
        value_delimiter = ',',
        default_value = "name,property,value,source"
    )]
    pub columns: Vec<Column>,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Column {
    /// Of what
    Name,
    /// Its name
    Property,
    /// Its value
    Value,
    /// Where it comes from
    Source,
}

/// Shows them.
pub fn run(args: &Get) -> Outcome {
    let (names, of) = sort(args);
    let wants_all = names.iter().any(|name| name == "all");
    let is_unknown = |name: &&String| name.contains('/') || !(wants_all || properties::is_known(name));
    if let Some(name) = names.iter().find(is_unknown) {
        return Err(Failure::Usage(match name.contains('/') || Path::new(name).exists() {
            true => format!(
                "'{name}' is no property but a path, and `keepfs get` takes one pool at a time, behind the names"
            ),
            false => format!("there is no property '{name}'; `keepfs get all` shows those there are"),
        }));
    }
    let all = gather(of)?;
    let shown: Vec<&Property> = match wants_all {
        true => all.iter().collect(),
        // As they were asked for; what an unmounted pool does not have is left out.
        false => names
            .iter()
            .filter_map(|name| all.iter().find(|p| p.name == *name))
            .collect(),
    };
    match args.json {
        true => {
            let answer = json!({"version": figures::VERSION, "properties": shown});
            println!("{}", json::text(&told_path::with(answer, "of", of))?);
        }
        false => print!("{}", table(args, of, &shown)),
    }
    Ok(0)
}

/// The names that were asked for, and of what.
fn sort(args: &Get) -> (Vec<String>, &Path) {
    let words: Vec<&Path> = std::iter::once(&args.of)
        .chain(&args.more)
        .map(PathBuf::as_path)
        .collect();
    let (of, before) = words
        .split_last()
        .map_or((args.of.as_path(), &[][..]), |(of, before)| (*of, before));
    let before = before.iter().map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = std::iter::once(args.names.clone()).chain(before).collect();
    let names = words.iter().flat_map(|word| word.split(','));
    (names.map(str::to_owned).collect(), of)
}

fn gather(of: &Path) -> Result<Vec<Property>, Failure> {
    let server = history::server_of(of)?;
    if let Some(record) = &server
        && let Some(list) = history::ask(record, &Question::Get)?
    {
        return Ok(list);
    }
    let pool = server.map_or_else(|| of.to_owned(), |record| record.pool);
    let image = patiently(&pool, || DeviceImage::open(&pool))?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: pool.clone(),
        source,
    })?;
    let pool = Pool::of(view.superblock());
    let mut all = properties::of_pool(&pool);
    all.push(properties::of_mmp(mmp::of(&image, &pool).0));
    Ok(all)
}

fn table(args: &Get, of: &Path, shown: &[&Property]) -> String {
    let of = visible::path(of);
    let cell = |column: &Column, property: &Property| {
        let text = match column {
            Column::Name => of.clone(),
            Column::Property => property.name.clone(),
            Column::Value => value(property, args.exact),
            Column::Source => property.source.clone(),
        };
        one_line(&text).into_owned()
    };
    let row = |property: &&Property| args.columns.iter().map(|column| cell(column, property)).collect();
    let mut rows: Vec<Vec<String>> = shown.iter().map(row).collect();
    if args.script {
        return rows.iter().map(|row| row.join("\t") + "\n").collect();
    }
    let heading = |column: &Column| format!("{column:?}").to_uppercase();
    rows.insert(0, args.columns.iter().map(heading).collect());
    let width = |at: usize| {
        rows.iter()
            .filter_map(|row| row.get(at))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..args.columns.len()).map(|at| width(at).unwrap_or(0)).collect();
    let padded = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(padded).collect()
}

/// A value for people: sizes in units and times of the local clock, unless they are wanted exact.
fn value(property: &Property, exact: bool) -> String {
    if property.value.is_empty() {
        return "-".into();
    }
    let told = match exact {
        true => None,
        false if property.is_size => property.value.parse().ok().map(|bytes| Size(bytes).to_string()),
        false if property.name == CREATED => property.value.parse().ok().map(times::moment),
        false => None,
    };
    told.unwrap_or_else(|| property.value.clone())
}

#[cfg(test)]
mod tests;
