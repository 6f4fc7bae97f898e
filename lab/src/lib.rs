//! The lab: what judges the engine from outside. Crash enumeration, hostile images, memory under fire.

pub mod args;
pub mod audits;
pub mod cpu;
pub mod crash;
pub mod hostile;
pub mod inject;
pub mod million;
pub mod onebad;
pub mod scribble;
pub mod second;
pub mod storm;
pub mod strays;
pub mod targeted;
pub mod told;
