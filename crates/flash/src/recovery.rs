//! What a recovery may believe of a log, and of redo that a dead server left, judged before anything of it is applied.

pub mod arrived;
pub mod demand;
pub mod freed;
pub mod there;
