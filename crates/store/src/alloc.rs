//! What is handed out: device pages, and numbers of nodes and inodes.

use crate::crowd::Crowd;
use crate::numbers::Numbers;
use crate::space;
use crate::system::System;
use core::sync::atomic::{AtomicBool, AtomicU64};
use keepfs_format::bitmap::NUMBERS;
use keepfs_format::{Space, inode};
use keepfs_pool::Pool;
use keepfs_vault::Padded;

/// The allocators.
pub struct Allocators {
    /// Pages.
    pub space: Padded<space::Space>,
    /// Who overwrites on a full pool.
    pub crowd: Crowd,
    /// Pages that no file may have.
    pub system: System,
    /// Other zones are wanted than those that are open.
    pub switch_zones: AtomicBool,
    /// Where pages far from others were found last (S-4.9).
    pub far: AtomicU64,
    /// Numbers of nodes.
    pub nodes: Padded<Numbers>,
    /// Numbers of inodes.
    pub inos: Padded<Numbers>,
}

impl Allocators {
    /// Of a pool of which nothing is known yet.
    pub fn of(pool: &Pool) -> Allocators {
        Allocators {
            space: Padded::default(),
            crowd: Crowd::default(),
            system: System::of(pool),
            switch_zones: AtomicBool::new(false),
            far: AtomicU64::new(0),
            nodes: Padded::new(Numbers::new(1, 1)),
            inos: Padded::new(Numbers::new(2, inode::PER_BLOCK)),
        }
    }

    /// The numbers that a bitmap tells of.
    pub fn numbers(&self, space: Space) -> &Numbers {
        match space {
            Space::NodeNumbers => &self.nodes,
            _ => &self.inos,
        }
    }

    /// Numbers are below this.
    pub fn number_limit(&self) -> u64 {
        NUMBERS
    }
}
