//! What the benchmark does in process: single operations of the library, and the experiments of Greenan & Miller.

pub mod greenan;
pub mod inproc;
