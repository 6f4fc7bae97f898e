//! The store as its users know it. One program, as linking one for each file took longer than running them.
//!
//! Tests run beside each other in one process: what changes the process as a whole (a signal's handler, what its environment
//! says) is done in a child, as in `guard`.

mod apart;
mod audit;
mod bad_log;
mod barrier;
mod buffers;
mod carried;
mod clauses;
mod commit;
mod compaction;
mod cut_recovery;
mod flushes;
mod guard;
mod history;
mod log_end;
mod model;
mod opened;
mod pool;
mod segment;
mod spliced;
mod staged;
mod superblocks;
mod switched;
mod together;
mod walked;
