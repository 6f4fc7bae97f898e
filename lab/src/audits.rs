//! Audits under test: which planted logic bug is found by which equation (SPEC section 17), and what audits cost.

pub mod cost;
pub mod curve;
pub mod load;
#[cfg(feature = "planted")]
pub mod matrix;
pub mod script;
