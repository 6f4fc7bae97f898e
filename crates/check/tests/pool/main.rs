//! The walk on images built by hand: clean ones, one broken structure each, hostile ones.

mod adrift;
mod believed;
mod broken;
mod builder;
mod carried;
mod clean;
mod cut;
mod hole;
mod hostile;
mod log;
mod mend;
mod older;
mod paths;
mod salvage;
mod sample;
