//! `keepfs grow`.

use super::args::Grow;
use super::json;
use super::tell::say;
use keepfs::Pool;
use keepfs_server::size::Size;
use keepfs_server::visible::Shown;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, figures, history, told_path, visible};
use serde_json::json;

/// Makes a pool larger and says what it became.
pub fn run(args: &Grow) -> Outcome {
    if let Some(record) = history::server_of(&args.pool)? {
        return Err(Failure::Other(format!(
            "{}: it is mounted at {}, and grows only while it is not; unmount it first",
            args.pool.shown(),
            record.dir.shown()
        )));
    }
    let size = args.size.map(|size| size.0);
    let growth = patiently(&args.pool, || match args.dry_run {
        true => Ok(Pool::growth(&args.pool, size)?),
        false => Ok(Pool::grow(&args.pool, size)?),
    })?;
    if args.json {
        let answer = json!({
            "version": figures::VERSION, "dry_run": args.dry_run,
            "before_bytes": growth.before, "size_bytes": growth.after,
        });
        println!("{}", json::text(&told_path::with(answer, "pool", &args.pool))?);
    } else {
        let verb = if args.dry_run { "would grow" } else { "grew" };
        let (before, after) = (Size(growth.before), Size(growth.after));
        say!("{}: it {verb} from {before} to {after}", visible::path(&args.pool));
    }
    Ok(0)
}
