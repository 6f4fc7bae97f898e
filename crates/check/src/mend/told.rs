//! What a repair tells of superblocks and log, and gives up with them (S-21.3, S-21.11).

use super::Mender;
use super::edit::ROOT;
use super::given::LogLoss;
use crate::finding::Finding;
use crate::report::Report;

impl Mender<'_> {
    /// What is told, and known, of a pool whose superblock is made.
    pub(super) fn born(&mut self) {
        if let Some(root) = self.inode(ROOT).filter(|root| root.btime_nsec.get() < 1_000_000_000) {
            let sb = &mut self.walk.pool.sb;
            (sb.created_sec, sb.created_nsec) = (root.btime, root.btime_nsec);
        }
        self.given.log(self.log.group, LogLoss::Perhaps);
        self.act(format!(
            "a superblock is made for the {} pages of the device: the label is lost, what the log alone had is lost, \
             and some of what is found may be older than it should be",
            self.walk.pool.pages()
        ));
    }

    /// What is told of the superblocks and the log.
    pub(super) fn told(&mut self, before: &Report) {
        if let Some(base) = before.lost_superblock() {
            self.given.log(self.log.group, LogLoss::Synced);
            self.act(format!(
                "superblock generation {base} was lost: the pool goes back to generation {}",
                before.generation
            ));
        }
        for finding in &before.findings {
            match finding {
                Finding::LogGone { group, .. } => {
                    self.given.log(*group, LogLoss::Synced);
                    self.act(format!(
                        "the log is cut before group {group}: what was synced from there on is lost"
                    ));
                }
                Finding::LogCarried { group, .. } => {
                    self.given.log(*group, LogLoss::Carried);
                    self.act(
                        "small writes that were synced before the last checkpoint are lost, and of which files is not known: these \
                         have older bytes, or zeros"
                            .into(),
                    );
                    self.carried();
                }
                Finding::SuperblockBeside { generation } => {
                    self.given.log(self.log.group, LogLoss::Perhaps);
                    self.act(format!(
                        "both slots beside those of superblock generation {generation} get one: if a newer one was lost, what was written or synced since is lost"
                    ));
                }
                Finding::SuperblockFirst {} => self.act("page 0 is written anew with a superblock".into()),
                Finding::SuperblockCopy { slot, page } => {
                    self.act(format!(
                        "superblock slot {slot} (page {page}) is bad: both are written anew"
                    ));
                }
                Finding::SuperblockFlipped { slot, page, .. } => {
                    self.act(format!(
                        "superblock slot {slot} (page {page}) has a wrong bit: it is written anew"
                    ));
                }
                Finding::MetaCopy { id, page } => {
                    self.act(format!(
                        "metablock {id} is written anew from its good copy: that at page {page} is bad"
                    ));
                }
                Finding::SuperblockSplit { generation } => {
                    self.act(format!(
                        "of two superblocks of generation {generation} the first one is taken"
                    ));
                }
                _ => {}
            }
        }
    }
}
