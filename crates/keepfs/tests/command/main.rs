//! The binary as users call it: every test makes a real pool, and most mount it.

mod bed;
mod birth;
mod borrowed;
mod crash;
mod create;
mod damaged;
mod flushed;
mod json;
mod keeper;
mod kit;
mod life;
mod losses;
mod offline;
mod options;
mod refusals;
mod salvage;
mod schema;
mod scrub;
mod set;
mod shared;
mod status;
mod terminal;
mod told;
mod twice;
mod users;
