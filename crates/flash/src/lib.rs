//! What a flash home is made of: redo and the log that it goes to, staged data, the chunks that metadata lies in, values in the heap
//! that decide where it goes (SPEC sections 8, 10, 13 and 14).
//!
//! Read [`segment`] (memory that outlives a server), [`redo`] (what is committed and not in the log), [`log`] (groups on the
//! device), [`staged`] (file pages that only the log has) and [`homes`] (chunks). A part knows nothing of frames, transactions
//! or space: who drives them is the store.

pub mod code;
mod error;
pub mod homes;
pub mod ids;
pub mod log;
pub mod redo;
pub mod scratch;
pub mod segment;
pub mod staged;
pub mod twice;
pub mod watched;

pub use error::{BadData, Error, Room};
