//! `keepfs create`.

use super::args::Create;
use super::json;
use super::probe;
use super::tell::{say, warn_of};
use keepfs::{CreateOptions, Pool};
use keepfs_check::read::View;
use keepfs_server::size::Size;
use keepfs_server::waiting::patiently;
use keepfs_server::{Failure, Outcome, exposed, told_path, visible};
use serde_json::json;

/// Makes a pool and says what it became.
pub fn run(args: &Create) -> Outcome {
    let options = CreateOptions {
        size: args.size.map(|size| size.0),
        log_size: args.log_size.map(|size| size.0),
        label: args.label.clone(),
        meta_copies: args.meta_copies,
        protect: args.protect,
        force: args.force,
        discard: !args.no_discard,
        test: args.test,
        preallocate: args.preallocate,
        mmp: args.mmp,
    };
    if !args.force {
        probe::refuse_what_blkid_knows(&args.pool)?;
    }
    patiently(&args.pool, || Ok(Pool::create(&args.pool, &options)?))?;
    if let Some(why) = exposed::of(&args.pool) {
        warn_of!("keepfs: warning: {why}");
    }
    let image = keepfs_server::image::DeviceImage::open(&args.pool)?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: args.pool.clone(),
        source,
    })?;
    let made = view.superblock_view();
    let size = Size(made.pages * keepfs_format::PAGE as u64);
    if args.json {
        let answer = json!({
            "version": 1, "id": made.pool, "label": made.label, "size_bytes": size.0,
            "meta_copies": made.meta_copies, "log_bytes": made.log_pages * keepfs_format::PAGE as u64,
            "protect": args.protect.name(), "test": args.test, "preallocated": args.preallocate,
        });
        println!("{}", json::text(&told_path::with(answer, "pool", &args.pool))?);
    } else {
        let log = Size(made.log_pages * keepfs_format::PAGE as u64);
        say!(
            "{}: pool {} of {size}, metadata {} times, log {log}, protect {}{}",
            visible::path(&args.pool),
            made.pool,
            made.meta_copies,
            args.protect,
            if args.test {
                ", for tests: faults may be injected"
            } else {
                ""
            }
        );
    }
    Ok(0)
}
