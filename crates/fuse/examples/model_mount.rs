//! Mounts the in-memory oracle: `model_mount DIR [writeback|writethrough|direct] [anchor]`. For trying the front end alone.

use keepfs_fuse::{CacheMode, MountConfig, anchor::LoopAnchor, mount};
use keepfs_testkit::model::Model;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dir = words
        .first()
        .ok_or("usage: model_mount DIR [writeback|writethrough|direct] [anchor]")?;
    let cache = match words.get(1).map(String::as_str) {
        Some("writeback") => CacheMode::Writeback,
        Some("direct") => CacheMode::Direct,
        _ => CacheMode::Writethrough,
    };
    let anchor = words
        .iter()
        .any(|word| word == "anchor")
        .then(|| LoopAnchor::attach("keepfs"))
        .transpose()?;
    let anchor_path = anchor.as_ref().map(|a| a.path().to_owned());
    let config = MountConfig {
        mountpoint: dir.into(),
        cache,
        anchor: anchor_path,
        ..MountConfig::default()
    };
    let session = mount(Arc::new(Model::default()), &config)?;
    drop(anchor);
    session.run()?;
    Ok(())
}
