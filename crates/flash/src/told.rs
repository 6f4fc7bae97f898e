//! What a recovery tells of the log and the superblocks that it found.

use crate::home::Flash;
use crate::log::{Cut, Mend, Mended};
use keepfs_frames::Frames;
use keepfs_pool::Flipped;
use keepfs_pool::events::{Done, Place, Seen, Told};

/// Mended pages of the log that are told one by one; of a device that is dying there may be many.
const MENDED_TOLD: usize = 8;

impl Flash {
    /// The log was cut at a page that is bad (S-9.7); it is there up to transaction `last`.
    pub fn tell_cut(&self, frames: &Frames, cut: &Cut, last: u64) {
        self.log.cut.get_or_init(|| *cut);
        let seen = if cut.unreadable { Seen::Medium } else { Seen::Checksum };
        frames.ground.events.tell_of(&Told {
            place: Place::Cut {
                group: cut.group,
                proved: cut.proved,
                carried: cut.carried,
            },
            seen: &seen,
            done: Done::Nothing,
            owner: 0,
            inodes: &[],
            window_ms: None,
            more: format!("page {}; {}, up to transaction {last}", cut.page, cut.loss()),
        });
    }

    /// Both slots beside those of the superblock of this generation, which was taken, hold none (S-21.22).
    pub fn tell_superblocks_lost(&self, generation: u64) {
        let said = self.checkpoints.superblocks_lost.get_or_init(|| {
            format!(
                "both places of one generation of superblocks, beside those of generation {generation}, hold none: if that was the newest, \
                 what was written or synced since is lost; two crashes can leave a pool that looks so, else see to the device"
            )
        });
        tracing::warn!("{said}");
    }

    /// Slots of superblocks have a wrong bit each, which was undone (S-2.27).
    pub fn tell_flipped(&self, frames: &Frames, flipped: &[Flipped]) {
        for Flipped { slot, page, bit } in flipped {
            frames.ground.events.tell_of(&Told {
                place: Place::Superblock {
                    slot: *slot,
                    page: *page,
                },
                seen: &Seen::Flips(vec![*bit]),
                done: Done::Repaired,
                owner: 0,
                inodes: &[],
                window_ms: None,
                more: "its checksum tells which bit is wrong: nothing is lost".into(),
            });
        }
    }

    /// A recovery has mended pages of the log (S-9.11, S-9.24, S-16.36).
    pub fn mended_by_recovery(&self, frames: &Frames, mended: Vec<Mended>) {
        self.tell_mended(frames, &mended);
        self.log.mended.get_or_init(|| mended);
    }

    /// Pages of the log were bad, and nothing is lost by it.
    pub fn tell_mended(&self, frames: &Frames, mended: &[Mended]) {
        let beyond = mended.len().saturating_sub(MENDED_TOLD);
        for (at, Mended { page, group, how }) in mended.iter().take(MENDED_TOLD).enumerate() {
            let (seen, done, more) = match how {
                Mend::Undone(burst) => (
                    Seen::Flips(burst.bits().collect()),
                    Done::Repaired,
                    format!("page {page}, whose checksum tells which bits are wrong: nothing is lost"),
                ),
                Mend::MadeAgain | Mend::Unreadable => (
                    if *how == Mend::Unreadable {
                        Seen::Medium
                    } else {
                        Seen::Checksum
                    },
                    Done::Rebuilt,
                    format!("page {page} was made again from the other pages of its group: nothing is lost"),
                ),
                Mend::Kept { is_unreadable } => (
                    if *is_unreadable { Seen::Medium } else { Seen::Checksum },
                    Done::Rebuilt,
                    format!("page {page}; memory has what its group had: nothing is lost"),
                ),
            };
            let others = match at + 1 == MENDED_TOLD && beyond > 0 {
                true => format!("; so were {beyond} more pages of the log"),
                false => String::new(),
            };
            frames.ground.events.tell_of(&Told {
                place: Place::Log {
                    group: *group,
                    page: *page,
                },
                seen: &seen,
                done,
                owner: 0,
                inodes: &[],
                window_ms: None,
                more: more + &others,
            });
        }
    }
}
