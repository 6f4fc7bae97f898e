//! The server does what the kernel's table says of its mount: read-only or not, when access times move.
//!
//! mount(8) changes these by mount(2) with MS_REMOUNT, of which the kernel tells a FUSE server nothing. The table of mounts
//! can be waited on, so the server looks whenever it changes.

use super::Live;
use crate::lives::Mode;
use crate::question::{Told, Whereabouts};
use crate::table::{self, Mount};
use keepfs_fs::{AccessTimes, Volume};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

/// What helps a mount that takes no changes any more.
pub const ANEW: &str = "unmount it and mount it again";
/// What helps one that gives errors only.
pub const CHECKED: &str = "unmount it, check it, and mount it again";
/// Why nothing is done any more.
pub const ENDS: &str = "it is being unmounted";

/// Follows the table of mounts for as long as the pool is served.
pub fn watch(live: Arc<Live>) -> io::Result<()> {
    let mut table = File::open("/proc/self/mountinfo")?;
    let mut seen = Vec::new();
    let look = move || {
        while live.volume.upgrade().is_some() {
            // What was read is what the next wait compares with (proc(5)).
            seen.clear();
            let read = table.rewind().and_then(|()| table.read_to_end(&mut seen));
            drop(live.follow());
            let changed = PollFlags::PRI | PollFlags::ERR;
            if read.is_err() || poll(&mut [PollFd::new(&table, changed)], None).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("keepfs-follow".into()).spawn(look)?;
    Ok(())
}

impl Live {
    /// A pool that was mounted read-only will be written; asked for before the kernel lets changes through. `error` in
    /// the answer if that cannot be.
    pub fn begin_writing(&self) -> Told {
        let _one = self.following.lock();
        let volume = self.volume.upgrade();
        if let Some(why) = volume.as_ref().and_then(|volume| self.refuses(volume)) {
            return Told::error(format!("nothing of it can be changed any more ({why}); {ANEW}"));
        }
        let Some(volume) = volume else {
            return Told::error(ENDS);
        };
        let begun = self.write(&volume);
        begun.map_err(|error| format!("it cannot be written: {error}")).into()
    }

    /// Why no change is taken until the pool is mounted anew.
    fn refuses(&self, volume: &Volume) -> Option<String> {
        let died_too_often = self
            .kept
            .as_ref()
            .is_some_and(|kept| kept.told().mode == Mode::ReadOnly);
        match volume.store().fault() {
            Some(fault) => Some(fault.to_string()),
            None => died_too_often.then(|| "its servers died too often".into()),
        }
    }

    /// Whether it goes on, and is mounted as this process sees it.
    pub fn place(&self) -> Whereabouts {
        let goes_on = self.volume.upgrade().is_some_and(|volume| !volume.is_ending());
        Whereabouts {
            serves: goes_on && self.lifeline.is_connected(),
            mounted: self.seen().is_some(),
        }
    }

    /// The pool is written from here on, also by the server behind this one (S-20.15).
    fn write(&self, volume: &Arc<Volume>) -> Result<(), keepfs_fs::Error> {
        let was = self.read_only.load(Ordering::Acquire);
        if was {
            self.tell_writing(volume, true);
        }
        let begun = volume.begin_writing();
        match begun {
            Ok(()) if was => {
                self.leave_own(volume);
                self.read_only.store(false, Ordering::Release);
            }
            Err(_) if was => self.tell_writing(volume, false),
            _ => {}
        }
        begun
    }

    /// What the table says of this mount now; `None` if it is unmounted (S-20.23).
    pub fn seen(&self) -> Option<Mount> {
        let mount = table::of_device(&self.record.device, &self.record.dir);
        // Asked behind the look: the number is another's as soon as this mount is gone.
        mount.filter(|_| self.lifeline.is_connected())
    }

    /// Does what the table says now; `error` in the answer if that could not be done, each time until it is.
    pub fn follow(&self) -> Told {
        // One at a time, and each with the table of its turn: the watch looks at it, and commands do.
        let mut told = self.following.lock();
        let (Some(mount), Some(volume)) = (self.seen(), self.volume.upgrade()) else {
            return Told::error(ENDS);
        };
        let done = self.follow_to(&mount, &volume);
        // The table changes with each mount of the machine.
        if let Some(why) = done.as_ref().err()
            && told.as_ref() != Some(why)
        {
            tracing::error!("{why}");
        }
        *told = done.err();
        told.clone().map_or(Ok(()), Err).into()
    }

    /// Errors: what could not be done.
    fn follow_to(&self, mount: &Mount, volume: &Arc<Volume>) -> Result<(), String> {
        let read_only = mount.is_read_only();
        if !read_only {
            self.write(volume)
                .map_err(|error| format!("mounted read-write, but it cannot be written: {error}"))?;
        }
        // The kernel writes what it holds on the way, and mount(2) tells nobody how that ended.
        let refuses = self.refuses(volume).filter(|_| !read_only);
        self.read_only.store(read_only, Ordering::Release);
        let times = match read_only {
            true => AccessTimes::Never,
            false => mount.access_times(),
        };
        volume.set_access_times(times, mount.is_nodiratime());
        match (read_only, refuses) {
            (true, _) => self.rest(volume),
            (false, None) => Ok(()),
            (false, Some(why)) => Err(format!(
                "mounted read-write, but nothing of it can be changed any more ({why}); {ANEW}"
            )),
        }
    }

    /// Read-only from here on: what is there is made durable, and the pool closed on the device. That was tried before if the
    /// watch saw it first: whoever asks behind it is told how that ended, too.
    fn rest(&self, volume: &Volume) -> Result<(), String> {
        let was_written = !volume.is_read_only();
        volume
            .rest()
            .map_err(|error| format!("read-only now, but not everything could be made durable: {error}"))?;
        // A protected pool is had by who shows that it is there (S-2.12): its next server does, too.
        if was_written && volume.store().mmp().is_none() {
            self.tell_writing(volume, false);
        }
        Ok(())
    }
}
