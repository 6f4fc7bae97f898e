//! `keepfs dump`: structures of a pool as they stand after the log, named as in docs/SPEC.md.

use super::args::{Dump, What};
use super::json;
use super::tell::say;
use keepfs_check::read::{MapView, ReadError, View};
use keepfs_format::{MetaId, Space};
use keepfs_server::image::DeviceImage;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome};
use serde::Serialize;
use serde_json::{Value, json};
use std::os::unix::ffi::OsStrExt;

/// Shows a structure.
pub fn run(args: &Dump) -> Outcome {
    let image = patiently(&args.pool, || DeviceImage::open(&args.pool))?;
    let failed = |source| Failure::Read {
        path: args.pool.clone(),
        source,
    };
    let mut view = View::open(&image).map_err(failed)?;
    let shown = match &args.what {
        What::Superblock => tree(&view.superblock_view())?,
        What::Inode { number } => tree(&view.inode_view(*number).map_err(failed)?)?,
        What::Dir { path } => {
            let ino = view.resolve(path.as_os_str().as_bytes()).map_err(failed)?;
            let entries = view.list(ino).map_err(failed)?;
            json!({"ino": ino, "entries": tree(&entries)?})
        }
        What::Map { id } => json!({"map": tree(&map(&view, id.as_deref(), args)?)?}),
        What::Plog if !args.json => {
            for group in view.groups() {
                let text = group.to_string();
                text.lines().for_each(|line| say!("{line}"));
            }
            return Ok(0);
        }
        What::Plog => json!({"groups": tree(view.groups())?}),
    };
    match args.json {
        true => println!("{}", json::text(&with_version(in_digits(shown)))?),
        false => show(&shown, 0),
    }
    Ok(0)
}

fn tree<T: Serialize + ?Sized>(of: &T) -> Result<Value, Failure> {
    serde_json::to_value(of).map_err(|e| Failure::Other(e.to_string()))
}

fn with_version(mut value: Value) -> Value {
    if let Value::Object(fields) = &mut value {
        fields.insert("version".into(), json!(1));
    }
    value
}

/// Numbers up to here are exact in programs that have floating point alone.
const EXACT: u64 = 1 << 53;

/// A number above 2^53 stands once more as `NAME_text`, in digits; of a list with one all do.
fn in_digits(value: Value) -> Value {
    let is_large = |value: &Value| value.as_u64().is_some_and(|number| number > EXACT);
    let text = |value: &Value| match value {
        Value::Array(items) if items.iter().any(is_large) => Some(items.iter().map(Value::to_string).collect()),
        number if is_large(number) => Some(Value::from(number.to_string())),
        _ => None,
    };
    match value {
        Value::Object(fields) => {
            let mut all = serde_json::Map::new();
            for (name, field) in fields {
                let digits = text(&field).map(|digits| (format!("{name}_text"), digits));
                all.insert(name, in_digits(field));
                all.extend(digits);
            }
            Value::Object(all)
        }
        Value::Array(items) => items.into_iter().map(in_digits).collect(),
        other => other,
    }
}

/// The entries that `id` (a metablock such as `Inodes:3`, a space, or nothing) asks for.
fn map(view: &View<'_>, id: Option<&str>, args: &Dump) -> Result<Vec<MapView>, Failure> {
    let Some(id) = id else {
        return Ok(Space::ALL.into_iter().flat_map(|space| view.map(space)).collect());
    };
    let (name, index) = match id.split_once(':') {
        Some((name, index)) => (name, Some(index)),
        None => (id, None),
    };
    let space = Space::ALL
        .into_iter()
        .find(|space| format!("{space:?}").eq_ignore_ascii_case(name));
    let space = space.ok_or_else(|| {
        let names: Vec<String> = Space::ALL.iter().map(|space| format!("{space:?}")).collect();
        Failure::Usage(format!(
            "'{name}' is not a space of metablocks; there are {}",
            names.join(", ")
        ))
    })?;
    let Some(index) = index else {
        return Ok(view.map(space));
    };
    let index = index
        .parse()
        .map_err(|_| Failure::Usage(format!("'{index}' is not the index of a metablock")))?;
    let id = MetaId::new(space, index);
    match view.lookup(id) {
        Some(entry) => Ok(vec![entry]),
        None => Err(Failure::Read {
            path: args.pool.clone(),
            source: ReadError::NoEntry(id.to_string()),
        }),
    }
}

/// A value as indented lines; a list of plain objects as one line each.
fn show(value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field {
                    Value::Array(items) if items.iter().any(Value::is_object) => {
                        say!("{indent}{name}:");
                        items.iter().for_each(|item| say!("{indent}  {}", line(item)));
                    }
                    other => say!("{indent}{name}: {}", line(other)),
                }
            }
        }
        other => say!("{indent}{}", line(other)),
    }
}

fn line(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let parts: Vec<String> = fields
                .iter()
                .map(|(name, field)| format!("{name} {}", line(field)))
                .collect();
            parts.join(", ")
        }
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().map(line).collect();
            format!("[{}]", parts.join(" "))
        }
        Value::String(text) => text.clone(),
        Value::Null => "none".into(),
        other => other.to_string(),
    }
}
