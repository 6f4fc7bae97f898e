//! The server's answers to `keepfs set` and `keepfs get`.

use super::Live;
use crate::lives::Mode;
use crate::properties::{self, Property, Wanted};
use crate::question::Told;
use crate::visible::Shown;
use keepfs_store::Settings;
use std::sync::atomic::Ordering;

impl Live {
    /// Changes what the pool keeps (S-2.9), then makes room for a server that has its memory so; the answer says why not, or
    /// that nothing was to do. `None`: no pool can have that.
    pub fn set(&self, wanted: &Wanted) -> Option<Told> {
        let settings = wanted.settings()?;
        let volume = self.volume.upgrade()?;
        let store = volume.store();
        let has = store.pool();
        // This needs no other server.
        if let Some(seconds) = wanted.mmp
            && let Err(error) = store.set_mmp((seconds != 0).then_some(seconds))
        {
            return Some(Told::error(error.to_string()));
        }
        let was_set = |words: &[String]| tracing::warn!("{}", was_set(words));
        if wanted.mmp.is_some() {
            let mmp = Wanted {
                mmp: wanted.mmp,
                ..Wanted::default()
            };
            was_set(&mmp.words());
        }
        let as_wanted = is_as_wanted(&settings, has);
        if let Some(why) = self.cannot_change() {
            return Some(match as_wanted {
                true => Told::default(),
                false => Told::error(why),
            });
        }
        // Whoever comes in its place must have room for it: once that is tried there is no way back.
        if let Some(Err(error)) = settings.protect.map(|code| store.try_room(code)) {
            return Some(Told::error(format!(
                "no memory for this level, and nothing was changed: {error}"
            )));
        }
        if let Err(error) = store.set(&settings) {
            return Some(Told::error(error.to_string()));
        }
        if !as_wanted {
            let wanted = Wanted {
                mmp: None,
                ..wanted.clone()
            };
            was_set(&wanted.words());
        }
        let kept = self.kept.as_ref().filter(|_| !as_wanted);
        Some(match kept.map(|kept| kept.make_room()) {
            None | Some(Ok(())) => Told::default(),
            Some(Err(error)) => Told::error(format!(
                "it is changed and holds from the next mount on, but its keeper was not told: {error}"
            )),
        })
    }

    /// Why the pool's settings cannot change now.
    fn cannot_change(&self) -> Option<String> {
        let Some(kept) = &self.kept else {
            let pool = self.record.pool.shown();
            return Some(format!(
                "it has no keeper (mounted with keeper=off or transport=uring), which would replace its server: unmount it, keepfs set {pool} ..., and mount it again"
            ));
        };
        if kept.told().mode != Mode::Normal {
            return Some("its servers died too often and changes are refused: unmount it and mount it again".into());
        }
        let read_only = self.read_only.load(Ordering::Acquire);
        read_only.then(|| "it is mounted read-only: keepfs mount -o remount,rw lets it be changed".into())
    }

    /// All properties.
    pub fn properties(&self) -> Option<Vec<Property>> {
        let volume = self.volume.upgrade()?;
        let mut all = properties::of_pool(&volume.store().pool_in_force());
        all.push(properties::of_mmp(volume.store().mmp()));
        all.push(properties::of_scrub(volume.scrub_record().limit));
        let mut options = self.options.clone();
        let mount = self.mount();
        options.read_only = mount.read_only;
        (options.access_times, options.nodiratime) = self.access_times();
        all.extend(properties::of_mount(&options, &mount.transport, self.kept.is_some()));
        Some(all)
    }
}

/// The event of a change.
pub fn was_set(words: &[String]) -> String {
    format!("`keepfs set` has changed this: {}", words.join(", "))
}

/// Whether a pool has these settings.
pub fn is_as_wanted(settings: &Settings, has: &keepfs_store::Pool) -> bool {
    settings.protect.is_none_or(|code| code == has.protect)
        && settings.label.as_ref().is_none_or(|label| *label == has.label)
}
