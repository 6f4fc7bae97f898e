//! How a pool is that is not mounted: from its device, read-only, as recovery would find it.

use crate::failure::Failure;
use crate::figures::{LogFigures, SpaceFigures, Status};
use crate::health::{damaged, lost};
use crate::image::DeviceImage;
use crate::waiting::patiently;
use crate::{history, mmp, registry};
use keepfs_check::Severity;
use keepfs_check::read::View;
use keepfs_format::PAGE;
use keepfs_format::bitmap::{self, STRIPES, TOTAL_INODES, TOTAL_PAGES, TOTALS_BLOCKS};
use keepfs_store::Pool;
use std::path::Path;

/// Reads a pool's device. Errors: it is in use by something that is no server of ours, or no pool.
pub fn status(pool: &Path) -> Result<Status, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let mut view = View::open(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    let superblock = view.superblock_view();
    let settled = registry::settled(pool);
    let mut status = Status::unknown(&settled);
    status.state = "OFFLINE".into();
    let pool = Pool::of(view.superblock());
    (status.mmp_s, status.mmp_by) = mmp::of(&image, &pool);
    status.label = pool.label;
    status.id = pool.id.to_string();
    status.test = pool.is_test;
    status.protect = pool.protect.name().into();
    let replayed = view.groups().iter().filter(|group| group.taken);
    let none = (0, 0, superblock.seq);
    let (groups, pages, last) = replayed.fold(none, |(n, pages, _), group| (n + 1, pages + group.pages, group.seq));
    status.log = Some(LogFigures {
        size_bytes: superblock.log_pages * PAGE as u64,
        used_percent: (pages * 100).checked_div(superblock.log_pages).unwrap_or(0),
        groups,
        last_seq: last,
        durable_seq: last,
        since_checkpoint_s: None,
    });
    status.space = space(&mut view, superblock.pages);
    // The superblock of a properly closed pool stays in force until the first checkpoint after it.
    if !superblock.clean || groups > 0 {
        status.status = Some(format!(
            "it was not closed; {groups} groups of the log are to be replayed"
        ));
        status.action = Some("mount it: that recovers it".into());
    }
    let bad = view
        .findings()
        .iter()
        .filter(|finding| finding.severity() == Severity::Error);
    let bad: Vec<String> = bad.map(ToString::to_string).collect();
    let repair = "`keepfs check --repair` repairs it; with --dry-run it only says what it would do";
    if let Ok(known) = history::on_device(&settled) {
        // What its servers were told (S-18.6), but for what is whole again.
        let known = history::standing(&mut view, known.damage);
        lost(&known, None, &mut status);
        damaged(&known, &mut status);
        status.state = "OFFLINE".into();
    }
    if !bad.is_empty() {
        status.errors.extend(bad);
        status.say("FAULTED", "its metadata is damaged", repair);
    }
    Ok(status)
}

/// Whether nothing is to be recovered. Errors: as [`status`].
pub fn is_closed(pool: &Path) -> Result<bool, Failure> {
    let image = patiently(pool, || DeviceImage::open(pool))?;
    let view = View::open(&image).map_err(|source| Failure::Read {
        path: pool.to_owned(),
        source,
    })?;
    Ok(view.superblock_view().clean && !view.groups().iter().any(|group| group.taken))
}

fn space(view: &mut View<'_>, pages: u64) -> Option<SpaceFigures> {
    // S-7.5: what all stripes say together.
    let (mut used, mut inodes) = (0_u64, 0_u64);
    for number in 0..TOTALS_BLOCKS {
        let Some(totals) = view.metablock(bitmap::totals(number)).ok()? else {
            continue;
        };
        for stripe in 0..STRIPES {
            let counter = |which| totals[bitmap::in_stripe(stripe, which)..].first_chunk();
            used = used.wrapping_add(u64::from_le_bytes(*counter(TOTAL_PAGES)?));
            inodes = inodes.wrapping_add(u64::from_le_bytes(*counter(TOTAL_INODES)?));
        }
    }
    let page = PAGE as u64;
    Some(SpaceFigures {
        size_bytes: pages * page,
        used_bytes: used.min(pages) * page,
        available_bytes: pages.saturating_sub(used) * page,
        inodes,
    })
}
