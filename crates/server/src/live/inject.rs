//! The server's answers to `keepfs inject`: where structures lie, wrong values by the door, and faults of its device. Refused by a pool that was not
//! made for tests.

use keepfs_format::PAGE;
use keepfs_fs::{Field, Part, Volume};
use keepfs_store::{DeviceFault, DeviceOp, Injection, Structure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// Where a structure lies, as the server tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Where {
    /// The metablock; of file data the page of the file.
    pub name: String,
    /// Where in it the structure begins, bytes.
    pub base: usize,
    /// The process that has it in memory, which with a keeper is not the one of the record.
    pub pid: u32,
    /// Its frame.
    pub frame: u64,
    /// Address of the first frame in the server.
    pub arena: u64,
    /// Pages of its copies on the device; 0: none.
    pub pages: [u64; 2],
}

/// Answers the words behind `inject`. `None`: they make no sense.
pub fn answer(volume: &Volume, words: &str) -> Option<Value> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let answer = match words[..] {
        ["where", kind, ino, offset, place] => {
            let found = place_of(volume, kind, ino.parse().ok()?, offset.parse().ok()?, place == "rest");
            found.and_then(|place| serde_json::to_value(place).map_err(|e| e.to_string()))
        }
        ["arena"] => {
            let totals = volume.store().structure(keepfs_format::bitmap::TOTALS, false);
            totals
                .map(|found| json!({"arena": found.arena, "pid": std::process::id()}))
                .map_err(|e| e.to_string())
        }
        ["logic", field, ino] => logic(volume, field, ino.parse().ok()?),
        ["device", op, fault, count] => device(volume, op, fault, count.parse().ok()?)?,
        ["list"] => Ok(json!({"injections": volume.store().injections().iter().map(shown).collect::<Vec<_>>()})),
        ["cancel"] => Ok(json!({"canceled": volume.store().cancel_injections(None)})),
        ["cancel", number] => Ok(json!({"canceled": volume.store().cancel_injections(Some(number.parse().ok()?))})),
        _ => return None,
    };
    Some(answer.unwrap_or_else(|error| json!({"error": error})))
}

/// A field of an inode made wrong: what the audit told, or nothing. Errors: as text.
fn logic(volume: &Volume, field: &str, ino: u64) -> Result<Value, String> {
    let field = match field {
        "links" => Field::Links,
        "pages" => Field::Pages,
        "entries" => Field::Entries,
        "parent" => Field::Parent,
        _ => return Err(format!("inodes have no field '{field}'")),
    };
    let told = volume.inject_logic(ino, field);
    told.map(|told| json!({"told": told}))
        .map_err(|e| format!("inode {ino}: {e}"))
}

/// Where a structure lies; `at_rest`: on the device. Errors: as text; it is no pool for tests, or has none there.
pub fn place_of(volume: &Volume, kind: &str, ino: u64, offset: u64, at_rest: bool) -> Result<Where, String> {
    // A pool that is none for tests tells nothing at all.
    let store = volume.store();
    store
        .structure(keepfs_format::bitmap::TOTALS, false)
        .map_err(|e| e.to_string())?;
    if kind == "data" {
        let index = offset / PAGE as u64;
        let page = volume.data_page_of(ino, index).map_err(|e| e.to_string())?;
        let page = page.ok_or_else(|| {
            format!("inode {ino} has no page {index} on the device: a hole, or so few bytes that they lie in the inode or in the log")
        })?;
        return Ok(place(&format!("page {index} of inode {ino}"), 0, None, [page, 0]));
    }
    let part = match kind {
        "inode" => Part::Inode,
        "dir" => Part::Dir,
        "map" => Part::Map,
        "bitmap" => Part::Bitmap,
        "xattr" => Part::Xattr,
        _ => return Err(format!("there is no structure '{kind}'")),
    };
    let found = volume.part_of(ino, part).map_err(|e| e.to_string())?;
    let (id, base) = found.ok_or_else(|| format!("inode {ino} has no metablock of the kind '{kind}'"))?;
    let found = store.structure(id, at_rest).map_err(|e| e.to_string())?;
    Ok(place(&id.to_string(), base, Some(found), found.pages))
}

fn place(name: &str, base: usize, place: Option<Structure>, pages: [u64; 2]) -> Where {
    Where {
        name: name.into(),
        base,
        pid: std::process::id(),
        frame: place.map_or(0, |place| place.frame.into()),
        arena: place.map_or(0, |place| place.arena as u64),
        pages,
    }
}

fn device(volume: &Volume, op: &str, fault: &str, count: u64) -> Option<Result<Value, String>> {
    let op = OPS.iter().find(|(_, name)| *name == op)?.0;
    let fault = match fault.split_once('=') {
        None if fault == "eio" => DeviceFault::Eio,
        Some(("latency", ms)) => DeviceFault::Latency(Duration::from_millis(ms.parse().ok()?)),
        _ => return None,
    };
    let number = volume.store().inject_device(op, fault, count);
    Some(
        number
            .map(|number| json!({"number": number}))
            .map_err(|e| e.to_string()),
    )
}

const OPS: [(DeviceOp, &str); 3] = [
    (DeviceOp::Read, "read"),
    (DeviceOp::Write, "write"),
    (DeviceOp::Flush, "flush"),
];

fn shown(one: &Injection) -> Value {
    let fault = match one.fault {
        DeviceFault::Eio => "eio".to_owned(),
        DeviceFault::Latency(time) => format!("latency of {} ms", time.as_millis()),
    };
    let op = OPS.iter().find(|(op, _)| *op == one.op).map_or("?", |(_, name)| name);
    json!({"number": one.number, "op": op, "fault": fault, "left": one.left})
}
