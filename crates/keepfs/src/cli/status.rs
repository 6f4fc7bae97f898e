//! `keepfs status`: how pools are, for people and programs.

use super::args::Status as Asked;
use super::json;
use super::print;
use keepfs_server::figures::{Status, VERSION};
use keepfs_server::{Failure, Outcome, status};
use serde_json::json;

/// Tells how one pool is, or all that are mounted. The exit code is 0, but of those that are not healthy only.
pub fn run(args: &Asked) -> Outcome {
    let all = args.of.is_none();
    let mut pools = status::of(args.of.as_deref())?;
    if args.unhealthy {
        pools.retain(|pool| health(pool) != HEALTHY);
    }
    match (&pools[..], args.json) {
        ([pool], true) if !all => println!("{}", json_text(pool)?),
        (_, true) => println!("{}", json::text(&json!({"version": VERSION, "pools": pools}))?),
        ([], false) if args.unhealthy && all => println!("all mounted pools are healthy"),
        ([], false) if args.unhealthy => println!("the pool is healthy"),
        ([], false) => println!("no pools are mounted"),
        (_, false) => print!("{}", pools.iter().map(print::text).collect::<Vec<_>>().join("\n")),
    }
    let worst = pools.iter().map(health).max().unwrap_or(HEALTHY);
    Ok(if args.unhealthy { worst } else { HEALTHY })
}

/// Exit code of `status -x`: there is nothing to report.
const HEALTHY: u8 = 0;
/// There is, and the pool goes on with it.
const DEGRADED: u8 = 3;
/// Nothing is written, or nobody serves it.
const FAULTED: u8 = 4;

fn health(pool: &Status) -> u8 {
    match (&pool.state[..], &pool.status) {
        ("FAULTED" | "UNAVAIL" | "UNKNOWN", _) => FAULTED,
        ("ONLINE" | "OFFLINE", None) => HEALTHY,
        _ => DEGRADED,
    }
}

fn json_text(status: &Status) -> Result<String, Failure> {
    json::text(status)
}

#[cfg(test)]
mod tests;
