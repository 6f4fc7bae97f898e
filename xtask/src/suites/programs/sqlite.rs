//! SQLite: the same statements in every journal mode, integrity_check, and the same dump as beside.

use std::path::Path;

use crate::install;
use crate::suites::Bench;
use crate::suites::process::{command, run as call};

/// Journal modes; `wal` also maps its index shared between connections.
const JOURNALS: &[&str] = &["delete", "truncate", "persist", "wal"];

/// Rows, an index, updates, deletes, an aborted transaction, small transactions of their own, a vacuum.
const STATEMENTS: &str = "
PRAGMA synchronous = FULL;
CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, body BLOB);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
  INSERT INTO t SELECT i, 'name ' || (i * 7919 % 50021), zeroblob(i % 600) FROM n;
COMMIT;
CREATE INDEX t_name ON t (name);
UPDATE t SET name = name || '!' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 7 = 0;
BEGIN;
DELETE FROM t;
ROLLBACK;
INSERT INTO t (name) VALUES ('one'); INSERT INTO t (name) VALUES ('two'); INSERT INTO t (name) VALUES ('three');
VACUUM;
";

/// Runs all journal modes in both places.
pub fn run(bench: &Bench) -> Result<String, String> {
    install::programs()?;
    let place = bench.place("mnt", 1024, &[])?;
    let beside = bench.beside("beside")?;
    let mut bytes = 0;
    for journal in JOURNALS {
        let here = fill(place.dir(), journal)?;
        if here != fill(&beside, journal)? {
            return Err(format!("journal_mode={journal}: the dumps differ"));
        }
        bytes += here.len();
    }
    place.close()?;
    Ok(format!(
        "sqlite: {} journal modes, integrity ok, {bytes} bytes of dumps equal",
        JOURNALS.len()
    ))
}

/// Returns the dump.
fn fill(dir: &Path, journal: &str) -> Result<String, String> {
    let file = format!("{journal}.db");
    let mode = sqlite(dir, &file, &format!("PRAGMA journal_mode = {journal};"))?;
    if mode.trim() != journal {
        return Err(format!("journal_mode={journal} became {mode}"));
    }
    sqlite(dir, &file, STATEMENTS)?;
    let integrity = sqlite(dir, &file, "PRAGMA integrity_check;")?;
    if integrity.trim() != "ok" {
        return Err(format!("journal_mode={journal}: {integrity}"));
    }
    sqlite(dir, &file, ".dump")
}

fn sqlite(dir: &Path, file: &str, statements: &str) -> Result<String, String> {
    call(command("sqlite3", dir).arg("-bail").arg(file).arg(statements))
}
