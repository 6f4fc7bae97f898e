//! The store: every byte of metadata, the door through which it changes, and how it becomes durable.
//!
//! Read in this order: `store` (its parts), [`keepfs_vault`] (frames and the door), `txn`, [`keepfs_flash::redo`] and `sync`
//! (groups), `checkpoint`, `recover`.
//! What the store promises is in docs/SPEC.md sections 8 to 11; it knows nothing of names and files.

mod admit;
mod alloc;
mod api;
mod audit;
mod background;
mod checkpoint;
mod closing;
mod crowd;
mod error;
mod flash;
mod home;
mod inject;
mod life;
mod locks;
#[cfg(feature = "measure")]
pub mod measure;
pub mod mmp;
mod noted;
mod numbers;
mod nvm;
mod oplog;
mod read;
mod recover;
mod remains;
mod requests;
mod reserve;
mod resume;
mod scrub;
mod space;
mod store;
mod sync;
mod system;
mod transactions;
mod trim;
mod txn;
mod view;
mod watch;
mod zones;

pub use crowd::Alone;
pub use error::{Abort, BadData, Error, Pressure, Stop};
use flash::Flash;
pub use inject::Structure;
pub use keepfs_codes::Protection;
pub use keepfs_digest::Equations;
pub use keepfs_flash::bad::CopiesSeen;
pub use keepfs_flash::log::{Cut, Mend, Mended};
pub use keepfs_flash::sync::group_pages_max;
pub use keepfs_flash::twice;
pub use keepfs_frames::{ARENA_MIN, FRAMES_MAX, Looked, Ref, Totals, scratch};
pub use keepfs_memory as memory;
pub use keepfs_memory::{Guard, Reuse};
pub use keepfs_pool::events::{Damage, Done, Place, Seen};
pub use keepfs_pool::history::{FINDINGS_ROOM, History};
pub use keepfs_pool::options::Rungs;
pub use keepfs_pool::stats::{DIRTY_SIZES, DeviceErrors, Snapshot, TimesSeen};
pub use keepfs_pool::switch::{DeviceFault, DeviceOp, Injection};
pub use keepfs_pool::{
    FormatOptions, HomeKind, LOG_PAGES, PROTECT_DEFAULT, Pool, Settings, StoreOptions, Unbalanced, forget_whole, grow,
    growth, renew_id,
};
pub use keepfs_vault::arena::{self, Mismatch};
pub use keepfs_vault::{Padded, planted, restart};
pub use noted::News;
pub use oplog::{EarlierState, Half, LoggedTxn};
pub use remains::{LOOKUPS, NAMES, Remains};
pub use requests::{Again, Running};
pub use reserve::{Promised, Reservation};
pub use resume::{Answered, Evidence, Parts, Resumed};
pub use scrub::RestPlace;
pub use space::{Figures, Near, Purpose};
pub use store::Store;
pub use txn::{Base, Birth, Meaning, Source, Stamp, Txn};
pub use view::View;
