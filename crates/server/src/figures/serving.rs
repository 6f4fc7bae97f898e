//! What a server was asked for and where its time went, as a value.

use serde::{Deserialize, Serialize};

/// The requests of the kernel since mount, and the threads that serve them. A request's way: read from the kernel by a
/// reader (`fuse-read-N`, `fuse-ring-N`), maybe `waited` for a worker (`fuse-work`), `handled`, `replied`. Of reading,
/// which waits, only the processor's time is known: that of the readers, less what they handled and replied.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ServingFigures {
    /// By operation of the protocol; those never asked for are left out.
    pub operations: Vec<OperationFigures>,
    /// Processor time by name of thread, as far as the system tells it.
    pub threads: Vec<ThreadFigures>,
}

/// One operation; times are sums over its requests.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperationFigures {
    /// As the kernel calls it, without `FUSE_`.
    pub name: String,
    /// Requests handled.
    pub requests: u64,
    /// Of them, those that a worker handled.
    pub handed_over: u64,
    /// From arrival until a worker took them.
    pub waited_ns: u64,
    /// Dispatcher and file system.
    pub handled_ns: u64,
    /// Giving the reply to the kernel; over io_uring it goes with the wait for the next request and is not counted.
    pub replied_ns: u64,
}

/// All threads of a name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ThreadFigures {
    /// Its name.
    pub name: String,
    /// How many there are.
    pub threads: u64,
    /// Time that they ran.
    pub ran_ns: u64,
    /// Time that they waited for a processor.
    pub runnable_ns: u64,
    /// How often they began to run.
    pub runs: u64,
}
