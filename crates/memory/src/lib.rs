//! Regions of memory that nothing else in the process can write to (SPEC section 13; ).
//!
//! A [`Region`] is shared memory that everybody may read at one address; who has it writes through its methods, by the way
//! that its [`Guard`] leaves open. A store that takes any other way faults, and is told with place and thread.
//!
//! Read in this order: `guard`, `region` with `shown` (how it is read) and `window` (how it is written), `hidden` (where the
//! window lies), `sys` (all that is `unsafe`), `fault`.

#[doc(hidden)]
pub mod failpoint;
mod fault;
mod guard;
mod hidden;
mod numbers;
mod parts;
mod region;
mod sys;
mod torn;

pub use fault::{named as named_fault, report_by_others};
pub use guard::Guard;
pub use region::{Region, Reuse};
pub use sys::{FRAMES, LARGE};
#[cfg(feature = "planted")]
pub use sys::{call, stray_store};
#[cfg(feature = "planted")]
pub use torn::plant_torn;
